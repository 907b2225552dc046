"""`grue evaluate --endpoint`: what is asked and kept, killed and resumed, written and never written."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import openai_server as server

import grue
from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError, Unavailable
from grue.evaluation import client as clients
from grue.evaluation.by_endpoint import KeptReply, summary
from grue.evaluation.client import Reply
from grue.evaluation.endpoint import Endpoint

KEY = "sk-very-secret-0123456789"
CHAT = {"version": 1, "system": "Go on.", "user": "Continue: {prompt}", "shots": 1, "lines": 1}


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A task of eight examples with a chat prompt, whose backbone only cuts prompts; its folder is the working one."""
    rows = {
        "train": [{"prompt": f"a train {n}", "reference": f"it left at {n}"} for n in range(4)],
        "test": [{"prompt": f"{'very ' * n}long prompt {n}", "reference": f"the end of {n}"} for n in range(8)],
    }
    for split, of in rows.items():
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(json.dumps({"id": f"{split}-{n}"} | row) + "\n" for n, row in enumerate(of))
        )
    return write_task(tmp_path, CHAT, monkeypatch)


def write_task(folder, chat, monkeypatch=None):
    table = {
        "reward": "rouge1",
        "metrics": [{"name": "rouge1", "axis": "preference", "range": [0, 1]}],
        "data": {"sources": [{"kind": "local", "files": {"train": "train.jsonl", "test": "test.jsonl"}}]},
        "prompt": {"max_tokens": 6, "truncation": "left"} | ({} if chat is None else {"chat": chat}),
        "rollout": {"max_new_tokens": 9},
        "backbone": {"family": "causal", "model": "mini:causal"},
    }
    files.write_toml(folder / "words.toml", table)
    if monkeypatch is not None:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("THE_KEY", KEY)
    return folder / "words.toml"


def evaluate(task, *options):
    return CliRunner().invoke(main, ["evaluate", "--task", str(task), "--model", "org/m 1", *map(str, options)])


def ask(task, served, **options):
    return grue.evaluate("m", task, endpoint=Endpoint(served.url, "", concurrency=1), **options)


def folder_of(name="m+chat"):
    return Path("runs/own/words") / name / "seed-1"


def lines(path):
    return [record for _, record in files.read_jsonl(path)]


def test_a_split_is_answered_in_its_order_and_recorded(task):
    with server.serving(
        reply=lambda body: f"of {body['messages'][-1]['content'][-1]}\nand more", finish="length"
    ) as served:
        result = evaluate(
            task, "--endpoint", served.url, "--api-key-env", "THE_KEY", "--concurrency", 3,
            "--price-in", 2, "--price-out", "10", "--json",
        )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)[0]
    assert len(served.asked) == 8 and served.most_at_once <= 3
    folder = folder_of("m-1+chat")
    assert [one["id"] for one in lines(folder / "predictions.jsonl")] == [f"test-{n}" for n in range(8)]
    assert [one["text"] for one in lines(folder / "predictions.jsonl")] == [f"of {n}" for n in range(8)]
    assert found["counts"] == {"expected": 8, "scored": 8, "empty": 0, "truncated": 8}
    said = found["system"]["endpoint"]
    assert (said["url"], said["path"], said["model"]) == (served.url, "chat/completions", "org/m 1")
    assert (said["models"], said["system_fingerprints"]) == ({"org/m 1-0613": 8}, {"fp_1": 8})
    assert (said["finish_reasons"], said["requests"], said["retries"]) == ({"length": 8}, 8, 0)
    assert said["tokens"] == {"prompt": 80, "completion": 24}
    assert said["cost"] == pytest.approx((80 * 2 + 24 * 10) / 1e6)
    assert said["sent"] == [{"max_tokens": 9, "temperature": 0, "seed": 1}]
    assert found["system"]["algorithm"] == "endpoint" and found["system"]["weights"] == ""
    assert found["determinism"] == {
        "decoding": "sampled by an endpoint", "temperature": 0, "seed": 1, "promised": False, "concurrency": 3,
    }  # fmt: skip
    prompting = found["generation"].pop("prompting")
    assert found["generation"] == {"decoding": "sampled by an endpoint", "max_tokens": 9, "temperature": 0}
    assert (prompting["kind"], prompting["version"], len(prompting["shots"])) == ("chat", 1, 1)
    again = evaluate(task, "--endpoint", served.url, "--api-key-env", "THE_KEY", "--json")
    assert json.loads(again.stdout)[0]["hashes"] == found["hashes"]  # finished: nobody was asked, nor could be
    for path in Path().rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    assert KEY not in result.output + again.output


def test_prices_that_come_later_are_taken_up(task):
    with server.serving() as served:
        first = json.loads(evaluate(task, "--endpoint", served.url, "--json").stdout)[0]
        asked = len(served.asked)
        prices = ("--price-in", 2, "--price-out", 10)
        again = json.loads(evaluate(task, "--endpoint", served.url, *prices, "--json").stdout)[0]
        kept = json.loads(evaluate(task, "--endpoint", served.url, "--json").stdout)[0]
        assert len(served.asked) == asked
    said = again["system"]["endpoint"]
    tokens = said["tokens"]
    assert "cost" not in first["system"]["endpoint"]
    assert said["prices_per_million"] == {"prompt": 2, "completion": 10}
    assert said["cost"] == pytest.approx((tokens["prompt"] * 2 + tokens["completion"] * 10) / 1e6)
    assert kept == again  # what is known of the cost stays


def test_the_conversation_is_the_tasks_and_prompts_are_cut_as_text(task):
    with server.serving() as served:
        ask(task, served)
    told, shown, answer, asked = served.asked[-1][1]["messages"]
    assert (told["content"], [turn["role"] for turn in (told, shown, answer, asked)]) == (
        "Go on.",
        ["system", "user", "assistant", "user"],
    )
    number = shown["content"].removeprefix("Continue: a train ")
    assert answer["content"] == f"it left at {number}"
    # Six tokens are kept, on the right: "long", "prompt" and the number are some of them.
    whole = "very " * 7 + "long prompt 7"
    cut = asked["content"].removeprefix("Continue: ")
    assert whole.endswith(cut) and cut.endswith("long prompt 7") and len(cut) < len(whole)


def test_plain_prompts_are_completed_as_another_system(task):
    with server.serving() as served:
        result = evaluate(task, "--endpoint", served.url, "--completions", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)[0]
    assert found["system"]["name"] == "m-1+completions" and "prompting" not in found["generation"]
    assert {path for path, _ in served.asked} == {"/v1/completions"} and "long prompt 0" in served.prompts()


class Killed(BaseException):
    pass


def test_a_kill_loses_no_answer_and_asks_none_twice(task):
    def kill(done, total):
        if done == 3:
            raise Killed

    with server.serving() as served:
        threads = {*threading.enumerate()}
        with pytest.raises(Killed):
            ask(task, served, progress=kill)
        kept = [one["id"] for one in lines(folder_of() / "answers.jsonl")]
        assert 3 <= len(kept) < 8
        with (folder_of() / "answers.jsonl").open("a") as handle:
            handle.write('{"id": "test-7", "rep')  # what a kill within a write leaves
        while {*threading.enumerate()} - threads:  # a request may be on its way
            time.sleep(0.01)
        served.asked.clear()
        result = ask(task, served)
        asked = [f"test-{prompt[-1]}" for prompt in served.prompts()]
        assert sorted([*kept, *asked]) == [f"test-{n}" for n in range(8)]
    assert result.system["endpoint"]["requests"] == 8  # those of the first process count
    assert [one["id"] for one in lines(folder_of() / "predictions.jsonl")] == [f"test-{n}" for n in range(8)]
    assert len(lines(folder_of() / "answers.jsonl")) == 8


def test_a_refusal_in_the_middle_keeps_what_came(task, monkeypatch):
    with server.serving(faults=[None, None, server.error(400, "too rude")]) as served:
        with pytest.raises(
            DataError, match=r"test-\d: .*400: too rude.* 2 of 8 answers are kept; the same command asks"
        ):
            ask(task, served)
        assert len(served.asked) == 3
        assert not (folder_of() / "result.json").exists()
        ask(task, served)
        assert len(served.asked) == 3 + 6
    monkeypatch.setattr(clients, "ATTEMPTS", 1)
    with (
        server.serving(faults=[server.error(500)]) as served,
        pytest.raises(Unavailable, match="0 of 8 answers are kept"),
    ):
        ask(task, served, output="elsewhere")


def test_kept_answers_are_not_thrown_away_by_a_fault_before_the_next_begin(task):
    with server.serving(faults=[None, None, server.error(401)]) as served:
        with pytest.raises(DataError, match="401"):
            ask(task, served)
        Path("train.jsonl").rename("gone.jsonl")
        with pytest.raises(DataError, match=r"train\.jsonl"):
            ask(task, served)
        Path("gone.jsonl").rename("train.jsonl")
        ask(task, served)
        assert len(served.asked) == 3 + 6


def test_force_replaces_nothing_before_there_is_something_to_replace_it(task):
    with server.serving() as served:
        ask(task, served)
        before = {path.name: path.read_bytes() for path in folder_of().iterdir()}
        asked = len(served.asked)
        with pytest.raises(DataError, match="no split 'tset'"):
            ask(task, served, split="tset", force=True)
    with server.serving(faults=[server.error(401)]) as served, pytest.raises(DataError, match="401"):
        ask(task, served, force=True)
    assert {path.name: path.read_bytes() for path in folder_of().iterdir()} == before
    with server.serving() as served:
        ask(task, served, force=True)
        assert len(served.asked) == asked, "the first question is not asked twice"
    assert [one["id"] for one in lines(folder_of() / "predictions.jsonl")] == [f"test-{n}" for n in range(8)]


def test_other_rows_in_the_tasks_files_are_another_evaluation(task):
    with server.serving() as served:
        ask(task, served)
        rows = Path("test.jsonl").read_text()
        Path("test.jsonl").write_text(rows.replace("long", "short"))
        with pytest.raises(ConfigError, match="holds an evaluation of other data: the files"):
            ask(task, served)
        Path("test.jsonl").write_text(rows)
        assert ask(task, served).status == "complete"


def test_answers_of_another_server_model_or_prompt_are_not_mixed(task):
    with server.serving() as served:
        ask(task, served, limit=2)
        with pytest.raises(ConfigError, match="holds an evaluation with endpoint = "):
            grue.evaluate("m", task, endpoint=Endpoint(served.url + "/other", ""), limit=2)
        write_task(Path.cwd(), CHAT | {"version": 2, "system": "Go on, please."})
        with pytest.raises(ConfigError, match=r"holds an evaluation by another chat prompt \([0-9a-f]{12}, now "):
            ask(task, served, limit=2)
    path = folder_of() / "answers.jsonl"
    write_task(Path.cwd(), CHAT)
    (folder_of() / "predictions.jsonl").unlink()
    asked = len(served.asked)
    with pytest.warns(UserWarning, match=r"predictions\.jsonl: is missing; answering again"):
        ask(task, served, limit=2)  # from the replies that are there, although nobody serves any more
    assert len(served.asked) == asked
    for old, new, told in (
        ("test-0", "test-x", r"answers.jsonl: holds answers to other examples \(test-x"),
        ('"requests":1', '"requests":"1"', r"answers\.jsonl, line 1: reply: requests: expected a whole number"),
    ):
        (folder_of() / "result.json").unlink(missing_ok=True)
        (folder_of() / "predictions.jsonl").unlink(missing_ok=True)
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(DataError, match=told):
            ask(task, served, limit=2)


def test_answers_are_gone_on_with_where_the_server_has_moved(task):
    with server.serving(faults=[None, None, server.error(401)]) as first, pytest.raises(DataError, match="401"):
        ask(task, first)
    with server.serving() as second:
        with pytest.warns(UserWarning, match=f"holds answers of {first.url}.* asked for at {second.url}"):
            result = ask(task, second)
        assert len(second.asked) == 6
    said = result.system["endpoint"]
    assert (said["url"], said["urls"]) == (second.url, {second.url: 6, first.url: 2})
    with server.serving() as third, pytest.warns(UserWarning, match=f"{second.url}.*--force asks for all anew"):
        assert ask(task, third) == result and not third.asked


def test_answers_are_cut_out_of_kept_replies_anew(task):
    with server.serving(reply=lambda body: "well </think> it left\nand more") as served:
        ask(task, served)
        asked = len(served.asked)
        write_task(Path.cwd(), CHAT | {"version": 2, "marker": "</think>"})
        with pytest.warns(UserWarning, match="the chat prompt cuts another answer out of a reply than before"):
            result = ask(task, served)
        assert len(served.asked) == asked
        assert {one["text"] for one in lines(folder_of() / "predictions.jsonl")} == {"it left"}
        assert result.generation["prompting"]["version"] == 2
        write_task(Path.cwd(), CHAT | {"version": 3, "marker": "</think>", "seed": 9})
        with pytest.raises(ConfigError, match="by another chat prompt"):
            ask(task, served)


def test_what_metrics_lack_is_told_before_anything_is_asked(task):
    rows = lines(Path("test.jsonl"))
    files.write_jsonl(Path("test.jsonl"), [{**row, "reference": ""} if row["id"] == "test-5" else row for row in rows])
    with server.serving() as served:
        with pytest.raises(DataError, match="The example 'test-5' has no reference, which rouge1 needs"):
            ask(task, served)
        assert not served.asked and not folder_of().exists()
        validated = CliRunner().invoke(main, ["tasks", "validate", str(task)])
        assert validated.exit_code == 2 and "The example 'test-5' has no reference, which" in validated.stderr
        ask(task, served, limit=5)
        table = files.read_toml(task)
        table["metrics"] = [{"name": "coverage", "axis": "preference", "range": [0, 1]}]
        files.write_toml(task, table)
        with pytest.raises(DataError, match="'test-0' has no concepts in its meta, which coverage needs"):
            ask(task, served, output="elsewhere")


def test_answers_that_a_metric_cannot_score_are_kept_for_grue_score(task):
    Path("sized.py").write_text("def longer(examples, texts):\n    return [float('nan') for _ in texts]\n")
    table = files.read_toml(task)
    table["metrics"] = [{"name": "sized:longer", "axis": "preference", "range": [0, 1]}]
    files.write_toml(task, table)
    with server.serving() as served, pytest.raises(DataError, match=r"`grue score \S+predictions\.jsonl` scores them"):
        ask(task, served)


def test_answers_that_are_mostly_empty_are_warned_of(task):
    with server.serving(reply=lambda body: "A dog." if body["messages"][-1]["content"][-1] in "012" else " ") as served:
        with pytest.warns(UserWarning, match=r"answers\.jsonl: 5 of 8 answers are empty \(finish reasons: stop 5\)"):
            ask(task, served)
        served.reply = lambda body: "A dog." if body["messages"][-1]["content"][-1] in "0123" else " "
        ask(task, served, output="elsewhere")  # half of them are not most


def test_a_cost_that_is_not_known_whole_is_not_told():
    counted = Reply("a", "stop", "m", "", 10, 3, 2, {})
    asked = Endpoint("http://localhost/v1", "m", prices=(1.0, 1.0))
    found = summary(asked, {"a": counted, "b": replace(counted, completion_tokens=None)})
    assert (found["cost"], found["answers_without_usage"], found["retries"]) == (None, 1, 2)
    assert summary(asked, {"a": counted})["cost"] == pytest.approx(13e-6)
    many = {str(n): replace(counted, fingerprint=str(n)) for n in range(30)}
    assert len(summary(asked, many)["system_fingerprints"]) == 21
    assert KeptReply("a", counted).reply.requests == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--endpoint", "http://localhost/v1", "--checkpoint", "x"), "Say what to evaluate: one of"),
        (("--endpoint", "http://localhost/v1", "--baseline", "copy"), "Say what to evaluate: one of"),
        (("--endpoint", "localhost"), "--endpoint: localhost does not begin with http:// or https://"),
        (("--endpoint", "http://localhost/v1", "--chat", "--completions"), "leave one out"),
        (("--endpoint", "http://localhost/v1", "--price-in", "1"), "--price-in and --price-out belong together"),
        (("--endpoint", "http://localhost/v1", "--best-of", "4"), "of a chat model or an endpoint, one reply is taken"),
        (("--endpoint", "http://localhost/v1", "--system", "copy"), "--system copy: is the name of a baseline"),
        (("--endpoint", "http://localhost/v1", "--system", "a/b"), "The system name 'a/b'"),
        (("--endpoint", "http://localhost/v1", "--api-key-env", "NOT_SET_AT_ALL"), "the environment variable of the name given there is not set"),
        (("--endpoint", "http://a.example.org/v1", "--api-key-env", "THE_KEY"), "would travel unencrypted"),
        (("--completions",), "--completions says how a server is asked; add --endpoint URL"),
        (("--api-key-env", "THE_KEY"), "--api-key-env says how a server is asked"),
        (("--price-out", "0"), "--price-out says how a server is asked"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(task, options, told):
    result = evaluate(task, *options)
    assert result.exit_code == 2 and told in result.stderr, result.output
    assert KEY not in result.output and not Path("runs").exists()


def test_an_endpoint_of_another_model_is_not_asked_for_this_one(task):
    with server.serving() as served:
        with pytest.raises(ConfigError, match="The endpoint's model is 'm2', and 'm' is to be evaluated"):
            grue.evaluate("m", task, endpoint=Endpoint(served.url, "m2"))
        grue.evaluate("m", task, endpoint=Endpoint(served.url, "m"))
        assert {body["model"] for _, body in served.asked} == {"m"}


def test_an_endpoint_needs_a_model_and_a_chat_a_model(task):
    runner = CliRunner()
    result = runner.invoke(main, ["evaluate", "--task", str(task), "--endpoint", "http://localhost/v1"])
    assert result.exit_code == 2 and "name it with --model NAME" in result.stderr
    result = runner.invoke(main, ["evaluate", "--task", str(task), "--baseline", "zero-shot", "--chat"])
    assert result.exit_code == 2 and "--chat and --system are for a --model" in result.stderr
    write_task(Path.cwd(), None)
    result = evaluate(task, "--endpoint", "http://localhost/v1")
    assert result.exit_code == 2 and "its task file has no [prompt.chat]" in result.stderr
    with pytest.raises(ConfigError, match="gives no name for the system"):
        grue.evaluate("///", task, endpoint=Endpoint("http://localhost/v1", "", completions=True))


def test_examples_that_are_answered_are_not_shown(task):
    with server.serving() as served:
        with pytest.raises(ConfigError, match=r"the chat prompt shows train-\d with its answer"):
            ask(task, served, split="train")
        Path("test.jsonl").write_text(
            '{"prompt": " a train 1 ", "reference": "x"}\n' * 2
            + "".join(f'{{"prompt": "a train {n}"}}\n' for n in range(4))
        )
        with pytest.raises(ConfigError, match="the chat prompt shows example-"):  # the same prompt under another id
            ask(task, served)
        write_task(Path.cwd(), CHAT | {"shots": 9})
        with pytest.raises(DataError, match="asks for 9 examples, and the training split has 4 with a reference"):
            ask(task, served)
        assert served.asked == []
    assert not folder_of().exists() or not list(folder_of().iterdir())

"""`grue evaluate --endpoint`: what is asked and kept, killed and resumed, written and never written."""

import json
import threading
import time
import tomllib
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
from grue.evaluation.by_endpoint import predictions_of, summary
from grue.evaluation.client import Reply
from grue.evaluation.endpoint import Endpoint
from grue.evaluation.prompting import Asking
from grue.records import Example, Prediction

KEY = "sk-very-secret-0123456789"
CHAT = {"version": 1, "system": "Go on.", "user": "Continue: {prompt}", "shots": 1, "lines": 1}
IDS = [f"test-{n}" for n in range(8)]


@pytest.fixture
def write_task(own, monkeypatch):
    """Writes a task of eight examples, whose backbone only cuts prompts; its folder is the working one."""
    monkeypatch.setenv("THE_KEY", KEY)
    train = [{"id": f"train-{n}", "prompt": f"a train {n}", "reference": f"it left at {n}"} for n in range(4)]
    test = [
        {"id": f"test-{n}", "prompt": f"{'very ' * n}long prompt {n}", "reference": f"the end of {n}"} for n in range(8)
    ]

    def write(chat, metric="rouge1"):
        prompt = {"max_tokens": 6, "truncation": "left"} | ({} if chat is None else {"chat": chat})
        metrics = [{"name": metric, "axis": "preference", "range": [0, 1]}]
        return own({"train": train, "test": test}, metrics=metrics, prompt=prompt, rollout={"max_new_tokens": 9})

    return write


@pytest.fixture
def task(write_task):
    return write_task(CHAT)


def evaluated(task, *options):
    """What the command line prints of an evaluation."""
    command = ["evaluate", "--task", str(task), "--model", "org/m 1", *map(str, options), "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0 and KEY not in result.output, result.output
    return json.loads(result.stdout)[0]


def ask(task, served, **options):
    return grue.evaluate("m", task, endpoint=Endpoint(served.url, "", concurrency=1), **options)


def folder_of(name="m+chat"):
    return Path("runs/own/words") / name / "seed-1"


def lines(path):
    return [record for _, record in files.read_jsonl(path)]


def answered(folder=None):
    return [one["id"] for one in lines((folder or folder_of()) / "predictions.jsonl")]


def test_a_split_is_answered_in_its_order_and_recorded(task):
    def reply(body):
        return f"of {body['messages'][-1]['content'][-1]}\nand more"

    with server.serving(reply=reply, finish="length") as served:
        asked = ("--endpoint", served.url, "--api-key-env", "THE_KEY")
        found = evaluated(task, *asked, "--concurrency", 3, "--price", 2, 10)
    assert len(served.asked) == 8 and served.most_at_once <= 3
    folder = folder_of("m-1+chat")
    assert answered(folder) == IDS
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
    told, shown, answer, asked_last = served.asked[-1][1]["messages"]
    assert [turn["role"] for turn in (told, shown, answer, asked_last)] == ["system", "user", "assistant", "user"]
    assert told["content"] == "Go on."
    assert answer["content"] == f"it left at {shown['content'].removeprefix('Continue: a train ')}"
    # Six tokens of a prompt are kept, on the right: "long", "prompt" and the number are some of them.
    whole, cut = "very " * 7 + "long prompt 7", {text.removeprefix("Continue: ") for text in served.prompts()}
    (cut,) = (text for text in cut if text.endswith("7"))
    assert whole.endswith(cut) and cut.endswith("long prompt 7") and len(cut) < len(whole)
    assert not found["limited"] and found["notes"] == []
    again = evaluated(task, *asked)
    assert again["hashes"] == found["hashes"]  # finished: nobody was asked, nor could be
    assert not any(KEY.encode() in path.read_bytes() for path in Path().rglob("*") if path.is_file())


def test_prices_that_come_later_are_taken_up(task):
    with server.serving() as served:
        first = evaluated(task, "--endpoint", served.url)
        asked = len(served.asked)
        again = evaluated(task, "--endpoint", served.url, "--price", 2, 10)
        kept = evaluated(task, "--endpoint", served.url)
        assert len(served.asked) == asked
    said = again["system"]["endpoint"]
    assert "cost" not in first["system"]["endpoint"]
    assert said["prices_per_million"] == {"prompt": 2, "completion": 10}
    assert said["cost"] == pytest.approx((said["tokens"]["prompt"] * 2 + said["tokens"]["completion"] * 10) / 1e6)
    assert kept == again  # what is known of the cost stays


def test_plain_prompts_are_completed_as_another_system(task):
    with server.serving() as served:
        found = evaluated(task, "--endpoint", served.url, "--completions")
        plain = grue.evaluate(f"{served.url}#org/m 1", task, chat=False)
    assert files.plain(plain)["system"] == found["system"], "one subject, read and not asked again"
    assert found["system"]["name"] == "m-1+completions" and "prompting" not in found["generation"]
    assert {path for path, _ in served.asked} == {"/v1/completions"} and "long prompt 0" in served.prompts()


def test_stop_strings_are_sent_with_plain_prompts_and_cut_where_a_server_leaves_them_in(task):
    table = tomllib.loads(task.read_text())
    files.write_toml(task, table | {"decoding": {"max_new_tokens": 9, "stop": ["\n", "END"]}})
    with server.serving(reply=lambda body: "A dog runs.\nA cat.") as served:
        found = evaluated(task, "--endpoint", served.url, "--completions")
        assert {tuple(body["stop"]) for _, body in served.asked} == {("\n", "END")}
        assert found["generation"]["stop"] == ["\n", "END"]
        assert {one["text"] for one in lines(folder_of("m-1+completions") / "predictions.jsonl")} == {"A dog runs."}
        evaluated(task, "--endpoint", served.url)
    assert not any("stop" in body for path, body in served.asked if path.endswith("/chat/completions"))
    refusing = [server.error(400, "Unsupported parameter: 'stop'.", param="stop")]
    with server.serving(reply=lambda body: "A dog runs.\nA cat.", faults=refusing) as served:
        refused = evaluated(task, "--endpoint", served.url, "--completions", "--force")
    assert refused["hashes"] == found["hashes"], "what a server refuses is cut as what it ignores"


def test_a_reply_that_stopped_is_not_cut_and_one_that_did_not_is():
    texts = {"So.\nOn": Prediction("So.\nOn", "So."), "So on": Prediction("So on", "So on", True)}
    replies = {text: Reply(text, "length", "m", "", 1, 9, 1, {}, "") for text in texts}
    examples = [Example(text, "p", ("r",)) for text in texts]
    assert predictions_of(replies, Asking(str), examples, ("\n",)) == [*texts.values()]


def test_a_cost_that_is_not_known_whole_is_not_told():
    counted = Reply("a", "stop", "m", "", 10, 3, 2, {}, "")
    asked = Endpoint("http://localhost/v1", "m", prices=(1.0, 1.0))
    found = summary(asked, {"a": counted, "b": replace(counted, completion_tokens=None)})
    assert (found["cost"], found["answers_without_usage"], found["retries"]) == (None, 1, 2)
    assert summary(asked, {"a": counted})["cost"] == pytest.approx(13e-6)
    many = {str(n): replace(counted, fingerprint=str(n)) for n in range(30)}
    assert len(summary(asked, many)["system_fingerprints"]) == 21


# --- faults, kills and changes ---------------------------------------------------------------------------------------


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
        assert sorted([*kept, *(f"test-{prompt[-1]}" for prompt in served.prompts())]) == IDS
    assert result.system["endpoint"]["requests"] == 8  # those of the first process count
    assert answered() == IDS and len(lines(folder_of() / "answers.jsonl")) == 8


def test_an_interrupt_waits_for_nothing_and_what_comes_late_is_not_written(task, monkeypatch):
    third, gate = threading.Event(), threading.Event()

    class Interrupted(threading.Thread):
        def join(self, timeout=None):  # where Ctrl-C meets the main thread
            third.wait()
            raise KeyboardInterrupt

    def reply(body):
        if len(served.asked) == 3:
            third.set()
            gate.wait()
        return "A dog runs."

    with server.serving(reply=reply) as served:
        threads = {*threading.enumerate()}
        monkeypatch.setattr("grue.evaluation.by_endpoint.Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            ask(task, served)
        monkeypatch.setattr("grue.evaluation.by_endpoint.Thread", threading.Thread)
        assert not gate.is_set() and len(lines(folder_of() / "answers.jsonl")) == 2
        gate.set()
        while {*threading.enumerate()} - threads:
            time.sleep(0.01)
        assert len(lines(folder_of() / "answers.jsonl")) == 2 and len(served.asked) == 3
        ask(task, served)
    assert answered() == IDS


def test_a_refusal_in_the_middle_keeps_what_came_and_so_does_a_fault_before_the_next_begin(task, monkeypatch):
    with server.serving(faults=[None, None, server.error(400, "too rude")]) as served:
        with pytest.raises(
            DataError, match=r"test-\d: .*400: too rude.* 2 of 8 answers are kept; the same command asks"
        ):
            ask(task, served)
        assert len(served.asked) == 3 and not (folder_of() / "result.json").exists()
        Path("train.jsonl").rename("gone.jsonl")
        with pytest.raises(DataError, match=r"train\.jsonl"):
            ask(task, served)
        Path("gone.jsonl").rename("train.jsonl")
        ask(task, served)
        assert len(served.asked) == 3 + 6
    monkeypatch.setattr(clients, "ATTEMPTS", 1)
    unavailable = pytest.raises(Unavailable, match="0 of 8 answers are kept")
    with server.serving(faults=[server.error(500)]) as served, unavailable:
        ask(task, served, output="elsewhere")


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
    assert answered() == IDS


def test_answers_of_another_server_model_prompt_or_split_are_not_mixed(task, write_task, refused):
    with server.serving() as served:
        ask(task, served, limit=2)
        with pytest.raises(ConfigError, match="holds an evaluation with endpoint = "):
            grue.evaluate("m", task, endpoint=Endpoint(served.url + "/other", ""), limit=2)
        write_task(CHAT | {"version": 2, "system": "Go on, please."})
        with pytest.raises(ConfigError, match=r"holds an evaluation by another chat prompt \([0-9a-f]{12}, now "):
            ask(task, served, limit=2)
        write_task(CHAT)
        rows = Path("test.jsonl").read_text()
        Path("test.jsonl").write_text(rows.replace("long", "short"))
        with refused(ConfigError):
            ask(task, served, limit=2)
        Path("test.jsonl").write_text(rows)
        with refused(ConfigError):
            grue.evaluate("m", task, endpoint=Endpoint(served.url, "m2"))
        (folder_of() / "predictions.jsonl").unlink()
        asked = len(served.asked)
    with pytest.warns(UserWarning, match=r"predictions\.jsonl: is missing; answering again"):
        ask(task, served, limit=2)  # from the replies that are there, although nobody serves any more
    assert len(served.asked) == asked
    path = folder_of() / "answers.jsonl"
    for old, new in ("test-0", "test-x"), ('"requests":1', '"requests":"1"'):
        (folder_of() / "result.json").unlink(missing_ok=True)
        (folder_of() / "predictions.jsonl").unlink(missing_ok=True)
        path.write_text(path.read_text().replace(old, new))
        with refused(DataError):
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


def test_answers_are_cut_out_of_kept_replies_anew(task, write_task):
    with server.serving(reply=lambda body: "well </think> it left\nand more") as served:
        ask(task, served)
        asked = len(served.asked)
        write_task(CHAT | {"version": 2, "marker": "</think>"})
        with pytest.warns(UserWarning, match="the chat prompt cuts other answers out"):
            result = ask(task, served)
        assert len(served.asked) == asked
        assert {one["text"] for one in lines(folder_of() / "predictions.jsonl")} == {"it left"}
        assert result.generation["prompting"]["version"] == 2
        write_task(CHAT | {"version": 3, "marker": "</think>", "seed": 9})
        with pytest.raises(ConfigError, match="by another chat prompt"):
            ask(task, served)


def test_what_metrics_lack_is_told_before_anything_is_asked(task, write_task, refused):
    rows = lines(Path("test.jsonl"))
    files.write_jsonl(Path("test.jsonl"), [{**row, "reference": ""} if row["id"] == "test-5" else row for row in rows])
    with server.serving() as served:
        with refused(DataError):
            ask(task, served)
        refused.command("tasks", "validate", task, code=2)
        ask(task, served, limit=5, output="five")
        asked = len(served.asked)
        with refused(DataError):
            ask(write_task(CHAT, "coverage"), served, output="elsewhere")
        assert len(served.asked) == asked == 5 and not folder_of().exists()


def test_answers_that_a_metric_cannot_score_are_kept_for_grue_score(task, write_task, refused):
    Path("sized.py").write_text("def longer(examples, texts):\n    return [float('nan') for _ in texts]\n")
    with server.serving() as served, refused(DataError):
        ask(write_task(CHAT, "sized:longer"), served)
    assert answered() == IDS


def test_answers_that_are_mostly_empty_are_warned_of(task):
    def some(digits):
        return lambda body: "A dog." if body["messages"][-1]["content"][-1] in digits else " "

    with server.serving(reply=some("012")) as served:
        with pytest.warns(UserWarning, match=r"answers\.jsonl: 5 of 8 answers are empty \(finish reasons: stop 5\)"):
            ask(task, served)
        served.reply = some("0123")
        ask(task, served, output="elsewhere")  # half of them are not most


def test_thoughts_that_are_taken_for_answers_are_warned_of(task, write_task):
    texts = ["<think>\nWell.\n</think>\n\nA dog.", "Well.\n</think>\nA dog.", "<think>Well", "A dog."]
    with server.serving(reply=lambda body: texts[int(body["messages"][-1]["content"][-1]) % 4]) as served:
        with pytest.warns(UserWarning, match=r"answers\.jsonl: 6 of 8 answers are what the model thought first"):
            ask(task, served)
        texts[2] = "<think>Well</think>A dog.\r\n"
        ask(write_task({**CHAT, "marker": "</think>"}), served, output="elsewhere")


# --- what is refused -------------------------------------------------------------------------------------------------

AT = ("--endpoint", "http://localhost/v1")


@pytest.mark.parametrize(
    "options",
    [
        ("--model", "m", "--endpoint", "localhost"),
        ("--model", "m", *AT, "--best-of", "4"),
        ("--model", "m", *AT, "--system", "copy"),
        ("--model", "m", *AT, "--system", "a/b"),
        ("--model", "m", "--api-key-env", "THE_KEY"),
        ("--model", "m", "--price", "0", "1"),
        AT,
        ("--baseline", "zero-shot", "--chat"),
    ],
)
def test_what_cannot_be_asked(task, options, refused):
    refused.command("evaluate", "--task", task, *options, code=2)
    assert not Path("runs").exists()


def test_a_model_needs_a_name_and_a_chat_a_prompt(task, write_task, refused):
    refused.command("evaluate", "--task", write_task(None), "--model", "m", *AT, code=2)
    with refused(ConfigError):
        grue.evaluate("///", task, endpoint=Endpoint("http://localhost/v1", "", completions=True))


def test_examples_that_are_answered_are_not_shown(task, write_task, refused):
    with server.serving() as served:
        with pytest.raises(ConfigError, match=r"the chat prompt shows train-\d with its answer"):
            ask(task, served, split="train")
        same = [{"prompt": f"a train {n}", "id": f"other-{n}"} for n in range(4)]
        files.write_jsonl(Path("test.jsonl"), [*same, {"prompt": " a train 1 ", "reference": "x", "id": "last"}])
        with refused(ConfigError):  # the same prompt under another id
            ask(task, served)
        write_task(CHAT | {"shots": 9})
        with refused(DataError):
            ask(task, served)
        assert served.asked == []
    assert not folder_of().exists() or not list(folder_of().iterdir())

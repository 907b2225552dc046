"""Answers from the logs of other harnesses: taken, matched with examples, and refused where they do not fit."""

import io
import json
import zipfile

import pyarrow as pa
import pytest
from support.commands import here

import grue
from grue import files
from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import Prediction

ROWS = [
    {"id": f"d{number}", "prompt": prompt, "references": [f"reference {number}"]}
    for number, prompt in enumerate(["What is red?", "What is round?", "Say something.", "Say something."])
]
TEXTS = ["A rose.", "A ball.", "Good day.", "Hello."]
TASK = """
reward = "rouge1"
metrics = [{ name = "rouge1", axis = "preference", range = [0, 1] }]
[data]
sources = [{ kind = "local", files = { train = "rows.jsonl", test = "rows.jsonl" } }]
[backbone]
family = "causal"
model = "mini:causal"
"""


@pytest.fixture
def home(tmp_path):
    """A folder with a task of four examples, two of which have the same prompt."""
    files.write_jsonl(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "asked.toml").write_text(TASK)
    return tmp_path


def sample(number, text=None, **changes):
    """A line of lm-evaluation-harness, as 0.4.13 writes it for a task that generates."""
    prompt = ROWS[number]["prompt"]
    line = {
        "doc_id": number,
        "doc": {"prompt": prompt},
        "target": f"reference {number}",
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"], "do_sample": False}}},
        "resps": [[TEXTS[number]]],
        "filtered_resps": [TEXTS[number] if text is None else text],
        "filter": "none",
        "metrics": ["rouge1"],
        "rouge1": 0.5,
    }
    return line | changes


def asked(prompt):
    return {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": []}}}


def inspect_sample(number, identity=None, **changes):
    """A sample of inspect_ai."""
    text = TEXTS[number]
    message = {"role": "assistant", "content": text}
    output = {"choices": [{"message": message, "stop_reason": "stop"}], "completion": text}
    found = {
        "id": identity if identity is not None else ROWS[number]["id"],
        "epoch": 1,
        "input": ROWS[number]["prompt"],
        "target": "reference",
        "output": output,
    }
    return found | changes


def lm_log(home, lines):
    path = home / "samples_asked_2026-11-23.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def json_log(home, samples):
    path = home / "log.json"
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": {"task": "asked"}, "samples": samples}))
    return path


def eval_log(home, samples, pack=None, status="success"):
    """Write a log as inspect does; `pack` compresses with Zstandard, as its versions since 2025 do."""
    members = {"header.json": {"version": 2, "status": status}, "summaries.json": []}
    members |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in samples}
    path = home / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, json.dumps(content), zipfile.ZIP_DEFLATED)
    if pack is not None:
        path.write_bytes(with_zstandard(members, pack))
    return path


def with_zstandard(members, pack):
    """Return a zip archive whose members are compressed by method 93, which this Python's zipfile cannot write."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            raw = json.dumps(content).encode()
            info = zipfile.ZipInfo(name)
            packed = pack(raw)
            archive.writestr(info, packed)
            info.compress_type, info.file_size, info.CRC = 93, len(raw), zipfile.crc32(raw)
    return sink.getvalue()


def zstandard(raw):
    """Pack in two frames, as long members are."""
    half = len(raw) // 2
    return b"".join(pa.compress(part, codec="zstd", asbytes=True) for part in (raw[:half], raw[half:]))


def taken(home, log, source, *more):
    done = here(
        "import", str(log), "--from", source, "--task", str(home / "asked.toml"), "-o", str(home / "out.jsonl"), *more
    )
    assert done.exit_code == 0, done.output
    return done, [Prediction(**line) for _, line in files.read_jsonl(home / "out.jsonl")]


def refused(home, log, source, code, *more):
    done = here(
        "import", str(log), "--from", source, "--task", str(home / "asked.toml"), "-o", str(home / "out.jsonl"), *more
    )
    assert (done.exit_code, (home / "out.jsonl").exists()) == (code.exit_code, False), done.output
    return done.stderr


EXPECTED = [Prediction(row["id"], text) for row, text in zip(ROWS, TEXTS, strict=True)]


def test_answers_of_lm_eval_are_matched_by_prompt_and_position_and_then_scored(home):
    log = lm_log(home, [sample(number) for number in (3, 1, 0, 2)])
    done, found = taken(home, log, "lm-eval")
    assert found == EXPECTED
    assert done.stdout == f"{home / 'out.jsonl'}: 4 predictions, matched 4 by prompt\n" and done.stderr == ""
    scored = here("score", str(home / "out.jsonl"), "--task", str(home / "asked.toml"))
    assert scored.exit_code == 0 and "preference" in scored.stdout


def test_the_document_s_own_id_comes_first(home):
    lines = [sample(number, doc={"id": ROWS[3 - number]["id"]}, arguments=asked("other words")) for number in range(4)]
    done, found = taken(home, lm_log(home, lines), "lm-eval")
    assert [one.text for one in found] == TEXTS[::-1]
    assert "matched 4 by id" in done.stdout
    assert "only 0 of 4 of the logged prompts contain the task's; were they asked the same?" in done.stderr


def test_a_prompt_among_other_text_is_matched_by_its_position_only_if_it_is_there(home):
    few = "Q: What is blue?\nA: The sky.\n\nQ: "
    lines = [sample(number, arguments=asked(f"{few}{ROWS[number]['prompt']}\nA:")) for number in range(4)]
    done, found = taken(home, lm_log(home, lines), "lm-eval")
    assert found == EXPECTED and "matched 4 by position" in done.stdout
    (home / "out.jsonl").unlink()
    shifted = [{**line, "doc_id": (line["doc_id"] + 1) % 3} for line in lines[:3]]
    told = refused(home, lm_log(home, shifted), "lm-eval", SubmissionError)
    assert "its 3 answers do not fit the split's 4 examples: 3 belong to no example (the one at 1, the one at 2" in told
    assert "4 examples have no answer (d0, d1, d2, …)" in told


@pytest.mark.parametrize("template", ["Q: {shot}\nA: A rose.\n\nQ: {asked}\nA:", "{shot} {asked}", "{shot}\n{asked}1"])
def test_an_example_that_is_only_shown_before_the_asked_one_is_not_answered(home, template):
    """A log of questions in another order, whose few-shot prompts show the question at their place."""
    shift = [1, 0, 2, 3]
    lines = [
        sample(number, arguments=asked(template.format(shot=ROWS[place]["prompt"], asked=ROWS[number]["prompt"])))
        | {"doc_id": place}
        for number, place in enumerate(shift)
    ]
    told = refused(home, lm_log(home, lines), "lm-eval", SubmissionError)
    assert "belong to no example (the one at 1, the one at 0" in told


def test_an_answer_that_a_filter_did_not_find_is_empty(home):
    lines = [sample(number) for number in range(4)]
    lines[1]["filtered_resps"] = ["[invalid]"]  # what lm-eval's regex filter writes
    lines[2] |= {"resps": [["[invalid]"]], "filtered_resps": ["[invalid]"]}  # what the model wrote
    done, found = taken(home, lm_log(home, lines), "lm-eval")
    assert [one.text for one in found] == [TEXTS[0], "", "[invalid]", TEXTS[3]]
    assert "the filter 'none' found no answer in 1 of 4 texts and wrote [invalid], which is read as" in done.stderr


def test_what_does_not_fit_is_counted(home):
    lines = [sample(0), sample(0), sample(2, doc_id=None), sample(1, arguments=asked("What?"), doc_id=9)]
    told = refused(home, lm_log(home, lines), "lm-eval", SubmissionError)
    assert "1 belong to no example (the one at 9)" in told
    assert "1 have a prompt that several examples share (Say something.)" in told
    assert "1 are second answers to an example (d0)" in told
    assert "3 examples have no answer (d1, d2, d3)" in told
    assert "ask the other harness the prompts that `grue data export` writes" in told


def test_chats_and_older_logs_are_read(home):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ROWS[0]["prompt"]}]
    settings = {"until": []}
    lines = [
        sample(0, arguments=asked(json.dumps(chat))),
        sample(1, arguments=[[ROWS[1]["prompt"], settings]]),
        sample(2, arguments=asked([json.dumps([{"role": "user", "content": ROWS[2]["prompt"]}])])),
        sample(3, rouge1=float("nan"), arguments=asked(f"\n{ROWS[3]['prompt']} ")),
    ]
    assert taken(home, lm_log(home, lines), "lm-eval")[1] == EXPECTED


def test_texts_are_kept_as_our_own_models_texts_are(home):
    lines = [sample(0, "  A\u200b rose.\n"), sample(1, ""), sample(2), sample(3)]
    found = taken(home, lm_log(home, lines), "lm-eval")[1]
    assert [one.text for one in found] == ["A rose.", "", *TEXTS[2:]]


def test_one_of_several_filters_is_chosen(home):
    lines = [sample(number) for number in range(4)]
    lines += [sample(number, f"strict {number}", filter="strict-match") for number in range(4)]
    log = lm_log(home, lines)
    assert "several filters ('none', 'strict-match'); choose one with --filter NAME" in refused(
        home, log, "lm-eval", ConfigError
    )
    assert "no answers of the filter 'strict'" in refused(home, log, "lm-eval", ConfigError, "--filter", "strict")
    assert taken(home, log, "lm-eval", "--filter", "strict-match")[1][3].text == "strict 3"


def test_in_python_options_have_the_commands_names_and_what_is_shown_is_short(home):
    log = lm_log(home, [sample(number, filter=name) for name in ("none", "strict-match") for number in range(4)])
    found = grue.import_predictions(log, home / "out.jsonl", home / "asked.toml", "lm-eval", filter="strict-match")
    assert repr(found) == "Matched(ways=Counter({'prompt': 4}), alike=4)"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"results": {}}, "line 2: no sample of lm-evaluation-harness: it has no doc_id"),
        (["doc_id"], "line 2: no sample of lm-evaluation-harness"),
        (sample(1, filtered_resps=[["a", "b"]]), "line 2: 2 answers to one document; log it with a filter that takes"),
        (sample(1, filtered_resps=[["-3.1", True]]), "line 2: its answer is no text (the task compares likelihoods)"),
        (sample(1, filtered_resps=[[3]]), "line 2: filtered_resps is no text"),
        (sample(1, "half \ud800"), "line 2: filtered_resps has half of a surrogate pair"),
        (
            sample(1, arguments={f"gen_args_{n}": {"arg_0": "Q", "arg_1": " yes"} for n in range(2)}),
            "line 2: its request asks for no text",
        ),
        (sample(1, arguments={"gen_args_0": {"arg_0": "Q", "arg_1": " yes"}}), "line 2: its request asks for no text"),
        (sample(1, arguments="Q"), "line 2: arguments: expected the requests"),
        (sample(1, arguments={}), "line 2: arguments: expected the requests"),
    ],
)
def test_what_is_no_generated_answer_is_named(home, line, message):
    assert message in refused(home, lm_log(home, [sample(0), line]), "lm-eval", DataError)


def test_files_that_are_no_logs_are_named(home):
    empty, broken, deep = home / "empty.jsonl", home / "broken.jsonl", home / "deep.json"
    empty.write_text("\n\n")
    broken.write_text('{"doc_id": 1\x1b\n')
    deep.write_text("[" * 100_000)
    archive = home / "other.eval"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("model.bin", b"1")
    for path, source, message in (
        (empty, "lm-eval", "no sample; lm-eval writes them with --log_samples"),
        (broken, "lm-eval", "broken.jsonl, line 1: not valid JSON"),
        (home / "results_2026.json", "lm-eval", "Give samples_TASK_DATE.jsonl, which --log_samples writes"),
        (home / "none.jsonl", "lm-eval", "none.jsonl: cannot be read: No such file"),
        (home / "none.json", "inspect", "none.json: cannot be read: No such file"),
        (home / "none.eval", "inspect", "none.eval: no such file"),
        (deep, "inspect", "deep.json: not valid JSON"),
        (home / "rows.jsonl", "inspect", "rows.jsonl: not valid JSON"),
        (archive, "inspect", "other.eval: no log of inspect: it has neither header.json"),
        (json_log(home, None), "inspect", "no sample; inspect leaves them out with --no-log-samples"),
    ):
        told = refused(home, path, source, DataError)
        assert message in told and "\x1b" not in told
    (home / "plain.json").write_text('{"samples": []}')
    assert "no log of inspect: give its .eval file" in refused(home, home / "plain.json", "inspect", DataError)


def test_answers_of_inspect_are_read_from_all_kinds_of_logs(home):
    samples = [inspect_sample(number) for number in range(4)]
    for log in (json_log(home, samples), eval_log(home, samples), eval_log(home, samples, zstandard)):
        done, found = taken(home, log, "inspect")
        assert found == EXPECTED and "matched 4 by id" in done.stdout, log
        (home / "out.jsonl").unlink()


def test_numbered_samples_chats_attachments_and_limits(home):
    chat = [{"role": "user", "content": [{"type": "text", "text": ROWS[0]["prompt"]}]}]
    thought = [{"type": "reasoning", "reasoning": "A flower …"}, {"type": "text", "text": TEXTS[0]}]
    choice = {"message": {"role": "assistant", "content": thought}, "stop_reason": "max_tokens"}
    kept = {"abc": ROWS[1]["prompt"], "def": TEXTS[1]}
    samples = [
        inspect_sample(0, 1, input=chat, output={"choices": [choice], "completion": ""}),
        inspect_sample(1, 2, input="attachment://abc", output={"completion": "attachment://def"}, attachments=kept),
        inspect_sample(2, 3, input=f"Please. {ROWS[2]['prompt']}"),
        inspect_sample(3, 4),
    ]
    done, found = taken(home, json_log(home, samples), "inspect")
    assert found == [Prediction("d0", TEXTS[0], truncated=True), *EXPECTED[1:]]
    assert "matched 3 by prompt, 1 by position" in done.stdout


@pytest.mark.parametrize("ids", [["100", "101", "102", "103"], ["4", "3", "2", "1"], ["1", "2", "3", "4"]])
def test_samples_with_numbers_as_ids(home, ids):
    """An id from 1 may be the example's, or a place that inspect counted: the prompt says which."""
    rows = [row | {"id": one, "prompt": f"{row['prompt']} {one}"} for row, one in zip(ROWS, ids, strict=True)]
    files.write_jsonl(home / "rows.jsonl", rows)
    own = [inspect_sample(n, int(row["id"]), input=f"Please: {row['prompt']}") for n, row in enumerate(rows)]
    counted = [one | {"id": place} for place, one in enumerate(own, start=1)]
    for samples in (own, own[::-1], counted):
        _, found = taken(home, json_log(home, samples), "inspect")
        assert found == [Prediction(one, text) for one, text in zip(ids, TEXTS, strict=True)]
        (home / "out.jsonl").unlink()


def test_one_of_several_epochs_is_chosen_and_failed_samples_are_told(home):
    samples = [inspect_sample(number, epoch=epoch) for epoch in (1, 2) for number in range(4)]
    samples[5]["output"] = {"completion": "Second."}
    log = eval_log(home, samples)
    assert "several epochs (1, 2); choose one with --epoch N" in refused(home, log, "inspect", ConfigError)
    assert "has no epoch 3; it has 1, 2" in refused(home, log, "inspect", ConfigError, "--epoch", "3")
    assert taken(home, log, "inspect", "--epoch", "2")[1][1].text == "Second."
    (home / "out.jsonl").unlink()
    samples[2]["error"] = {"message": "rate limit"}
    told = refused(home, eval_log(home, samples), "inspect", DataError, "--epoch", "1")
    assert "1 of 4 samples ended with an error" in told and "inspect eval-retry" in told


def test_an_evaluation_that_did_not_end_well_is_told(home):
    samples = [inspect_sample(number) for number in range(4)]
    log = json_log(home, samples)
    assert taken(home, log, "inspect")[0].stderr == ""
    (home / "out.jsonl").unlink()
    log.write_text(log.read_text().replace('"success"', '"error"'))
    done, found = taken(home, log, "inspect")
    assert "log.json: its evaluation has the status 'error'; the answers in it are taken" in done.stderr
    assert found == EXPECTED
    (home / "out.jsonl").unlink()
    packed = eval_log(home, samples, status="cancelled")
    assert "log.eval: its evaluation has the status 'cancelled'" in taken(home, packed, "inspect")[0].stderr


def test_a_sample_that_a_limit_ended_is_cut_or_has_no_answer(home):
    samples = [inspect_sample(number) for number in range(4)]
    samples[1]["limit"] = {"type": "token", "limit": 9}
    _, found = taken(home, json_log(home, samples), "inspect")
    assert [one.truncated for one in found] == [False, True, False, False]
    (home / "out.jsonl").unlink()
    samples[1]["output"] = {"choices": [], "completion": ""}
    told = refused(home, json_log(home, samples), "inspect", DataError)
    assert "1 of 4 samples ended with an error or without an output" in told


def test_damaged_and_hostile_archives_are_refused(home):
    samples = [inspect_sample(number) for number in range(4)]
    for pack in (lambda raw: b"no frame", lambda raw: zstandard(raw)[:-3], lambda raw: zstandard(raw + b" " * 99)):
        told = refused(home, eval_log(home, samples, pack), "inspect", DataError)
        assert "log.eval: no zip archive, or a damaged one" in told
    path = eval_log(home, samples)
    path.write_bytes(path.read_bytes()[:-40])
    assert "no zip archive, or a damaged one" in refused(home, path, "inspect", DataError)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1_epoch_1.json", b" " * 30_000_000)
    assert "refused: " in refused(home, path, "inspect", DataError)


def test_a_file_that_is_there_is_not_replaced(home):
    log = lm_log(home, [sample(number) for number in range(4)])
    (home / "out.jsonl").write_text("mine")
    done = here(
        "import", str(log), "--from", "lm-eval", "--task", str(home / "asked.toml"), "-o", str(home / "out.jsonl")
    )
    assert done.exit_code == ConfigError.exit_code and "is there already" in done.stderr
    assert (home / "out.jsonl").read_text() == "mine"
    assert taken(home, log, "lm-eval", "--force")[1] == EXPECTED
    before = log.read_bytes()
    over = here("import", str(log), "--from", "lm-eval", "--task", str(home / "asked.toml"), "-o", str(log), "--force")
    assert over.exit_code == ConfigError.exit_code and f"is read as {log}, and would be lost" in over.stderr
    assert log.read_bytes() == before
    told = here("import", str(log), "--from", "lm-eval", "--task", "imdb", "-o", str(home / "no"), "--epoch", "1")
    assert told.exit_code == ConfigError.exit_code and "--epoch is of inspect's logs" in told.stderr

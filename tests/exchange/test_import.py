"""Answers from the logs of other harnesses: taken, matched with examples, and refused where they do not fit."""

import io
import json
import zipfile

import pyarrow as pa
import pytest
from support import commands
from support.official import zipped
from support.own_task import OWN_TASK

import grue
from grue import files
from grue.records import Prediction

PROMPTS = ["What is red?", "What is round?", "Say something.", "Say something."]
ROWS = [{"id": f"d{n}", "prompt": prompt, "references": [f"reference {n}"]} for n, prompt in enumerate(PROMPTS)]
TEXTS = ["A rose.", "A ball.", "Good day.", "Hello."]
EXPECTED = [Prediction(row["id"], text) for row, text in zip(ROWS, TEXTS, strict=True)]


@pytest.fixture
def home(tmp_path):
    """A folder with a task of four examples, two of which have the same prompt."""
    files.write_jsonl(tmp_path / "rows.jsonl", ROWS)
    (tmp_path / "asked.toml").write_text(OWN_TASK.format(metric="rouge1"))
    return tmp_path


def command(home, log, source):
    return ["tools", "import", log, "--from", source, "--task", home / "asked.toml", "-o", home / "out.jsonl"]


@pytest.fixture
def take(home):
    """Import a log; return what is printed, what is told, and the predictions."""

    def call(log, *more):
        given = [*command(home, log, "lm-eval" if log.suffix == ".jsonl" else "inspect"), *more, "--force"]
        done = commands.grue(*given)
        return done.stdout, done.stderr, [Prediction(**line) for _, line in files.read_jsonl(home / "out.jsonl")]

    return call


@pytest.fixture
def refuse(home, refused):
    """Expect that a log is not imported."""

    def call(log, code, *more, source=None):
        source = source or ("lm-eval" if log.suffix == ".jsonl" else "inspect")
        (home / "out.jsonl").unlink(missing_ok=True)
        refused.command(*command(home, log, source), *more, code=code)
        assert not (home / "out.jsonl").exists()

    return call


# --- lm-evaluation-harness -------------------------------------------------------------------------------------------


def asked(prompt):
    return {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": []}}}


def sample(number, text=None, **changes):
    """A line of lm-evaluation-harness, as 0.4.13 writes it for a task that generates."""
    line = {"doc_id": number, "doc": {"prompt": PROMPTS[number]}, "arguments": asked(PROMPTS[number])}
    line |= {"resps": [[TEXTS[number]]], "filtered_resps": [TEXTS[number] if text is None else text], "filter": "none"}
    return line | {"metrics": ["rouge1"], "rouge1": 0.5} | changes


SAMPLES = [sample(number) for number in range(4)]


@pytest.fixture
def lm_log(home):
    def call(lines):
        path = home / "samples_asked_2026-11-23.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    return call


def test_answers_of_lm_eval_are_matched_by_prompt_and_position_and_then_scored(home, lm_log, take):
    out, told, found = take(lm_log([SAMPLES[number] for number in (3, 1, 0, 2)]))
    assert found == EXPECTED
    assert (out, told) == (f"{home / 'out.jsonl'}: 4 predictions, matched 4 by prompt\n", "")
    assert "preference" in commands.grue("score", home / "out.jsonl", "--task", home / "asked.toml").stdout


def test_the_document_s_own_id_comes_first(lm_log, take):
    lines = [sample(number, doc={"id": ROWS[3 - number]["id"]}, arguments=asked("other words")) for number in range(4)]
    out, told, found = take(lm_log(lines))
    assert [one.text for one in found] == TEXTS[::-1] and "matched 4 by id" in out
    assert "only 0 of 4 of the logged prompts contain the task's; were they asked the same?" in told


def test_a_prompt_among_other_text_is_matched_by_its_position_only_if_it_is_there(lm_log, take, refuse):
    few = "Q: What is blue?\nA: The sky.\n\nQ: "
    lines = [sample(number, arguments=asked(f"{few}{PROMPTS[number]}\nA:")) for number in range(4)]
    out, _, found = take(lm_log(lines))
    assert found == EXPECTED and "matched 4 by position" in out
    refuse(lm_log([{**line, "doc_id": (line["doc_id"] + 1) % 3} for line in lines[:3]]), 1)
    # Questions in another order, whose few-shot prompts show the question at their place.
    for template in ("Q: {shot}\nA: A rose.\n\nQ: {asked}\nA:", "{shot} {asked}", "{shot}\n{asked}1"):
        shown = [template.format(shot=PROMPTS[place], asked=PROMPTS[n]) for n, place in enumerate([1, 0, 2, 3])]
        refuse(lm_log([sample(n, arguments=asked(shown[n]), doc_id=p) for n, p in enumerate([1, 0, 2, 3])]), 1)
    odd = [sample(2, doc_id=None), sample(1, arguments=asked("What?"), doc_id=9)]
    refuse(lm_log([sample(0), sample(0), *odd]), 1)


def test_an_answer_that_a_filter_did_not_find_is_empty(lm_log, take):
    unfound = sample(1, filtered_resps=["[invalid]"])  # what lm-eval's regex filter writes
    written = sample(2, resps=[["[invalid]"]], filtered_resps=["[invalid]"])  # what the model wrote
    _, told, found = take(lm_log([SAMPLES[0], unfound, written, SAMPLES[3]]))
    assert [one.text for one in found] == [TEXTS[0], "", "[invalid]", TEXTS[3]]
    assert "the filter 'none' found no answer in 1 of 4 texts and wrote [invalid], which is read as" in told


def test_chats_and_older_logs_are_read_and_texts_kept_as_our_own_models_texts_are(lm_log, take):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPTS[0]}]
    lines = [
        sample(0, "  A\u200b rose.\n", arguments=asked(json.dumps(chat))),
        sample(1, "", arguments=[[PROMPTS[1], {"until": []}]]),
        sample(2, arguments=asked([json.dumps([{"role": "user", "content": PROMPTS[2]}])])),
        sample(3, rouge1=float("nan"), arguments=asked(f"\n{PROMPTS[3]} ")),
    ]
    assert [one.text for one in take(lm_log(lines))[2]] == ["A rose.", "", *TEXTS[2:]]


def test_one_of_several_filters_is_chosen(home, lm_log, take, refuse):
    log = lm_log(SAMPLES + [sample(number, f"strict {number}", filter="strict-match") for number in range(4)])
    refuse(log, 2)
    refuse(log, 2, "--filter", "strict")
    assert take(log, "--filter", "strict-match")[2][3].text == "strict 3"
    found = grue.import_predictions(log, home / "py.jsonl", home / "asked.toml", "lm-eval", filter="strict-match")
    assert repr(found) == "Matched(ways=Counter({'prompt': 4}), alike=4)"


def test_what_is_no_generated_answer_is_named(lm_log, refuse):
    likelihood = {"gen_args_0": {"arg_0": "Q", "arg_1": " yes"}}
    answers = ([["a", "b"]], [["-3.1", True]], [[3]], ["half \ud800"])
    for line in (
        *({"results": {}}, ["doc_id"]),
        *(sample(1, filtered_resps=answer) for answer in answers),
        *(sample(1, arguments=wrong) for wrong in (likelihood, likelihood | {"gen_args_1": {}}, "Q", {})),
    ):
        refuse(lm_log([sample(0), line]), 3)


# --- inspect ---------------------------------------------------------------------------------------------------------


def inspect_sample(number, identity=None, **changes):
    """A sample of inspect_ai."""
    message = {"role": "assistant", "content": TEXTS[number]}
    output = {"choices": [{"message": message, "stop_reason": "stop"}], "completion": TEXTS[number]}
    known = {"id": ROWS[number]["id"] if identity is None else identity, "epoch": 1, "input": PROMPTS[number]}
    return known | {"target": "reference", "output": output} | changes


INSPECTED = [inspect_sample(number) for number in range(4)]


@pytest.fixture
def json_log(home):
    def call(samples, status="success"):
        path = home / "log.json"
        path.write_text(json.dumps({"version": 2, "status": status, "eval": {"task": "asked"}, "samples": samples}))
        return path

    return call


@pytest.fixture
def eval_log(home):
    """Write a log as inspect does; `pack` compresses with Zstandard, as its versions since 2025 do."""

    def call(samples, pack=None, status="success"):
        members = {"header.json": {"version": 2, "status": status}, "summaries.json": []}
        members |= {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in samples}
        raw = {name: json.dumps(content).encode() for name, content in members.items()}
        (home / "log.eval").write_bytes(zipped(raw, zipfile.ZIP_DEFLATED) if pack is None else packed_by(pack, raw))
        return home / "log.eval"

    return call


def packed_by(pack, members):
    """Return a zip archive whose members are compressed by method 93, which this Python's zipfile cannot write."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, raw in members.items():
            info = zipfile.ZipInfo(name)
            archive.writestr(info, pack(raw))
            info.compress_type, info.file_size, info.CRC = 93, len(raw), zipfile.crc32(raw)
    return sink.getvalue()


def zstandard(raw):
    """Pack in two frames, as long members are."""
    half = len(raw) // 2
    return b"".join(pa.compress(part, codec="zstd", asbytes=True) for part in (raw[:half], raw[half:]))


def test_answers_of_inspect_are_read_from_all_kinds_of_logs(json_log, eval_log, take):
    for log in (json_log(INSPECTED), eval_log(INSPECTED), eval_log(INSPECTED, zstandard)):
        out, told, found = take(log)
        assert found == EXPECTED and "matched 4 by id" in out and told == ""
    for log, status in ((json_log(INSPECTED, "error"), "error"), (eval_log(INSPECTED, None, "cancelled"), "cancelled")):
        _, told, found = take(log)
        assert f"{log.name}: its evaluation has the status '{status}'; the answers in it are taken" in told
        assert found == EXPECTED


def test_numbered_samples_chats_attachments_and_limits(json_log, take):
    chat = [{"role": "user", "content": [{"type": "text", "text": PROMPTS[0]}]}]
    thought = [{"type": "reasoning", "reasoning": "A flower …"}, {"type": "text", "text": TEXTS[0]}]
    choice = {"message": {"role": "assistant", "content": thought}, "stop_reason": "max_tokens"}
    kept = {"abc": PROMPTS[1], "def": TEXTS[1]}
    samples = [
        inspect_sample(0, 1, input=chat, output={"choices": [choice], "completion": ""}),
        inspect_sample(1, 2, input="attachment://abc", output={"completion": "attachment://def"}, attachments=kept),
        inspect_sample(2, 3, input=f"Please. {PROMPTS[2]}"),
        inspect_sample(3, 4),
    ]
    out, _, found = take(json_log(samples))
    assert found == [Prediction("d0", TEXTS[0], truncated=True), *EXPECTED[1:]]
    assert "matched 3 by prompt, 1 by position" in out


@pytest.mark.parametrize("ids", [["100", "101", "102", "103"], ["4", "3", "2", "1"], ["1", "2", "3", "4"]])
def test_samples_with_numbers_as_ids(home, json_log, take, ids):
    """An id from 1 may be the example's, or a place that inspect counted: the prompt says which."""
    rows = [row | {"id": one, "prompt": f"{row['prompt']} {one}"} for row, one in zip(ROWS, ids, strict=True)]
    files.write_jsonl(home / "rows.jsonl", rows)
    own = [inspect_sample(n, int(row["id"]), input=f"Please: {row['prompt']}") for n, row in enumerate(rows)]
    counted = [one | {"id": place} for place, one in enumerate(own, start=1)]
    for samples in (own, own[::-1], counted):
        assert take(json_log(samples))[2] == [Prediction(one, text) for one, text in zip(ids, TEXTS, strict=True)]


def test_one_of_several_epochs_is_chosen_and_failed_samples_are_told(json_log, eval_log, take, refuse):
    samples = [inspect_sample(number, epoch=epoch) for epoch in (1, 2) for number in range(4)]
    samples[5]["output"] = {"completion": "Second."}
    log = eval_log(samples)
    assert take(log, "--epoch", "2")[2][1].text == "Second."
    refuse(log, 2)
    refuse(log, 2, "--epoch", "3")
    samples[2]["error"] = {"message": "rate limit"}
    refuse(eval_log(samples), 3, "--epoch", "1")
    limit = {"limit": {"type": "token", "limit": 9}}
    cut = [INSPECTED[0], INSPECTED[1] | limit, *INSPECTED[2:]]
    assert [one.truncated for one in take(json_log(cut))[2]] == [False, True, False, False]
    cut[1] = cut[1] | {"output": {"choices": [], "completion": ""}}
    refuse(json_log(cut), 3)


def test_damaged_archives_are_refused(eval_log, refuse):
    for pack in (lambda raw: b"no frame", lambda raw: zstandard(raw)[:-3], lambda raw: zstandard(raw + b" " * 99)):
        refuse(eval_log(INSPECTED, pack), 3)
    path = eval_log(INSPECTED)
    path.write_bytes(path.read_bytes()[:-40])
    refuse(path, 3)


# --- both ------------------------------------------------------------------------------------------------------------


def test_files_that_are_no_logs_are_named(home, json_log, refuse):
    contents = {"empty.jsonl": "\n\n", "deep.json": "[" * 100_000, "plain.json": '{"samples": []}'}
    for name, content in (contents | {"broken.jsonl": '{"doc_id": 1\x1b\n'}).items():
        (home / name).write_text(content)
    (home / "other.eval").write_bytes(zipped({"model.bin": b"1"}))
    names = ["empty.jsonl", "broken.jsonl", "none.jsonl", "none.json", "none.eval", "other.eval", "plain.json"]
    for name in names:
        refuse(home / name, 3)
    deep = commands.grue(*command(home, home / "deep.json", "inspect"), code=3)
    assert "deep.json: not valid JSON: " in deep.stderr
    refuse(home / "results_2026.json", 3, source="lm-eval")
    refuse(home / "rows.jsonl", 3, source="inspect")
    refuse(json_log(None), 3)


def test_a_file_that_is_there_is_not_replaced_unless_forced_and_one_that_is_read_never(home, lm_log, take, refused):
    log = lm_log(SAMPLES)
    (home / "out.jsonl").write_text("mine")
    refused.command(*command(home, log, "lm-eval"), code=2)
    assert (home / "out.jsonl").read_text() == "mine"
    assert take(log, "--force")[2] == EXPECTED
    before = log.read_bytes()
    refused.command(*command(home, log, "lm-eval")[:-1], log, "--force", code=2)
    assert log.read_bytes() == before
    refused.command(*command(home, log, "lm-eval")[:-1], home / "no", "--epoch", "1", code=2)

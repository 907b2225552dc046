"""Systems without training, and models that are no checkpoints of ours."""

import hashlib
import json
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from support.own_task import OWN_TASK

from grue.cli.main import main
from grue.data.load import load_examples
from grue.errors import DataError
from grue.evaluation import evaluate, systems
from grue.evaluation.evaluate import lead
from grue.evaluation.systems import baseline_system, external_system
from grue.leaderboard.rank import rank
from grue.lookups import find
from grue.records import Entry, Example
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.refusals import refusals
from grue.task_files import load_task


def grue(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize(
    ("example", "text"),
    [
        (
            Example("a", "Summarize: One. Two! Three? Four.", (), {"document": "One it is. Two at 3.5 p.m. today! Is it? Four."}),
            "One it is.\nTwo at 3.5 p.m. today!\nIs it?",
        ),
        (Example("b", "Say it. Now.", ()), "Say it.\nNow."),
    ],
)  # fmt: skip
def test_the_lead_is_the_first_three_sentences_of_the_document_or_the_prompt(example, text):
    assert lead(example) == text


def test_a_model_of_any_make_is_evaluated_as_a_checkpoint_is(tmp_path):
    options = ("--task", "imdb", "--limit", 3, "--runs", tmp_path, "--seed", 4)
    result = grue("evaluate", "--checkpoint", "mini:causal", *options)
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "mini/imdb/mini:causal/seed-4/result.json").read_text())
    assert record["system"]["algorithm"] == "external"
    assert record["seed"] == 4
    assert record["counts"]["scored"] == 3
    result = grue("evaluate", "--checkpoint", "nowhere/at/all", *options)
    assert result.exit_code == 3
    assert "There is no folder 'nowhere/at/all'" in result.stderr


def test_what_a_metric_cannot_see_is_told_below_the_table_and_kept(tmp_path):
    rows = [
        {"id": "a", "prompt": "say it", "references": ["पुस्तकालय", ""]},
        {"id": "b", "prompt": "x", "references": ["dog"]},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "own.toml").write_text(OWN_TASK.format(metric="rouge1"))
    options = ("evaluate", "--task", tmp_path / "own.toml", "--baseline", "oracle", "--runs", tmp_path / "runs")
    notes = [
        "1 of 2 examples have a blank reference beside others: it counts as missing, as in sacreBLEU.",
        "rouge1 sees nothing of the references of 1 of 2 examples: exact copies of them get 0, too. It reads only a–z "
        "and 0–9, and ROUGE-2 pairs of words; for other scripts and single words take chrf.",
    ]
    for _ in range(2):  # the second is read from the result
        told = grue(*options).stdout
        assert [line.removeprefix("  Note: ") for line in told.splitlines() if "Note" in line] == notes
    assert json.loads(grue(*options, "--json").stdout)[0]["notes"] == notes


def test_an_evaluation_that_found_no_data_leaves_no_claim(tmp_path):
    (tmp_path / "empty").mkdir()
    options = ("--task", "imdb", "--baseline", "copy", "--runs", tmp_path / "runs")
    result = grue("evaluate", *options, "--data-dir", tmp_path / "empty")
    assert result.exit_code == 3
    result = grue("evaluate", *options, "--limit", 2)
    assert result.exit_code == 0, result.output


def test_whatever_answers_does_so_where_models_score(monkeypatch):
    # "meta" is a device that every machine has and that no model comes on by itself.
    monkeypatch.setattr(systems, "scoring_device", lambda: torch.device("meta"))
    for system in (
        baseline_system(load_task("imdb"), "zero-shot", 1),
        external_system(load_task("imdb"), "mini:causal", 1),
    ):
        assert system.model is not None
        assert system.model.device.type == "meta"


# --- lookups ---------------------------------------------------------------------------------------------------------


def test_a_lookup_sees_the_training_split_and_neither_references_nor_labels(monkeypatch, tmp_path):
    seen = {}

    def spy(task, train, asked, seed):
        seen.update(train=train, asked=asked, seed=seed)
        return ["Lovely."] * len(asked)

    monkeypatch.setattr(evaluate, "find_lookup", lambda task, name: spy)
    task = load_task("imdb")
    system = baseline_system(task, "best-of-n", 4)
    result = evaluate.evaluate(task, system, tmp_path / "run", limit=3)
    train = load_examples(task, "train")
    assert list(seen["train"]) == list(train.examples)
    assert [example.id for example in seen["asked"]] == [e.id for e in load_examples(task, "test").examples[:3]]
    assert all(example.references == () and "label" not in example.meta for example in seen["asked"])
    assert seen["seed"] == result.seed == 4
    read = {"split": "train", "examples": len(train.examples), "ids_sha256": train.ids_sha256}
    assert result.system == {"name": "best-of-n", "algorithm": "best-of-n", "read": read, "weights": "best-of-n"}
    assert (tmp_path / "run/predictions.jsonl").read_text().count('"text":"Lovely."') == 3


def test_the_nearest_is_evaluated_on_the_command_line(tmp_path):
    result = grue("evaluate", "--baseline", "nearest", "--task", "commongen", "--limit", 5, "--runs", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("nearest on mini/commongen, test, seed 1: 5 examples, 0 empty, 0 cut at the length")
    record = json.loads((tmp_path / "mini/commongen/nearest/seed-1/result.json").read_text())
    assert record["system"]["read"]["examples"] == len(load_examples(load_task("commongen"), "train").examples)


def test_a_lookup_that_the_task_does_not_have_is_one_error_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(find, "LOOKUPS_OF", {})
    result = grue("evaluate", "--baseline", "lexicon", "--task", "imdb", "--runs", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == "Error: mini/imdb has no lookup 'lexicon': its data format, imdb, has nearest.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("baseline", ["null", "nearest", "mbr"])
def test_training_without_a_reference_is_one_error_and_leaves_what_is_there(baseline, monkeypatch, tmp_path):
    options = ("evaluate", "--baseline", baseline, "--task", "commongen", "--limit", 2, "--output", tmp_path / "run")
    assert grue(*options).exit_code == 0
    before = (tmp_path / "run/result.json").read_bytes()

    def unanswered(task, split, *arguments):
        loaded = load_examples(task, split, *arguments)
        return replace(loaded, examples=[replace(each, references=()) for each in loaded.examples])

    monkeypatch.setattr(evaluate, "load_examples", unanswered)
    result = grue(*options, "--force")
    assert result.exit_code == 3
    assert result.stderr == (
        f"Error: No training example of mini/commongen has a reference, and {baseline} answers with those; mend the "
        "data, or take another baseline, such as copy.\n"
    )
    assert (tmp_path / "run/result.json").read_bytes() == before


def test_a_lookup_that_refuses_the_data_leaves_nothing(monkeypatch, tmp_path):
    def refuse(task, train, asked, seed):
        raise DataError("There is nothing to count.")

    monkeypatch.setattr(evaluate, "find_lookup", lambda task, name: refuse)
    result = grue("evaluate", "--baseline", "nearest", "--task", "imdb", "--limit", 2, "--runs", tmp_path)
    assert (result.exit_code, result.stderr) == (3, "Error: There is nothing to count.\n")
    assert not list(tmp_path.rglob("evaluation.json"))


# --- a file of rows as the split -------------------------------------------------------------------------------------


@pytest.fixture
def held_back(tmp_path):
    """Three rows of reviews that no split has."""
    text = "The {} in the middle is the best I have seen, although the beginning took its time, and nobody minds. "
    rows = [{"text": text.format(what) * 2, "label": 1} for what in ("chase", "song", "dance")]
    path = tmp_path / "held-back.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_is_evaluated_as_a_split_and_its_result_is_limited(held_back, tmp_path):
    options = ("evaluate", "--baseline", "copy", "--task", "imdb", "--split", held_back, "--runs", tmp_path)
    result = grue(*options)
    assert result.exit_code == 0, result.output
    assert "copy on mini/imdb, held-back.jsonl, seed 1: 3 examples" in result.stdout
    assert "(limited: never ranked)" in result.stdout
    record = json.loads((tmp_path / "mini/imdb/copy/seed-1/result.json").read_text())
    assert (record["split"], record["limited"]) == ("held-back.jsonl", True)
    assert record["data"]["source"] == "held-back.jsonl"
    assert record["data"]["revision"] == hashlib.sha256(held_back.read_bytes()).hexdigest()
    assert (record["data"]["examples"], record["data"]["checked"]) == (3, False)
    with held_back.open("a") as file:
        file.write(json.dumps({"text": "Another one. " * 30, "label": 0}) + "\n")
    again = grue(*options)
    assert again.exit_code == 2
    assert "holds an evaluation with file = " in again.stderr


def test_a_result_on_a_file_is_neither_packed_nor_ranked(held_back, tmp_path):
    task = load_task("imdb")
    result = evaluate.evaluate(task, baseline_system(task, "copy", 1), tmp_path / "run", split=str(held_back))
    assert refusals([PackedRun(result, None, "run")]) == [
        "run: was evaluated on the split 'held-back.jsonl', not on 'test'; evaluate it again."
    ]
    board = rank([Entry(result, tmp_path, "local")], [task])
    assert board.rows == ()
    assert board.notes == (
        "imdb: copy (seed 1) left out, made on the split 'held-back.jsonl' instead of 'test'; evaluate again with "
        "`grue evaluate --force`.",
    )


def test_scores_and_answers_also_take_a_file(held_back, tmp_path):
    examples = load_examples(load_task("imdb"), str(held_back)).examples
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": example.id, "text": "It is great."}) + "\n" for example in examples))
    result = grue("score", answers, "--task", "imdb", "--split", held_back, "--metrics", "mean_length")
    assert result.exit_code == 0, result.output

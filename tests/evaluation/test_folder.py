"""The folder of an evaluation: what changed since it was written is never taken for finished, and nothing is mixed."""

import json
import shutil

import pytest
from support.late import late

from grue import claims
from grue.api import evaluate as api
from grue.errors import ConfigError, DataError, Unavailable
from grue.evaluation import folder, scoring
from grue.evaluation.endpoint import Endpoint

commands = late("support.commands")
COMMAND = "evaluate --baseline copy --task narrativeqa --limit 2 --output".split()
FILES = [".evaluation.lock", "evaluation.json", "predictions.jsonl", "result.json", "scores.jsonl"]


def told_in_evaluating(output, *more, code=0):
    return commands.grue(*COMMAND, output, *more, code=code).stderr


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    output = tmp_path_factory.mktemp("evaluated")
    assert told_in_evaluating(output) == ""
    return output


@pytest.fixture
def output(evaluated, tmp_path):
    return shutil.copytree(evaluated, tmp_path / "run")


def content(output):
    """All that an evaluation says, but clocks."""
    result = json.loads((output / "result.json").read_text())
    result.pop("timing")
    return result, (output / "predictions.jsonl").read_bytes(), (output / "scores.jsonl").read_bytes()


def change_a_text(path):
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps({**json.loads(first), "text": "a better answer"}) + "\n", *others]))


def leave_out_a_line(path):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def test_a_finished_evaluation_is_only_read(output):
    before = commands.contents(output)
    assert told_in_evaluating(output) == "" and folder.fault_of(output) is None
    assert commands.contents(output) == before
    assert sorted(path.name for path in output.iterdir()) == FILES


def test_only_one_process_writes_an_evaluation(output, refused):
    before = content(output)
    (output / "result.json").unlink()
    with claims.sole_owner(output, "taken", folder.LOCK):
        refused.command(*COMMAND, output, code=2)
        refused.command(*COMMAND, output, "--force", code=2)
    assert not (output / "result.json").exists()
    assert told_in_evaluating(output) == ""
    assert content(output) == before


def test_predictions_that_were_changed_are_neither_finished_nor_scored(output, evaluated, refused):
    change_a_text(output / "predictions.jsonl")
    before = commands.contents(output)
    refused.command(*COMMAND, output, code=3)
    assert commands.contents(output) == before
    (output / "result.json").unlink()  # which a user may try
    told_in_evaluating(output, code=3)
    told_in_evaluating(output, "--force")
    assert content(output) == content(evaluated)


def test_predictions_that_are_gone_are_made_again(output, evaluated, monkeypatch):
    path = output / "predictions.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.unlink()

    def killed(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # while it answers again
        patch.setattr("grue.evaluation.evaluate.write_predictions", killed)
        assert f"Warning: {path}: is missing; answering again." in told_in_evaluating(output, code=130)
    path.write_text(lines[0])  # what is made after a loss is not taken for what was changed
    assert told_in_evaluating(output) == ""
    assert content(output) == content(evaluated)


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("scores.jsonl", lambda path: path.unlink(), "is missing"),
        ("scores.jsonl", leave_out_a_line, "was changed after the evaluation"),
        (
            "result.json",
            lambda path: path.write_text(path.read_text().replace('"preference": ', '"preference": 9')),
            "was changed after the evaluation",
        ),
    ],
    ids=["gone", "left out", "another score"],
)
def test_scores_and_results_that_were_changed_are_computed_again(name, damage, told, output, evaluated):
    damage(output / name)
    predictions = (output / "predictions.jsonl").read_bytes()
    assert f"Warning: {output / name}: {told}; scoring again." in told_in_evaluating(output)
    assert content(output) == content(evaluated)
    assert (output / "predictions.jsonl").read_bytes() == predictions
    assert told_in_evaluating(output) == ""


def test_a_result_without_a_hash_is_computed_again(output, evaluated):
    path = output / "evaluation.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}))
    with pytest.warns(UserWarning, match=rf"{output / 'result.json'}: has no hash .*; scoring again\."):
        api.evaluate("copy", "narrativeqa", limit=2, output=output)
    assert content(output) == content(evaluated)


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_claim_that_cannot_be_read_is_told(text, output, refused):
    (output / "evaluation.json").write_text(text)
    refused.command(*COMMAND, output, code=3)
    with pytest.raises(DataError, match=r"evaluation\.json: "):
        folder.fault_of(output)
    told_in_evaluating(output, "--force")


def test_a_result_that_says_not_whose_it_is_is_replaced_with_a_word(output, evaluated):
    (output / "evaluation.json").unlink()
    (output / "predictions.jsonl").write_text('{"id": "another", "text": "s"}\n')
    assert told_in_evaluating(output).startswith(
        f"Warning: {output}: holds a result, and no evaluation.json that says of what; evaluating anew.\n"
    )
    assert content(output) == content(evaluated)


def test_a_kill_before_the_result_is_written_is_scored_again(tmp_path, evaluated, monkeypatch):
    original = folder.files.write_text

    def killed(path, text):
        if path.name == "result.json":
            raise KeyboardInterrupt
        original(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(folder.files, "write_text", killed)
        told_in_evaluating(tmp_path, code=130)
    assert {path.name for path in tmp_path.iterdir()} == {*FILES} - {"result.json"}
    assert told_in_evaluating(tmp_path) == ""
    assert content(tmp_path) == content(evaluated)


# --- what cannot be computed -----------------------------------------------------------------------------------------


def without(*axes):
    """Return a `prepared_metric` of a machine that lacks what metrics of some axes need."""
    original = scoring.prepared_metric

    def prepared(spec, examples, folder=""):
        if spec.axis in axes:
            raise Unavailable(f"{spec.name} has no model here")
        return original(spec, examples, folder)

    return prepared


def test_an_evaluation_that_scored_nothing_ends_with_3_and_is_not_finished(tmp_path, evaluated, monkeypatch, refused):
    with monkeypatch.context() as patch:
        patch.setattr(scoring, "prepared_metric", without("preference", "naturalness", "none"))
        for _ in range(2):
            refused.command(*COMMAND, tmp_path, code=3)
            assert not (tmp_path / "result.json").exists()
    assert told_in_evaluating(tmp_path) == ""
    assert content(tmp_path) == content(evaluated)


def test_an_evaluation_that_scored_a_part_says_which_and_ends_with_0(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "prepared_metric", without("naturalness"))
    for _ in range(2):
        said = told_in_evaluating(tmp_path)
        assert said.startswith("Not scored by ") and "has no model here" in said
    assert json.loads((tmp_path / "result.json").read_text())["naturalness"] is None


def test_beside_a_subject_goes_nothing_that_it_says(tmp_path):
    made = api.subject("copy", "narrativeqa", runs=tmp_path)
    endpoint = Endpoint("http://localhost:1/v1", "m")
    for name, value in {
        "task": "imdb", "seed": 2, "suite": "grue", "best_of": 4, "pick_by": "meteor", "chat": True,
        "endpoint": endpoint, "system": "mine", "runs": "elsewhere",
    }.items():  # fmt: skip
        with pytest.raises(ConfigError, match=f"A Subject is a whole system on a task: {name} would say"):
            api.evaluate(made, **{name: value})
    assert not list(tmp_path.iterdir())

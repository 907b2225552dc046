"""The folder of an evaluation: what changed since it was written is never taken for finished, and nothing is mixed."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner
from support.commands import contents

from grue.api import evaluate as api
from grue.cli.main import main
from grue.errors import ConfigError, DataError, Unavailable
from grue.evaluation import folder, scoring
from grue.evaluation.endpoint import Endpoint

FILES = ["evaluation.json", "predictions.jsonl", "result.json", "scores.jsonl"]


def evaluate(output, *more, limit=4):
    command = [
        "evaluate",
        "--baseline",
        "copy",
        "--task",
        "narrativeqa",
        "--limit",
        str(limit),
        "--output",
        str(output),
    ]
    return CliRunner().invoke(main, [*command, *more])


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    output = tmp_path_factory.mktemp("evaluated")
    done = evaluate(output)
    assert done.exit_code == 0, done.output
    return output


@pytest.fixture
def output(evaluated, tmp_path):
    shutil.copytree(evaluated, tmp_path / "run")
    return tmp_path / "run"


def without_hashes(output):
    """Make of an evaluation what older versions wrote."""
    path = output / "evaluation.json"
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}
    path.write_text(json.dumps(kept))


def content(output):
    """All that an evaluation says, but clocks."""
    result = json.loads((output / "result.json").read_text())
    result.pop("timing")
    return result, (output / "predictions.jsonl").read_bytes(), (output / "scores.jsonl").read_bytes()


@pytest.mark.parametrize("older", [False, True])
def test_a_finished_evaluation_is_only_read(older, output):
    if older:
        without_hashes(output)
    before = contents(output)
    again = evaluate(output)
    assert (again.exit_code, again.stderr) == (0, ""), again.output
    assert contents(output) == before
    assert sorted(path.name for path in output.iterdir()) == FILES


def change_a_text(path):
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps({**json.loads(first), "text": "a better answer"}) + "\n", *others]))


def leave_out_a_line(path):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def break_a_line(path):
    path.write_text("{broken\n" + path.read_text())


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("damage", [change_a_text, leave_out_a_line, break_a_line])
def test_predictions_that_were_changed_are_neither_finished_nor_scored(damage, older, output, evaluated):
    if older:
        without_hashes(output)
    damage(output / "predictions.jsonl")
    before = contents(output)
    refused = evaluate(output)
    assert refused.exit_code == 3
    path = re.escape(str(output / "predictions.jsonl"))
    assert re.match(
        rf"Error: {path}: .*: these are not the answers that were scored\. Restore the file, or answer and score anew "
        r"with `grue evaluate --force`; `grue score` scores any file of predictions as it is\.\n",
        refused.stderr,
    ), refused.stderr
    assert contents(output) == before
    (output / "result.json").unlink()  # which a user may try
    if not older:
        assert evaluate(output).exit_code == 3
    assert evaluate(output, "--force").exit_code == 0
    assert content(output) == content(evaluated)


@pytest.mark.parametrize("older", [False, True])
def test_predictions_that_are_gone_are_made_again(older, output, evaluated):
    if older:
        without_hashes(output)
    (output / "predictions.jsonl").unlink()
    again = evaluate(output)
    assert again.exit_code == 0, again.output
    assert f"Warning: {output / 'predictions.jsonl'}: is missing; answering again." in again.stderr
    assert content(output) == content(evaluated)


def test_answers_made_after_a_loss_are_not_taken_for_changed_ones(output, monkeypatch):
    """The evaluation is killed while it answers again."""
    lines = (output / "predictions.jsonl").read_text().splitlines(keepends=True)
    (output / "predictions.jsonl").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("grue.evaluation.evaluate.write_predictions", lambda *given: 1 / 0)
        assert isinstance(evaluate(output).exception, ZeroDivisionError)
    (output / "predictions.jsonl").write_text("".join(lines[:2]))
    again = evaluate(output)
    assert (again.exit_code, again.stderr) == (0, ""), again.output


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("scores.jsonl", lambda path: path.unlink(), "is missing"),
        ("scores.jsonl", leave_out_a_line, "was changed after the evaluation"),
        ("result.json", lambda path: path.write_text(path.read_text()[:100]), "was changed after the evaluation"),
        ("result.json", lambda path: path.write_text(""), "was changed after the evaluation"),
        (
            "result.json",
            lambda path: path.write_text(path.read_text().replace('"preference": ', '"preference": 9')),
            "was changed after the evaluation",
        ),
    ],
)
def test_scores_and_results_that_were_changed_are_computed_again(name, damage, told, output, evaluated):
    damage(output / name)
    predictions = (output / "predictions.jsonl").read_bytes()
    again = evaluate(output)
    assert again.exit_code == 0, again.output
    assert f"Warning: {output / name}: {told}; scoring again." in again.stderr
    assert content(output) == content(evaluated)
    assert (output / "predictions.jsonl").read_bytes() == predictions
    assert evaluate(output).stderr == ""


@pytest.mark.parametrize("text", ["", '{"schema": 1', "[]", '{"schema": 1}'])
def test_an_unreadable_result_of_an_older_version_is_computed_again(text, output, evaluated):
    without_hashes(output)
    (output / "result.json").write_text(text)
    again = evaluate(output)
    assert again.exit_code == 0, again.output
    assert f"Warning: {output / 'result.json'}: " in again.stderr and "; scoring again." in again.stderr
    assert content(output) == content(evaluated)


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_claim_that_cannot_be_read_is_told(text, output):
    (output / "evaluation.json").write_text(text)
    refused = evaluate(output)
    assert refused.exit_code == 3
    assert refused.stderr.startswith(f"Error: {output / 'evaluation.json'}: ")
    assert refused.stderr.endswith("Restore the file, or replace the evaluation with --force.\n")
    assert evaluate(output, "--force").exit_code == 0


def test_a_result_that_says_not_whose_it_is_is_replaced_with_a_word(output, evaluated):
    (output / "evaluation.json").unlink()
    (output / "predictions.jsonl").write_text('{"id": "another", "text": "s"}\n')
    again = evaluate(output)
    assert again.exit_code == 0, again.output
    assert again.stderr.startswith(
        f"Warning: {output}: holds a result, and no evaluation.json that says of what; evaluating anew.\n"
    )
    assert content(output) == content(evaluated)


def test_a_kill_before_the_result_is_written_is_scored_again(output, evaluated, monkeypatch):
    shutil.rmtree(output)

    original = folder.files.write_text

    def killed(path, text):
        if path.name == "result.json":
            raise KeyboardInterrupt
        original(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(folder.files, "write_text", killed)
        assert evaluate(output).exit_code == 130
    assert sorted(path.name for path in output.iterdir()) == ["evaluation.json", "predictions.jsonl", "scores.jsonl"]
    again = evaluate(output)
    assert (again.exit_code, again.stderr) == (0, ""), again.output
    assert content(output) == content(evaluated)


def test_in_python_a_warning_says_that_it_is_scored_again(output):
    (output / "scores.jsonl").unlink()
    with pytest.warns(UserWarning, match=r"scores\.jsonl: is missing; scoring again"):
        api.evaluate("copy", "narrativeqa", limit=4, output=output)


# --- what cannot be computed -----------------------------------------------------------------------------------------


def without(*axes):
    """Return a `prepared_metric` of a machine that lacks what metrics of some axes need."""
    original = scoring.prepared_metric

    def prepared(spec, examples, folder=""):
        if spec.axis in axes:
            raise Unavailable(f"{spec.name} has no model here")
        return original(spec, examples, folder)

    return prepared


def test_an_evaluation_that_scored_nothing_ends_with_3_and_is_not_finished(tmp_path, evaluated, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(scoring, "prepared_metric", without("preference", "naturalness", "none"))
        for _ in range(2):
            refused = evaluate(tmp_path)
            assert refused.exit_code == 3
            assert refused.stderr.startswith(
                f"Error: {tmp_path / 'predictions.jsonl'}: no metric of mini/narrativeqa can be computed on this "
                "machine, and there is no result. The answers are kept: once a metric can be computed, the same "
                "command scores them.\n  rouge1: rouge1 has no model here\n"
            )
            assert not (tmp_path / "result.json").exists()
    again = evaluate(tmp_path)
    assert again.exit_code == 0, again.output
    assert content(tmp_path) == content(evaluated)


def test_an_evaluation_that_scored_a_part_says_which_and_ends_with_0(tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "prepared_metric", without("naturalness"))
    for _ in range(2):
        done = evaluate(tmp_path)
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("Not scored by ") and "has no model here" in done.stderr
    assert json.loads((tmp_path / "result.json").read_text())["naturalness"] is None


def test_a_fault_is_found_without_the_system(output):
    """What a sweep asks of each of its runs."""
    assert folder.fault_of(output) is None
    change_a_text(output / "predictions.jsonl")
    assert folder.fault_of(output) == ("predictions.jsonl", "was changed after the evaluation")
    (output / "evaluation.json").write_text("{")
    with pytest.raises(DataError, match=r"evaluation\.json: not valid JSON"):
        folder.fault_of(output)


@pytest.mark.parametrize(
    "beside",
    [
        {"task": "imdb"},
        {"seed": 2},
        {"suite": "grue"},
        {"best_of": 4},
        {"pick_by": "meteor"},
        {"chat": True},
        {"endpoint": Endpoint("http://localhost:1/v1", "m")},
        {"system": "mine"},
        {"runs": "elsewhere"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_beside_a_subject_goes_nothing_that_it_says(beside, tmp_path):
    made = api.subject("copy", "narrativeqa", runs=tmp_path)
    with pytest.raises(ConfigError, match=f"A Subject is a whole system on a task: {next(iter(beside))} would say"):
        api.evaluate(made, **beside)
    assert not list(tmp_path.iterdir())

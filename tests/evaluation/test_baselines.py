"""Systems without training, and models that are no checkpoints of ours."""

import json

import pytest
import torch
from click.testing import CliRunner

from grue.cli.main import main
from grue.evaluation import evaluate
from grue.evaluation.evaluate import baseline_system, lead, model_system
from grue.records import Example
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


def test_an_evaluation_that_found_no_data_leaves_no_claim(tmp_path):
    (tmp_path / "empty").mkdir()
    options = ("--task", "imdb", "--baseline", "copy", "--runs", tmp_path / "runs")
    result = grue("evaluate", *options, "--data-dir", tmp_path / "empty")
    assert result.exit_code == 3
    result = grue("evaluate", *options, "--limit", 2)
    assert result.exit_code == 0, result.output


def test_whatever_answers_does_so_where_models_score(monkeypatch):
    # "meta" is a device that every machine has and that no model comes on by itself.
    monkeypatch.setattr(evaluate, "scoring_device", lambda: torch.device("meta"))
    for system in (
        baseline_system(load_task("imdb"), "zero-shot", 1),
        model_system(load_task("imdb"), "mini:causal", 1),
    ):
        assert system.model is not None
        assert system.model.device.type == "meta"

"""`grue evaluate` of several checkpoints: which are evaluated, each as if alone, and the table at the end."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.factories import a_result, a_task

from grue.api import evaluate as api
from grue.cli.evaluate import over_seeds
from grue.cli.main import main
from grue.lm import checkpoint

IMDB = a_task("imdb")


@pytest.fixture
def evaluated(monkeypatch, tmp_path):
    """Runs of two systems, of which one seed has no checkpoint; returns what was evaluated, in its order."""
    monkeypatch.chdir(tmp_path)
    for run in ("ppo/seed-1", "ppo/seed-2", "ppo/seed-10", "nlpo/seed-1"):
        Path(run, "checkpoint").mkdir(parents=True)
        Path(run, "checkpoint", checkpoint.MANIFEST).write_text("{}")
    Path("ppo/seed-3").mkdir()
    asked = []
    monkeypatch.setattr(checkpoint, "read_manifest", lambda folder: None)

    def subject(what, task, *, kind, **more):
        asked.append((str(what), kind))
        system = type("System", (), {"name": Path(what).parent.name, "best_of": None})
        return type("Subject", (), {"task": IMDB, "system": system, "folder": Path(what)})

    def evaluate(subject, **more):
        seed = int(str(subject.folder).rpartition("-")[2])
        counts = {"scored": 4, "empty": 0, "truncated": 0}
        return a_result(IMDB, subject.system.name, seed, 90.0 + seed, limited=True, counts=counts)

    monkeypatch.setattr(api, "subject", subject)
    monkeypatch.setattr(api, "evaluate", evaluate)
    return asked


def grue(*arguments):
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def test_a_folder_of_seeds_and_several_checkpoints_are_evaluated_each_as_if_alone(evaluated):
    result = grue("--checkpoint", "ppo", "--checkpoint", "nlpo/seed-1", "--checkpoint", "ppo/seed-1")
    assert result.exit_code == 0, result.output
    assert evaluated == [(f"{run}", "checkpoint") for run in ("ppo/seed-1", "ppo/seed-2", "ppo/seed-10", "nlpo/seed-1")]
    assert "Warning: ppo/seed-3: no checkpoint yet, left out.\n" in result.stderr
    assert result.stdout.endswith(
        "\n\n"
        "system  task       seeds             preference   naturalness\n"
        "ppo     mini/imdb  1,2,10            94.3 ± 4.9    50.0 ± 0.0\n"
        "nlpo    mini/imdb  1                       91.0          50.0\n"
        "0–100; ±: standard deviation over seeds.\n"
    ), result.stdout


def test_one_checkpoint_has_no_table_and_json_lists_every_result(evaluated):
    one = grue("--checkpoint", "ppo/seed-1")
    assert (one.exit_code, "over seeds" in one.stdout) == (0, False)
    found = json.loads(grue("--checkpoint", "ppo", "--json").stdout)
    assert [result["seed"] for result in found] == [1, 2, 10]


def test_a_seed_that_is_there_twice_is_of_two_systems(evaluated):
    results = [a_result(IMDB, "ppo", 1, 90.0), a_result(IMDB, "ppo", 1, 80.0)]
    assert [line.split()[2:4] for line in [*over_seeds(results)][1:3]] == [["1", "90.0"], ["1", "80.0"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--checkpoint", "ppo", "--output", "x"), "--output x: takes one evaluation; name one --checkpoint or --seed"),
        (("--checkpoint", "ppo", "--seed", 1), "A checkpoint is evaluated with the seed that it was trained with"),
        (("--checkpoint", "ppo", "--baseline", "copy"), "Say what to evaluate: one of --checkpoint FOLDER"),
    ],
)
def test_what_several_checkpoints_cannot_have_is_refused(evaluated, arguments, message):
    result = grue(*arguments)
    assert (result.exit_code, evaluated) == (2, [])
    assert message in result.stderr

"""`grue evaluate` of several checkpoints: which are evaluated, each as if alone, and the table at the end."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.commands import grue, printed_json
from support.factories import a_result, a_task

from grue.api import evaluate as api
from grue.cli.evaluate import over_seeds
from grue.lm import checkpoint
from grue.task_files import load_task

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
    manifest = SimpleNamespace(task="imdb", suite="mini", task_hash=load_task("imdb").hash)
    monkeypatch.setattr(api, "read_manifest", lambda folder: manifest)

    def subject(what, task, **more):
        asked.append(what)
        system = SimpleNamespace(name=Path(what).parent.name, best_of=None, guided=None)
        return SimpleNamespace(task=IMDB, system=system, folder=Path(what))

    def evaluate(subject, **more):
        seed = int(str(subject.folder).rpartition("-")[2])
        counts = {"scored": 4, "empty": 0, "truncated": 0}
        return a_result(IMDB, subject.system.name, seed, 90.0 + seed, limited=True, counts=counts)

    monkeypatch.setattr(api, "subject", subject)
    monkeypatch.setattr(api, "evaluate", evaluate)
    return asked


def test_a_folder_of_seeds_and_several_checkpoints_are_evaluated_each_as_if_alone(evaluated, refused):
    runs = ("ppo/seed-1", "ppo/seed-2", "ppo/seed-10", "nlpo/seed-1")
    result = grue(*"evaluate ppo --checkpoint nlpo/seed-1 --checkpoint ppo/seed-1".split())
    assert evaluated == list(runs)
    assert "Warning: ppo/seed-3: no checkpoint yet, left out.\n" in result.stderr
    refused.message(result.stdout)
    assert "1,2,10            94.3 ± 4.9    50.0 ± 0.0\n" in result.stdout  # of 91, 92 and 100
    assert "over seeds" not in grue("evaluate", "--checkpoint", "ppo/seed-1").stdout
    assert [one["seed"] for one in printed_json("evaluate", "--checkpoint", "ppo")] == [1, 2, 10]
    twice = [a_result(IMDB, "ppo", 1, 90.0), a_result(IMDB, "ppo", 1, 80.0)]  # so they are of two systems
    assert [line.split()[2:4] for line in [*over_seeds(twice)][1:3]] == [["1", "90.0"], ["1", "80.0"]]


@pytest.mark.parametrize("beside", ["--output x", "--seed 1", "--baseline copy", "http://localhost/v1#m"])
def test_what_several_checkpoints_cannot_have_is_refused(evaluated, beside, refused):
    refused.command("evaluate", "--checkpoint", "ppo", *beside.split(), code=2)
    assert evaluated == []

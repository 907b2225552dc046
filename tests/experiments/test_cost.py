"""What a suite costs on a machine: hours by hand from made-up rates, and a run of the program."""

import sys
from dataclasses import replace

import pytest
from support.paths import ROOT

from grue.task_files import load_task

sys.path.append(str(ROOT / "benchmarks"))

import cost
from cost import Rates, hours, per_episode, row, times_as_many, total

RATES = Rates(pairs=1000.0, pair=0.5, episode={"ppo": 2.0, "nlpo": 3.0}, answer=0.1)


@pytest.fixture
def task():
    """Mini IMDB, with 1,000 examples to answer and sizes that are easy to multiply."""
    supervised = {"epochs": 2, "validate_every": 1, "validation_examples": 10}
    learnt = {"updates": 10, "rollouts": 8, "minibatch_size": 8, "validate_every": 5, "validation_examples": 20}
    recipes = {"supervised": supervised, "rl": learnt, "supervised+rl": {**learnt, "updates": 4}}
    return replace(load_task("imdb", "mini"), recipes=recipes)


@pytest.mark.parametrize(
    ("system", "seconds"),
    [
        ("zero-shot", 1000 * 0.1),
        ("supervised", 2 * 1000 * 0.5 + (1000 + 3 * 10) * 0.1),
        ("ppo", 10 * 8 * 2.0 + (1000 + 3 * 20) * 0.1),
        ("nlpo", 10 * 8 * 3.0 + (1000 + 3 * 20) * 0.1),
        ("supervised+ppo", 4 * 8 * 2.0 + (1000 + 2 * 20) * 0.1),
    ],
)
def test_hours_by_hand(task, system, seconds):
    assert hours(task, system, RATES) == pytest.approx(seconds / 3600)


def test_an_episode_takes_the_mean_over_the_updates():
    assert per_episode([{"seconds": 3.0, "episodes": 4.0}, {"seconds": 1.0, "episodes": 4.0}]) == 0.5


def test_the_table_adds_all_seeds_and_their_price(task):
    rates = replace(RATES, pair=1.8)
    assert cost.HEAD[0] == "| task | zero-shot | supervised | ppo | nlpo | supervised+ppo | supervised+nlpo |"
    assert row(task, rates) == "| imdb | 0.03 | 1.03 | 0.07 | 0.10 | 0.05 | 0.06 |"
    words = "All runs with 10 seeds, one after the other: 13.3 hours, 27 at 2 an hour."
    assert total({"imdb": (task, rates)}, seeds=10, price=2.0) == words


def test_pairs_grow_with_the_rows_of_the_training_share(task):
    def with_train(rows, begin):
        train = replace(task.data.splits["train"], rows=rows, begin=begin, end=1.0)
        return replace(task, data=replace(task.data, splits={**task.data.splits, "train": train}))

    assert times_as_many(with_train(1000, 0.0), with_train(67389, 0.02)) == pytest.approx(66.04122)


@pytest.mark.slow
def test_a_machine_is_measured(tmp_path, monkeypatch, capsys):
    for name, less in (("PAIRS", 32), ("UPDATES", 2), ("EXAMPLES", 8)):
        monkeypatch.setattr(cost, name, less)
    kept = tmp_path / "cost.json"
    command = ["cost.py", "--suite", "mini", "--tasks", "imdb", "--runs", str(tmp_path / "runs"), "--output", str(kept)]
    monkeypatch.setattr(sys, "argv", command)
    cost.main()
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("| imdb |"))
    _, *systems = [float(cell) for cell in row.strip("| ").split(" | ")[1:]]
    assert all(0 < one < 1 for one in systems)
    with pytest.raises(SystemExit, match="exists; remove it"):
        cost.main()

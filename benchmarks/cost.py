"""Measure how long a suite takes on this machine: a few updates of each task's recipe, times their number.

    python benchmarks/cost.py                                 # the suite grue; needs its data and models
    python benchmarks/cost.py --suite mini --tasks imdb       # a minute on one core, to see what it prints
    python benchmarks/cost.py --price 2.50                    # what an hour of this machine costs, in any currency

It calls `grue train` and `grue evaluate` as a sweep would, reads the seconds that they log, and prints the hours of
every run. Not counted: downloads, loading, saving and tokenising.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from grue import files
from grue.runs.recipes import make_config
from grue.task_files import load_task, task_names
from grue.tasks import Task

SYSTEMS = ("zero-shot", "supervised", "ppo", "nlpo", "supervised+ppo", "supervised+nlpo")
MEASURED = ("supervised", "ppo", "nlpo")  # what starts from a supervised model takes its updates from these
PAIRS = 512  # pairs of supervised training that are measured
UPDATES = 3  # the first one warms up and does not count
EXAMPLES = 64  # answers that are measured


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured of a task.

    Attributes:
        pairs: Of the training split.
        pair: Seconds of supervised training for one pair.
        episode: Algorithm → seconds for one sampled sequence: sampling, scoring and learning.
        answer: Seconds to answer and score one example.
    """

    pairs: float
    pair: float
    episode: Mapping[str, float]
    answer: float


def hours(task: Task, system: str, rates: Rates) -> float:
    """Return the hours of one run: training, validation and evaluation."""
    answers = task.data.splits[task.data.evaluation].examples
    seconds = 0.0
    if system != "zero-shot":
        config: Any = make_config(task, system, {})
        if system == "supervised":
            rounds, seconds = config.epochs, config.epochs * rates.pairs * rates.pair
        else:
            rounds = config.updates
            seconds = config.updates * config.rollouts * rates.episode[system.split("+")[-1]]
        answers += (1 + ceil(rounds / config.validate_every)) * config.validation_examples
    return (seconds + answers * rates.answer) / 3600


def table(by_task: Mapping[str, tuple[Task, Rates]], seeds: int, price: float | None) -> str:
    """Return the hours of every run as a Markdown table, and what all seeds take one after the other."""
    lines = [f"| task | {' | '.join(SYSTEMS)} |", "|---" * (1 + len(SYSTEMS)) + "|"]
    total = 0.0
    for name, (task, rates) in by_task.items():
        found = [hours(task, system, rates) for system in SYSTEMS]
        lines.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in found)} |")
        total += sum(found) * seeds
    cost = "" if price is None else f", {total * price:,.0f} at {price:g} an hour"
    return "\n".join([*lines, "", f"All runs with {seeds} seeds, one after the other: {total:,.1f} hours{cost}."])


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(task: Task, suite: str, runs: Path, options: Sequence[str]) -> Rates:
    """Run a part of each measured recipe, and return how long its parts took.

    Args:
        suite: As `--suite` takes it.
        runs: An empty folder.
        options: Further options of `grue train`.
    """
    rows = task.data.splits["train"].rows
    share = min(1.0, PAIRS / rows) if rows else 1.0
    part = {
        "supervised": {"epochs": 1, "train_share": share},
        "ppo": {"updates": UPDATES},
        "nlpo": {"updates": UPDATES},
    }
    common = ["--suite", suite, "--task", task.name, "--runs", str(runs)]
    logs = {}
    for system in MEASURED:
        settings = [f"--set={key}={value}" for key, value in {**part[system], "validation_examples": 1}.items()]
        grue("train", *common, "--algo", system, "--tracker", "none", *settings, *options)
        log = files.read_jsonl(runs / task.suite / task.name / system / "seed-1" / "train.jsonl")
        logs[system] = [line for _, line in log if "seconds" in line]
    grue("evaluate", *common, "--baseline", "zero-shot", "--limit", str(EXAMPLES))
    result = json.loads((runs / task.suite / task.name / "zero-shot" / "seed-1" / "result.json").read_text())
    (epoch,) = logs["supervised"]
    return Rates(
        pairs=epoch["episodes"] / share,
        pair=epoch["seconds"] / epoch["episodes"],
        episode={name: per_episode(logs[name][1:]) for name in ("ppo", "nlpo")},
        answer=sum(result["timing"].values()) / result["counts"]["scored"],
    )


def per_episode(updates: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of a sampled sequence over some updates."""
    return sum(line["seconds"] for line in updates) / sum(line["episodes"] for line in updates)


def grue(*arguments: str) -> None:
    """Run a command of grue; its progress goes to stderr."""
    subprocess.run([sys.executable, "-m", "grue", *arguments], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Measure every task and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--suite", default="grue", help="mini, grue, or a folder of task files")
    parser.add_argument("--tasks", nargs="+", help="names; all of the suite if left out")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--price", type=float, help="of an hour of this machine")
    parser.add_argument("--runs", type=Path, default=Path("runs/cost"), help="folder for the measured runs")
    parser.add_argument("--set", action="append", default=[], help="value of every configuration: precision=bfloat16")
    options = parser.parse_args()
    if options.runs.exists():
        sys.exit(f"{options.runs}: exists; remove it, or name another folder with --runs.")
    settings = [f"--set={setting}" for setting in options.set]
    found = {}
    for name in options.tasks or task_names(options.suite):
        task = load_task(name, options.suite)
        found[name] = (task, measure(task, options.suite, options.runs, settings))
    print(table(found, options.seeds, options.price))


if __name__ == "__main__":
    main()

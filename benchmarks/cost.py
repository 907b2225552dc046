"""Measure how long a suite takes on this machine: a few updates of each task's recipe, times their number.

    python benchmarks/cost.py                                 # the suite grue; needs its data and models
    python benchmarks/cost.py --suite mini --tasks imdb       # a minute on one core, to see what it prints
    python benchmarks/cost.py --price 2.50                    # what an hour of this machine costs, in any currency
    python benchmarks/cost.py --suite stand-ins/suite --sizes-of grue   # without the hub: benchmarks/stand_ins.py

It calls `grue train` and `grue evaluate` as a sweep would, reads the seconds that they log, and prints the hours of
every run. Not counted: downloads, loading, saving and tokenising. With `--sizes-of` the tasks of one suite are
measured, and those of the same names in the other multiply. On a GPU the peaks of memory are written, too.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from grue import files
from grue.data.load import load_examples
from grue.runs.recipes import make_config
from grue.task_files import load_task, task_names
from grue.tasks import Task

SYSTEMS = ("zero-shot", "supervised", "ppo", "nlpo", "supervised+ppo", "supervised+nlpo")
MEASURED = ("supervised", "ppo", "nlpo")  # what starts from a supervised model takes its updates from these
PAIRS = 512  # rows of the training split whose pairs are measured, after an epoch of them that warms up
UPDATES = 3
EXAMPLES = 64  # answers that are measured, after as many that warm up
HEAD = [f"| task | {' | '.join(SYSTEMS)} |", "|---" * (1 + len(SYSTEMS)) + "|"]
RUN = """
import atexit, sys

def say_peak():
    cuda = sys.modules["torch"].cuda if "torch" in sys.modules else None
    print("\\n" + str(cuda.max_memory_allocated() if cuda is not None and cuda.is_available() else 0))

atexit.register(say_peak)
from grue.cli.main import main
main(prog_name="grue")
"""  # `python -m grue`, which says on its last line how many bytes of the GPU it held at most


@dataclass(frozen=True, slots=True)
class Rates:
    """What was measured of a task.

    Attributes:
        pairs: Of the training split.
        pair: Seconds of supervised training for one pair.
        episode: Algorithm → seconds for one sampled sequence: sampling, scoring and learning.
        answer: Seconds to answer and score one example.
        response: Algorithm → mean tokens of a sampled sequence.
        memory: What was run → GB of the GPU that it held at most; empty without one.
    """

    pairs: float
    pair: float
    episode: Mapping[str, float]
    answer: float
    response: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)


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


def row(task: Task, rates: Rates) -> str:
    """Return the hours of a task's runs as a row of the table."""
    return f"| {task.name} | {' | '.join(f'{hours(task, system, rates):.2f}' for system in SYSTEMS)} |"


def total(by_task: Mapping[str, tuple[Task, Rates]], seeds: int, price: float | None) -> str:
    """Return what all runs with all seeds take one after the other."""
    found = sum(hours(task, system, rates) for task, rates in by_task.values() for system in SYSTEMS) * seeds
    cost = "" if price is None else f", {found * price:,.0f} at {price:g} an hour"
    return f"All runs with {seeds} seeds, one after the other: {found:,.1f} hours{cost}."


def record(by_task: Mapping[str, tuple[Task, Rates]], seconds: float) -> dict[str, Any]:
    """Return what was measured, as it is written.

    Args:
        seconds: What measuring has taken so far.
    """
    tasks = {
        name: {"rates": rates, "hours": {system: hours(task, system, rates) for system in SYSTEMS}}
        for name, (task, rates) in by_task.items()
    }
    return {"seconds": seconds, "tasks": tasks}


# --- measuring -------------------------------------------------------------------------------------------------------


def measure(task: Task, suite: str, runs: Path, options: Sequence[str], updates: int) -> Rates:
    """Run a part of each measured recipe, and return how long its parts took.

    Args:
        suite: As `--suite` takes it.
        runs: An empty folder.
        options: Further options of `grue train`.
        updates: Of PPO and of NLPO; the first one warms up and does not count.
    """
    rows = task.data.splits["train"].rows
    share = min(1.0, PAIRS / rows) if rows else 1.0
    part: Mapping[str, Mapping[str, Any]] = {
        "supervised": {"epochs": 2, "train_share": share},
        "ppo": {"updates": updates},
        "nlpo": {"updates": updates},
    }
    common = ["--suite", suite, "--task", task.name, "--runs", str(runs)]
    logs, peaks = {}, {}
    for system in MEASURED:
        settings = [f"--set={key}={value}" for key, value in {**part[system], "validation_examples": 1}.items()]
        peaks[system] = grue("train", *common, "--algo", system, "--tracker", "none", *settings, *options)
        log = files.read_jsonl(runs / task.suite / task.name / system / "seed-1" / "train.jsonl")
        logs[system] = [line for _, line in log if "seconds" in line]
    # The second seed's figures count: the process has loaded the scoring models then.
    peaks["zero-shot"] = grue(
        "evaluate", *common, "--baseline", "zero-shot", "--limit", str(EXAMPLES), "--seeds", "1-2"
    )
    result = files.read_json(runs / task.suite / task.name / "zero-shot" / "seed-2" / "result.json")
    epoch = logs["supervised"][len(logs["supervised"]) // 2 :]
    learnt = {name: logs[name][1:] for name in ("ppo", "nlpo")}
    return Rates(
        pairs=sum(len(example.references) for example in load_examples(task, "train").examples),
        pair=per_episode(epoch),
        episode={name: per_episode(lines) for name, lines in learnt.items()},
        answer=sum(result["timing"].values()) / result["counts"]["scored"],
        response={name: per_episode(lines, "generated_tokens") for name, lines in learnt.items()},
        memory={system: peak / 1e9 for system, peak in peaks.items() if peak},
    )


def times_as_many(measured: Task, sized: Task) -> float:
    """Return how many times the rows of a measured training split another has.

    Rows, because the task files of the suite grue count them and not all count the pairs: a row has as many pairs in
    both.
    """
    found = []
    for task in (sized, measured):
        split = task.data.splits["train"]
        found.append(split.rows * (split.end - split.begin))
    return found[0] / found[1]


def per_episode(updates: Sequence[Mapping[str, float]], figure: str = "seconds") -> float:
    """Return the seconds, or another logged figure, of a sampled sequence or of a pair over some updates."""
    return sum(line[figure] for line in updates) / sum(line["episodes"] for line in updates)


def grue(*arguments: str) -> int:
    """Run a command of grue, and return how many bytes of the GPU it held at most; its progress goes to stderr."""
    command = [sys.executable, "-c", RUN, *arguments]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def main() -> None:
    """Measure every task and print the table, each row as soon as it is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--suite", default="grue", help="mini, grue, or a folder of task files")
    parser.add_argument("--sizes-of", help="suite whose tasks' sizes multiply; the measured one's if left out")
    parser.add_argument("--tasks", nargs="+", help="names; all of the suite if left out")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--price", type=float, help="of an hour of this machine")
    parser.add_argument("--runs", type=Path, default=Path("runs/cost"), help="folder for the measured runs")
    parser.add_argument("--set", action="append", default=[], help="value of every configuration: precision=bfloat16")
    parser.add_argument("--updates", type=int, default=UPDATES, help="of PPO and of NLPO, at least 2: one warms up")
    parser.add_argument("--output", type=Path, help="JSON file of rates and hours, written anew after each task")
    options = parser.parse_args()
    if options.updates < 2:
        parser.error("--updates: the first one warms up and does not count; name 2 or more")
    if options.runs.exists():
        sys.exit(f"{options.runs}: exists; remove it, or name another folder with --runs.")
    settings = [f"--set={setting}" for setting in options.set]
    began = time.monotonic()
    found: dict[str, tuple[Task, Rates]] = {}
    print("\n".join(HEAD), flush=True)
    for name in options.tasks or task_names(options.suite):
        task = load_task(name, options.suite)
        sized = load_task(name, options.sizes_of) if options.sizes_of else task
        rates = measure(task, options.suite, options.runs, settings, options.updates)
        if options.sizes_of:
            rates = replace(rates, pairs=rates.pairs * times_as_many(task, sized))
        found[name] = sized, rates
        print(row(sized, rates), flush=True)
        if options.output:
            files.write_json(options.output, record(found, time.monotonic() - began))
    print("", total(found, options.seeds, options.price), sep="\n")


if __name__ == "__main__":
    main()

"""Check that the mini tasks rank systems as expected: `python benchmarks/mini_tasks.py` prints a table for each.

For each task it evaluates the rows without training, trains the supervised system with one seed, and checks that null,
copy, lead < lookups < supervised < oracle on preference. Runs are kept in `--runs` and reused.
"""

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path

from grue.evaluation.evaluate import evaluate
from grue.evaluation.systems import baseline_system, checkpoint_system
from grue.lookups.find import lookups_of
from grue.records import Result
from grue.runs.observers import Observers
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.runs.train import train
from grue.task_files import load_task, task_names
from grue.tasks import Task

CONSTANT = ("null", "copy", "lead")
LEVEL = 1.0  # points of preference that are no difference: one constant answer is luckier than another
FREE = {"imdb"}  # its only preference metric reads no references, so a constant can please it: docs/background/mini.md


def evaluate_all(task: Task, runs: Path) -> tuple[dict[str, Result], float]:
    """Return the result of each system on a task, worst expected first, and the seconds that training took."""
    results = {}
    for name in (*CONSTANT, *lookups_of(task), "zero-shot"):
        folder = runs / task.suite / task.name / name / "seed-1"
        results[name] = evaluate(task, baseline_system(task, name, 1), folder)
    plan = stages_of(RunRequest(task=task, algorithm="supervised", runs=runs))[-1]
    started = time.monotonic()
    checkpoint = train(plan, Observers([]))
    seconds = time.monotonic() - started
    results["supervised"] = evaluate(task, checkpoint_system(task, checkpoint), plan.folder)
    folder = runs / task.suite / task.name / "oracle" / "seed-1"
    results["oracle"] = evaluate(task, baseline_system(task, "oracle", 1), folder)
    return results, seconds


def table(task: Task, results: dict[str, Result]) -> str:
    """Return the raw metrics of each system as a markdown table."""
    names = [spec.name for spec in task.metrics]
    rows = [["system", "preference", "naturalness", *names, "length"]]
    for system, result in results.items():
        values = {score.metric: score.value for score in result.scores}
        axes = [f"{axis:.1f}" if axis is not None else "" for axis in (result.preference, result.naturalness)]
        digits = [f"{values[name]:.3f}" if values[name] < 10 else f"{values[name]:.1f}" for name in names]
        rows.append([system, *axes, *digits, f"{values['mean_length']:.1f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def disorder(task: Task, results: dict[str, Result]) -> list[str]:
    """Return what is not as it should be: the order of the rows on preference, a metric that is flat or saturated."""
    found = []
    value = {name: result.preference or 0.0 for name, result in results.items()}
    if task.name not in FREE:
        lookups = lookups_of(task)
        ladder = (CONSTANT, [max(lookups, key=value.__getitem__)], ["supervised"], ["oracle"])
        found += [
            f"{low} is not below {high}"
            for lows, highs in pairwise(ladder)
            for low in lows
            for high in highs
            if value[low] >= value[high]
        ]
        found += [f"{name} is not below supervised" for name in lookups if value[name] >= value["supervised"]]
        if value["null"] >= max(value["zero-shot"], value["copy"]) + LEVEL:
            found.append("null is above zero-shot and copy")
    for spec in task.metrics:
        scaled = [
            s.scaled
            for result in results.values()
            for s in result.scores
            if s.metric == spec.name and s.scaled is not None
        ]
        if max(scaled) - min(scaled) < 5.0:
            found.append(f"{spec.name} is flat: {min(scaled):.1f} to {max(scaled):.1f}")
        supervised = next(s.scaled for s in results["supervised"].scores if s.metric == spec.name)
        if supervised is not None and not 0.5 < supervised < 99.5:
            found.append(f"{spec.name} is saturated: {supervised:.1f} for supervised")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path(".mini_tasks"))
    parser.add_argument("--task", action="append", help="only this task; repeat for several")
    chosen = parser.parse_args()
    wrong = 0
    for name in chosen.task or task_names("mini"):
        task = load_task(name)
        results, seconds = evaluate_all(task, chosen.runs)
        problems = disorder(task, results)
        wrong += len(problems)
        print(f"\n{name}: supervised training took {seconds:.0f} s\n\n{table(task, results)}", flush=True)
        for problem in problems:
            print(f"! {problem}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

"""Print what reinforcement learning brought to the supervised models: `python experiments/learning.py`.

It reads the runs of experiments/learning.toml, or with `--systems` others (experiments/findings/methods.toml, or
`zero-shot ppo nlpo`), and prints for each task and system: preference and naturalness on test, the gain in preference
on the seeds that both have (± half of the 95 % t interval, seeds that share their start as pairs), KL, the reward of
plain samples to validation prompts at the start and of the kept checkpoint, then after the last update, the penalised
reward of the first and the last quarter of training, the critic's explained variance in the second half, the share of
the frontier's gain, updates kept, reward calls, and minutes of the updates. A share is of the one run that began where
the frontier of `--frontiers FOLDER` did, `TASK.json`.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import DataError
from grue.evaluation.frontier import Frontier, place
from grue.leaderboard.lineage import line, share_starts
from grue.records import Result
from grue.stats.intervals import mean
from grue.stats.paired import Contrast, judge_seeds
from grue.task_files import task_names

SYSTEMS = ("supervised", "supervised+ppo", "supervised+nlpo", "supervised+grpo")
COLUMNS = (
    "preference",
    "naturalness",
    "gain",
    "KL",
    "sampled reward",
    "last",
    "penalised",
    "explained",
    "share",
    "kept",
    "calls",
    "min",
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run's result and log."""

    folder: Path
    result: Result
    lines: Sequence[Mapping[str, Any]]

    def sampled_reward(self, update: int | None) -> float:
        """Return the reward of plain samples to validation prompts after an update; None is the kept one."""
        wanted = self.result.system["update"] if update is None else update
        name = "validation/sampled_reward"
        return next(float(line[name]) for line in self.lines if name in line and line["update"] == wanted)

    @property
    def last(self) -> int:
        """The last update that was validated."""
        return max(line["update"] for line in self.lines if "validation/sampled_reward" in line)

    def quarter(self, name: str, place: int) -> float | None:
        """Return the mean of a figure over a quarter of the updates: 0 is the first, 3 the last; None if not logged."""
        values = [line[name] for line in self.lines if name in line]
        size = max(1, len(values) // 4)
        return mean(values[:size] if place == 0 else values[-size:]) if values else None

    @property
    def calls(self) -> float:
        """Texts that the reward scored in this run, those of its validations left out."""
        return sum(line.get("reward_calls", line.get("episodes", 0.0)) for line in self.lines)


def main() -> None:
    """Print the table of the evaluated runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--frontiers", type=Path, help="Folder of TASK.json, which `grue tools frontier -o` wrote")
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, help="The first is what the others began from")
    parser.add_argument("--tasks", nargs="+", default=task_names("mini"))
    options = parser.parse_args()
    print(f"| task | system | {' | '.join(COLUMNS)} |", "|" + "---|" * (2 + len(COLUMNS)), sep="\n")
    for task in options.tasks:
        folder = options.runs / "mini" / task
        found = {system: runs for system in options.systems if (runs := read(folder / system))}
        if found and options.systems[0] not in found:
            parser.error(f"{folder / options.systems[0]}: there are no evaluated runs; `grue sweep` makes them")
        frontier = None if options.frontiers is None else options.frontiers / f"{task}.json"
        for system, runs in found.items():
            base = found[options.systems[0]] if system != options.systems[0] else {}
            print(f"| {task} | `{system}` | {' | '.join(row(runs, base, frontier))} |")


def read(folder: Path) -> dict[int, Run]:
    """Return the evaluated runs of a system by seed."""
    found = {}
    for path in sorted(folder.glob("seed-*/result.json")):
        result = files.load_json(path, Result)
        log = path.with_name("train.jsonl")
        lines = [line for _, line in files.read_jsonl(log)] if log.exists() else []  # a baseline has none
        found[result.seed] = Run(path.parent, result, lines)
    return found


def row(runs: Mapping[int, Run], base: Mapping[int, Run], frontier: Path | None) -> list[str]:
    """Return a system's cells, from preference on."""
    axes = [[getattr(run.result, axis) for run in runs.values()] for axis in ("preference", "naturalness")]
    cells = [f"{mean(values):.1f}" for values in axes]
    if not all("kl" in run.result.system.get("validation", {}) for run in runs.values()):
        return [*cells, *[""] * 9, minutes(runs)]
    common = sorted(runs.keys() & base.keys())
    cells.append(gain([runs[seed].result for seed in common], [base[seed].result for seed in common]))
    cells.append(f"{mean([run.result.system['validation']['kl'] for run in runs.values()]):.2f}")
    began, kept = (mean([run.sampled_reward(n) for run in runs.values()]) for n in (0, None))
    cells.append(f"{began:.3f} → {kept:.3f}")
    cells.append(f"{mean([run.sampled_reward(run.last) for run in runs.values()]):.3f}")
    quarters = [[run.quarter("objective/penalised_reward", n) for run in runs.values()] for n in (0, 3)]
    cells.append("" if None in quarters[0] else " → ".join(f"{mean(values):.3f}" for values in quarters))
    explained = [half(run.lines, "critic/explained_variance") for run in runs.values()]
    cells.append("" if None in explained else f"{mean(explained):.2f}")
    cells.append("" if frontier is None or not frontier.exists() else share(runs, frontier))
    cells.append(" ".join(str(run.result.system["update"]) for run in runs.values()))
    cells.append(f"{mean([run.calls for run in runs.values()]):,.0f}")
    return [*cells, minutes(runs)]


def gain(results: Sequence[Result], base: Sequence[Result]) -> str:
    """Return the mean difference and half of its interval; bold where that excludes 0. Nothing of no results.

    Seeds are pairs where they share weights, as on the board; else the interval is Welch's.

    Args:
        base: Of the same seeds, in the same order.
    """
    if not results:
        return ""
    scores = [tuple(one.preference or 0.0 for one in each) for each in (results, base)]  # a failed run counts as 0
    weights = [{one.seed: frozenset(line(one)) for one in each} for each in (results, base)]
    found = judge_seeds([Contrast(*scores, paired=share_starts(*weights))])
    if not math.isfinite(found.interval.half_width):
        return f"{found.value:+.1f}"
    said = f"{found.value:+.1f} ± {found.interval.half_width:.1f}"
    return f"**{said}**" if found.interval.low > 0 or found.interval.high < 0 else said


def half(lines: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the mean of a figure over the second half of the updates; None if it was not logged."""
    values = [line[name] for line in lines if name in line]
    return mean(values[len(values) // 2 :]) if values else None


def share(runs: Mapping[int, Run], frontier: Path) -> str:
    """Return the share of the frontier that the run of its seed gained."""
    found = files.load_json(frontier, Frontier)
    for run in runs.values():
        if run.result.system["start"] == found.start:
            placed = place(found, run.folder)
            return "–" if placed.share is None else f"{placed.share:.0%}"
    raise DataError(f"{frontier}: no run began from its start.")


def minutes(runs: Mapping[int, Run]) -> str:
    """Return the mean minutes of a run's own updates; nothing for a baseline."""
    if not any(run.lines for run in runs.values()):
        return ""
    return f"{mean([sum(line.get('seconds', 0.0) for line in run.lines) for run in runs.values()]) / 60:.1f}"


if __name__ == "__main__":
    main()

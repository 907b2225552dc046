"""Does the order of systems change with the size of the backbone? docs/background/validity.md.

    python experiments/sizes.py tasks --out sizes      # task files whose backbone is the `-s` of the task's own
    grue sweep --config experiments/sizes.toml
    grue sweep --config experiments/sizes.toml --suite sizes --runs runs-s
    grue sweep --config experiments/sizes_of_board.toml --suite sizes --runs runs-s      # the board has the larger
    python experiments/sizes.py keep --runs runs --smaller runs-s      # read the runs, keep their figures
    python experiments/sizes.py                        # the tables, from the figures that are kept

Seeds after a supervised start are compared as pairs, others by Welch's test, each pair of systems by its own 95 %
interval: with so many pairs some are decided by chance.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from measured import Figures, Run, read_run, read_submitted

from grue import files
from grue.stats.correlation import kendall
from grue.stats.intervals import mean, satterthwaite_interval
from grue.stats.paired import Contrast, MeanDifference, judge_seeds
from grue.sweep.grid import read_grid
from grue.sweep.jobs import Job, plan_jobs
from grue.task_files import load_task, task_folder

HERE = Path(__file__).parent
OWN, OF_BOARD, KEPT = HERE / "sizes.toml", HERE / "sizes_of_board.toml", HERE / "sizes"
"""The grid that is run at both sizes, the one whose larger size is on the board, and the figures of both."""
SUBMISSIONS = HERE.parent / "submissions"
LARGER, SMALLER = "mini", "smaller"
"""The suites, and the names of the files that keep their figures."""


def main() -> None:
    """Write task files, keep figures, or print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    tasks = commands.add_parser("tasks", help="write the task files of the smaller backbones")
    tasks.add_argument("--out", type=Path, default=Path("sizes"))
    kept = commands.add_parser("keep", help="read the evaluated runs of both sizes, and keep their figures")
    kept.add_argument("--suite", type=Path, default=Path("sizes"), help="folder of the task files")
    kept.add_argument("--runs", type=Path, default=Path("runs"))
    kept.add_argument("--smaller", type=Path, default=Path("runs-s"))
    options = parser.parse_args()
    if options.command == "tasks":
        for task in (*read_grid(OWN).task_list(), *read_grid(OF_BOARD).task_list()):
            print(write_task(task, options.out))
    elif options.command == "keep":
        keep(LARGER, [run_in(options.runs, OWN), submitted(OF_BOARD)])
        keep(SMALLER, [run_in(options.smaller, grid, str(options.suite)) for grid in (OWN, OF_BOARD)])
    else:
        print(*tables(*(files.load_json(KEPT / f"{name}.json", Figures) for name in (LARGER, SMALLER))), sep="\n")


def write_task(task: str, folder: Path) -> Path:
    """Write a task of mini with the smaller backbone, and return its file."""
    table = files.read_toml(task_folder() / "mini" / f"{task}.toml")
    table["suite"] = SMALLER
    table["backbone"]["model"] += "-s"
    files.write_toml(folder / f"{task}.toml", table)
    return folder / f"{task}.toml"


def run_in(folder: Path, grid: Path, suite: str = "mini") -> Figures:
    """Read the runs of a grid on a suite."""
    return figures(grid, suite, lambda job: read_run(folder / job.id, job))


def submitted(grid: Path) -> Figures:
    """Read the runs of a grid from the submissions."""
    return figures(grid, "mini", lambda job: read_submitted(SUBMISSIONS, job))


def figures(grid: Path, suite: str, read: Callable[[Job], Run]) -> Figures:
    """Read every run of a grid."""
    jobs = [job for job in plan_jobs(replace(read_grid(grid), suite=suite).located()) if job.evaluate]
    tasks = {job.task: load_task(job.source, job.suite).hash for job in jobs}
    return Figures(tasks=tasks, runs=tuple(map(read, jobs)))


def keep(name: str, found: Sequence[Figures]) -> None:
    """Write figures of different tasks into one file."""
    tasks = {task: hash_ for one in found for task, hash_ in one.tasks.items()}
    files.write_json(KEPT / f"{name}.json", Figures(tasks=tasks, runs=tuple(run for one in found for run in one.runs)))


# --- tables ----------------------------------------------------------------------------------------------------------


def tables(larger: Figures, smaller: Figures) -> Iterator[str]:
    """Yield, for each task, the systems at both sizes, and how far their orders agree."""
    for task in larger.tasks:
        systems = list(dict.fromkeys(run.system for run in larger.runs if run.task == task))
        yield from (f"### {task}", "", *means(task, systems, larger, smaller), "")
        for axis in ("preference", "naturalness"):
            yield f"{axis}: {agreement(task, systems, axis, larger, smaller)}"
        yield ""


def means(task: str, systems: Sequence[str], larger: Figures, smaller: Figures) -> Iterator[str]:
    """Yield the table of the means, by falling preference at the larger size."""
    axes = ("preference", "naturalness", "kl")
    yield f"| system | {' | '.join(f'{axis}, {size}' for axis in axes for size in (LARGER, SMALLER))} |"
    yield "|" + "---|" * (1 + 2 * len(axes))
    for system in sorted(systems, key=lambda each: -mean(larger.seeds(task, each, "preference"))):
        cells = [
            spread(sizes.seeds(task, system, axis), ".2f" if axis == "kl" else ".1f")
            for axis in axes
            for sizes in (larger, smaller)
        ]
        yield f"| `{system}` | {' | '.join(cells)} |"


def agreement(task: str, systems: Sequence[str], axis: str, larger: Figures, smaller: Figures) -> str:
    """Say how far the order of the systems on an axis is the same at both sizes."""
    values = [np.array([mean(sizes.seeds(task, each, axis)) for each in systems]) for sizes in (larger, smaller)]
    tau = float(kendall(*values, np.ones((1, len(systems))))[0])
    pairs = [
        (a, b, *(compared(sizes, task, a, b, axis) for sizes in (larger, smaller))) for a, b in combinations(systems, 2)
    ]
    both = [(a, b, x, y) for a, b, x, y in pairs if decided(x) and decided(y)]
    flips = [f"`{a}` − `{b}` ({x.value:+.1f}, {y.value:+.1f})" for a, b, x, y in both if x.value * y.value < 0]
    counts = [sum(decided(pair[place]) for pair in pairs) for place in (2, 3)]
    return (
        f"Kendall's τ {tau:.2f}; of {len(pairs)} pairs {counts[0]} are decided with the larger, {counts[1]} with the "
        f"smaller, {len(both)} with both, {len(flips)} of them against each other"
        + (f": {', '.join(flips)}." if flips else ".")
    )


def compared(figures: Figures, task: str, a: str, b: str, axis: str) -> MeanDifference:
    """Return the difference of two systems; seeds with a supervised start are pairs."""
    paired = a.startswith("supervised") and b.startswith("supervised")
    return judge_seeds(
        [Contrast(tuple(figures.seeds(task, a, axis)), tuple(figures.seeds(task, b, axis)), paired=paired)]
    )


def decided(difference: MeanDifference) -> bool:
    """Whether the interval of a difference excludes 0."""
    return difference.interval.low > 0 or difference.interval.high < 0


def spread(values: Sequence[float], form: str) -> str:
    """Return the mean ± half of its 95 % t interval; nothing of a system without the figure."""
    if not values:
        return ""
    interval = satterthwaite_interval({"": values})
    return f"{mean(values):{form}}" + (f" ± {interval.half_width:{form}}" if interval else "")


if __name__ == "__main__":
    main()

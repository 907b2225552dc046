"""Do five other seeds rank systems as the board's five do, and what do all ten tell? docs/background/validity.md.

`python experiments/ten_seeds.py keep --runs runs` reads the runs of ten_seeds.toml and keeps their figures; without
`keep` it prints the table, from the board and the figures that are kept.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from findings import contrast, difference, share_starts
from measured import Figures, read_run
from sizes import spread
from validity import agreement

from grue import files
from grue.leaderboard.board import Board
from grue.leaderboard.published import read_board
from grue.stats.intervals import mean
from grue.stats.paired import Contrast, holm, judge_seeds
from grue.sweep.grid import read_grid
from grue.sweep.jobs import plan_jobs
from grue.task_files import load_task

HERE = Path(__file__).parent
GRID, KEPT, BOARD = HERE / "ten_seeds.toml", HERE / "ten_seeds.json", HERE.parent / "leaderboard" / "mini.json"
Seeds = Mapping[str, Sequence[float]]
"""System → preference of its seeds."""


def main() -> None:
    """Keep figures, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    kept = commands.add_parser("keep", help="read the evaluated runs, and keep their figures")
    kept.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    if options.command == "keep":
        jobs = [job for job in plan_jobs(read_grid(GRID)) if job.evaluate]
        tasks = {job.task: load_task(job.source, job.suite).hash for job in jobs}
        runs = tuple(read_run(options.runs / job.id, job) for job in jobs)
        files.write_json(KEPT, Figures(tasks=tasks, runs=runs))
    else:
        figures = files.load_json(KEPT, Figures)
        print(*tables(read_board(BOARD), figures), sep="\n")


def tables(board: Board, figures: Figures) -> Iterator[str]:
    """Yield, for each task, the systems by each five seeds, and how far their ranks agree."""
    for task in figures.tasks:
        yield f"### {task}"
        yield ""
        systems = list(dict.fromkeys(run.system for run in figures.runs if run.task == task))
        ours = {row.system: row.cells[task] for row in board.rows if row.system in systems}
        first = {system: [score for _, score in sorted(ours[system].preference.by_seed.items())] for system in systems}
        yield from of_task(first, {system: figures.seeds(task, system, "preference") for system in systems})
        yield ""


def of_task(first: Seeds, others: Seeds) -> Iterator[str]:
    """Yield the table of a task, by falling preference on the board, and the agreement of ranks."""
    yield "| system | preference, seeds 1 to 5 of the board | seeds 6 to 10 | difference |"
    yield "|---|---|---|---|"
    systems = sorted(first, key=lambda system: -mean(first[system]))
    for system in systems:
        difference = judge_seeds([Contrast(tuple(others[system]), tuple(first[system]))])
        shown = f"{difference.value:+.1f} ± {difference.interval.half_width:.1f}"
        yield f"| `{system}` | {spread(first[system], '.1f')} | {spread(others[system], '.1f')} | {shown} |"
    scores = np.array([[*first[system], *others[system]] for system in systems])
    split, every = agreement(scores, range(len(first[systems[0]]))), agreements(scores)
    yield ""
    yield (
        f"Kendall's τ of the {len(systems)} by these halves is {split:.2f}; over all {len(every)} ways to halve the "
        f"{scores.shape[1]} seeds it is {mean(every):.2f} on average, and at least .9 in "
        f"{sum(tau >= 0.9 for tau in every)}."
    )
    yield ""
    yield from of_pairs({system: (*first[system], *others[system]) for system in systems})


def of_pairs(scores: Seeds) -> Iterator[str]:
    """Yield the differences of all pairs of systems over all seeds, with p after Holm's correction for the pairs."""
    compared = [
        (a, b, tested)
        for a, b in combinations(scores, 2)
        if (tested := contrast(scores[a], scores[b], share_starts(a, b))) is not None
    ]
    yield "| all ten seeds | difference | corrected p |"
    yield "|---|---|---|"
    for (a, b, tested), p in zip(compared, holm([tested.p for _, _, tested in compared]), strict=True):
        yield f"| `{a}` − `{b}` | {difference(tested, '.2f', False)} | {p:.2g} |"


def agreements(scores: np.ndarray) -> list[float]:
    """Return Kendall's τ of the ranks by either half of the seeds, for every way to halve them.

    Args:
        scores: [systems, seeds], an even number of seeds.
    """
    first, *others = range(scores.shape[1])
    return [agreement(scores, (first, *some)) for some in combinations(others, scores.shape[1] // 2 - 1)]


if __name__ == "__main__":
    main()

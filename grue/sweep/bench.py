"""A comparison that is finished: its board, its pairs, and the files that report them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grue import files
from grue.leaderboard.board import Board
from grue.leaderboard.compare import pairs_over_examples
from grue.leaderboard.entries import find_results
from grue.leaderboard.pairs import SystemPair, all_pairs, common_tasks
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import find_systems
from grue.render.publish import render
from grue.render.report import as_markdown, as_page
from grue.sweep.bench_report import compared_rows, parts_of, title_of
from grue.sweep.fair import TunedRate
from grue.sweep.grid import SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.sweep.work import JobContext
from grue.task_files import load_task

REPORT, PAGE, BOARD, RUNS, TRIALS = "README.md", "report.html", "board.html", "runs", "trials"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a comparison found.

    Attributes:
        pairs: Every two of its systems, baselines left out.
        choices: How learning rates were chosen.
    """

    board: Board
    pairs: Sequence[SystemPair]
    choices: Sequence[TunedRate]

    @property
    def markdown(self) -> str:
        """The report."""
        return as_markdown(title_of(self.board), parts_of(self.board, self.pairs, self.choices))

    def write(self, folder: Path) -> None:
        """Write the report, its page and that of the board."""
        parts = parts_of(self.board, self.pairs, self.choices)
        files.write_text(folder / REPORT, self.markdown)
        files.write_text(folder / PAGE, as_page(title_of(self.board), parts, BOARD))
        files.write_text(folder / BOARD, render(self.board, "html"))


def findings(
    grid: SweepGrid,
    place: JobContext,
    choices: Sequence[TunedRate] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Findings:
    """Read and compare the results of a finished grid.

    Seeds are what is random; where models of others are compared, which may not depend on one, examples are, too.

    Args:
        progress: Called with (done, total) systems whose predictions are scored again.
    """
    tasks = [load_task(source, grid.suite) for source in grid.task_list()]
    entries, _ = find_results(place.runs, tasks[0].suite)
    own = {place.runs / job.id for job in plan_jobs(grid)}
    board = rank([entry for entry in entries if entry.path.parent in own], tasks)
    rows = compared_rows(board)
    common = common_tasks(rows)
    if not grid.models:
        return Findings(board, all_pairs(board.rows, rows), choices)
    systems = find_systems(
        [f"runs:{row.system}" for row in rows], tasks[0].suite, place.runs / "none", place.runs, common
    )
    pairs = pairs_over_examples(
        systems,
        [task for task in tasks if task.name in common],
        np.random.default_rng(0),
        data_dir=place.data_dir,
        offline=place.offline,
        progress=progress,
    )
    return Findings(board, pairs, choices)

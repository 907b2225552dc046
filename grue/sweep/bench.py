"""A comparison that is finished: its board, its pairs, and the files that report them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from grue import files
from grue.leaderboard.board import Board
from grue.leaderboard.compare import pairs_over_examples
from grue.leaderboard.entries import find_results
from grue.leaderboard.pairs import SystemPair, all_pairs, common_tasks
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import find_systems
from grue.render.as_csv import Frame, frame, pairs_frame
from grue.render.publish import render
from grue.render.report import as_markdown, as_page
from grue.sweep.bench_report import compared_rows, parts_of, title_of
from grue.sweep.fair import TunedRate, chosen_rates, with_rates
from grue.sweep.grid import SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.sweep.run import is_finished
from grue.sweep.work import JobContext
from grue.task_files import load_task

REPORT, PAGE, BOARD, RUNS, TRIALS = "README.md", "report.html", "board.html", "runs", "trials"


@dataclass(frozen=True, slots=True)
class PlannedBench:
    """A comparison that is planned.

    Attributes:
        folder: It gets the runs, the report and its page.
        trials: Whose runs choose the learning rates, in a folder of their own; None if the recipe's are kept.
        choices: How they were chosen; empty before the trials are finished.
    """

    folder: Path
    grid: SweepGrid
    place: JobContext
    trials: SweepGrid | None = None
    choices: Sequence[TunedRate] = ()

    @property
    def trials_place(self) -> JobContext:
        """Where the trials' runs are."""
        return replace(self.place, runs=self.folder.absolute() / TRIALS)

    def chosen(self) -> Self:
        """Return it with the learning rates that finished trials choose; unchanged where there are none."""
        if self.trials is None or self.choices or not is_finished(self.trials, self.trials_place):
            return self
        choices = chosen_rates(self.trials, self.trials_place.runs)
        return replace(self, grid=with_rates(self.grid, choices), choices=choices)

    def carry_out(self, run: Callable[[SweepGrid, JobContext], bool]) -> Self | None:
        """Carry out trials and runs, each by `run`, which says whether all are finished; None where they are not."""
        if self.trials is not None and not self.choices and not run(self.trials, self.trials_place):
            return None
        chosen = self.chosen()
        return chosen if run(chosen.grid, chosen.place) else None

    def findings(self, progress: Callable[[int, int], None] = lambda done, total: None) -> "Findings":
        """Compare the finished runs, and write the report; see `findings`."""
        found = findings(self.grid, self.place, self.choices, progress)
        found.write(self.folder)
        return found


@dataclass(frozen=True, slots=True)
class Findings:
    """What a comparison found. A notebook shows the report.

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

    def _repr_markdown_(self) -> str:
        return self.markdown

    @property
    def scores(self) -> Frame:
        """The board as `grue.board` returns it: a line for each system, task, seed and metric."""
        return frame(self.board)

    @property
    def differences(self) -> Frame:
        """A line for every two systems: names `a` and `b`, their `difference` in points of the board, `low` and `high`.

        `p_holm` is `p` after Holm's correction; from `seeds` each, a true difference of this size would be found four
        times in five.
        """
        return pairs_frame(self.pairs)

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

"""A comparison that is finished: its board, its pairs, and the files that report them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from grue import files
from grue.errors import DataError
from grue.leaderboard.board import Board
from grue.leaderboard.compare import pairs_over_examples
from grue.leaderboard.entries import find_results, incomplete
from grue.leaderboard.pairs import SystemPair, all_pairs, common_tasks
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import FoundSystem
from grue.records import BASELINES, Axis, Entry
from grue.render.as_csv import Frame, frame, pairs_frame
from grue.render.publish import render
from grue.render.report import Part, as_markdown, as_page
from grue.sweep.bench_report import compared_rows, parts_of, title_of
from grue.sweep.fair import ZERO_SHOT, TunedRate, chosen_rates, models_of_others, starts_untrained, with_rates
from grue.sweep.grid import SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.sweep.record import Record
from grue.sweep.work import JobContext
from grue.task_files import load_task
from grue.tasks import Task

REPORT, PAGE, BOARD, RUNS, TRIALS = "README.md", "report.html", "board.html", "runs", "trials"


@dataclass(frozen=True, slots=True)
class PlannedBench:
    """A comparison that is planned.

    Attributes:
        folder: It gets the runs, the report and its page.
        trials: Whose runs choose the learning rates, in a folder of their own; None if the recipe's are kept.
        choices: How they were chosen; empty before the trials are finished.
        settings: Those of every method that are not the recipe's.
    """

    folder: Path
    grid: SweepGrid
    place: JobContext
    trials: SweepGrid | None = None
    choices: Sequence[TunedRate] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trials_place(self) -> JobContext:
        """Where the trials' runs are."""
        return replace(self.place, runs=self.folder.absolute() / TRIALS)

    def chosen(self) -> Self:
        """Return it with the learning rates that finished trials choose; unchanged where there are none."""
        if (
            self.trials is None
            or self.choices
            or not all(map(Record(self.trials_place.runs).finished, plan_jobs(self.trials)))
        ):
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
        """Compare the finished runs, and write the report.

        Seeds are what is random; where models of others are compared, which may not depend on one, examples are, too.

        Args:
            progress: Called with (done, total) systems whose predictions are scored again.

        Raises:
            DataError: A result lacks a score of its task: a metric could not be computed where the run was evaluated.
        """
        grid, place = self.grid, self.place
        tasks = [load_task(source, grid.suite) for source in grid.task_list()]
        entries, _ = find_results(place.runs, tasks[0].suite)
        own = {place.runs / job.id for job in plan_jobs(grid)}
        results = [entry for entry in entries if entry.path.parent in own]
        if lacking := incomplete(results, tasks):
            more = f" In all, {len(lacking)} results lack a score." if len(lacking) > 1 else ""
            raise DataError(f"{lacking[0].reason} Then the same `grue bench` goes on.{more}")
        board = rank(results, tasks)
        rows = compared_rows(board, BASELINES.keys() - ({ZERO_SHOT} if starts_untrained(grid) else set()))

        def pairs_on(axis: Axis) -> list[SystemPair]:
            common = common_tasks(rows, axis)
            if not models_of_others(grid) or not common:
                return all_pairs(board.rows, rows, axis)
            return pairs_over_examples(
                [_found(row.system, common, results) for row in rows],
                [task for task in tasks if task.name in common],
                np.random.default_rng(0),
                axis=axis,
                data_dir=place.data_dir,
                offline=place.offline,
                progress=progress,
            )

        about = _about(grid, tasks, results, self.settings)
        found = Findings(board, pairs_on("preference"), pairs_on("naturalness"), self.choices, about)
        found.write(self.folder)
        return found


@dataclass(frozen=True, slots=True)
class Findings:
    """What a comparison found. A notebook shows the report.

    Attributes:
        pairs: Every two of its systems, baselines left out, by preference.
        naturalness: The same by naturalness; none if no task of theirs has it.
        choices: How learning rates were chosen.
        about: Sentences that say what was compared: tasks, models, seeds, settings.
    """

    board: Board
    pairs: Sequence[SystemPair]
    naturalness: Sequence[SystemPair] = ()
    choices: Sequence[TunedRate] = ()
    about: str = ""

    @property
    def parts(self) -> list[Part]:
        """The report's parts."""
        return parts_of(self.board, self.pairs, self.naturalness, self.choices, self.about)

    @property
    def markdown(self) -> str:
        """The report."""
        return as_markdown(title_of(self.board), self.parts)

    def _repr_markdown_(self) -> str:
        return self.markdown

    @property
    def scores(self) -> Frame:
        """The board as `grue.board` returns it: a line for each system, task, seed and metric."""
        return frame(self.board)

    @property
    def differences(self) -> Frame:
        """A line for every two systems: names `a` and `b`, their `difference` in points of the board, `low` and `high`.

        `p_holm` is `p` after Holm's correction; from `seeds_to_decide` each, a true difference of this size would be
        decided four times in five (missing where that is unknown, or more than a thousand).
        """
        return pairs_frame(self.pairs)

    def write(self, folder: Path) -> None:
        """Write the report, its page and that of the board."""
        files.write_text(folder / REPORT, self.markdown)
        files.write_text(folder / PAGE, as_page(title_of(self.board), self.parts, BOARD))
        files.write_text(folder / BOARD, render(self.board, "html"))


def _found(name: str, tasks: Sequence[str], results: Sequence[Entry]) -> FoundSystem:
    """Return a system with its results on some tasks."""
    own = sorted((one for one in results if one.result.system["name"] == name), key=lambda one: one.result.seed)
    by_task = {task: {entry.result.seed: entry for entry in own if entry.result.task == task} for task in tasks}
    return FoundSystem(name, "runs", deterministic=False, entries=by_task)


def _about(grid: SweepGrid, tasks: Sequence[Task], results: Sequence[Entry], settings: Mapping[str, Any]) -> str:
    """Return what was compared: the tasks with their models and test sets, the seeds and the settings."""
    trained = [entry for entry in grid.systems if entry.algorithm not in BASELINES]
    said = []
    for task in tasks:
        model = f"from {trained[0].backbone or task.backbone.model}, " if trained else ""
        count = max(entry.result.counts.get("scored", 0) for entry in results if entry.result.task == task.name)
        said.append(f"{task.name} ({model}{count:,} {task.data.evaluation} examples)")
    values = ", ".join(f"{key}={value}" for key, value in settings.items())
    given = f" Settings of every method: {values}." if settings else ""
    return f"Tasks: {', '.join(said)}. Seeds: {', '.join(map(str, grid.seed_list()))}.{given}"

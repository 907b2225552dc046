"""From results to a board: who leads, by how much, and how sure that is.

A row is one system. Nothing in it depends on another row but its rank, and nothing on the order in which results are
found.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Literal

from grue.errors import ConfigError, DataError
from grue.leaderboard.board import BOARD_SCHEMA, Board, BoardTask, Cell, Column, Estimate, Row, Standing
from grue.leaderboard.notes import misfit, notes_on
from grue.records import About, Entry, Result, Status
from grue.stats.intervals import Interval, mean, mean_over_tasks, satterthwaite_interval, sd
from grue.submissions.folder import read_result
from grue.tasks import MetricSpec, Task

LEVEL = 0.95
RANKED_SEEDS = 5
PRELIMINARY_SEEDS = 3
FLOOR = 0.0  # what a failed run counts as, on the scaled axes
REFERENCES = ("null", "copy", "lead", "oracle")
_STANDINGS: tuple[Standing, ...] = ("ranked", "preliminary", "too few seeds", "partial", "limited", "reference")


def find_results(runs: Path) -> list[Entry]:
    """Read `runs/<suite>/<task>/<system>/seed-<n>/result.json`; a folder that is not there holds none.

    Raises:
        DataError: One of the files cannot be read.
    """
    found = []
    for path in sorted(runs.glob("*/*/*/seed-*/result.json")):
        result = read_result(path)
        found.append(Entry(result, path, "local", _about(result)))
    return found


def _about(result: Result) -> About:
    """Return what a result itself says of its system."""
    system = result.system
    return About(
        algorithm=str(system.get("algorithm", "")),
        backbone=str(system.get("backbone", "")),
        parameters=system.get("parameters"),
        deterministic=system.get("algorithm") in REFERENCES,
    )


def rank(entries: Iterable[Entry], tasks: Sequence[Task]) -> Board:
    """Build the board of `tasks`, which are those of one suite or a single one of them.

    Results of other tasks are passed over. Those that were made for another version of one of these tasks, or on other
    examples, are left out with a note.

    Raises:
        ConfigError: The tasks are of different suites, or there are none.
        DataError: Two results claim the same system, task and seed, or a result lacks a score of its task.
    """
    suites = sorted({task.suite for task in tasks})
    if len(suites) != 1:
        raise ConfigError(f"A board shows the tasks of one suite, not of {len(suites)}: {', '.join(suites) or 'none'}.")
    by_name = {task.name: task for task in sorted(tasks, key=lambda task: task.name)}
    ours = sorted((e for e in entries if e.result.suite == suites[0] and e.result.task in by_name), key=_order)
    current = [entry for entry in ours if misfit(entry.result, by_name[entry.result.task]) is None]
    _refuse_twins(current)
    columns = tuple(_board_task(task, current) for task in by_name.values())
    rows = _with_ranks([_row(list(group), columns) for _, group in groupby(current, key=_row_key)], columns)
    return Board(
        schema=BOARD_SCHEMA,
        suite=suites[0],
        scoring="grue-1",
        interval_kind="t",
        level=LEVEL,
        tasks=columns,
        rows=rows,
        notes=tuple(notes_on(ours, current, rows, by_name)),
    )


# --- results into rows -----------------------------------------------------------------------------------------------


def _row_key(entry: Entry) -> tuple[str, Status, bool]:
    """Results of part of a split, and results of another origin, are never averaged with the rest of a system."""
    return entry.result.system["name"], entry.status, entry.result.limited


def _order(entry: Entry) -> tuple[tuple[str, Status, bool], str, int, str]:
    return _row_key(entry), entry.result.task, entry.result.seed, str(entry.path)


def _refuse_twins(entries: Sequence[Entry]) -> None:
    """Raise unless the sorted `entries` differ in system, task or seed."""
    for one, other in pairwise(entries):
        if _order(one)[:3] == _order(other)[:3]:
            name, task, seed = one.result.system["name"], one.result.task, one.result.seed
            raise DataError(
                f"Two results claim to be {name} on {task} with seed {seed}: {one.path} and {other.path}; remove one."
            )


def _board_task(task: Task, entries: Sequence[Entry]) -> BoardTask:
    """Return the task with the metrics of its file, followed by what else the results report."""
    named = {spec.name: _column(spec) for spec in task.metrics}
    others = {
        score.metric: Column(score.metric, "diversity", score.direction)
        for entry in entries
        for score in entry.result.scores
        if entry.result.task == task.name and score.metric not in named
    }
    columns = (*named.values(), *(others[name] for name in sorted(others)))
    return BoardTask(task.name, task.title, task.version, task.hash, columns)


def _column(spec: MetricSpec) -> Column:
    return Column(spec.name, spec.axis, spec.direction, spec.range, spec.reference)


def _row(entries: Sequence[Entry], tasks: Sequence[BoardTask]) -> Row:
    first = entries[0]
    groups = {task: [entry for entry in entries if entry.result.task == task.name] for task in tasks}
    cells = {task.name: _cell(group, task) for task, group in groups.items() if group}
    preference, interval = _over_tasks(cells, tasks, "preference")
    naturalness, naturalness_interval = _over_tasks(cells, tasks, "naturalness")
    return Row(
        system=first.result.system["name"],
        status=first.status,
        standing=_standing(cells, first, len(cells) == len(tasks)),
        about=first.about,
        rank=None,
        task_ranks={},
        preference=preference,
        interval=interval,
        naturalness=naturalness,
        naturalness_interval=naturalness_interval,
        iqm=None,
        cells=cells,
    )


def _over_tasks(
    cells: Mapping[str, Cell], tasks: Sequence[BoardTask], axis: Literal["preference", "naturalness"]
) -> tuple[float | None, Interval | None]:
    """Return the mean over the tasks that have the axis, and its interval; None unless every one of them is known."""
    wanted = [task.name for task in tasks if task.has(axis)]
    by_seed = {
        name: estimate.by_seed.values()
        for name in wanted
        if (cell := cells.get(name)) is not None and (estimate := getattr(cell, axis)) is not None
    }
    if not by_seed or len(by_seed) < len(wanted) or len(cells) < len(tasks):
        return None, None
    return mean_over_tasks(by_seed), satterthwaite_interval(by_seed, LEVEL)


def _standing(cells: Mapping[str, Cell], entry: Entry, whole: bool) -> Standing:
    """Return the standing of a system, of which `entry` is any result."""
    best_of = entry.result.generation.get("best_of")
    if entry.about.deterministic or (isinstance(best_of, Mapping) and best_of.get("oracle")):
        return "reference"
    if entry.result.limited:
        return "limited"
    if not whole:
        return "partial"
    seeds = min(len(cell.seeds) for cell in cells.values())
    if seeds < PRELIMINARY_SEEDS:
        return "too few seeds"
    return "preliminary" if seeds < RANKED_SEEDS else "ranked"


def _cell(entries: Sequence[Entry], task: BoardTask) -> Cell:
    results = [entry.result for entry in entries]
    values: dict[str, dict[int, float]] = {column.metric: {} for column in task.columns}
    for result in (result for result in results if result.status == "complete"):
        for score in result.scores:
            values[score.metric][result.seed] = score.value
    preference = _axis(entries, "preference") if task.has("preference") else None
    return Cell(
        seeds=tuple(result.seed for result in results),
        failed=tuple(result.seed for result in results if result.status == "failed"),
        preference=preference,
        interval=satterthwaite_interval({task.name: preference.by_seed.values()}, LEVEL) if preference else None,
        naturalness=_axis(entries, "naturalness") if task.has("naturalness") else None,
        metrics={metric: _estimate(by_seed) for metric, by_seed in values.items() if by_seed},
    )


def _axis(entries: Sequence[Entry], axis: Literal["preference", "naturalness"]) -> Estimate | None:
    """Return the estimate of an axis; None if a metric of naturalness could not be computed where a seed was scored."""
    by_seed = {}
    for entry in entries:
        value = getattr(entry.result, axis) if entry.result.status == "complete" else FLOOR
        if value is None and axis == "naturalness" and entry.result.errors:
            return None
        if value is None:
            why = "".join(f" It was not scored by {error}" for error in entry.result.errors)
            raise DataError(f"{entry.path}: {axis} is missing, although the task scores it; score the run again.{why}")
        by_seed[entry.result.seed] = value
    return _estimate(by_seed)


def _estimate(by_seed: Mapping[int, float]) -> Estimate:
    return Estimate(mean(by_seed.values()), sd(by_seed.values()), by_seed)


# --- rows into an order ----------------------------------------------------------------------------------------------


def _with_ranks(rows: Sequence[Row], tasks: Sequence[BoardTask]) -> tuple[Row, ...]:
    """Return the rows ranked and sorted: by rank and preference, then the unranked ones by standing."""
    ranks = _shared_ranks([row.interval if row.standing == "ranked" else None for row in rows])
    by_task = {task.name: _shared_ranks([_competing(row, task.name) for row in rows]) for task in tasks}
    ranked = [
        replace(row, rank=ranks[i], task_ranks={name: place for name in by_task if (place := by_task[name][i])})
        for i, row in enumerate(rows)
    ]
    return tuple(sorted(ranked, key=_place))


def _competing(row: Row, task: str) -> Interval | None:
    """Return the interval that a system has on a task if it is to be ranked there."""
    cell = row.cells.get(task)
    if cell is None or row.standing in ("reference", "limited") or len(cell.seeds) < RANKED_SEEDS:
        return None
    return cell.interval


def _shared_ranks(intervals: Sequence[Interval | None]) -> list[int | None]:
    """Return 1 + the number of intervals wholly above each; None for those without one."""
    lows = sorted(interval.low for interval in intervals if interval is not None)
    return [None if one is None else 1 + len(lows) - bisect_right(lows, one.high) for one in intervals]


def _place(row: Row) -> tuple[int, int, int, float, str, str]:
    reached = [cell.preference.mean for cell in row.cells.values() if cell.preference]
    preference = mean(reached) if reached else 0.0
    standing = _STANDINGS.index(row.standing)
    return standing, row.rank or 0, -len(row.cells), -preference, row.system, row.status

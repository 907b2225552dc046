"""From results to a board: who leads, by how much, and how sure that is.

A row is one system. Nothing in it depends on another row but its rank, and nothing on the order in which results are
found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Literal

from grue.errors import ConfigError, DataError
from grue.records import Axis, Direction, Entry, Result, Status
from grue.stats import Interval, mean, mean_over_tasks, satterthwaite_interval, sd
from grue.submissions import read_result
from grue.tasks import MetricSpec, Task

BOARD_SCHEMA = 1
LEVEL = 0.95
RANKED_SEEDS = 5
PRELIMINARY_SEEDS = 3
FLOOR = 0.0  # what a failed run counts as, on the scaled axes

Standing = Literal["ranked", "preliminary", "too few seeds", "partial", "limited"]
_STANDINGS: tuple[Standing, ...] = ("ranked", "preliminary", "too few seeds", "partial", "limited")


@dataclass(frozen=True, slots=True)
class Column:
    """A metric as a column of a task; `range` and `reference` say how it is scaled, as in the task file."""

    metric: str
    axis: Axis
    direction: Direction
    range: tuple[float, float] | None = None
    reference: float | None = None


@dataclass(frozen=True, slots=True)
class BoardTask:
    """A task as the board shows it, identified by its hash."""

    name: str
    title: str
    version: int
    hash: str
    columns: tuple[Column, ...]

    def has(self, axis: Axis) -> bool:
        """Whether a metric of the task counts towards `axis`."""
        return any(column.axis == axis for column in self.columns)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds; `sd` is the sample standard deviation, None for a single seed."""

    mean: float
    sd: float | None
    by_seed: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a system reached on one task.

    Attributes:
        failed: The seeds whose run failed: they count as 0 in preference and naturalness, and are in no metric.
        preference: 0–100; None if the task has no such metric. So is naturalness.
        metrics: Raw values, in the order of the task's columns.
    """

    seeds: tuple[int, ...]
    failed: tuple[int, ...]
    preference: Estimate | None
    naturalness: Estimate | None
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Row:
    """A system on the board.

    Attributes:
        rank: 1 + the number of ranked systems whose interval lies wholly above this one's; None if not ranked.
        preference: Mean over the tasks, 0–100; None unless every task is there. So are the interval and naturalness.
        interval: Of the preference; None also if a task has a single seed.
        cells: Task → what was reached on it; only the tasks with results.
    """

    system: str
    status: Status
    standing: Standing
    rank: int | None
    preference: float | None
    interval: Interval | None
    naturalness: float | None
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Board:
    """Everything a table, a page or a file shows of one suite, or of one task of it."""

    schema: int
    suite: str
    level: float
    tasks: tuple[BoardTask, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def find_results(runs: Path) -> list[Entry]:
    """Read `runs/<suite>/<task>/<system>/seed-<n>/result.json`; a folder that is not there holds none.

    Raises:
        DataError: One of the files cannot be read.
    """
    return [Entry(read_result(path), path, "local") for path in sorted(runs.glob("*/*/*/seed-*/result.json"))]


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
    current = [entry for entry in ours if _misfit(entry.result, by_name[entry.result.task]) is None]
    _refuse_twins(current)
    columns = tuple(_board_task(task, current) for task in by_name.values())
    rows = _with_ranks([_row(list(group), columns) for _, group in groupby(current, key=_row_key)])
    notes = (
        *_misfit_notes(ours, by_name),
        *_failure_notes(rows),
        *_error_notes(current),
        *_signature_notes(current),
    )
    return Board(BOARD_SCHEMA, suites[0], LEVEL, columns, rows, notes)


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
    first = entries[0].result
    groups = {task: [entry for entry in entries if entry.result.task == task.name] for task in tasks}
    cells = {task.name: _cell(group, task) for task, group in groups.items() if group}
    whole = len(cells) == len(tasks)
    liked = {name: cell.preference.by_seed.values() for name, cell in cells.items() if cell.preference}
    natural = [cells[task.name].naturalness for task in tasks if task.has("naturalness") and task.name in cells]
    known = [estimate.mean for estimate in natural if estimate is not None]
    return Row(
        system=first.system["name"],
        status=entries[0].status,
        standing=_standing(cells, whole, first.limited),
        rank=None,
        preference=mean_over_tasks(liked) if whole and liked else None,
        interval=satterthwaite_interval(liked, LEVEL) if whole and liked else None,
        naturalness=mean(known) if whole and known and len(known) == len(natural) else None,
        cells=cells,
    )


def _standing(cells: Mapping[str, Cell], whole: bool, limited: bool) -> Standing:
    seeds = min(len(cell.seeds) for cell in cells.values())
    if limited:
        return "limited"
    if not whole:
        return "partial"
    if seeds < PRELIMINARY_SEEDS:
        return "too few seeds"
    return "preliminary" if seeds < RANKED_SEEDS else "ranked"


def _cell(entries: Sequence[Entry], task: BoardTask) -> Cell:
    results = [entry.result for entry in entries]
    values: dict[str, dict[int, float]] = {column.metric: {} for column in task.columns}
    for result in (result for result in results if result.status == "complete"):
        for score in result.scores:
            values[score.metric][result.seed] = score.value
    return Cell(
        seeds=tuple(result.seed for result in results),
        failed=tuple(result.seed for result in results if result.status == "failed"),
        preference=_axis(entries, "preference") if task.has("preference") else None,
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


def _with_ranks(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows ranked and sorted: by rank and preference, then the unranked ones by standing."""
    intervals = [row.interval for row in rows if row.standing == "ranked" and row.interval is not None]
    ranked = [
        replace(row, rank=1 + sum(other.low > row.interval.high for other in intervals))
        if row.standing == "ranked" and row.interval is not None
        else row
        for row in rows
    ]
    return tuple(sorted(ranked, key=_place))


def _place(row: Row) -> tuple[int, int, int, float, str, str]:
    reached = [cell.preference.mean for cell in row.cells.values() if cell.preference]
    preference = mean(reached) if reached else 0.0
    standing = _STANDINGS.index(row.standing)
    return standing, row.rank or 0, -len(row.cells), -preference, row.system, row.status


# --- notes -----------------------------------------------------------------------------------------------------------


def _misfit(result: Result, task: Task) -> str | None:
    """Say what keeps a result from being compared with the others of its task, if anything does."""
    split = task.data.splits[task.data.evaluation]
    if result.task_hash != task.hash:
        return "for another version of the task"
    if result.split != task.data.evaluation:
        return f"on the split {result.split!r} instead of {task.data.evaluation!r}"
    if split.ids_sha256 and result.data.get("ids_sha256", split.ids_sha256) != split.ids_sha256:
        return "on other examples than the task's"
    return None


def _misfit_notes(entries: Sequence[Entry], tasks: Mapping[str, Task]) -> Iterator[str]:
    found: dict[tuple[str, str], list[Result]] = {}
    for result in (entry.result for entry in entries):
        if (misfit := _misfit(result, tasks[result.task])) is not None:
            found.setdefault((result.task, misfit), []).append(result)
    for (task, misfit), results in sorted(found.items(), key=lambda item: item[0]):
        yield f"{task}: {_listed(results)} left out, made {misfit}; evaluate again with `grue evaluate`."


def _listed(results: Iterable[Result]) -> str:
    seeds: dict[str, list[int]] = {}
    for result in results:
        seeds.setdefault(result.system["name"], []).append(result.seed)
    return "; ".join(f"{name} ({_seeds(numbers)})" for name, numbers in seeds.items())


def _seeds(numbers: Iterable[int]) -> str:
    distinct = sorted(set(numbers))
    return f"seed{'s' if len(distinct) > 1 else ''} {', '.join(map(str, distinct))}"


def _failure_notes(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        for task, cell in row.cells.items():
            if cell.failed:
                yield f"{task}: {row.system} ({_seeds(cell.failed)}) failed and counts as {FLOOR:g}."


def _error_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield what could not be scored; the reasons, several lines that name places of a machine, stay in the results."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in (entry.result for entry in entries):
        for error in result.errors:
            found.setdefault((result.task, error.partition(": ")[0]), []).append(result)
    for (task, metric), results in sorted(found.items(), key=lambda item: item[0]):
        yield f"{task}: {metric} could not be computed for {_listed(results)}; each result.json says why."


def _signature_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the columns whose values were not all computed in the same way."""
    found: dict[tuple[str, str], set[str]] = {}
    for entry in entries:
        for score in entry.result.scores:
            found.setdefault((entry.result.task, score.metric), set()).add(score.signature)
    for (task, metric), signatures in sorted(found.items()):
        if len(signatures) > 1:
            ways = " and ".join(sorted(signatures))
            yield f"{task}: {metric} was computed in {len(signatures)} ways, {ways}; score the runs again."

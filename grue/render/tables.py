"""The board as titles, tables and sentences, for the formats that people read."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grue.leaderboard.board import Board, BoardTask, Cell, Column, Estimate, Row
from grue.leaderboard.lineage import starts_on
from grue.leaderboard.places import shared_ranks
from grue.leaderboard.trained_on import held_out_names, held_out_on
from grue.records import SCORED, Axis, Direction
from grue.render.as_reported import about_reported, reported_tables
from grue.render.layout import Series, TextTable
from grue.render.legend import legend
from grue.render.text import ARROWS, UNKNOWN, UNLEARNED, fixed, marked, named, printable
from grue.stats.intervals import Interval
from grue.task_files import is_named

Pair = tuple[float, float | None] | None
"""A value and what stands behind its ±."""


@dataclass(frozen=True, slots=True)
class BoardPage:
    """The content of a board's page, in order.

    Attributes:
        legend: The meaning of their numbers: scores, ± and ranks first.
        reported: Papers' figures, never in the tables above.
        sources: Remarks on these, and their sources.
    """

    title: str
    tables: tuple[TextTable, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]
    reported: tuple[TextTable, ...] = ()
    sources: tuple[str, ...] = ()


def page(board: Board) -> BoardPage:
    """Return the board as text: an overview of a suite's tasks, or the metrics of a single task."""
    task = board.tasks[0] if len(board.tasks) == 1 else None
    title = f"GRUE leaderboard: suite {board.suite}" + (f", task {task.name}" if task else "")
    tables = tuple(table for table in (_of_task(board, task) if task else _of_suite(board)) if table.rows)
    sentences = tuple(legend(board)) if board.rows else (_how_to_begin(board),)
    notes = tuple(map(printable, board.notes))
    return BoardPage(title, tables, sentences, notes, reported_tables(board), about_reported(board))


def _how_to_begin(board: Board) -> str:
    if board.notes:
        return "No result counts; the notes say why."
    option = f"--suite {board.suite}" if is_named(board.suite) else "--task FILE.toml"
    return f"No results yet: run `grue train {option}` and `grue evaluate`, then `grue leaderboard` again."


# --- a suite ---------------------------------------------------------------------------------------------------------


def _of_suite(board: Board) -> Iterator[TextTable]:
    """Yield the means over tasks, then each task's preference, naturalness and ranks, and the references."""
    rows, references = _parted(board)
    yield TextTable("Mean over tasks", (*_who(rows), *_means(board, rows)))
    for axis in SCORED:
        if columns := [_axis(board, rows, task, axis) for task in board.tasks if task.has(axis)]:
            yield TextTable(f"{axis.capitalize()} by task", (*_who(rows)[:2], *columns))
    if columns := [column for task in board.tasks for column in _searched(rows, task, task.name)]:
        yield TextTable("Preference of searched answers, outside the score", (*_who(rows)[:2], *columns))
    if any(row.task_ranks for row in rows):
        columns = [Series(t.name, _ranks([row.task_ranks.get(t.name) for row in rows])) for t in board.tasks]
        yield TextTable("Rank by task", (*_who(rows)[:2], *columns))
    yield _references(references, board.tasks)


def _parted(board: Board) -> tuple[list[Row], list[Row]]:
    rows = [row for row in board.rows if row.standing != "reference"]
    return rows, [row for row in board.rows if row.standing == "reference"]


def _means(board: Board, rows: Sequence[Row]) -> Iterator[Series]:
    def best(axis: Axis, tasks: Sequence[BoardTask]) -> frozenset[int]:
        reached = {task.name: [_estimate(row, task, axis) for row in rows] for task in tasks if task.has(axis)}
        return _best(board, rows, reached, [row.rank is not None for row in rows])

    preferences = [_half(row.preference, row.interval) for row in rows]
    yield _series("preference ↑", preferences, _first([row.rank for row in rows]))
    if any(row.learned is not None for row in rows):
        tasks = [task for task in board.tasks if not task.unlearned]
        learned = [_half(row.learned, row.learned_interval) for row in rows]
        yield _series(f"without {UNLEARNED} ↑", learned, best("preference", tasks))
    natural = [_half(row.naturalness, row.naturalness_interval) for row in rows]
    yield _series("naturalness ↑", natural, best("naturalness", board.tasks))
    yield from _iqm(rows)


def _iqm(rows: Sequence[Row]) -> Iterator[Series]:
    if any(row.iqm is not None for row in rows):
        yield _series("IQM ↑", [_bare(row.iqm) for row in rows])


def _references(rows: Sequence[Row], tasks: Sequence[BoardTask]) -> TextTable:
    """Return the table of references, a row for each axis: the mean over the tasks, then every task."""
    lines = [(row, axis) for row in rows for axis in SCORED if any(_estimate(row, task, axis) for task in tasks)]
    means = [row.preference if axis == "preference" else row.naturalness for row, axis in lines]
    return TextTable(
        "References",
        (
            Series("system", [named(row) for row, _ in lines], is_number=False),
            Series("axis", [axis for _, axis in lines], is_number=False),
            *_status_of_references([row for row, _ in lines]),
            _series("mean", list(map(_bare, means))),
            *(_series(task_header(task), [_bare(_estimate(row, task, axis)) for row, axis in lines]) for task in tasks),
        ),
    )


def task_header(task: BoardTask) -> str:
    """Return a task's name, with a mark if a system without learning is above every competing one."""
    return f"{task.name} {UNLEARNED}" if task.unlearned else task.name


# --- one task --------------------------------------------------------------------------------------------------------


def _of_task(board: Board, task: BoardTask) -> Iterator[TextTable]:
    """Yield the task's axes with the raw metrics behind them and the diversity: of the systems, of the references."""
    rows, references = _parted(board)
    axes = [axis for axis in SCORED if task.has(axis)]
    scored = [_axis(board, rows, task, axis, f"{axis} ↑") for axis in axes]
    scored[1:1] = _held_out(board, rows, task)
    yield TextTable("", (*_who(rows), *scored, *_searched(rows, task, "searched: preference ↑"), *_iqm(rows)))
    yield TextTable("Metrics", (*_who(rows)[:2], *_metrics(board, rows, task, SCORED)))
    if task.has("diversity"):
        yield TextTable("Diversity, outside the score", (*_who(rows)[:2], *_metrics(board, rows, task, ("diversity",))))
    names = [*_who(references)[1:2], *_status_of_references(references)]
    means = [_series(f"{axis} ↑", [_bare(_estimate(row, task, axis)) for row in references]) for axis in axes]
    means[1:1] = _held_out(None, references, task)
    yield TextTable("References", (*names, *means, *_metrics(None, references, task, SCORED)))
    if task.has("diversity"):
        yield TextTable("References, diversity", (*names, *_metrics(None, references, task, ("diversity",))))


def _held_out(board: Board | None, rows: Sequence[Row], task: BoardTask) -> list[Series]:
    """Return the held-out preference, if a row has one; without a board it has no spread and no best."""
    estimates = [held_out_on(row, task) for row in rows]
    if not (task.has("preference") and any(estimates)):
        return []
    return [_estimates(f"held-out: {', '.join(held_out_names(task))} ↑", board, rows, task, estimates)]


def _metrics(board: Board | None, rows: Sequence[Row], task: BoardTask, axes: Sequence[Axis]) -> Iterator[Series]:
    """Yield the raw metrics of `axes`, with a mark in the rows that were trained on one.

    References have no board here: most have a single result, so there is no spread, and they do not compete.
    """
    for column in (column for column in task.columns if column.axis in axes):
        cells = [row.cells.get(task.name) for row in rows]
        estimates = [None if cell is None else cell.metrics.get(column.metric) for cell in cells]
        header = column.metric if column.axis == "diversity" else f"{column.metric} {ARROWS[column.direction]}"
        series = _estimates(header, board, rows, task, estimates, _decimals(estimates), column)
        marks = [cell is not None and column.metric in cell.rewards for cell in cells]
        yield replace(series, cells=marked(series.cells, marks))


# --- columns ---------------------------------------------------------------------------------------------------------


def _who(rows: Sequence[Row]) -> list[Series]:
    statuses = [row.status if row.standing == "ranked" else f"{row.status}, {row.standing}" for row in rows]
    return [
        Series("rank", _ranks([row.rank for row in rows])),
        Series("system", [named(row) for row in rows], is_number=False),
        Series("status", statuses, is_number=False),
        Series("seeds", [_seeds(row) for row in rows]),
    ]


def _status_of_references(references: Sequence[Row]) -> list[Series]:
    """Return the status of references, if some are the user's own and others the board's."""
    if len({row.status == "local" for row in references}) < 2:
        return []
    return [Series("status", [row.status for row in references], is_number=False)]


def _ranks(ranks: Sequence[int | None]) -> list[str]:
    """Return "1=" for a shared rank, "3" for an unshared one."""
    times = Counter(ranks)
    mark = "=" if any(times[rank] > 1 for rank in ranks if rank is not None) else ""
    blank = " " * len(mark)
    return [f"{UNKNOWN}{blank}" if rank is None else f"{rank}{mark if times[rank] > 1 else blank}" for rank in ranks]


def _seeds(row: Row) -> str:
    counts = sorted({len(cell.seeds) for cell in row.cells.values()})
    return UNKNOWN.join(map(str, counts[:: max(1, len(counts) - 1)]))


def _axis(board: Board, rows: Sequence[Row], task: BoardTask, axis: Axis, header: str = "") -> Series:
    """Return an axis of a task: the preference with its interval, or naturalness with its standard deviation."""
    estimates = [_estimate(row, task, axis) for row in rows]
    if axis == "naturalness":
        return _estimates(header or task.name, board, rows, task, estimates)
    cells = [row.cells.get(task.name) for row in rows]
    pairs = [_half(e.mean if e else None, c.interval if c else None) for e, c in zip(estimates, cells, strict=True)]
    return _series(header or task_header(task), pairs, _first([row.task_ranks.get(task.name) for row in rows]))


def _searched(rows: Sequence[Row], task: BoardTask, header: str) -> list[Series]:
    """Return the preference of answers by search, as the results state it, without a test; nothing if none does."""
    reached = [None if (cell := row.cells.get(task.name)) is None else cell.searched for row in rows]
    return [_series(header, list(map(_deviation, reached)))] if any(reached) else []


def _estimates(
    header: str,
    board: Board | None,
    rows: Sequence[Row],
    task: BoardTask,
    estimates: Sequence[Estimate | None],
    decimals: int = 1,
    column: Column | None = None,
) -> Series:
    """Return means on a task with their standard deviation, and the best among the rows that are ranked on it."""
    if board is None:
        return _series(header, list(map(_bare, estimates)), decimals=decimals)
    best = frozenset[int]()
    if column is None or column.axis != "diversity":
        ranked = [task.name in row.task_ranks for row in rows]
        best = _best(board, rows, {task.name: estimates}, ranked, column.direction if column else "higher")
    return _series(header, list(map(_deviation, estimates)), best, decimals)


def _estimate(row: Row, task: BoardTask, axis: Axis) -> Estimate | None:
    cell: Cell | None = row.cells.get(task.name)
    return None if cell is None else cell.preference if axis == "preference" else cell.naturalness


def _best(
    board: Board,
    rows: Sequence[Row],
    reached: Mapping[str, Sequence[Estimate | None]],
    ranked: Sequence[bool],
    direction: Direction = "higher",
) -> frozenset[int]:
    """Return the ranked rows than which no other is significantly better over the tasks, by the test of the ranks."""
    scores = [
        {name: e.by_seed for name, e in zip(reached, of_row, strict=True) if e is not None}
        for of_row in zip(*reached.values(), strict=True)
    ]
    competing = [
        of_row if of_row and len(of_row) == len(reached) and competes else None
        for of_row, competes in zip(scores, ranked, strict=True)
    ]
    return _first(shared_ranks(rows, competing, direction, starts_on(board.rows))) if reached else frozenset()


def _first(ranks: Sequence[int | None]) -> frozenset[int]:
    """Return the rows with the first rank; empty with fewer than two ranked."""
    contested = sum(rank is not None for rank in ranks) > 1
    return frozenset(i for i, rank in enumerate(ranks) if contested and rank == 1)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _series(header: str, pairs: Sequence[Pair], best: frozenset[int] = frozenset(), decimals: int = 1) -> Series:
    return Series(header, fixed(pairs, decimals), best)


def _half(mean: float | None, interval: Interval | None) -> Pair:
    return None if mean is None else (mean, interval.half_width if interval else None)


def _deviation(estimate: Estimate | None) -> Pair:
    return None if estimate is None else (estimate.mean, estimate.sd)


def _bare(value: Estimate | float | None) -> Pair:
    return None if value is None else (value.mean if isinstance(value, Estimate) else value, None)


def _decimals(estimates: Sequence[Estimate | None]) -> int:
    """Return the number of decimals for a raw metric: at least three significant digits."""
    largest = max((abs(estimate.mean) for estimate in estimates if estimate is not None), default=0.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1

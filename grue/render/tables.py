"""The board as titles, tables and sentences, for the formats that people read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from grue.leaderboard.board import Board, BoardTask, Column, Estimate, Row
from grue.leaderboard.places import Scores, shared_ranks
from grue.leaderboard.trained_on import held_out_names, held_out_on
from grue.records import Axis, Direction
from grue.render.as_reported import about_reported, reported_tables
from grue.render.layout import Heading, Series, TextTable, as_table
from grue.render.legend import legend
from grue.render.text import ARROWS, UNKNOWN, UNLEARNED, fixed, marked, named, printable
from grue.stats.intervals import Interval
from grue.task_files import is_named

AXES: tuple[Axis, Axis] = ("preference", "naturalness")


@dataclass(frozen=True, slots=True)
class BoardPage:
    """The content of a board's page, in order.

    Attributes:
        tables: The scored systems.
        legend: The meaning of their numbers: scores, ± and ranks first.
        notes: Remarks on the results.
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
    sentences = legend(board) if board.rows else (_how_to_begin(board),)
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
    yield as_table("Mean over tasks", [*_who(rows), *_means(board, rows)])
    for axis in AXES:
        header = task_header if axis == "preference" else attrgetter("name")
        columns = [_axis(board, rows, task, axis, header(task)) for task in board.tasks if task.has(axis)]
        if columns:
            yield as_table(f"{axis.capitalize()} by task", [*_who(rows)[:2], *columns])
    if columns := [_searched(rows, task, task.name) for task in board.tasks if _has_searched(rows, task)]:
        yield as_table("Preference of searched answers, outside the score", [*_who(rows)[:2], *columns])
    if any(row.task_ranks for row in rows):
        places = {task.name: [row.task_ranks.get(task.name) for row in rows] for task in board.tasks}
        columns = [Series(Heading(name), _ranks(ranks)) for name, ranks in places.items()]
        yield as_table("Rank by task", [*_who(rows)[:2], *columns])
    yield _references(references, board.tasks)


def _parted(board: Board) -> tuple[list[Row], list[Row]]:
    """Return the systems and the references."""
    rows = [row for row in board.rows if row.standing != "reference"]
    return rows, [row for row in board.rows if row.standing == "reference"]


def _means(board: Board, rows: Sequence[Row]) -> Iterator[Series]:
    """Yield the means over tasks with their intervals."""
    ranks = [row.rank for row in rows]
    yield Series(
        Heading("preference ↑"), _with_intervals([(row.preference, row.interval) for row in rows]), _first(ranks)
    )
    if any(row.learned is not None for row in rows):
        tasks = [task for task in board.tasks if task.has("preference") and not task.unlearned]
        learnable = [{task.name: _estimate(row, task, "preference") for task in tasks} for row in rows]
        pairs = [(row.learned, row.learned_interval) for row in rows]
        yield Series(
            Heading(f"without {UNLEARNED} ↑"), _with_intervals(pairs), _best(board, rows, _scores(rows, learnable))
        )
    natural = [
        {task.name: _estimate(row, task, "naturalness") for task in board.tasks if task.has("naturalness")}
        for row in rows
    ]
    pairs = [(row.naturalness, row.naturalness_interval) for row in rows]
    yield Series(Heading("naturalness ↑"), _with_intervals(pairs), _best(board, rows, _scores(rows, natural)))
    yield from _iqm(rows)


def _iqm(rows: Sequence[Row]) -> Iterator[Series]:
    if any(row.iqm is not None for row in rows):
        yield Series(Heading("IQM ↑"), _numbers([row.iqm for row in rows]))


def task_header(task: BoardTask) -> str:
    """Return a task's name, with a mark if a system without learning is above every competing one."""
    return f"{task.name} {UNLEARNED}" if task.unlearned else task.name


def _scores(rows: Sequence[Row], estimates: Sequence[Mapping[str, Estimate | None]]) -> list[Scores | None]:
    """Return the seeds' scores, by task, of the ranked systems that have all of them; None for the others."""
    by_task = [
        {name: estimate.by_seed for name, estimate in of_row.items() if estimate is not None} for of_row in estimates
    ]
    return [
        scores if scores and len(scores) == len(of_row) and row.rank is not None else None
        for row, scores, of_row in zip(rows, by_task, estimates, strict=True)
    ]


def _references(rows: Sequence[Row], tasks: Sequence[BoardTask]) -> TextTable:
    """Return the table of references, a row for each axis: the mean over the tasks, then every task."""
    lines = [
        (row, axis) for row in rows for axis in AXES if any(_reached(row, task, axis) is not None for task in tasks)
    ]
    means = [row.preference if axis == "preference" else row.naturalness for row, axis in lines]
    return as_table(
        "References",
        [
            Series(Heading("system", is_number=False), [named(row) for row, _ in lines]),
            Series(Heading("axis", is_number=False), [axis for _, axis in lines]),
            *_status_of_references([row for row, _ in lines]),
            Series(Heading("mean"), _numbers(means)),
            *(
                Series(Heading(task_header(task)), _numbers([_reached(row, task, axis) for row, axis in lines]))
                for task in tasks
            ),
        ],
    )


def _reached(row: Row, task: BoardTask, axis: Axis) -> float | None:
    return _mean(_estimate(row, task, axis))


# --- one task --------------------------------------------------------------------------------------------------------


def _of_task(board: Board, task: BoardTask) -> Iterator[TextTable]:
    """Yield the task's axes with the raw metrics behind them and the diversity: of the systems, of the references."""
    rows, references = _parted(board)
    axes = [axis for axis in AXES if task.has(axis)]
    scored = [_axis(board, rows, task, axis, f"{axis} ↑") for axis in axes]
    held_out = Heading(f"held-out: {', '.join(held_out_names(task))} ↑")
    if task.has("preference") and _holds_out(task, rows):
        estimates = [held_out_on(row, task) for row in rows]
        best = _best(board, rows, _competing(rows, task, estimates))
        scored.insert(1, Series(held_out, _with_deviations(estimates, 1), best))
    if _has_searched(rows, task):
        scored.append(_searched(rows, task, "searched: preference ↑"))
    yield as_table("", [*_who(rows), *scored, *_iqm(rows)])
    yield as_table("Metrics", [*_who(rows)[:2], *_metrics(board, rows, task, AXES)])
    if task.has("diversity"):
        yield as_table("Diversity, outside the score", [*_who(rows)[:2], *_metrics(board, rows, task, ("diversity",))])
    names = [
        Series(Heading("system", is_number=False), [named(row) for row in references]),
        *_status_of_references(references),
    ]
    means = [Series(Heading(f"{axis} ↑"), _numbers([_reached(row, task, axis) for row in references])) for axis in axes]
    if task.has("preference") and _holds_out(task, references):
        means.insert(1, Series(held_out, _numbers([_mean(held_out_on(row, task)) for row in references])))
    yield as_table("References", [*names, *means, *_metric_means(references, task, AXES)])
    if task.has("diversity"):
        yield as_table("References, diversity", [*names, *_metric_means(references, task, ("diversity",))])


def _metrics(board: Board, rows: Sequence[Row], task: BoardTask, axes: Sequence[Axis]) -> Iterator[Series]:
    """Yield the raw metrics of `axes`, with the standard deviation over seeds."""
    for column in _columns(task, axes):
        estimates = [_metric(row, task, column.metric) for row in rows]
        scores = _competing(rows, task, estimates)
        best = frozenset[int]() if column.axis == "diversity" else _best(board, rows, scores, column.direction)
        texts = _with_deviations(estimates, _decimals(map(_mean, estimates)))
        yield Series(_heading(column), _with_marks(texts, rows, task, column), best)


def _metric_means(rows: Sequence[Row], task: BoardTask, axes: Sequence[Axis]) -> Iterator[Series]:
    """Yield the raw metrics of `axes`, without a spread: most references have a single result."""
    for column in _columns(task, axes):
        means = [_mean(_metric(row, task, column.metric)) for row in rows]
        yield Series(_heading(column), _with_marks(_numbers(means, _decimals(means)), rows, task, column))


def _with_marks(texts: Sequence[str], rows: Sequence[Row], task: BoardTask, column: Column) -> list[str]:
    """Return the cells of a metric with a mark in the rows that were trained on it."""
    return marked(texts, [column.metric in row.cells[task.name].rewards for row in rows])


def _columns(task: BoardTask, axes: Sequence[Axis]) -> list[Column]:
    return [column for column in task.columns if column.axis in axes]


def _heading(column: Column) -> Heading:
    return Heading(column.metric if column.axis == "diversity" else f"{column.metric} {ARROWS[column.direction]}")


# --- columns ---------------------------------------------------------------------------------------------------------


def _who(rows: Sequence[Row]) -> list[Series]:
    return [
        Series(Heading("rank"), _ranks([row.rank for row in rows])),
        Series(Heading("system", is_number=False), [named(row) for row in rows]),
        Series(Heading("status", is_number=False), [_status(row) for row in rows]),
        Series(Heading("seeds"), [_seeds(row) for row in rows]),
    ]


def _status_of_references(references: Sequence[Row]) -> list[Series]:
    """Return the status of references, if some are the user's own and others the board's."""
    if len({row.status == "local" for row in references}) < 2:
        return []
    return [Series(Heading("status", is_number=False), [row.status for row in references])]


def _ranks(ranks: Sequence[int | None]) -> list[str]:
    """Return "1=" for a shared rank, "3" for an unshared one."""
    times = Counter(ranks)
    mark = "=" if any(times[rank] > 1 for rank in ranks if rank is not None) else ""
    blank = " " * len(mark)
    return [f"{UNKNOWN}{blank}" if rank is None else f"{rank}{mark if times[rank] > 1 else blank}" for rank in ranks]


def _status(row: Row) -> str:
    return row.status if row.standing == "ranked" else f"{row.status}, {row.standing}"


def _seeds(row: Row) -> str:
    counts = sorted({len(cell.seeds) for cell in row.cells.values()})
    return UNKNOWN.join(map(str, counts[:: max(1, len(counts) - 1)]))


def _axis(board: Board, rows: Sequence[Row], task: BoardTask, axis: Axis, header: str) -> Series:
    """Return an axis of a task: the preference with its interval, or naturalness with its standard deviation."""
    estimates = [_estimate(row, task, axis) for row in rows]
    ranks = [row.task_ranks.get(task.name) for row in rows]
    best = _first(ranks) if axis == "preference" else _best(board, rows, _competing(rows, task, estimates))
    if axis == "naturalness":
        return Series(Heading(header), _with_deviations(estimates, 1), best)
    intervals = [None if (cell := row.cells.get(task.name)) is None else cell.interval for row in rows]
    return Series(Heading(header), _with_intervals(list(zip(map(_mean, estimates), intervals, strict=True))), best)


def _has_searched(rows: Sequence[Row], task: BoardTask) -> bool:
    return any(cell.searched for row in rows if (cell := row.cells.get(task.name)))


def _searched(rows: Sequence[Row], task: BoardTask, header: str) -> Series:
    """Return the preference of answers by search, as the results state it, without a test."""
    cells = [row.cells.get(task.name) for row in rows]
    return Series(Heading(header), _with_deviations([None if cell is None else cell.searched for cell in cells], 1))


def _holds_out(task: BoardTask, rows: Sequence[Row]) -> bool:
    return any(held_out_on(row, task) is not None for row in rows)


def _estimate(row: Row, task: BoardTask, axis: Axis) -> Estimate | None:
    cell = row.cells.get(task.name)
    return None if cell is None else cell.preference if axis == "preference" else cell.naturalness


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _metric(row: Row, task: BoardTask, metric: str) -> Estimate | None:
    cell = row.cells.get(task.name)
    return None if cell is None else cell.metrics.get(metric)


def _competing(rows: Sequence[Row], task: BoardTask, estimates: Sequence[Estimate | None]) -> list[Scores | None]:
    """Return the seeds' scores of the systems ranked on the task; None for the others."""
    return [
        {task.name: estimate.by_seed} if estimate is not None and task.name in row.task_ranks else None
        for row, estimate in zip(rows, estimates, strict=True)
    ]


def _best(
    board: Board, rows: Sequence[Row], scores: Sequence[Scores | None], direction: Direction = "higher"
) -> frozenset[int]:
    """Return the rows than which no other is significantly better, by the test of the ranks."""
    places = {id(row): i for i, row in enumerate(board.rows)}
    on_board: list[Scores | None] = [None] * len(board.rows)
    for row, row_scores in zip(rows, scores, strict=True):
        on_board[places[id(row)]] = row_scores
    ranks = shared_ranks(board.rows, on_board, direction)
    return _first([ranks[places[id(row)]] for row in rows])


def _first(ranks: Sequence[int | None]) -> frozenset[int]:
    """Return the rows with the first rank; empty with fewer than two ranked."""
    contested = sum(rank is not None for rank in ranks) > 1
    return frozenset(i for i, rank in enumerate(ranks) if contested and rank == 1)


def _with_intervals(pairs: Sequence[tuple[float | None, Interval | None]]) -> list[str]:
    return fixed(
        [None if mean is None else (mean, interval.half_width if interval else None) for mean, interval in pairs], 1
    )


def _with_deviations(estimates: Sequence[Estimate | None], decimals: int) -> list[str]:
    return fixed([None if estimate is None else (estimate.mean, estimate.sd) for estimate in estimates], decimals)


def _numbers(values: Sequence[float | None], decimals: int = 1) -> list[str]:
    return fixed([None if value is None else (value, None) for value in values], decimals)


def _decimals(values: Iterable[float | None]) -> int:
    """Return the number of decimals for a raw metric: at least three significant digits."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1

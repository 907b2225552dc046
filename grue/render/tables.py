"""The board as titles, tables and sentences, which every renderer for people lays out in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grue.leaderboard.board import Board, BoardTask, Column, Estimate, Row
from grue.leaderboard.rank import PRELIMINARY_SEEDS, RANKED_SEEDS
from grue.records import Axis, Direction

ARROWS: Mapping[Direction, str] = {"higher": "↑", "lower": "↓"}
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a column; numbers stand at the right, and come padded so that their decimals stand in line."""

    header: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table of plain text, ready to be laid out; its first two columns, rank and system, say whose a row is."""

    title: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """All there is to show of a board: tables, what their numbers mean, and what to know about the results."""

    title: str
    tables: tuple[Table, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]


def page(board: Board) -> Page:
    """Return the board as text: an overview of a suite's tasks, or the metrics of a single task."""
    notes = tuple(map(_printable, board.notes))
    one = board.tasks[0] if len(board.tasks) == 1 else None
    title = f"GRUE leaderboard: suite {board.suite}" + (f", task {one.name}" if one else "")
    if not board.rows:
        hint = "No results yet: run `grue train` and `grue evaluate`, then `grue leaderboard` again."
        return Page(title, (), (hint,), notes)
    if one is None:
        return Page(title, (_overview(board),), _legend(board), notes)
    tables = [_metrics(board, one, ("preference", "naturalness"), "")]
    if one.has("diversity"):
        tables.append(_metrics(board, one, ("diversity",), "Diversity, outside the score"))
    return Page(title, tuple(tables), (*_legend(board), *_scales(one)), notes)


def narrow(table: Table, width: int) -> list[Table]:
    """Cut a table into tables of at most `width` characters, borders counted, where the columns allow it.

    Rank and system are repeated in each, and the title stands over the first.
    """
    sizes = [max(len(cell) for cell in cells) + 3 for cells in zip(_headers(table), *table.rows, strict=True)]
    parts: list[list[int]] = [[]]
    for column in range(2, len(sizes)):
        taken = 1 + sum(sizes[:2]) + sum(sizes[known] for known in parts[-1])
        if parts[-1] and taken + sizes[column] > width:
            parts.append([])
        parts[-1].append(column)
    return [_part(table, [0, 1, *part], "" if i else table.title) for i, part in enumerate(parts)]


def _headers(table: Table) -> list[str]:
    return [column.header for column in table.columns]


def _part(table: Table, columns: Sequence[int], title: str) -> Table:
    rows = tuple(tuple(row[column] for column in columns) for row in table.rows)
    return Table(title, tuple(table.columns[column] for column in columns), rows)


# --- tables ----------------------------------------------------------------------------------------------------------


def _overview(board: Board) -> Table:
    """One row a system: the means over the tasks, then every task's two axes."""
    columns = _who(board.rows)
    if any(task.has("preference") for task in board.tasks):
        columns.append((Heading("mean preference ↑"), _headline(board.rows)))
    if any(task.has("naturalness") for task in board.tasks):
        naturalness = [f"{row.naturalness:z.1f}" if row.naturalness is not None else UNKNOWN for row in board.rows]
        columns.append((Heading("mean naturalness ↑"), naturalness))
    for task in board.tasks:
        if task.has("preference"):
            estimates = [cell.preference if (cell := row.cells.get(task.name)) else None for row in board.rows]
            columns.append((Heading(f"{task.name} preference ↑"), _estimates(estimates, 1)))
        if task.has("naturalness"):
            estimates = [cell.naturalness if (cell := row.cells.get(task.name)) else None for row in board.rows]
            columns.append((Heading(f"{task.name} naturalness ↑"), _estimates(estimates, 1)))
    return _table("", columns)


def _metrics(board: Board, task: BoardTask, axes: Sequence[Axis], title: str) -> Table:
    """One row a system: the task's scaled axes where they are asked for, then the raw metrics of `axes`."""
    cells = [row.cells[task.name] for row in board.rows]
    columns = _who(board.rows)[: 2 if "diversity" in axes else None]
    if "preference" in axes and task.has("preference"):
        columns.append((Heading("preference ↑"), _headline(board.rows)))
    if "naturalness" in axes and task.has("naturalness"):
        columns.append((Heading("naturalness ↑"), _estimates([cell.naturalness for cell in cells], 1)))
    for column in task.columns:
        if column.axis in axes:
            estimates = [cell.metrics.get(column.metric) for cell in cells]
            arrow = "" if column.axis == "diversity" else f" {ARROWS[column.direction]}"
            heading = Heading(column.metric + arrow)
            columns.append((heading, _estimates(estimates, _decimals(estimates))))
    return _table(title, columns)


def _table(title: str, columns: Sequence[tuple[Heading, Sequence[str]]]) -> Table:
    rows = zip(*(cells for _, cells in columns), strict=True)
    return Table(title, tuple(heading for heading, _ in columns), tuple(rows))


def _who(rows: Sequence[Row]) -> list[tuple[Heading, Sequence[str]]]:
    return [
        (Heading("rank"), [UNKNOWN if row.rank is None else str(row.rank) for row in rows]),
        (Heading("system", is_number=False), [_printable(row.system) for row in rows]),
        (Heading("status", is_number=False), [_status(row) for row in rows]),
        (Heading("seeds"), [_seeds(row) for row in rows]),
    ]


def _status(row: Row) -> str:
    if row.standing == "ranked":
        return row.status
    if row.standing == "partial":
        return f"{row.status}, only {', '.join(row.cells)}"
    return f"{row.status}, {row.standing}"


def _seeds(row: Row) -> str:
    counts = sorted({len(cell.seeds) for cell in row.cells.values()})
    return "–".join(map(str, counts[:: max(1, len(counts) - 1)]))


def _headline(rows: Sequence[Row]) -> list[str]:
    return _aligned(
        [
            None if row.preference is None else (row.preference, row.interval.half_width if row.interval else None)
            for row in rows
        ],
        decimals=1,
    )


def _estimates(estimates: Sequence[Estimate | None], decimals: int) -> list[str]:
    return _aligned([None if estimate is None else (estimate.mean, estimate.sd) for estimate in estimates], decimals)


def _aligned(pairs: Sequence[tuple[float, float | None] | None], decimals: int) -> list[str]:
    """Return "41.2 ± 0.8" for every (value, spread), padded such that the decimals of a column stand in line."""
    known = [pair for pair in pairs if pair is not None]
    values = [f"{value:z.{decimals}f}" for value, _ in known]
    spreads = [UNKNOWN if spread is None else f"{spread:.{decimals}f}" for _, spread in known]
    widths = [max(map(len, texts), default=0) for texts in (values, spreads)]
    texts = iter(f"{v:>{widths[0]}} ± {s:>{widths[1]}}" for v, s in zip(values, spreads, strict=True))
    return [UNKNOWN if pair is None else next(texts) for pair in pairs]


def _decimals(estimates: Sequence[Estimate | None]) -> int:
    """Return how many decimals a raw metric deserves: three significant digits or a little more."""
    largest = max((abs(estimate.mean) for estimate in estimates if estimate is not None), default=0.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1


def _printable(text: str) -> str:
    """Return `text` without what could steer a terminal or hide in a page."""
    return "".join(character if character.isprintable() else "�" for character in text)


# --- sentences -------------------------------------------------------------------------------------------------------


def _legend(board: Board) -> tuple[str, ...]:
    interval = f"half the width of the {100 * board.level:g} % interval over seeds"
    if len(board.tasks) == 1:
        spread = f"± is {interval} for the preference, and the standard deviation over seeds elsewhere."
        condition = f"{RANKED_SEEDS} seeds"
    else:
        spread = f"± is {interval} for the mean preference, and the standard deviation over seeds for a task."
        condition = f"every task with {RANKED_SEEDS} seeds"
    lines = [
        f"Preference and naturalness go from 0 to 100, higher is better. {spread} {UNKNOWN} is unknown.",
        "A rank is 1 + the number of systems whose interval lies wholly above: a shared rank is too close to call. "
        f"It takes {condition}; with {PRELIMINARY_SEEDS} or more a system is preliminary.",
    ]
    without = [task.name for task in board.tasks if not task.has("naturalness")]
    if without and len(without) < len(board.tasks):
        lines.append(f"The mean naturalness leaves out {', '.join(without)}, which has no metric of it.")
    versions = ", ".join(f"{task.name} version {task.version} ({task.hash[:12]})" for task in board.tasks)
    return (*lines, f"Tasks: {versions}.")


def _scales(task: BoardTask) -> tuple[str, ...]:
    scales = [scale for column in task.columns if (scale := _scale(column))]
    return (f"Scaled to 0 to 100: {'; '.join(scales)}.",) if scales else ()


def _scale(column: Column) -> str:
    if column.range is not None:
        return f"{column.metric} from {column.range[0]:g} to {column.range[1]:g}"
    if column.reference is not None:
        return f"{column.metric} as 100 × {column.reference:g} / value, at most 100"
    return ""

"""Sorting the rows of a board by any column; ranks do not change."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from grue.errors import UnknownName, did_you_mean
from grue.leaderboard.board import Board, BoardTask, Row
from grue.records import Direction

Value = Callable[[Row], float | None]


def sorted_by(board: Board, column: str) -> Board:
    """Return the board with its rows sorted by a column, best first; rows without a value come last.

    Args:
        board: Any board.
        column: "rank", the order that a board has; "system", by name; "preference" or "naturalness"; a task, by its
            preference; `<task>.naturalness`; `<task>.<metric>`, by the metric's direction. The task can be left out on
            a board of one task.

    Raises:
        UnknownName: There is no such column.
    """
    if column == "rank":
        return board
    if column == "system":
        return replace(board, rows=tuple(sorted(board.rows, key=lambda row: row.system)))
    known = _columns(board)
    if column not in known:
        close = did_you_mean(column, ["rank", "system", *known])
        example = next((name for name in known if "." in name), "<task>.<metric>")
        raise UnknownName(
            f"There is no column {column!r} to sort by.{close} "
            f"Known: rank, system, preference, naturalness, every task, and what a task has, such as {example!r}."
        )
    value, direction = known[column]
    sign = -1 if direction == "higher" else 1

    def place(row: Row) -> tuple[int, float]:
        reached = value(row)
        return (1, 0.0) if reached is None else (0, sign * reached)

    return replace(board, rows=tuple(sorted(board.rows, key=place)))


def _columns(board: Board) -> dict[str, tuple[Value, Direction]]:
    """Return the sortable columns: name → a row's value, and which direction is better."""
    found: dict[str, tuple[Value, Direction]] = {
        "preference": (lambda row: row.preference, "higher"),
        "naturalness": (lambda row: row.naturalness, "higher"),
    }
    for task in board.tasks:
        names = _task_columns(task)
        found |= {f"{task.name}.{name}": column for name, column in names.items()}
        found[task.name] = names["preference"]
        if len(board.tasks) == 1:
            found = names | found
    return found


def _task_columns(task: BoardTask) -> dict[str, tuple[Value, Direction]]:
    return {
        **{c.metric: (partial(_measured, task.name, c.metric), c.direction) for c in task.columns},
        "preference": (partial(_reached, task.name, "preference"), "higher"),
        "naturalness": (partial(_reached, task.name, "naturalness"), "higher"),
    }


def _reached(task: str, axis: Literal["preference", "naturalness"], row: Row) -> float | None:
    cell = row.cells.get(task)
    estimate = getattr(cell, axis) if cell is not None else None
    return None if estimate is None else estimate.mean


def _measured(task: str, metric: str, row: Row) -> float | None:
    cell = row.cells.get(task)
    estimate = cell.metrics.get(metric) if cell is not None else None
    return None if estimate is None else estimate.mean

"""Preference against naturalness: a point for each row of a board."""

from collections.abc import Collection
from dataclasses import dataclass

from grue.errors import DataError, UnknownName, instead
from grue.leaderboard.board import Board
from grue.render.text import named
from grue.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class TradeoffPoint:
    """A system's scores, 0–100 on both axes; an interval is None for a single seed."""

    label: str
    naturalness: float
    preference: float
    naturalness_interval: Interval | None
    preference_interval: Interval | None
    is_reference: bool


def points_of(board: Board, systems: Collection[str] = ()) -> tuple[list[TradeoffPoint], list[str]]:
    """Return a point for each row of a board, in its order, and notes on the rows without one."""
    names = [row.system for row in board.rows]
    for name in systems:
        if name not in names:
            raise UnknownName(f"The board has no system {name!r}.{instead(name, sorted(set(names)))}")
    points, notes = [], []
    for row in board.rows:
        if systems and row.system not in systems:
            continue
        label = named(row)
        if names.count(row.system) > 1 or row.status == "local":
            label += f" ({row.status}{', limited' * (row.standing == 'limited')})"
        if row.preference is None or row.naturalness is None:
            missing = [task.name for task in board.tasks if task.name not in row.cells]
            lacking = f"a result on {', '.join(missing)} (--task draws one task)"
            without = lacking if missing and len(board.tasks) > 1 else "one of the two scores"
            notes.append(f"{label}: left out, without {without}.")
            continue
        intervals = (row.naturalness_interval, row.interval)
        is_reference = row.standing == "reference"
        points.append(TradeoffPoint(label, row.naturalness, row.preference, *intervals, is_reference))
        if None in intervals and not is_reference:
            notes.append(f"{label}: drawn without intervals, which need two seeds on every task.")
    if not points:
        because = f" {' '.join(notes)}" if notes else " Evaluate runs with `grue evaluate`."
        raise DataError(f"No system has both preference and naturalness.{because}")
    return points, notes

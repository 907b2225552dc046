"""The numbers for the page's script, as JSON that cannot end its own script element.

Values that occur hundreds of times have no keys; `data.js` names them. Raw metrics are not included: the script reads
them from the tables, so that the page holds them once.
"""

import json
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from statistics import NormalDist
from typing import Any

from markupsafe import Markup

from grue.leaderboard.board import Board, BoardTask, Cell, Estimate, Row
from grue.leaderboard.lineage import are_pairs, made_on
from grue.render.text import printable
from grue.stats.intervals import Interval, student_t_quantile

STEPS = 50  # of the table of Student's t; the script interpolates, with an error below 0.05 %
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def embedded(board: Board) -> Markup:
    """Return the board's numbers as JSON for a script element."""
    made = made_on(board.rows)
    data = {
        "suite": board.suite,
        "scoring": board.scoring,
        "level": board.level,
        "quantiles": quantiles(board.level),
        "tasks": [_task(task) for task in board.tasks],
        "systems": [_system(row, board) for row in board.rows],
        "pairs": [_pairs(board.rows, task.name, made.get(task.name, {})) for task in board.tasks],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))


def _pairs(rows: Sequence[Row], task: str, made: Mapping[int, Set[str]]) -> list[tuple[int, int]]:
    """Return the places of every two systems whose seeds are pairs on a task."""
    cells = {i: cell for i, row in enumerate(rows) if (cell := row.cells.get(task)) is not None and cell.lineage}
    return [(i, j) for i, j in combinations(cells, 2) if are_pairs(cells[i], cells[j], made)]


def quantiles(level: float) -> list[float]:
    """Return Student's t of an interval of some level, at even steps of 1 / degrees of freedom from 0 to 1."""
    probability = (1 + level) / 2
    finite = (student_t_quantile(probability, STEPS / step) for step in range(1, STEPS + 1))
    return [round(t, 4) for t in (NormalDist().inv_cdf(probability), *finite)]


def _task(task: BoardTask) -> dict[str, Any]:
    return {
        "name": task.name,
        "title": printable(task.title),
        "version": task.version,
        "hash": task.hash,
        "metrics": [[c.metric, c.axis, c.direction, c.range, c.reference] for c in task.columns],
    }


def _system(row: Row, board: Board) -> dict[str, Any]:
    cells = [row.cells.get(task.name) for task in board.tasks]
    held = [_short(cell.held_out.mean) if cell and cell.held_out else None for cell in cells]
    return {
        "system": printable(row.system),
        "status": row.status,
        "standing": row.standing,
        "about": printable(f"{row.about.algorithm} {row.about.backbone}"),
        "seeds": _first_seeds(row),
        "fixed": row.about.deterministic,
        "rank": row.rank,
        "preference": _short(row.preference, 4),
        "interval": _ends(row.interval),
        "naturalness": _short(row.naturalness, 4),
        **({"heldOut": _short(row.held_out, 4), "held": held} if any(value is not None for value in held) else {}),
        "cells": [_cell(cell, task, row) if cell else None for cell, task in zip(cells, board.tasks, strict=True)],
    }


def _cell(cell: Cell, task: BoardTask, row: Row) -> list[Any]:
    """Return rank, preference and naturalness by seed; if they differ from the row's, failed seeds and seeds too."""
    found: list[Any] = [
        row.task_ranks.get(task.name),
        _by_seed(cell.preference, cell),
        _by_seed(cell.naturalness, cell),
    ]
    if cell.failed or cell.seeds != _first_seeds(row):
        found += [cell.failed, cell.seeds]
    return found


def _first_seeds(row: Row) -> tuple[int, ...]:
    """Return the seeds of the first task, usually those of every task."""
    return next((cell.seeds for cell in row.cells.values()), ())


def _by_seed(estimate: Estimate | None, cell: Cell) -> list[float | None] | None:
    return None if estimate is None else [_short(estimate.by_seed.get(seed)) for seed in cell.seeds]


def _ends(interval: Interval | None) -> list[float | None] | None:
    return None if interval is None else [_short(interval.low), _short(interval.high)]


def _short(value: float | None, decimals: int = 2) -> float | None:
    return None if value is None else round(value, decimals)

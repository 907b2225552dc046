"""The numbers for the page's script, as JSON that cannot end its own script element.

Values that occur hundreds of times have no keys; `data.js` names them. Raw metrics are not included: the script reads
them from the tables, so that the page holds them once.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence, Set
from statistics import NormalDist
from typing import Any

import numpy as np
from markupsafe import Markup

from grue.leaderboard.board import COSTS, Board, BoardTask, Cell, Estimate, Row
from grue.leaderboard.lineage import made_on, pairs_of
from grue.leaderboard.made import reward_calls
from grue.render.text import printable
from grue.render.web.words import family_of
from grue.stats.intervals import Interval, satterthwaite_interval, student_t_quantile

STEPS = 50  # of the table of Student's t; the script interpolates, with an error below 0.05 %
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def embedded(board: Board, shown: Collection[str] = ()) -> Markup:
    """Return the board's numbers as JSON for a script element; `shown` are the tasks with a file of examples."""
    made = made_on(board.rows)
    data = {
        "suite": board.suite,
        "scoring": board.scoring,
        "level": board.level,
        "quantiles": quantiles(board.level),
        "tasks": [_task(task) for task in board.tasks],
        "shown": [task.name for task in board.tasks if task.name in shown],
        "systems": [_system(row, board) for row in board.rows],
        "spent": [_spent(board.rows, task.name) for task in board.tasks],
        "pairs": [_pairs(board.rows, task.name, made.get(task.name, {})) for task in board.tasks],
    }
    return Markup(script_json(data))


def script_json(data: Any) -> str:
    """Return data as JSON that can neither end nor comment out the script it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _pairs(rows: Sequence[Row], task: str, made: Mapping[int, Set[str]]) -> list[str]:
    """Return for each system, as digits of 4 bits, with which others its seeds are pairs on a task; [] without any."""
    cells = {i: cell for i, row in enumerate(rows) if (cell := row.cells.get(task)) is not None and cell.lineage}
    if not cells:
        return []
    table = np.zeros((len(rows), -(-len(rows) // 4) * 4), dtype=np.bool_)
    table[np.ix_(list(cells), list(cells))] = pairs_of(list(cells.values()), made)
    np.fill_diagonal(table, False)
    digits = table.reshape(len(rows), -1, 4) @ np.array([8, 4, 2, 1])
    return ["".join(f"{digit:x}" for digit in row).rstrip("0") for row in digits.tolist()] if table.any() else []


def _spent(rows: Sequence[Row], task: str) -> dict[int, list[Any]]:
    """Return place of a row → what its runs on a task took, all seeds together: see `data.js`."""
    calls = reward_calls(rows, task)
    found: dict[int, list[Any]] = {}
    for i, row in enumerate(rows):
        cell = row.cells.get(task)
        if cell is not None and (cell.training or cell.updates or cell.parameters):
            sums = [_sum(cell.training.get(cost)) for cost in COSTS]
            updates = [cell.updates.get(seed) for seed in cell.seeds] if cell.updates else []
            found[i] = [len(cell.seeds), *sums, _sum(calls.get(i)), cell.parameters, updates]
    return found


def _sum(by_seed: Mapping[int, float] | None) -> list[float] | None:
    """Return the number of seeds and their sum; None if nothing is known."""
    return [len(by_seed), round(math.fsum(by_seed.values()))] if by_seed else None


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
        "family": family_of(row),
        **({"log": printable(row.about.log)} if row.about.log else {}),
        "code": sorted({text for cell in row.cells.values() for text in cell.code}),
        "seeds": _first_seeds(row),
        "fixed": row.about.deterministic,
        "rank": row.rank,
        "preference": _short(row.preference, 4),
        "interval": _ends(row.interval),
        "naturalness": _short(row.naturalness, 4),
        **({"heldOut": _short(row.held_out, 4), "held": held} if any(value is not None for value in held) else {}),
        "cells": [_cell(cell, task, row) if cell else None for cell, task in zip(cells, board.tasks, strict=True)],
        "spread": [_spreads(cell, task, board) if cell else [] for cell, task in zip(cells, board.tasks, strict=True)],
    }


def _spreads(cell: Cell, task: BoardTask, board: Board) -> list[float | None]:
    """Return half the t interval of each metric of the score, in two digits."""
    if board.interval_kind != "t":
        return []
    estimates = [cell.metrics.get(column.metric) for column in task.columns if column.axis != "diversity"]
    intervals = [
        satterthwaite_interval({"": e.by_seed.values()}, board.level) if e is not None and len(e.by_seed) > 1 else None
        for e in estimates
    ]
    found = [None if one is None else float(f"{one.half_width:.2g}") for one in intervals]
    return found if any(value is not None for value in found) else []


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

"""The numbers for the page's script, as JSON that cannot end its own script element.

Values that occur hundreds of times have no keys; `data.js` names them. Raw metrics are not included: the script reads
them from the tables, so that the page holds them once.
"""

import json
import math
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence, Set
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from grue.leaderboard.board import Board, BoardTask, Cell, Estimate, Row
from grue.leaderboard.lineage import Starts, are_pairs, starts_on
from grue.leaderboard.places import significantly_above
from grue.leaderboard.trained_on import held_out_names
from grue.records import Cost
from grue.render.text import named, printable
from grue.render.web.words import family_of
from grue.stats.intervals import satterthwaite_interval, student_t_quantile

USUAL_SEEDS = (1, 2, 3, 4, 5)
STEPS = 50  # of the table of Student's t; the script interpolates, with an error below 0.05 %
OTHERS: tuple[Cost, ...] = ("tokens", "seconds", "prompts", "generated_tokens", "steps")  # costs but reward calls
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def embedded(board: Board, shown: Collection[str] = (), is_local: bool = False) -> Markup:
    """Return the board's numbers as JSON for a script element; the arguments are those of `grue.render.html.render`."""
    starts = starts_on(board.rows)
    data = {
        "suite": board.suite,
        "published": not is_local,
        "scoring": board.scoring,
        "level": board.level,
        "quantiles": quantiles(board.level),
        "tasks": [_task(task) for task in board.tasks],
        "shown": [task.name for task in board.tasks if task.name in shown],
        "systems": [_system(row, board) for row in board.rows],
        "held": [_held_out(board.rows, task) for task in board.tasks],
        "spent": [_spent(board.rows, task.name) for task in board.tasks],
        "whole": [_whole(board.rows, task.name) for task in board.tasks],
        "pairs": [_pairs(board.rows, task.name, starts.get(task.name, {})) for task in board.tasks],
        "apart": _apart(board, starts),
    }
    return Markup(script_json(data))


def script_json(data: Any) -> str:
    """Return data as JSON that can neither end nor comment out the script it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def _pairs(rows: Sequence[Row], task: str, starts: Mapping[int, Set[str]]) -> list[str]:
    """Return for each system, as digits of 4 bits, the others whose seeds are paired with its own; [] without any."""
    table = np.zeros((len(rows), len(rows)), dtype=np.bool_)
    for (i, a), (j, b) in combinations(enumerate(rows), 2):
        if task in a.cells and task in b.cells:
            table[i, j] = table[j, i] = are_pairs(a.cells[task], b.cells[task], starts)
    return _digits(table)


def _apart(board: Board, starts: Starts) -> list[str]:
    """Return for each system, as digits of 4 bits, the others that differ by the ranks' test; [] without any."""
    ranked = [i for i, row in enumerate(board.rows) if row.rank is not None]
    names = [task.name for task in board.tasks if task.has("preference")]
    reached = [{name: board.rows[i].cells[name].preference for name in names} for i in ranked]
    scores = [{name: e.by_seed for name, e in of_row.items() if e is not None} for of_row in reached]
    above = significantly_above([board.rows[i] for i in ranked], scores, starts)
    table = np.zeros((len(board.rows), len(board.rows)), dtype=np.bool_)
    table[np.ix_(ranked, ranked)] = above | above.T
    return _digits(table)


def _digits(table: NDArray[np.bool_]) -> list[str]:
    """Return the rows of a table of bits as digits of 4 bits, without zeros at their ends; [] if all are zero."""
    if not table.any():
        return []
    digits = np.pad(table, ((0, 0), (0, -len(table) % 4))).reshape(len(table), -1, 4) @ np.array([8, 4, 2, 1])
    return ["".join(f"{digit:x}" for digit in row).rstrip("0") for row in digits.tolist()]


def _held_out(rows: Sequence[Row], task: BoardTask) -> list[Any]:
    """Return the held-out metrics and each row's preference on them, with its own if they are others; [] if empty."""
    names = held_out_names(task)
    held_by_row: list[Any] = []
    for row in rows:
        cell = row.cells.get(task.name)
        value = _short(cell.held_out.mean) if cell and cell.held_out else None
        differs = cell is not None and value is not None and cell.held_out_metrics != names
        held_by_row.append([value, ", ".join(cell.held_out_metrics)] if cell and differs else value)
    values = _without_last(held_by_row, 0)
    return [", ".join(names), values] if values else []


def _spent(rows: Sequence[Row], task: str) -> list[list[Any] | int]:
    """Return the cost of each row's runs on a task, summed over seeds, 0 if unknown: see `data.js`."""
    spent_by_row: list[list[Any] | int] = [0] * len(rows)
    for i, row in enumerate(rows):
        cell = row.cells.get(task)
        if cell is not None and (cell.training or cell.updates or cell.parameters):
            tokens, seconds, *rest = (_sum(cell.training.get(cost), cell) for cost in OTHERS)
            kept = [cell.updates.get(seed) for seed in cell.seeds]
            size = cell.parameters if cell.parameters != row.about.parameters else None
            updates = kept[0] if len(set(kept)) == 1 else kept
            spent_by_row[i] = _without_last(
                [tokens, _sum(cell.training.get("reward_calls"), cell), seconds, updates, size, *rest], 4
            )
    return spent_by_row if any(spent_by_row) else []


def _whole(rows: Sequence[Row], task: str) -> list[list[Any] | int]:
    """Return the cost of whole runs, with the updates after the kept one, where it is known for all seeds."""
    whole_by_row: list[list[Any] | int] = [0] * len(rows)
    for i, row in enumerate(rows):
        if (cell := row.cells.get(task)) is not None:
            of_costs: tuple[Cost, ...] = ("reward_calls", *OTHERS)
            costs = [(cell.training.get(cost, {}), cell.whole.get(cost, {})) for cost in of_costs]
            ended = {seed for seed, update in cell.last_updates.items() if cell.updates.get(seed) == update}
            known = [{seed: kept[seed] for seed in ended & kept.keys()} | dict(whole) for kept, whole in costs]
            sums = [_sum(by_seed, cell) if len(by_seed) == len(cell.seeds) else None for by_seed in known]
            whole_by_row[i] = _without_last(sums, 0) or 0
    return whole_by_row if any(whole_by_row) else []


def _without_last(values: list[Any], least: int) -> list[Any]:
    """Return values without None at the end, but at least `least` of them."""
    while len(values) > least and values[-1] is None:
        values.pop()
    return values


def _sum(by_seed: Mapping[int, float] | None, cell: Cell) -> float | list[float] | None:
    """Return the sum over all seeds; if some do not state it, the sum and how many do; None if none does."""
    if not by_seed:
        return None
    whole = round(math.fsum(by_seed.values()))
    return whole if len(by_seed) == len(cell.seeds) else [whole, len(by_seed)]


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
        "metrics": [
            c.metric if c.axis == "diversity" else [c.metric, c.axis, c.direction, c.range, c.reference]
            for c in task.columns
        ],
    }


def _system(row: Row, board: Board) -> dict[str, Any]:
    cells = [row.cells.get(task.name) for task in board.tasks]
    points = {i: scaled for i, cell in enumerate(cells) if cell and (scaled := _points(cell, board.tasks[i]))}
    searched = {i: _short(cell.searched.mean) for i, cell in enumerate(cells) if cell and cell.searched}
    presets = dict.fromkeys(preset for cell in row.cells.values() for preset in cell.presets)
    seeds = _first_seeds(row)
    values = {
        "system": printable(row.system),
        "label": named(row) if named(row) != printable(row.system) else None,
        "status": row.status,
        "standing": row.standing if row.standing != "ranked" else None,
        "family": family_of(row),
        "log": printable(row.about.log) or None,
        "code": sorted({text for cell in row.cells.values() for text in cell.code}),
        "machines": sorted({text for cell in row.cells.values() for text in cell.machines}) or None,
        "seeds": seeds if seeds != USUAL_SEEDS else None,
        "fixed": row.about.deterministic or None,
        "rank": row.rank,
        "preference": _short(row.preference),
        "interval": row.interval and [_short(row.interval.low), _short(row.interval.high)],
        "naturalness": _short(row.naturalness),
        "learned": _short(row.learned),
        "iqm": _short(row.iqm),
        "searched": searched or None,
        "preset": printable(", ".join(presets)) or None,
        "size": row.about.parameters or None,
        "reruns": row.reruns or None,
        "points": points or None,
        "cells": [_cell(cell, task, row) if cell else None for cell, task in zip(cells, board.tasks, strict=True)],
        "spread": [_spreads(cell, task, board) if cell else [] for cell, task in zip(cells, board.tasks, strict=True)],
    }
    always = ("rank", "preference", "interval", "naturalness")
    return {key: value for key, value in values.items() if value is not None or key in always}


def _spreads(cell: Cell, task: BoardTask, board: Board) -> list[float | None]:
    """Return half the t interval of each metric of the score: in tenths of a point where a range scales it."""
    spreads: list[float | None] = []
    for column in task.columns:
        estimate = cell.metrics.get(column.metric)
        if column.axis == "diversity":
            continue
        interval = satterthwaite_interval({"": estimate.by_seed.values()}, board.level) if estimate else None
        if interval is None:
            spreads.append(None)
        elif column.range is None:
            spreads.append(float(f"{interval.half_width:.2g}"))
        else:
            spreads.append(round(1_000 * interval.half_width / abs(column.range[1] - column.range[0])))
    return spreads if any(value is not None for value in spreads) else []


def _points(cell: Cell, task: BoardTask) -> dict[int, int]:
    """Return place of a metric → mean scaled value in tenths, where it differs from the scaled mean."""
    points: dict[int, int] = {}
    for place, column in enumerate(task.columns):
        estimate = cell.metrics.get(column.metric)
        values = [column.scale(value) for value in estimate.by_seed.values()] if estimate else []
        scaled = [value for value in values if value is not None]
        if scaled and (column.reference is not None or min(scaled) <= 0 or max(scaled) >= 100):
            points[place] = round(10 * math.fsum(scaled) / len(scaled))
    return points


def _cell(cell: Cell, task: BoardTask, row: Row) -> list[Any]:
    """Return rank, preference and naturalness by seed; also failed seeds and seeds if they differ from the row's."""
    scores = (_by_seed(cell.preference, cell), _by_seed(cell.naturalness, cell))
    values: list[Any] = [row.task_ranks.get(task.name), *scores]
    if cell.failed or cell.seeds != _first_seeds(row):
        values += [cell.failed, cell.seeds]
    return values


def _first_seeds(row: Row) -> tuple[int, ...]:
    """Return the seeds of the first task, usually those of every task."""
    return next((cell.seeds for cell in row.cells.values()), ())


def _by_seed(estimate: Estimate | None, cell: Cell) -> str | None:
    """Return the score of each seed in 0.00001 points, as base64 of 3 bytes each: too fine to change a printed mean."""
    if estimate is None:
        return None
    scores = [round(estimate.by_seed[seed] * 100_000).to_bytes(3) for seed in cell.seeds]
    return b64encode(b"".join(scores)).decode()


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 5)

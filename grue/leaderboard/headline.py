"""A row's means over tasks, its intervals and its standing, from its scores on every task."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from grue.leaderboard.board import BoardTask, Cell, IntervalKind, Row, Standing
from grue.leaderboard.trained_on import held_out, held_out_columns
from grue.records import Status
from grue.stats.intervals import Interval, bootstrap_interval, mean_over_tasks, satterthwaite_interval
from grue.stats.robust import iqm
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS

LEVEL = 0.95
NEVER_RANKED: tuple[Standing, ...] = ("limited", "no predictions", "reference")
ELSEWHERE: Status = "recomputed"
"""The status of rows whose outputs are published elsewhere: always partial, in no rank and in no mean over tasks."""


@dataclass(frozen=True, slots=True)
class Method:
    """How the spread over seeds is computed.

    Attributes:
        seed: Where the bootstrap of every interval starts, so that no row depends on another, and equal scores have
            equal intervals.
        iqm: Whether rows have an interquartile mean.
        held_out: Whether they have a held-out preference.
    """

    kind: IntervalKind = "t"
    seed: int = 0
    iqm: bool = False
    held_out: bool = True


def with_headline(row: Row, tasks: Sequence[BoardTask], method: Method) -> Row:
    """Return the row with its means over `tasks`, its intervals and its standing; ranks come later."""
    by_name = {task.name: task for task in tasks}
    cells = {
        name: replace(
            _with_interval(name, cell, method), held_out=held_out(by_name[name], cell) if method.held_out else None
        )
        for name, cell in row.cells.items()
    }
    summed = {} if row.status == ELSEWHERE else cells
    preference = _over_tasks(summed, tasks, "preference")
    naturalness = _over_tasks(summed, tasks, "naturalness")
    rest = _over_tasks(summed, tasks, "held_out")
    return replace(
        row,
        standing=_standing(row, tasks),
        preference=mean_over_tasks(preference) if preference else None,
        interval=_interval(preference, method) if preference else None,
        naturalness=mean_over_tasks(naturalness) if naturalness else None,
        naturalness_interval=_interval(naturalness, method) if naturalness else None,
        iqm=iqm(preference) if preference and method.iqm else None,
        cells=cells,
        held_out=mean_over_tasks(rest) if rest else None,
        held_out_interval=_interval(rest, method) if rest else None,
    )


def _with_interval(name: str, cell: Cell, method: Method) -> Cell:
    if cell.preference is None:
        return replace(cell, interval=None)
    return replace(cell, interval=_interval({name: cell.preference.by_seed.values()}, method))


def _interval(scores: Mapping[str, Collection[float]], method: Method) -> Interval | None:
    if method.kind == "t":
        return satterthwaite_interval(scores, LEVEL)
    if method.kind == "bootstrap":
        return bootstrap_interval(scores, np.random.default_rng(method.seed), LEVEL)
    return None


def _over_tasks(
    cells: Mapping[str, Cell], tasks: Sequence[BoardTask], axis: Literal["preference", "naturalness", "held_out"]
) -> Mapping[str, Collection[float]] | None:
    """Return the scores of the tasks that have the axis; None if one of them is unknown."""
    wanted = [task.name for task in tasks if (held_out_columns(task, ()) if axis == "held_out" else task.has(axis))]
    scores = {
        name: estimate.by_seed.values()
        for name in wanted
        if (cell := cells.get(name)) is not None and (estimate := getattr(cell, axis)) is not None
    }
    whole = len(scores) == len(wanted) and len(cells) == len(tasks)
    return scores if scores and whole else None


def _standing(row: Row, tasks: Sequence[BoardTask]) -> Standing:
    """Return the standing of a row, by its tasks and seeds unless it can never be ranked."""
    if row.standing in NEVER_RANKED:
        return row.standing
    if row.status == ELSEWHERE:
        return "partial"
    if len(row.cells) < len(tasks):
        return "partial"
    seeds = min(len(cell.seeds) for cell in row.cells.values())
    return "ranked" if seeds >= RANKED_SEEDS else "preliminary" if seeds >= PRELIMINARY_SEEDS else "too few seeds"

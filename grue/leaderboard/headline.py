"""A row's means over tasks, its intervals and its standing, from its scores on every task."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from grue.leaderboard.board import BoardTask, Cell, IntervalKind, Row, Standing
from grue.stats.intervals import Interval, bootstrap_interval, mean_over_tasks, satterthwaite_interval
from grue.stats.robust import iqm
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS

LEVEL = 0.95
NEVER_RANKED: tuple[Standing, ...] = ("limited", "no predictions", "reference")


@dataclass(frozen=True, slots=True)
class Method:
    """How the spread over seeds is computed.

    Attributes:
        seed: Where the bootstrap of every interval starts, so that no row depends on another, and equal scores have
            equal intervals.
        iqm: Whether rows have an interquartile mean.
    """

    kind: IntervalKind = "t"
    seed: int = 0
    iqm: bool = False


def with_headline(row: Row, tasks: Sequence[BoardTask], method: Method) -> Row:
    """Return the row with its means over `tasks`, its intervals and its standing; ranks come later."""
    cells = {name: _with_interval(name, cell, method) for name, cell in row.cells.items()}
    preference = _over_tasks(cells, tasks, "preference")
    naturalness = _over_tasks(cells, tasks, "naturalness")
    return replace(
        row,
        standing=_standing(row, tasks),
        preference=mean_over_tasks(preference) if preference else None,
        interval=_interval(preference, method) if preference else None,
        naturalness=mean_over_tasks(naturalness) if naturalness else None,
        naturalness_interval=_interval(naturalness, method) if naturalness else None,
        iqm=iqm(preference) if preference and method.iqm else None,
        cells=cells,
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
    cells: Mapping[str, Cell], tasks: Sequence[BoardTask], axis: Literal["preference", "naturalness"]
) -> Mapping[str, Collection[float]] | None:
    """Return the scores of the tasks that have the axis; None if one of them is unknown."""
    wanted = [task.name for task in tasks if task.has(axis)]
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
    if len(row.cells) < len(tasks):
        return "partial"
    seeds = min(len(cell.seeds) for cell in row.cells.values())
    return "ranked" if seeds >= RANKED_SEEDS else "preliminary" if seeds >= PRELIMINARY_SEEDS else "too few seeds"

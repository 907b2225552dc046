"""A row's means over tasks, its intervals and its standing, from its scores on every task."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grue.leaderboard.board import BoardTask, Cell, Row, Standing
from grue.leaderboard.trained_on import held_out, held_out_columns
from grue.records import BASELINES, ScoredAxis, Status
from grue.stats.intervals import mean_over_tasks, satterthwaite_interval
from grue.stats.robust import iqm
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS

LEVEL = 0.95
NEVER_RANKED: tuple[Standing, ...] = ("unverified", "limited", "no predictions", "reference")
ELSEWHERE: Status = "recomputed"
"""The status of rows whose outputs are published elsewhere: always partial, without rank and mean over tasks."""
UNLEARNED = tuple(name for name in BASELINES if name != "oracle")
"""The systems without learning that do not see the references."""


def with_headline(row: Row, tasks: Sequence[BoardTask], with_iqm: bool = False) -> Row:
    """Return the row with its means over `tasks`, its intervals and its standing, but without ranks."""
    by_name = {task.name: task for task in tasks}
    cells = {}
    for name, cell in row.cells.items():
        seeds, held = cell.preference, held_out(by_name[name], cell)
        interval = satterthwaite_interval({name: seeds.by_seed.values()}, LEVEL) if seeds else None
        metrics = held_out_columns(by_name[name], cell.rewards) if held else ()
        held_metrics = tuple(column.metric for column in metrics)
        cells[name] = replace(cell, interval=interval, held_out=held, held_out_metrics=held_metrics)
    summed = {} if row.status == ELSEWHERE else cells
    preference = _over_tasks(summed, tasks, "preference")
    naturalness = _over_tasks(summed, tasks, "naturalness")
    return replace(
        row,
        standing=_standing(row, tasks),
        preference=mean_over_tasks(preference) if preference else None,
        interval=satterthwaite_interval(preference, LEVEL) if preference else None,
        naturalness=mean_over_tasks(naturalness) if naturalness else None,
        naturalness_interval=satterthwaite_interval(naturalness, LEVEL) if naturalness else None,
        iqm=iqm(preference) if preference and with_iqm else None,
        cells=cells,
    )


def unlearned(rows: Sequence[Row], task: str) -> str:
    """Return the best system without learning if its preference on a task is above every competing row's."""
    reached = [(cell.preference.mean, row) for row in rows if (cell := row.cells.get(task)) and cell.preference]
    competing = [mean for mean, row in reached if row.standing not in NEVER_RANKED]
    without = [(mean, row.system) for mean, row in reached if row.system in UNLEARNED and row.standing == "reference"]
    best = max(without, default=(0.0, ""))
    return best[1] if competing and best[0] > max(competing) else ""


def with_learned(row: Row, tasks: Sequence[BoardTask]) -> Row:
    """Return the row with its mean over the tasks where learning counts, unless these are all or none of them."""
    names = [task.name for task in tasks if task.has("preference") and not task.unlearned]
    if row.preference is None or not names or not any(task.unlearned for task in tasks):
        return replace(row, learned=None, learned_interval=None)
    scores = {name: preference.by_seed.values() for name in names if (preference := row.cells[name].preference)}
    return replace(row, learned=mean_over_tasks(scores), learned_interval=satterthwaite_interval(scores, LEVEL))


def _over_tasks(
    cells: Mapping[str, Cell], tasks: Sequence[BoardTask], axis: ScoredAxis
) -> Mapping[str, Collection[float]] | None:
    """Return the scores of the tasks that have the axis; None if one of them is unknown."""
    names = [task.name for task in tasks if task.has(axis)]
    scores = {
        name: estimate.by_seed.values()
        for name in names
        if (cell := cells.get(name)) is not None and (estimate := getattr(cell, axis)) is not None
    }
    whole = len(scores) == len(names) and len(cells) == len(tasks)
    return scores if scores and whole else None


def _standing(row: Row, tasks: Sequence[BoardTask]) -> Standing:
    """Return the standing of a row, by its tasks and seeds unless it can never be ranked."""
    if row.standing in NEVER_RANKED:
        return row.standing
    if row.status == ELSEWHERE or len(row.cells) < len(tasks):
        return "partial"
    seeds = min(len(cell.seeds) for cell in row.cells.values())
    return "ranked" if seeds >= RANKED_SEEDS else "preliminary" if seeds >= PRELIMINARY_SEEDS else "too few seeds"

"""From entries to rows with scores on every task, before intervals, standings and ranks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from grue.errors import DataError
from grue.leaderboard.board import BoardTask, Cell, Column, Estimate, Row, Standing
from grue.leaderboard.entries import ScoredAxis, lacking, lacks, row_key
from grue.leaderboard.lineage import DIGITS, line
from grue.leaderboard.made import (
    algorithms_of,
    backbones_of,
    code_of,
    kept_updates,
    last_updates,
    machines_of,
    parameters_of,
    training_of,
    whole_of,
)
from grue.leaderboard.trained_on import rewards_of, terms_of
from grue.records import Entry, Result
from grue.stats.intervals import mean, sd
from grue.submissions.folder import does_not_compete, stated
from grue.tasks import MetricSpec, Task

FLOOR = 0.0  # the scaled score of a failed run


def board_task(task: Task, entries: Sequence[Entry], more: Collection[Column], data: Mapping[str, str]) -> BoardTask:
    """Return the task with the metrics of its file, followed by further ones that its results report.

    Args:
        more: Further columns, for example of the shipped board.
    """
    named = {spec.name: _column(spec) for spec in task.metrics}
    extra = {column.metric: column for column in more}
    for entry in entries:
        if entry.result.task == task.name:
            for score in entry.result.scores:
                if score.metric not in named:
                    extra[score.metric] = Column(score.metric, "diversity", score.direction)
    columns = (*named.values(), *(extra[name] for name in sorted(extra) if name not in named))
    return BoardTask(
        name=task.name,
        title=task.title,
        version=task.version,
        hash=task.hash,
        columns=columns,
        rewards=terms_of(task.reward),
        families=task.families,
        description=task.description,
        decoding=task.decoding.in_words(),
        data=data,
        backbone=task.backbone.model,
    )


def _column(spec: MetricSpec) -> Column:
    return Column(spec.name, spec.axis, spec.direction, spec.range, spec.reference)


def row_of(entries: Sequence[Entry], tasks: Sequence[BoardTask]) -> Row:
    """Return the row of a system's entries.

    Its standing is "ranked", unless it cannot be ranked with any number of seeds.
    """
    system, status, _, prompting, by_endpoint = row_key(entries[0])
    groups = {task: [entry for entry in entries if entry.result.task == task.name] for task in tasks}
    cells = {task.name: _cell(group, task) for task, group in groups.items() if group}
    about = entries[0].about
    if status == "local":  # each result states only its own backbone
        about = replace(about, backbone=stated((entry.result for entry in entries), "backbone"))
    return Row(
        system=system,
        status=status,
        standing=_standing(entries),
        about=about,
        rank=None,
        task_ranks={},
        preference=None,
        interval=None,
        naturalness=None,
        naturalness_interval=None,
        iqm=None,
        cells=cells,
        prompting=prompting,
        by_endpoint=by_endpoint,
        reruns=sum(entry.is_rerun for entry in entries),
    )


def _standing(entries: Sequence[Entry]) -> Standing:
    first = entries[0]
    if first.result.limited:
        return "limited"
    if first.status == "reported":
        return "no predictions"
    apart = any(does_not_compete(entry.result) for entry in entries)
    if first.about.deterministic or apart:
        return "reference"
    return "unverified" if first.unverified else "ranked"


def _cell(entries: Sequence[Entry], task: BoardTask) -> Cell:
    results = [entry.result for entry in entries]
    values: dict[str, dict[int, float]] = {column.metric: {} for column in task.columns}
    for result in (result for result in results if result.status == "complete"):
        for score in result.scores:
            values[score.metric][result.seed] = score.value
    return Cell(
        seeds=tuple(result.seed for result in results),
        failed=tuple(result.seed for result in results if result.status == "failed"),
        preference=_axis(entries, "preference") if task.has("preference") else None,
        interval=None,
        naturalness=_axis(entries, "naturalness") if task.has("naturalness") else None,
        metrics={metric: estimate(by_seed) for metric, by_seed in values.items() if by_seed},
        rewards=rewards_of(results, task.rewards),
        lineage={
            result.seed: tuple(each[:DIGITS] for each in lineage) for result in results if (lineage := line(result))
        },
        training=training_of(results),
        updates=kept_updates(results),
        whole=whole_of(results),
        last_updates=last_updates(results),
        parameters=parameters_of(results),
        code=code_of(results),
        machines=machines_of(results),
        algorithms=algorithms_of(results),
        presets=tuple(sorted({entry.preset for entry in entries if entry.preset})),
        backbones=backbones_of(entries, task.backbone),
        searched=_searched(results),
    )


def _searched(results: Sequence[Result]) -> Estimate | None:
    """Return the preference of answers by search; None unless every seed states it."""
    by_seed = {result.seed: result.searched.preference for result in results if result.searched is not None}
    values = {seed: value for seed, value in by_seed.items() if value is not None}
    return estimate(values) if values and len(values) == len(results) else None


def _axis(entries: Sequence[Entry], axis: ScoredAxis) -> Estimate | None:
    """Return the estimate of an axis; None if it was not computed."""
    by_seed = {}
    for entry in entries:
        value = getattr(entry.result, axis) if entry.result.status == "complete" else FLOOR
        if entry.status != "recomputed" and lacks(entry.result, axis):
            raise DataError(lacking(entry, axis))
        if value is None:
            return None
        by_seed[entry.result.seed] = value
    return estimate(by_seed)


def estimate(by_seed: Mapping[int, float]) -> Estimate:
    """Return mean and standard deviation of seed → value."""
    return Estimate(mean(by_seed.values()), sd(by_seed.values()), by_seed)

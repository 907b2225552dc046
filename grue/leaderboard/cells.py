"""From entries to rows with scores on every task, before intervals, standings and ranks.

Results of submissions are untrusted: an impossible figure (see `grue.submissions.checks.claims.amount`) counts as not
stated.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from grue.errors import DataError
from grue.evaluation.prompting import is_by_endpoint
from grue.leaderboard.board import BoardTask, Cell, Column, Estimate, Row, Standing
from grue.leaderboard.entries import lacking, lacks, row_key
from grue.leaderboard.lineage import DIGITS, line
from grue.leaderboard.trained_on import rewards_of, terms_of
from grue.records import COSTS, Cost, Entry, Result, ScoredAxis
from grue.submissions.checks.claims import MOST, amounts, costs_of, last_of
from grue.submissions.folder import does_not_compete, stated
from grue.tasks import Task

FLOOR = 0.0  # the scaled score of a failed run
COMMIT = re.compile(r"[0-9a-f]{7,64}")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,30}")
ALGORITHM = re.compile(r"[\w+.-]{1,80}", re.ASCII)
MACHINE = re.compile(r"[\w .,:()@/+-]{1,120}", re.ASCII)


def board_task(task: Task, entries: Sequence[Entry], more: Collection[Column], data: Mapping[str, str]) -> BoardTask:
    """Return the task with the metrics of its file, followed by further ones that its results report."""
    named = {
        spec.name: Column(spec.name, spec.axis, spec.direction, spec.range, spec.reference) for spec in task.metrics
    }
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


def row_of(entries: Sequence[Entry], tasks: Sequence[BoardTask]) -> Row:
    """Return the row of a system's entries, "ranked" unless it cannot be ranked with any number of seeds."""
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
        metrics={metric: Estimate.of(by_seed) for metric, by_seed in values.items() if by_seed},
        rewards=rewards_of(results, task.rewards),
        lineage={
            result.seed: tuple(each[:DIGITS] for each in lineage) for result in results if (lineage := line(result))
        },
        training=_spent({result.seed: costs_of(result)[0] for result in results}),
        updates=_counts({result.seed: result.system.get("update") for result in results}),
        whole=_spent({result.seed: costs_of(result)[1] for result in results}),
        last_updates=_counts({result.seed: last_of(result).get("update") for result in results}),
        parameters=max(_counts({r.seed: r.system.get("parameters") or None for r in results}).values(), default=None),
        code=tuple(sorted({text for result in results if (text := _code(result.grue))})),
        machines=_legible(MACHINE, (of.get("machine") for r in results for of in (r.system, r.determinism))),
        algorithms=_legible(ALGORITHM, (result.system.get("algorithm") for result in results)),
        presets=tuple(sorted({entry.preset for entry in entries if entry.preset})),
        backbones=_backbones(entries, task.backbone),
        searched=_searched(results),
    )


def _spent(stated: Mapping[int, Mapping[Cost, Any]]) -> dict[Cost, dict[int, float]]:
    """Return cost → seed → value, without costs that no result states."""
    by_seed = {seed: amounts(costs) for seed, costs in stated.items()}
    spent = {cost: {seed: costs[cost] for seed, costs in by_seed.items() if cost in costs} for cost in COSTS}
    return {cost: values for cost, values in spent.items() if values}


def _counts(stated: Mapping[int, Any]) -> dict[int, int]:
    """Return seed → number, as far as results state one."""
    return {seed: n for seed, n in stated.items() if type(n) is int and 0 <= n <= MOST}


def _code(made_by: Mapping[str, Any]) -> str:
    """Return a version of grue as "0.1.0 (09d6de5)"; + marks uncommitted changes."""
    version, commit = str(made_by.get("version", "")), str(made_by.get("commit", ""))
    if not VERSION.fullmatch(version):
        return ""
    changed = "+" if made_by.get("dirty") is True else ""
    return f"{version} ({commit[:7]}{changed})" if COMMIT.fullmatch(commit) else version


def _legible(pattern: re.Pattern[str], stated: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts of a pattern among what results state, each once, sorted."""
    return tuple(sorted({text for text in stated if isinstance(text, str) and pattern.fullmatch(text)}))


def _backbones(entries: Iterable[Entry], own: str) -> tuple[str, ...]:
    """Return the models that results were trained from, without `own`, the task's.

    Outputs that are published elsewhere, or answers of a server, do not name models in a comparable way.
    """
    results = [entry.result for entry in entries if entry.status != "recomputed" and not is_by_endpoint(entry.result)]
    return tuple(sorted({result.system.get("backbone") or "" for result in results} - {"", "none", own}))


def _searched(results: Sequence[Result]) -> Estimate | None:
    """Return the preference of answers by search; None unless every seed states it."""
    by_seed = {result.seed: result.searched.preference for result in results if result.searched is not None}
    values = {seed: value for seed, value in by_seed.items() if value is not None}
    return Estimate.of(values) if values and len(values) == len(results) else None


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
    return Estimate.of(by_seed)

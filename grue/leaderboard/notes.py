"""Notes on the results of a board: what was left out, what failed, what could not be scored."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from grue.evaluation.prompting import chat_of
from grue.leaderboard.board import Row
from grue.leaderboard.budgets import budget_notes
from grue.leaderboard.entries import row_key
from grue.leaderboard.trained_on import names_no_reward
from grue.records import BASELINES, UNFINISHED, Entry, Result
from grue.tasks import Task

K = TypeVar("K")
V = TypeVar("V")

UNMOVED = "did not beat the start on validation: update 0 was kept."
"""End of the note on these systems, which names all of a board."""
LEFT_OUT = "left out, made"
"""Part of the notes on results that do not fit their task."""


def notes_on(misfits: Sequence[tuple[Entry, str]], shown: Sequence[Entry], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the notes of a board of the entries `shown`, without the `misfits`, each with its reason."""
    yield from _misfit_notes(misfits)
    yield from _renamed_notes(shown)
    yield from _reference_notes(shown)
    yield from _failure_notes(rows)
    yield from _unmoved_notes(rows)
    yield from _backbone_notes(shown)
    yield from _unnamed_reward_notes(shown)
    yield from budget_notes(rows)
    yield from _error_notes(shown)
    yield from _signature_notes(shown)


def misfit(result: Result, task: Task, task_hash: str) -> str | None:
    """Return why a result cannot be compared with the others of its task; None if it can.

    Args:
        task_hash: Its hash, which is slow to compute.
    """
    split = task.data.splits[task.data.evaluation]
    chat = chat_of(result)
    if chat is not None and (not task.chat_hash or chat.get("hash") != task.chat_hash):
        return "by another chat prompt than the task's"
    if result.task_hash != task_hash:
        return "for another version of the task"
    if result.system.get(UNFINISHED):
        return "while the run was not finished"
    if result.split != task.data.evaluation:
        return f"on the split {result.split!r} instead of {task.data.evaluation!r}"
    if not split.fits(result.data.get("examples"), result.data.get("ids_sha256")):
        return "on other examples than the task's"
    return None


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _misfit_notes(misfits: Sequence[tuple[Entry, str]]) -> Iterator[str]:
    by_reason = _grouped(((entry.result.task, reason), entry.result) for entry, reason in misfits)
    for (task, reason), results in sorted(by_reason.items(), key=lambda item: item[0]):
        yield f"{task}: {_listed(results)} {LEFT_OUT} {reason}; evaluate again with `grue evaluate --force`."


def _listed(results: Iterable[Result]) -> str:
    seeds = _grouped((result.system["name"], result.seed) for result in results)
    return "; ".join(f"{name} ({_seeds(numbers)})" for name, numbers in seeds.items())


def _seeds(numbers: Iterable[int]) -> str:
    distinct = sorted(set(numbers))
    return f"seed{'s' if len(distinct) > 1 else ''} {', '.join(map(str, distinct))}"


def _renamed_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the local folders that have another name than the system that they hold."""
    local = [(e.path.parent.parent, str(e.result.system["name"])) for e in entries if e.status == "local"]
    for folder, name in sorted({(folder, name) for folder, name in local if folder.name != name}):
        yield (
            f"{folder}: holds {name}, since a run keeps the name it was trained under. `grue train --system` sets "
            "another, and `grue submit pack --name` one for the submission."
        )


def _reference_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the origin of the figures of recomputed rows, whose texts are not in the repository."""
    for entry in (entry for entry in entries if entry.status == "recomputed"):
        result, data = entry.result, entry.result.data
        lacking = ", ".join(error.partition(": ")[0] for error in result.errors)
        yield (
            f"{result.task}: {result.system['name']} ({result.system['year']}) was computed by grue "
            f"{result.grue['version']} from outputs that are published elsewhere, {data['outputs']} (sha256 "
            f"{data['outputs_sha256'][:12]}…), on {data['examples']:,} examples of the split {result.split!r} "
            f"({data['source_split']!r} at the source, {data['source']}); "
            f"{f'not computed: {lacking}; ' if lacking else ''}one output for each example, so it has no rank."
        )


def _failure_notes(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        for task, cell in row.cells.items():
            if cell.failed:
                yield f"{task}: {row.system} ({_seeds(cell.failed)}) failed and counts as 0."


def _unmoved_notes(rows: Sequence[Row]) -> Iterator[str]:
    by_task = _grouped(
        (task, f"{row.system} ({_seeds(seeds)})")
        for row in rows
        for task, cell in row.cells.items()
        if (seeds := [seed for seed, update in cell.updates.items() if update == 0])
    )
    for task, systems in sorted(by_task.items()):
        yield f"{task}: {'; '.join(systems)} {UNMOVED}"


def _backbone_notes(entries: Sequence[Entry]) -> Iterator[str]:
    by_row = _grouped(((entry.result.task, row_key(entry)), entry.result) for entry in entries)
    for (task, _), results in by_row.items():
        models = {str(model) for result in results if (model := result.system.get("backbone"))}
        if len(models) > 1:
            yield (
                f"{task}: the row of {_listed(results)} is of several backbones, {', '.join(sorted(models))}; train "
                "one of them again under a name of its own (--system)."
            )


def _unnamed_reward_notes(entries: Sequence[Entry]) -> Iterator[str]:
    trained = [e.result for e in entries if e.result.system.get("algorithm") not in BASELINES]
    unnamed = [result for result in trained if result.status == "complete" and names_no_reward(result)]
    for task, results in sorted(_grouped((result.task, result) for result in unnamed).items()):
        yield f"{task}: the reward is not stated, and taken to be the task's: {_listed(results)}."


def _error_notes(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield what could not be scored, without the reasons, which are long and name local paths."""
    own = [e.result for e in entries if e.status != "recomputed" and e.result.status == "complete"]
    by_metric = _grouped(((r.task, error.partition(": ")[0]), r) for r in own for error in r.errors)
    for (task, metric), results in sorted(by_metric.items(), key=lambda item: item[0]):
        yield f"{task}: {metric} could not be computed for {_listed(results)}; each result.json says why."


def _signature_notes(entries: Sequence[Entry]) -> Iterator[str]:
    by_metric = _grouped(((e.result.task, score.metric), score.signature) for e in entries for score in e.result.scores)
    for (task, metric), stated in sorted(by_metric.items()):
        if len(signatures := set(stated)) > 1:
            ways = " and ".join(sorted(signatures))
            yield f"{task}: {metric} was computed in {len(signatures)} ways, {ways}; score the runs again."

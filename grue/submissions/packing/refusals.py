"""What keeps collected runs from being one submission; the check tells all else once they are packed."""

from collections.abc import Iterator, Sequence

from grue.records import Result
from grue.submissions.packing.collect import PackedRun
from grue.task_files import SUITES, load_task, task_names


def refusals(runs: Sequence[PackedRun], deterministic: bool = False) -> list[str]:
    """Return why runs cannot be one submission, a line for each reason; empty if they can."""
    faults = [f"{run.origin}: {reason}" for run in runs for reason in _faults(run.result)]
    return [*faults, *_several(runs), *_repeated(runs, deterministic), *_gaps(runs)]


def _faults(result: Result) -> Iterator[str]:
    if result.suite not in SUITES or result.task not in task_names(result.suite):
        yield f"{result.suite}/{result.task} is not a task of a board; the boards are those of {' and '.join(SUITES)}."
        return
    task = load_task(result.task, result.suite)
    if result.limited or (result.task_hash, result.split) != (task.hash, task.data.evaluation):
        yield (
            f"is not of all of the split {task.data.evaluation!r} of the current version of {task.name}; evaluate it "
            "again, with --force."
        )


def _several(runs: Sequence[PackedRun]) -> Iterator[str]:
    names, suites = {run.result.system["name"] for run in runs}, {run.result.suite for run in runs}
    for noun, values in (("systems", names), ("suites", suites)):
        if len(values) > 1:
            yield f"These are runs of {len(values)} {noun}, {', '.join(sorted(values))}; pack each by itself."


def _repeated(runs: Sequence[PackedRun], deterministic: bool) -> Iterator[str]:
    places: dict[tuple[str, int], str] = {}
    for run in runs:
        task, seed = run.result.task, run.result.seed
        other = places.setdefault((task, seed), run.origin)
        if other != run.origin:
            yield f"{run.origin} and {other} are both {task} with seed {seed}; leave one out."
    seeds = {run.result.seed for run in runs}
    if deterministic and len(seeds) > 1:
        yield f"--deterministic: takes one seed; these are {', '.join(map(str, sorted(seeds)))}. Pack one."


def _gaps(runs: Sequence[PackedRun]) -> Iterator[str]:
    """Yield the seeds that some tasks have and others lack: a failed run is declared, never left out."""
    seeds = {run.result.seed for run in runs}
    by_task: dict[str, set[int]] = {}
    for run in runs:
        by_task.setdefault(run.result.task, set()).add(run.result.seed)
    for task in sorted(by_task):
        for seed in sorted(seeds - by_task[task]):
            yield f"{task} has no seed {seed}, which other tasks have: add the run, or --failed {task}:{seed}."

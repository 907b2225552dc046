"""What keeps collected runs from being one submission: found before anything is written."""

from collections.abc import Iterator, Sequence

from grue import files
from grue.records import Result, other_examples
from grue.submissions.checks.learned import unnamed_models
from grue.submissions.checks.prompting import mixed, of_another_prompt
from grue.submissions.folder import does_not_compete, kept_one_start
from grue.submissions.packing.collect import PackedRun
from grue.task_files import SUITES, load_task, task_names


def refusals(runs: Sequence[PackedRun], deterministic: bool = False) -> list[str]:
    """Return why runs cannot be one submission, a line for each reason; empty if they can."""
    found = [f"{run.origin}: {reason}" for run in runs for reason in _faults(run.result)]
    names = sorted({run.result.system["name"] for run in runs})
    if len(names) > 1:
        found.append(f"These are runs of {len(names)} systems, {', '.join(names)}; pack each by itself.")
    if (promptings := mixed(run.result for run in runs)) is not None:
        found.append(f"These are runs of {promptings}, which are systems of their own; pack each by itself.")
    suites = sorted({run.result.suite for run in runs})
    if len(suites) > 1:
        found.append(f"These are runs of {len(suites)} suites, {', '.join(suites)}; pack each by itself.")
    return [*found, *_other_data(runs), *_twins(runs, deterministic), *_gaps(runs)]


def _faults(result: Result) -> Iterator[str]:
    if result.suite not in SUITES or result.task not in task_names(result.suite):
        yield f"{result.suite}/{result.task} is not a task of a board; the boards are those of {' and '.join(SUITES)}."
        return
    task = load_task(result.task, result.suite)
    if result.limited and result.split == task.data.evaluation:
        yield "was scored on a part of the split; evaluate all of it, with --force."
    if result.task_hash != task.hash:
        yield f"was made for another version of {task.name}; evaluate it again, with --force."
    yield from (f"{line} Evaluate it again, with its run's config.toml beside it." for line in unnamed_models(result))
    if (other := of_another_prompt(result, task)) is not None:
        yield f"{other.removesuffix('.')}; evaluate it again."
    if result.split != task.data.evaluation:
        yield f"was evaluated on the split {result.split!r}, not on {task.data.evaluation!r}; evaluate it again."


def _other_data(runs: Sequence[PackedRun]) -> Iterator[str]:
    """Yield the runs that were scored on other examples than the first of their task."""
    first: dict[str, PackedRun] = {}
    for run in runs:
        before = first.setdefault(run.result.task, run)
        if other := other_examples(run.result.hashes, before.result.hashes):
            yield (
                f"{run.origin}: was scored on other examples than {before.origin} ({other}); evaluate the one that is "
                "not of the task's own data again, with --force."
            )


def _twins(runs: Sequence[PackedRun], deterministic: bool) -> Iterator[str]:
    places: dict[tuple[str, int], str] = {}
    outputs: dict[tuple[str, str], PackedRun] = {}
    for run in runs:
        task, seed = run.result.task, run.result.seed
        other = places.setdefault((task, seed), run.origin)
        if other != run.origin:
            yield f"{run.origin} and {other} are both {task} with seed {seed}; leave one out."
        if run.predictions is None or does_not_compete(run.result):  # a backbone decoded with beams is the same for all
            continue
        texts = sorted((prediction.id, [one.text for one in prediction.draws]) for prediction in run.predictions)
        same = outputs.setdefault((task, files.sha256_json(texts)), run)
        if same is not run and not deterministic and not kept_one_start(run.result, same.result):
            yield (
                f"{run.origin} and {same.origin} have the same predictions. Each run enters once; if the output "
                "depends on no seed, pack one seed with --deterministic."
            )
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

"""Checks of a system's folder that need no scoring: its files, their content, and whether they agree."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from grue.errors import ConfigError, DataError, escaped
from grue.evaluation.prompting import ENDPOINT
from grue.files import canonical_json, plain
from grue.records import BASELINES, EXTERNAL, LOOKUPS, SEEDLESS, SYSTEM_NAME, Result
from grue.submissions.checks.budgets import impossible
from grue.submissions.checks.prompting import mixed, of_another_prompt
from grue.submissions.checks.rescoring import SubmittedRun
from grue.submissions.configuration import check_configurations
from grue.submissions.folder import (
    PRELIMINARY_SEEDS,
    RANKED_SEEDS,
    SUBMISSION,
    Submission,
    does_not_compete,
    illegible,
    kept_one_start,
    place_of,
    predictions_of,
    read_result,
    read_submission,
    result_of,
    seed_of,
    stated,
    untrue,
)
from grue.submissions.problems import Problem, error, warning
from grue.submissions.reading import Scan, check_manifest, scan, without_path
from grue.submissions.trust.record import standing_of
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import Task

_SAME_CONFIGURATION = ("algorithm", "backbone", "revision", "parameters")


@dataclass(frozen=True, slots=True)
class Contents:
    """What was read from a system's folder, and what is wrong with it so far.

    Attributes:
        suite: Empty if the folder is under no suite.
        runs: Task → its runs.
        references: The tasks on whose boards it is shown without a rank.
    """

    system: Path
    suite: str
    problems: tuple[Problem, ...]
    runs: Mapping[str, tuple[SubmittedRun, ...]]
    references: frozenset[str] = frozenset()

    @property
    def is_reference(self) -> bool:
        """Whether it is a reference on all of its tasks."""
        return bool(self.runs) and self.references.issuperset(self.runs)


def read_system(system: Path) -> Contents:
    """Read a system's folder, whatever state it is in."""
    suite = place_of(system).parent.name
    if suite not in SUITES:
        wrong = f"{suite!r} is not a suite; a submission is in a folder under {' or '.join(SUITES)}."
        return Contents(system, "", (error(1, system, wrong),), {})
    found = scan(system, task_names(suite))
    if not found.was_entered:
        return Contents(system, suite, found.problems, {})
    submission, unread = _read_submission(system, found)
    results, unreadable = _read_results(system, found)
    references = _references(system, found, results, deterministic=submission is not None and submission.deterministic)
    unlisted, altered = check_manifest(system, found)
    problems = [*found.problems, *unread, *unreadable, *unlisted, *_check_structure(system, found)]
    if submission is not None:
        problems += _check_declared(system, found, submission)
        problems += [] if unreadable else _check_named(system / SUBMISSION, submission, results)
    for path, result in results.items():
        problems += _check_result(path, result)
        predictions = predictions_of(path).relative_to(system).as_posix()
        problems += _check_predictions(path, result, predictions in found.present)
    problems += _check_completeness(system, suite, found, references)
    problems += _check_same_settings(results)
    problems += _check_weights(results)
    if (promptings := mixed(results.values())) is not None:
        problems.append(error(91, system, f"has results of {promptings}."))
    problems += check_configurations(system, found, results)
    runs = {task: _runs(system / task, found, results, altered) for task in _tasks_of(found)}
    contents = Contents(system, suite, tuple(problems), runs, references)
    if system.name in BASELINES and not contents.is_reference:
        problems.append(error(1, system, "is the name of a reference, and competes."))
    if not contents.is_reference and not any(problem.severity == "error" for problem in problems):
        problems += _check_trust(system, suite, list(results.values()))
    return replace(contents, problems=tuple(problems))


def _check_trust(system: Path, suite: str, results: list[Result]) -> Iterator[Problem]:
    try:
        why = standing_of(system, suite, results).why
    except DataError as refusal:
        why = str(refusal).rstrip(".")
    if why:
        yield warning(96, system, f"{why}.")


def _references(system: Path, found: Scan, results: Mapping[Path, Result], *, deterministic: bool) -> frozenset[str]:
    """Return the tasks on which a system does not compete, as the board decides it: by the results on each.

    A failed run proves nothing.
    """
    if deterministic:
        return frozenset(_tasks_of(found))
    complete = {path: result for path, result in results.items() if result.status == "complete"}
    return frozenset(path.relative_to(system).parts[0] for path, result in complete.items() if does_not_compete(result))


def _check_structure(system: Path, found: Scan) -> Iterator[Problem]:
    if not SYSTEM_NAME.fullmatch(system.name):
        yield error(1, system, "is not a valid name of a system: use letters, digits, '_', '-', '+' and '.'.")
    if not found.problems and not any(map(_is_result, found.present)):
        yield error(1, system, "holds no result.")
    for name in sorted(name for name in found.readable if name.endswith(".gz")):
        result = result_of(system / name)
        if result.relative_to(system).as_posix() not in found.present:
            yield error(1, system / name, f"has no {result.name} beside it.")


def _read_submission(system: Path, found: Scan) -> tuple[Submission | None, list[Problem]]:
    path = system / SUBMISSION
    if SUBMISSION not in found.present:
        return None, [error(2, path, "is missing.")]
    if SUBMISSION not in found.readable:
        return None, []  # `scan` reported why
    try:
        return read_submission(system), []
    except ConfigError as refusal:
        return None, [error(2, path, without_path(refusal, path))]


def _read_results(system: Path, found: Scan) -> tuple[dict[Path, Result], list[Problem]]:
    results, problems = {}, []
    for path in (system / name for name in sorted(found.readable) if _is_result(name)):
        try:
            results[path] = read_result(path)
        except DataError as refusal:
            problems.append(error(3, path, without_path(refusal, path)))
            continue
        # Scores are computed again, and errors are long messages that grue writes.
        stated = {key: value for key, value in plain(results[path]).items() if key not in ("scores", "errors")}
        problems += [error(3, path, f"{line}.") for line in illegible(stated)]
    return results, problems


# --- results ---------------------------------------------------------------------------------------------------------


def _check_result(path: Path, result: Result) -> Iterator[Problem]:
    yield from _check_place(path, result)
    task = _task_at(path)
    if result.limited:
        yield error(6, path, "was scored on a part of the split or on a file.")
    if not _is_of_the_task(path, result):
        stated = f"version {result.task_version} ({result.task_hash[:12]}), split {result.split!r}"
        now = f"version {task.version} ({task.hash[:12]}), split {task.data.evaluation!r}"
        yield error(6, path, f"was evaluated on {stated}; the task is now {now}.")
    else:
        yield from _check_ids(path, result)
    if (other := of_another_prompt(result, task)) is not None:
        yield error(6, path, other)
    yield from (error(93, path, f"{line}.") for line in (*untrue(result), *impossible(result)))
    if result.grue.get("dirty") is True:
        yield warning(36, path, "was made by a checkout with uncommitted changes.")


def _check_ids(path: Path, result: Result) -> Iterator[Problem]:
    """Yield if a result states other ids than the task file."""
    split = _task_at(path).data.splits[_task_at(path).data.evaluation]
    stated = result.data.get("ids_sha256", split.ids_sha256)
    if split.ids_sha256 and stated != split.ids_sha256:
        yield error(19, path, f"ids_sha256: states {stated!r}; of the split: {split.ids_sha256!r}.")


def _check_weights(results: Mapping[Path, Result]) -> Iterator[Problem]:
    """Yield the trained seeds of a task that name the same weights: chance differs, and so do the weights."""
    trained = [(path, result) for path, result in results.items() if result.system.get("config_sha256")]
    for (path, result), (other, same) in combinations(trained, 2):
        weights = result.system.get("weights") or ""
        alike = path.parent == other.parent and weights and weights == same.system.get("weights")
        if alike and not kept_one_start(result, same):
            yield error(94, other, f"weights: states {escaped(weights[:12])!r}, as {path.name} does.")


def _check_place(path: Path, result: Result) -> Iterator[Problem]:
    suite, system, task = place_of(path).parts[-4:-1]
    seed = path.name.removesuffix(".result.json")
    for key, said, place in (
        ("suite", result.suite, suite),
        ("system", result.system["name"], system),
        ("task", result.task, task),
        ("seed", f"seed-{result.seed}", seed),
    ):
        if said != place:
            yield error(4, path, f"{key}: the file states {said!r}, its path {place!r}.")


def _task_at(path: Path) -> Task:
    """Return the task that a result's path names."""
    suite, _, name = place_of(path).parts[-4:-1]
    return load_task(name, suite)


def _is_of_the_task(path: Path, result: Result) -> bool:
    task = _task_at(path)
    said = (result.task_version, result.task_hash, result.split)
    return said == (task.version, task.hash, task.data.evaluation)


def _check_predictions(path: Path, result: Result, there: bool) -> Iterator[Problem]:
    """Yield if a failed run has predictions or says what came of them, or a complete one has no predictions."""
    predictions = predictions_of(path)
    if result.status == "complete" and not there:
        yield error(7, predictions, f"is missing, but {path.name} declares the run complete.")
    if result.status == "failed" and there:
        yield error(21, path, f"declares the run failed, but has {predictions.name} beside it.")
    if result.status == "failed" and (result.scores, result.preference, result.naturalness) != ((), None, None):
        yield error(21, path, "declares the run failed, but has scores.")
    if result.status == "failed" and result.errors:
        yield error(21, path, "declares the run failed, but states errors of metrics.")


def _check_same_settings(results: Mapping[Path, Result]) -> Iterator[Problem]:
    """Yield settings that differ between the seeds of a task."""
    for folder in dict.fromkeys(path.parent for path in results):
        complete = [r for path, r in results.items() if path.parent == folder and r.status == "complete"]
        said = {"generation": {canonical_json(_without_prompting(result)) for result in complete}}
        said |= {key: {canonical_json(result.system.get(key)) for result in complete} for key in _SAME_CONFIGURATION}
        for key, values in said.items():
            if len(values) > 1:
                yield warning(37, folder, f"{key}: {len(values)} values in {len(complete)} seeds.")


def _without_prompting(result: Result) -> dict[str, Any]:
    """Return how a result's texts were drawn; another prompting is another check's."""
    return {key: value for key, value in result.generation.items() if key != "prompting"}


# --- seeds and tasks -------------------------------------------------------------------------------------------------


def _check_declared(system: Path, found: Scan, submission: Submission) -> Iterator[Problem]:
    path = system / SUBMISSION
    if submission.name != system.name:
        yield error(2, path, f"name: {submission.name!r}, but the folder is called {system.name!r}.")
    for task in _tasks_of(found):
        seeds = _seeds(found, task)
        if seeds != set(submission.seeds):
            declared = _listed(submission.seeds)
            yield error(10, system / task, f"has seeds {_listed(seeds)}; {SUBMISSION} declares {declared}.")


def _check_named(path: Path, submission: Submission, results: Mapping[Path, Result]) -> Iterator[Problem]:
    """Yield where `submission.toml`, whose words the board shows, names another algorithm or backbone than the results.

    Of a model that was made elsewhere they do not know the algorithm. What has no backbone has "none".
    """
    algorithms = {result.system.get("algorithm") for result in results.values()}
    algorithm = stated(results.values(), "algorithm") if not algorithms & {EXTERNAL, ENDPOINT} else ""
    usual = "none" if algorithms <= {*SEEDLESS, *LOOKUPS} and algorithms else ""
    backbone = stated(results.values(), "backbone") or usual
    for key, said, found in (
        ("algorithm", submission.algorithm, algorithm),
        ("backbone", submission.backbone, backbone),
    ):
        if found not in ("", said):
            yield error(2, path, f"{key}: states {said!r}; the results {found!r}.")


def _check_completeness(system: Path, suite: str, found: Scan, references: Collection[str]) -> Iterator[Problem]:
    seeds = {task: len(_seeds(found, task)) for task in _tasks_of(found)}
    lacking = [task for task in task_names(suite) if task not in seeds]
    competing = {task: count for task, count in seeds.items() if task not in references}
    if competing and lacking:
        yield warning(30, system, f"has no {', '.join(lacking)}; it will be shown without a rank.")
    fewest = min(competing.values(), default=RANKED_SEEDS)
    if fewest < RANKED_SEEDS:
        shown = "as preliminary" if fewest >= PRELIMINARY_SEEDS else "without a rank"
        yield warning(30, system, f"has {fewest} seed{'s' if fewest > 1 else ''} of a task; it will be shown {shown}.")


def _is_result(name: str) -> bool:
    task, slash, file = name.partition("/")
    return bool(task and slash and seed_of(file) is not None)


def _tasks_of(found: Scan) -> list[str]:
    """Return the tasks that have a result file, whatever its state."""
    return sorted({name.partition("/")[0] for name in found.present if _is_result(name)})


def _seeds(found: Scan, task: str) -> set[int]:
    names = (name.partition("/") for name in found.present)
    return {seed for folder, _, file in names if folder == task and (seed := seed_of(file)) is not None}


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _runs(
    folder: Path, found: Scan, results: Mapping[Path, Result], altered: frozenset[str]
) -> tuple[SubmittedRun, ...]:
    """Return the runs of a system in its folder of a task."""
    runs = []
    for seed in sorted(_seeds(found, folder.name)):
        path = folder / f"seed-{seed}.result.json"
        result, predictions = results.get(path), predictions_of(path)
        readable = f"{folder.name}/{predictions.name}" in found.readable
        current = result is None or (not result.limited and _is_of_the_task(path, result))
        complete = result is not None and result.status == "complete"
        sealed = not altered & {f"{folder.name}/{one.name}" for one in (path, predictions)}
        runs.append(
            SubmittedRun(path, result if complete else None, predictions if readable else None, current, sealed)
        )
    return tuple(runs)

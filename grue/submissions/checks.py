"""What a submission must pass: structure, frozen ids, and every score recomputed from the predictions."""

import gzip
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, GrueError, SubmissionError
from grue.records import Example, Result, Score
from grue.scoring import Scored, read_predictions, score_predictions
from grue.submissions.folder import (
    MANIFEST,
    RESULT,
    SUBMISSION,
    SYSTEM_NAME,
    Submission,
    predictions_of,
    read_result,
    read_submission,
    result_of,
    systems,
)
from grue.submissions.problems import Problem, error
from grue.tasks import SUITES, Task, load_task, task_names

MAX_BYTES = 10_000_000
TOLERANCE = 1e-6
MODEL_TOLERANCE = 1e-4  # for metrics that run a model, whose last digits depend on the machine


def check(folder: Path) -> list[Problem]:
    """Return every problem of the submissions in `folder`, which is `submissions/` or one system's folder in it.

    Raises:
        DataError: There is no such folder, or the examples of a task cannot be loaded.
    """
    examples = cache(_evaluation_examples)
    return [problem for system in systems(folder) for problem in _check_system(system, examples)]


# --- checks ----------------------------------------------------------------------------------------------------------

Examples = Callable[[str, str], Sequence[Example]]  # (task, suite) → the examples that are scored


def _evaluation_examples(name: str, suite: str) -> Sequence[Example]:
    task = load_task(name, suite)
    return load_examples(task, task.data.evaluation).examples


def _told(refusal: GrueError, path: Path) -> str:
    """Return the message without the path that it begins with, which the problem says itself."""
    return str(refusal).removeprefix(str(path)).lstrip(":, ")


def _check_system(system: Path, examples: Examples) -> Iterator[Problem]:
    suite = system.resolve().parent.name
    if suite not in SUITES:
        yield error(1, system, f"{suite!r} is no suite; a submission lies under {' or '.join(SUITES)}.")
        return
    links = [path for path in (system, *sorted(system.rglob("*"))) if path.is_symlink()]
    if links:  # nothing is read of a folder that may lead out of itself
        yield from (error(1, path, "is a link.") for path in links)
        return
    yield from _check_structure(system, suite)
    submission = None
    try:
        submission = read_submission(system)
    except ConfigError as refusal:
        yield error(2, system / SUBMISSION, _told(refusal, system / SUBMISSION))
    if submission is not None:
        yield from _check_submission(system, suite, submission)
    for path in sorted(system.glob("*/seed-*.result.json")):
        if RESULT.fullmatch(path.name) and path.parent.name in task_names(suite):
            yield from _check_result(path, load_task(path.parent.name, suite), examples)


def _check_structure(system: Path, suite: str) -> Iterator[Problem]:
    tasks = "|".join(map(re.escape, task_names(suite)))
    shape = re.compile(
        rf"submission\.toml|{MANIFEST}|({tasks})/seed-(0|[1-9]\d*)\.(result\.json|predictions\.jsonl\.gz)"
    )
    for path in sorted(path for path in system.rglob("*") if path.is_file()):
        if not shape.fullmatch(path.relative_to(system).as_posix()):
            yield error(1, path, "is not a file of a submission.")
    for path in sorted(system.glob("*/seed-*.predictions.jsonl.gz")):
        if not result_of(path).is_file():
            yield error(1, path, f"has no {result_of(path).name} beside it.")
    if not SYSTEM_NAME.fullmatch(system.name):
        yield error(1, system, "is no name of a system: use letters, digits, '_', '-', '+' and '.'.")
    if not any(system.glob("*/seed-*.result.json")):
        yield error(1, system, "holds no result.")


def _check_submission(system: Path, suite: str, submission: Submission) -> Iterator[Problem]:
    path = system / SUBMISSION
    if submission.name != system.name:
        yield error(2, path, f"name: {submission.name!r}, but the folder is called {system.name!r}.")
    if len(set(submission.seeds)) < len(submission.seeds):
        yield error(10, path, f"seeds: one stands there twice: {_listed(submission.seeds)}.")
    for task in (system / name for name in task_names(suite) if (system / name).is_dir()):
        found = {int(match[1]) for file in task.iterdir() if (match := RESULT.fullmatch(file.name))}
        if found != set(submission.seeds):
            yield error(10, task, f"has seeds {_listed(found)}; submission.toml declares {_listed(submission.seeds)}.")


def _check_result(path: Path, task: Task, examples: Examples) -> Iterator[Problem]:
    try:
        result = read_result(path)
    except DataError as refusal:
        yield error(3, path, _told(refusal, path))
        return
    yield from _check_place(path, result)
    if result.limited:
        yield error(5, path, "was scored on a part of the split.")
    evaluated, wanted = (result.task_hash, result.split), (task.hash, task.data.evaluation)
    if evaluated != wanted:
        told = " and ".join(f"{task_hash[:12]}, split {split!r}" for task_hash, split in (evaluated, wanted))
        yield error(6, path, f"what was evaluated and what the task is now differ: {told}.")
    if evaluated == wanted and not result.limited and result.status == "complete":
        yield from _check_scores(path, result, task, examples)


def _check_place(path: Path, result: Result) -> Iterator[Problem]:
    suite, system, task = path.resolve().parts[-4:-1]
    seed = path.name.removesuffix(".result.json")
    for key, said, place in (
        ("suite", result.suite, suite),
        ("system", result.system["name"], system),
        ("task", result.task, task),
        ("seed", f"seed-{result.seed}", seed),
    ):
        if said != place:
            yield error(4, path, f"{key}: the file says {said!r}, its place says {place!r}.")


def _check_scores(path: Path, result: Result, task: Task, examples: Examples) -> Iterator[Problem]:
    predictions_path = predictions_of(path)
    if _unpacks_to_more_than(predictions_path, MAX_BYTES):
        yield error(7, predictions_path, f"unpacks to more than {MAX_BYTES:,} bytes.")
        return
    try:
        predictions = read_predictions(predictions_path)
    except GrueError as refusal:
        yield error(7, predictions_path, _told(refusal, predictions_path))
        return
    try:
        scored = score_predictions(task, task.data.evaluation, examples(task.name, task.suite), predictions)
    except SubmissionError as refusal:
        yield error(8, predictions_path, str(refusal))
        return
    for metric in scored.errors:
        yield error(9, path, f"could not be scored again here by {metric}")
    for difference in _differences(result, scored, task):
        yield error(9, path, difference)


def _unpacks_to_more_than(path: Path, limit: int) -> bool:
    with suppress(OSError, EOFError, zlib.error), gzip.open(path) as handle:  # what is damaged, its reader reports
        return len(handle.read(limit + 1)) > limit
    return False


def _differences(result: Result, scored: Scored, task: Task) -> Iterator[str]:
    """Yield where a result says another score than its predictions have."""
    tolerances = {spec.name: MODEL_TOLERANCE if "model" in spec.options else TOLERANCE for spec in task.metrics}
    claimed = {score.metric: score for score in result.scores}
    for score in scored.scores:
        claim = claimed.pop(score.metric, None)
        if claim is None:
            yield f"{score.metric}: missing; computed from the predictions: {score.value!r}."
        elif not _same_score(claim, score, tolerances.get(score.metric, TOLERANCE)):
            yield f"{score.metric}: says {_shown(claim)}; computed from the predictions: {_shown(score)}."
    for metric in claimed:
        yield f"{metric}: is not computed for this task."
    loosest = 100 * max(tolerances.values())
    for axis, said, computed in (
        ("preference", result.preference, scored.preference),
        ("naturalness", result.naturalness, scored.naturalness),
    ):
        if not _close(said, computed, loosest):
            yield f"{axis}: says {said!r}; computed from the predictions: {computed!r}."


def _same_score(one: Score, other: Score, tolerance: float) -> bool:
    """Whether two scores agree in all but rounding; `scaled`, out of 100, is allowed a hundred times the tolerance."""
    if replace(one, value=0.0, scaled=None) != replace(other, value=0.0, scaled=None):
        return False
    return _close(one.value, other.value, tolerance) and _close(one.scaled, other.scaled, 100 * tolerance)


def _close(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _shown(score: Score) -> str:
    scaled = "" if score.scaled is None else f" → {score.scaled!r}"
    return f"{score.value!r}{scaled} ({score.axis}, {score.direction} is better, n {score.n}, {score.signature})"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"

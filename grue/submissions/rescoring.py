"""Rescoring: a result's ids, scores, hashes and counts, computed again from its predictions.

Each call handles one task, so that tasks can be checked in parallel.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grue.data.load import load_examples
from grue.errors import DataError, SubmissionError
from grue.evaluation.predictions import match
from grue.evaluation.scoring import Prepare, Scored, chosen_metrics, prepared_metric, prepared_once, score_predictions
from grue.metrics.registry import metric_parameters
from grue.records import Example, Prediction, Result, Score
from grue.submissions.likeness import (
    Fingerprint,
    check_against_references,
    check_copies,
    check_texts,
    check_twins,
    fingerprint,
)
from grue.submissions.problems import Problem, error
from grue.submissions.reading import read_untrusted_predictions, without_path
from grue.task_files import load_task
from grue.tasks import Task

TOLERANCE = 1e-6
MODEL_TOLERANCE = 1e-4  # for metrics that run a model: their last digits depend on the machine
REFERENCES = "oracle"  # the system whose predictions are the references


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """One seed of a system on a task.

    Attributes:
        path: Path of its result, which may be missing.
        result: None if it is missing, unreadable or of a failed run.
        predictions: None if they are missing or not safe to read.
        current: Whether the result claims to be for the current version of the task and for the whole split.
    """

    path: Path
    result: Result | None
    predictions: Path | None
    current: bool = True


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """The runs of a system on a task.

    Attributes:
        system: The system's folder.
        is_reference: Whether the board shows it without a rank, so that copied texts gain nothing.
        is_checked: False if the others are only compared with it.
    """

    system: Path
    is_reference: bool
    is_checked: bool
    runs: tuple[SubmittedRun, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems of runs; `missing` is what this machine lacked to check the rest."""

    problems: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()


def check_task(suite: str, name: str, systems: Sequence[TaskRuns]) -> Findings:
    """Check the runs of one task: those of all systems whose `is_checked` is true."""
    task = load_task(name, suite)
    texts = {runs.system: _fingerprints(runs) for runs in systems}
    kept = {run.predictions for runs in systems for run in runs.runs if run.predictions and _kept_its_start(run)}
    problems: list[Problem] = []
    missing: list[str] = []
    try:
        examples: Sequence[Example] = load_examples(task, task.data.evaluation).examples
    except DataError as refusal:
        examples = ()
        missing.append(f"{suite}/{name}: {refusal}")
    prepare = prepared_once()
    references = cache(lambda: _preference_of_references(task, examples, systems, prepare))
    for runs in systems:
        if runs.is_checked:
            found = [_check_run(run, runs.is_reference, task, examples, prepare) for run in runs.runs]
            problems += [problem for one, _ in found for problem in one.problems]
            missing += [line for one, _ in found for line in one.missing]
            problems += () if runs.is_reference else check_twins(texts[runs.system])
            problems += check_copies(texts[runs.system], _texts_of_others(runs, systems, texts), kept)
            preferences = [preference for _, preference in found if preference is not None]
            if preferences and not runs.is_reference:
                problems += check_against_references(runs.system / name, preferences, references())
    return Findings(tuple(problems), tuple(dict.fromkeys(missing)))


def _fingerprints(runs: TaskRuns) -> dict[Path, Fingerprint]:
    """Return the fingerprints of the predictions that can be read; empty ones are like any others."""
    read = {run.predictions: _read(run.predictions)[0] for run in runs.runs if run.predictions is not None}
    return {path: fingerprint(predictions) for path, predictions in read.items() if predictions}


def _kept_its_start(run: SubmittedRun) -> bool:
    """Whether the result says that the best policy on validation was the one that training began with."""
    return run.result is not None and run.result.system.get("update") == 0


def _read(path: Path) -> tuple[list[Prediction] | None, tuple[Problem, ...]]:
    try:
        return read_untrusted_predictions(path), ()
    except DataError as refusal:
        return None, (error(7, path, without_path(refusal, path)),)


def _texts_of_others(
    runs: TaskRuns, systems: Sequence[TaskRuns], texts: Mapping[Path, Mapping[Path, Fingerprint]]
) -> dict[Path, Fingerprint]:
    """Return what a system's texts must not be; two references may be alike, as copy and lead of short texts are."""
    others = [
        other
        for other in systems
        if other.system.name != runs.system.name and not (runs.is_reference and other.is_reference)
    ]
    return {path: found for other in others for path, found in texts[other.system].items()}


def _preference_of_references(
    task: Task, examples: Sequence[Example], systems: Sequence[TaskRuns], prepare: Prepare
) -> float | None:
    """Return the preference that the references get: from the system that hands them in, or computed."""
    for run in (run for runs in systems if runs.system.name == REFERENCES for run in runs.runs):
        if run.current and run.result is not None:
            return run.result.preference
    first = [Prediction(example.id, next(iter(example.references), "")) for example in examples]
    return score_predictions(task, task.data.evaluation, examples, first, prepare=prepare).preference


# --- one run ---------------------------------------------------------------------------------------------------------


def _check_run(
    run: SubmittedRun, is_reference: bool, task: Task, examples: Sequence[Example], prepare: Prepare
) -> tuple[Findings, float | None]:
    """Return what is wrong with a run, and its preference if that could be computed."""
    if run.predictions is None:
        return Findings(), None
    predictions, faults = _read(run.predictions)
    if predictions is None or not run.current or not examples:
        return Findings(faults), None
    try:
        ordered = match(examples, predictions)
    except SubmissionError as refusal:
        return Findings((error(8, run.predictions, str(refusal)),)), None
    odd = () if is_reference else tuple(check_texts(run.predictions, examples, ordered, task.decoding))
    if run.result is None:
        return Findings(odd), None
    try:
        scored = score_predictions(task, task.data.evaluation, examples, predictions, prepare=prepare)
    except DataError as refusal:
        reason = _lacking(task, examples)
        if reason is None:
            return Findings((*odd, error(9, run.path, f"cannot be scored: {refusal}"))), None
        return Findings(odd, (reason,)), None
    missing = tuple(f"{task.suite}/{task.name}: {reason}" for reason in scored.errors)
    return Findings((*odd, *_differences(run.path, run.result, scored, task)), missing), scored.preference


def _lacking(task: Task, examples: Sequence[Example]) -> str | None:
    """Return what keeps this machine from scoring any text; None if the fault is in the texts."""
    try:
        for spec in chosen_metrics(task):
            prepared_metric(spec, examples)
    except DataError as refusal:
        return f"{task.suite}/{task.name}: {refusal}"
    return None


def _differences(path: Path, result: Result, scored: Scored, task: Task) -> Iterator[Problem]:
    """Yield where a result differs from what its predictions give."""
    for difference in _other_scores(result, scored, task):
        yield error(9, path, difference)
    for key, computed in scored.hashes.items():
        if result.hashes.get(key) != computed:
            yield error(19, path, f"{key}: states {result.hashes.get(key)!r}; computed: {computed!r}.")
    ids = task.data.splits[task.data.evaluation].ids_sha256
    if ids and result.data.get("ids_sha256", ids) != ids:
        yield error(19, path, f"ids_sha256: states {result.data['ids_sha256']!r}; the split's is {ids!r}.")
    for key, count in scored.counts.items():
        if result.counts.get(key) != count:
            yield error(20, path, f"{key}: states {result.counts.get(key)!r}; counted: {count!r}.")


def _other_scores(result: Result, scored: Scored, task: Task) -> Iterator[str]:
    tolerances = {spec.name: MODEL_TOLERANCE if _runs_a_model(spec.name) else TOLERANCE for spec in task.metrics}
    claimed = {score.metric: score for score in result.scores}
    if len(claimed) < len(result.scores):
        yield "a metric has two scores."
    unknown = {reason.partition(": ")[0] for reason in scored.errors}
    for score in scored.scores:
        claim = claimed.pop(score.metric, None)
        if claim is None:
            yield f"{score.metric}: is missing; computed: {score.value:.10g}."
        else:
            yield from _parts_that_differ(claim, score, tolerances.get(score.metric, TOLERANCE))
    for metric in claimed:
        if metric not in unknown:
            yield f"{metric}: is not computed for this task."
    loosest = 100 * max(tolerances.values())
    for axis in ("preference", "naturalness"):
        said, computed = getattr(result, axis), getattr(scored, axis)
        lacks = any(spec.axis == axis and spec.name in unknown for spec in task.metrics)
        if not lacks and not _close(said, computed, loosest):
            yield f"{axis}: states {_shown(said)}; computed: {_shown(computed)}."


def _runs_a_model(metric: str) -> bool:
    return "model" in metric_parameters(metric)


def _parts_that_differ(claim: Score, score: Score, tolerance: float) -> Iterator[str]:
    """Yield the parts of a score that differ by more than rounding; of `value` and `scaled`, which follows it, one."""
    if not _close(claim.value, score.value, tolerance):
        yield f"{score.metric}: states {_shown(claim.value)}; computed: {_shown(score.value)}."
    elif not _close(claim.scaled, score.scaled, 100 * tolerance):  # it is out of 100
        yield f"{score.metric}: scaled: states {_shown(claim.scaled)}; computed: {_shown(score.scaled)}."
    for part in ("axis", "n", "direction", "signature"):
        said, computed = getattr(claim, part), getattr(score, part)
        if said != computed:
            yield f"{score.metric}: {part}: states {said!r}; computed: {computed!r}."


def _close(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.10g}"

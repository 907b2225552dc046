"""Rescoring: a result's ids, scores, hashes and counts, computed again from its predictions.

Each call handles one task, so that tasks can be checked in parallel.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue.data.load import load_examples
from grue.errors import DataError, SubmissionError
from grue.evaluation.predictions import match
from grue.evaluation.scoring import (
    SCORED,
    Prepare,
    Scored,
    axis_mean,
    chosen_metrics,
    counts_of,
    prepared_metric,
    prepared_once,
    score_predictions,
)
from grue.files import sha256_json
from grue.metrics.registry import metric_parameters
from grue.records import Example, Prediction, Result, Score, unseen
from grue.submissions.checks.copies import RunTexts, check_copies, check_references
from grue.submissions.problems import Problem, error
from grue.submissions.reading import read_untrusted_predictions, without_path
from grue.task_files import load_task
from grue.tasks import Task

LETTERS = 25  # characters of a text for each token that the task allows; a token of the paper's models has 4
TOLERANCE = 1e-6
MODEL_TOLERANCE = 1e-4  # for metrics that run a model: their last digits depend on the machine
ROUNDING = 1e-9  # of what follows from a value by arithmetic alone


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """One seed of a system on a task.

    Attributes:
        path: Path of its result, which may be missing.
        result: None if it is missing, unreadable or of a failed run.
        predictions: None if they are missing or not safe to read.
        current: Whether the result claims to be for the current version of the task and for the whole split.
        sealed: Whether both files are those that the manifest lists; otherwise nothing is said of what they claim.
        rescored: Whether its scores are computed again; where not, what it states is taken.
    """

    path: Path
    result: Result | None
    predictions: Path | None
    current: bool = True
    sealed: bool = True
    rescored: bool = True


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
    answers = {runs.system: _Answers.of(runs) for runs in systems}
    missing: list[str] = []
    examples: Sequence[Example] = ()
    try:
        examples = load_examples(task, task.data.evaluation).examples
    except DataError as refusal:
        missing.append(f"{suite}/{name}: {refusal}")
    prepare = prepared_once(task.folder)
    problems: list[Problem] = []
    for runs in (runs for runs in systems if runs.is_checked):
        own = answers[runs.system]
        for run in runs.runs:
            findings = _check_run(run, own, runs.is_reference, task, examples, prepare)
            problems += findings.problems
            missing += findings.missing
        others = [
            texts
            for other in systems  # two references may be alike, as copy and lead of short texts are
            if other.system.name != runs.system.name and not (runs.is_reference and other.is_reference)
            for texts in answers[other.system].texts
        ]
        for index, texts in enumerate(own.texts):
            problems += check_copies(texts, () if runs.is_reference else own.texts[:index], others)
            problems += () if runs.is_reference else check_references(texts, examples)
    return Findings(tuple(problems), tuple(dict.fromkeys(missing)))


@dataclass(frozen=True, slots=True)
class _Answers:
    """The predictions of a system's runs that can be read, by their path, and why others cannot."""

    predictions: Mapping[Path, Sequence[Prediction]]
    texts: Sequence[RunTexts]
    faults: Mapping[Path, Problem]

    @classmethod
    def of(cls, runs: TaskRuns) -> "_Answers":
        read: dict[Path, Sequence[Prediction]] = {}
        faults: dict[Path, Problem] = {}
        for path in sorted(run.predictions for run in runs.runs if run.predictions is not None):
            try:
                read[path] = read_untrusted_predictions(path)
            except DataError as refusal:
                faults[path] = error(7, path, without_path(refusal, path))
        results = {run.predictions: run.result for run in runs.runs}
        return cls(read, [RunTexts.of(path, results[path], texts) for path, texts in read.items()], faults)


# --- one run ---------------------------------------------------------------------------------------------------------


def _check_run(
    run: SubmittedRun, own: _Answers, is_reference: bool, task: Task, examples: Sequence[Example], prepare: Prepare
) -> Findings:
    path = run.predictions
    if path is None or path in own.faults:
        return Findings(() if path is None else (own.faults[path],))
    if not run.current or not examples:
        return Findings()
    try:
        ordered = match(examples, own.predictions[path])
    except SubmissionError as refusal:
        return Findings((error(8, path, str(refusal)),))
    illegible = tuple(check_legible(path, examples, ordered, task.decoding.max_new_tokens, is_reference))
    if run.result is None or not run.sealed or illegible:
        return Findings(illegible)  # a metric may take seconds for a long text
    stated, computed = run.result.hashes.get("predictions"), sha256_json(ordered)
    if stated != computed:  # no score can follow from them
        return Findings((error(19, run.path, f"predictions: states {stated!r}; computed: {computed!r}."),))
    counts = tuple(check_counts(run.path, run.result, ordered))
    if not run.rescored:
        return Findings(counts)
    try:
        scored = score_predictions(task, task.data.evaluation, examples, ordered, prepare=prepare)
    except DataError as refusal:
        reason = _lacking(task, examples)
        if reason is None:
            return Findings((*counts, error(9, run.path, f"cannot be scored: {refusal}")))
        return Findings(counts, (reason,))
    missing = tuple(f"{task.suite}/{task.name}: {reason}" for reason in scored.errors)
    return Findings((*counts, *check_scores(run.path, run.result, scored, task)), missing)


def check_legible(
    path: Path, examples: Sequence[Example], predictions: Sequence[Prediction], most_tokens: int, is_reference: bool
) -> Iterator[Problem]:
    """Yield the characters of a run's texts that cannot be seen, and the first text far longer than the task allows.

    Args:
        predictions: In the order of the examples.
        most_tokens: The task's `max_new_tokens`.
        is_reference: Whether the system stands among the references, which may hand in the prompt.
    """
    hidden = [signs for prediction in predictions for draw in prediction.draws if (signs := unseen(draw.text))]
    if hidden:
        named = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(set().union(*hidden))[:5])
        yield error(46, path, f"{len(hidden):,} text{'s have' if len(hidden) > 1 else ' has'} {named}.")
    for example, prediction in zip(examples, predictions, strict=True):
        given = (*example.references, example.prompt) if is_reference else example.references
        most = max([LETTERS * most_tokens, *map(len, given)])
        if (longest := max(len(draw.text) for draw in prediction.draws)) > most:
            yield error(46, path, f"{prediction.id}: {longest:,} characters, more than {most:,}.")
            return


def _lacking(task: Task, examples: Sequence[Example]) -> str | None:
    """Return what keeps this machine from scoring any text; None if the fault is in the texts."""
    try:
        for spec in chosen_metrics(task):
            prepared_metric(spec, examples, task.folder)
    except DataError as refusal:
        return f"{task.suite}/{task.name}: {refusal}"
    return None


# --- what a result states, against what its predictions give ---------------------------------------------------------


def check_scores(path: Path, result: Result, scored: Scored, task: Task) -> Iterator[Problem]:
    """Yield where scores, means, errors and hashes differ from the computed ones; a problem for each of two kinds."""
    if differences := list(_other_scores(result, scored)) or list(_other_means(result, task)):
        yield error(9, path, " ".join(differences))
    ids = task.data.splits[task.data.evaluation].ids_sha256
    references = scored.hashes.get("references")  # older results do not state it; `examples` covers it
    stated = {"references": references, **result.hashes, "ids_sha256": result.data.get("ids_sha256", ids)}
    if others := _others(stated, {**scored.hashes, **({"ids_sha256": ids} if ids else {})}):
        yield error(19, path, others)


def check_counts(path: Path, result: Result, predictions: Sequence[Prediction]) -> Iterator[Problem]:
    """Yield if a result counts other examples than there are, or other texts than its predictions are."""
    counted = counts_of(predictions)
    examples = {"data: examples": len(predictions)} if "examples" in result.data else {}
    drawn = {"generation: samples": counted.get("samples", 1)} if "samples" in result.generation else {}
    beside = {"data: examples": result.data.get("examples"), "generation: samples": result.generation.get("samples")}
    if others := _others({**result.counts, **beside}, counted | examples | drawn):
        yield error(19, path, others)


def _others(stated: Mapping[str, Any], computed: Mapping[str, Any]) -> str:
    """Return where stated values differ from the computed ones, key by key; empty if nowhere."""
    return " ".join(
        f"{key}: states {stated.get(key)!r}; computed: {value!r}."
        for key, value in computed.items()
        if stated.get(key) != value
    )


def _other_scores(result: Result, scored: Scored) -> Iterator[str]:
    claimed = {score.metric: score for score in result.scores}
    if len(claimed) < len(result.scores):
        yield "A metric has two scores."
    failed, excused = ({line.partition(": ")[0] for line in lines} for lines in (scored.errors, result.errors))
    if excused - failed:
        yield f"errors: names {', '.join(sorted(excused - failed))}, which can be computed."
    for score in scored.scores:
        claim = claimed.pop(score.metric, None)
        if claim is not None:
            yield from _parts_that_differ(claim, score)
        elif score.metric not in excused:
            yield f"{score.metric}: is missing; computed: {score.value:.10g}."
    yield from (f"{metric}: is not computed for this task." for metric in claimed if metric not in failed)


def _parts_that_differ(claim: Score, score: Score) -> Iterator[str]:
    tolerance = MODEL_TOLERANCE if "model" in metric_parameters(score.metric) else TOLERANCE
    if not math.isclose(claim.value, score.value, rel_tol=tolerance, abs_tol=tolerance):
        yield f"{score.metric}: states {claim.value:.10g}; computed: {score.value:.10g}."
    for part in ("axis", "n", "direction", "signature"):
        stated, computed = getattr(claim, part), getattr(score, part)
        if stated != computed:
            yield f"{score.metric}: {part}: states {stated!r}; computed: {computed!r}."


def _other_means(result: Result, task: Task) -> Iterator[str]:
    """Yield what does not follow from the values that the result itself states, which are right."""
    specs = {spec.name: spec for spec in task.metrics if spec.axis in SCORED}
    for score in result.scores:
        spec = specs.get(score.metric)
        # A value of 0 has no logarithm; it could not be computed here, or it would not be right.
        none = spec is not None and spec.reference is not None and score.value <= 0
        scaled = math.nan if none else None if spec is None else spec.scale(score.value)
        if not _follows(score.scaled, scaled):
            yield f"{score.metric}: scaled: states {_shown(score.scaled)}; follows: {_shown(scaled)}."
    for axis in SCORED:
        stated, mean = getattr(result, axis), axis_mean(task, result.scores, axis)
        if not _follows(stated, mean):
            yield f"{axis}: states {_shown(stated)}; follows: {_shown(mean)}."


def _follows(stated: float | None, computed: float | None) -> bool:
    if stated is None or computed is None:
        return stated is computed
    return math.isclose(stated, computed, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.10g}"

"""Rescoring: a result's ids, scores, hashes and counts, computed again from its predictions.

Each call handles one task, so that tasks can be checked in parallel.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue.data.load import load_examples
from grue.errors import DataError, SubmissionError
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.scoring import (
    Prepare,
    Scored,
    axis_mean,
    chosen_metrics,
    counts_of,
    prepared_metric,
    prepared_once,
    score_predictions,
)
from grue.files import sha256_json, sha256_text
from grue.metrics.registry import metric_parameters
from grue.records import BASELINES, SCORED, Example, Prediction, Result, unseen
from grue.submissions.checks.copies import RunTexts, check_copies, check_references
from grue.submissions.checks.structure import Contents, SubmittedRun
from grue.submissions.folder import does_not_compete
from grue.submissions.problems import Problem, problem
from grue.submissions.reading import without_path
from grue.task_files import load_task
from grue.tasks import Task

LETTERS = 25  # characters of a text for each token that the task allows; a token of the paper's models has 4
TOLERANCE = 1e-6
MODEL_TOLERANCE = 1e-4  # for metrics that run a model: their last digits depend on the machine
ROUNDING = 1e-9  # of what follows from a value by arithmetic alone


def check_task(
    suite: str, name: str, systems: Sequence[Contents], beside: Sequence[Contents], sample: str | None, home: Path
) -> list[Problem]:
    """Check the runs of one task; a reference is shown without a rank, so that texts of another one gain nothing.

    Args:
        systems: Those that are checked.
        beside: Those that they are compared with, too.
        sample: See `grue.submissions.checks.check.check`.
        home: The path of what this machine lacks (GRUE-S039).
    """
    task = load_task(name, suite)
    problems: list[Problem] = []
    examples: Sequence[Example] = ()
    try:
        examples = load_examples(task, task.data.evaluation).examples
    except DataError as refusal:
        problems.append(problem(39, home, f"{suite}/{name}: {refusal}"))
    rescoring = _Rescoring(task, examples, prepared_once(task.folder), home)
    texts_of = {contents.system: _read(contents.runs[name], problems) for contents in systems}
    texts_of |= {contents.system: _read(contents.runs[name], []) for contents in beside}
    for contents in systems:
        system, read, is_reference = contents.system, texts_of[contents.system], name in contents.references
        chance = 0 if sample is None else int(sha256_text(f"{sample} {suite} {name} {system.name}"), 16)
        drawn = set(read) if sample is None or not read else {list(read)[chance % len(read)]}
        for run in contents.runs[name]:
            if run.path in read and run.current and examples:
                problems += rescoring.check(run, read[run.path], is_reference, run.path in drawn)
        others = [
            texts
            for other in (*systems, *beside)  # two references may be alike, as copy and lead of short texts are
            if other.system.name != system.name and not (is_reference and name in other.references)
            for texts in texts_of[other.system].values()
        ]
        own, results = list(read.values()), [run.result for run in contents.runs[name] if run.result is not None]
        is_baseline = is_reference and (system.name in BASELINES or any(map(does_not_compete, results)))
        for index, texts in enumerate(own):
            problems += check_copies(texts, () if is_reference else own[:index], others)
            problems += () if is_baseline else check_references(texts, examples)
    return problems


def _read(runs: Iterable[SubmittedRun], problems: list[Problem]) -> dict[Path, RunTexts]:
    """Return path of a result → its predictions; add to `problems` why some cannot be read."""
    read = {}
    for run in runs:
        if run.predictions is not None:
            try:
                predictions = read_predictions(run.predictions, DataError)
                read[run.path] = RunTexts.of(run.predictions, run.result, predictions)
            except DataError as refusal:
                problems.append(problem(7, run.predictions, without_path(refusal, run.predictions)))
    return read


@dataclass(frozen=True, slots=True)
class _Rescoring:
    """What the runs of a task are scored with; see `check_task`."""

    task: Task
    examples: Sequence[Example]
    prepare: Prepare
    home: Path

    def check(self, run: SubmittedRun, texts: RunTexts, is_reference: bool, rescored: bool) -> Iterator[Problem]:
        """Check one run's predictions, and what its result states of them; its scores only if `rescored`."""
        try:
            ordered = match(self.examples, texts.predictions)
        except SubmissionError as refusal:
            yield problem(8, texts.path, str(refusal))
            return
        most_tokens = self.task.decoding.max_new_tokens
        illegible = list(check_legible(texts.path, self.examples, ordered, most_tokens, is_reference))
        yield from illegible
        if run.result is None or not run.sealed or illegible:  # a metric may take seconds for a long text
            return
        stated, computed = run.result.hashes.get("predictions"), sha256_json(ordered)
        if stated != computed:  # no score can follow from them
            yield problem(19, run.path, f"predictions: states {stated!r}; computed: {computed!r}.")
            return
        yield from check_counts(run.path, run.result, ordered)
        if rescored:
            yield from self._check_scores(run.path, run.result, ordered)

    def _check_scores(self, path: Path, result: Result, predictions: Sequence[Prediction]) -> Iterator[Problem]:
        task, where = self.task, f"{self.task.suite}/{self.task.name}"
        try:
            scored = score_predictions(task, task.data.evaluation, self.examples, predictions, prepare=self.prepare)
        except DataError as refusal:
            try:
                for spec in chosen_metrics(task):
                    prepared_metric(spec, self.examples, task.folder)
            except DataError as lacking:  # this machine can score no text
                yield problem(39, self.home, f"{where}: {lacking}")
                return
            yield problem(9, path, f"cannot be scored: {refusal}")
            return
        yield from (problem(39, self.home, f"{where}: {reason}") for reason in scored.errors)
        yield from check_scores(path, result, scored, task)


def check_legible(
    path: Path, examples: Sequence[Example], predictions: Sequence[Prediction], most_tokens: int, is_reference: bool
) -> Iterator[Problem]:
    """Yield the characters of a run's texts that cannot be seen, and the first text far longer than the task allows.

    Args:
        predictions: In the order of the examples.
        is_reference: Whether the system stands among the references, which may hand in the prompt.
    """
    hidden = [signs for prediction in predictions for draw in prediction.draws if (signs := unseen(draw.text))]
    if hidden:
        named = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(set().union(*hidden))[:5])
        yield problem(46, path, f"{len(hidden):,} text{'s have' if len(hidden) > 1 else ' has'} {named}.")
    for example, prediction in zip(examples, predictions, strict=True):
        allowed = (*example.references, example.prompt) if is_reference else example.references
        most = max([LETTERS * most_tokens, *map(len, allowed)])
        if (longest := max(len(draw.text) for draw in prediction.draws)) > most:
            yield problem(46, path, f"{prediction.id}: {longest:,} characters, more than {most:,}.")
            return


# --- what a result states, against what its predictions give ---------------------------------------------------------


def check_scores(path: Path, result: Result, scored: Scored, task: Task) -> Iterator[Problem]:
    """Yield where scores, means, errors and hashes differ from the computed ones; a problem for each of two kinds."""
    if differences := list(_other_scores(result, scored)) or list(_other_means(result, task)):
        yield problem(9, path, " ".join(differences))
    yield from _check_stated(path, result.hashes, scored.hashes)


def check_counts(path: Path, result: Result, predictions: Sequence[Prediction]) -> Iterator[Problem]:
    """Yield if a result counts other examples than there are, or other texts than its predictions are."""
    counts, examples = counts_of(predictions), len(predictions)
    samples = counts.get("samples", 1)
    beside = {
        "data: examples": result.data.get("examples", examples),
        "generation: samples": result.generation.get("samples", samples),
    }
    computed = {**counts, "data: examples": examples, "generation: samples": samples}
    yield from _check_stated(path, {**result.counts, **beside}, computed)


def _check_stated(path: Path, stated: Mapping[str, Any], computed: Mapping[str, Any]) -> Iterator[Problem]:
    differing = {key: value for key, value in computed.items() if stated.get(key) != value}
    lines = [f"{key}: states {stated.get(key)!r}; computed: {value!r}." for key, value in differing.items()]
    if lines:
        yield problem(19, path, " ".join(lines))


def _other_scores(result: Result, scored: Scored) -> Iterator[str]:
    claimed = {score.metric: score for score in result.scores}
    if len(claimed) < len(result.scores):
        yield "A metric has two scores."
    failed, excused = ({line.partition(": ")[0] for line in lines} for lines in (scored.errors, result.errors))
    if excused - failed:
        yield f"errors: names {', '.join(sorted(excused - failed))}, which can be computed."
    for score in scored.scores:
        claim = claimed.pop(score.metric, None)
        if claim is None:
            if score.metric not in excused:
                yield f"{score.metric}: is missing; computed: {score.value:.10g}."
            continue
        tolerance = MODEL_TOLERANCE if "model" in metric_parameters(score.metric) else TOLERANCE
        if not math.isclose(claim.value, score.value, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{score.metric}: states {claim.value:.10g}; computed: {score.value:.10g}."
        for part in ("axis", "n", "direction", "signature"):
            if (stated := getattr(claim, part)) != (computed := getattr(score, part)):
                yield f"{score.metric}: {part}: states {stated!r}; computed: {computed!r}."
    yield from (f"{metric}: is not computed for this task." for metric in claimed if metric not in failed)


def _other_means(result: Result, task: Task) -> Iterator[str]:
    """Yield what does not follow from the values that the result itself states, which are right."""
    specs = {spec.name: spec for spec in task.metrics if spec.axis in SCORED}
    follows: dict[str, tuple[float | None, float | None]] = {
        f"{s.metric}: scaled": (s.scaled, specs[s.metric].scale(s.value) if s.metric in specs else None)
        for s in result.scores
    }
    follows |= {axis: (getattr(result, axis), axis_mean(task, result.scores, axis)) for axis in SCORED}
    for name, (stated, computed) in follows.items():
        both = None if stated is None or computed is None else (stated, computed)
        if not (math.isclose(*both, rel_tol=ROUNDING, abs_tol=ROUNDING) if both else stated is computed):
            shown = ("nothing" if value is None else f"{value:.10g}" for value in (stated, computed))
            yield "{}: states {}; follows: {}.".format(name, *shown)

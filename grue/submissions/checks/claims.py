"""What a result claims, against what its predictions give."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grue.evaluation.scoring import SCORED, Scored, axis_mean, counts_of
from grue.metrics.registry import metric_parameters
from grue.records import Prediction, Result, Score
from grue.submissions.problems import Problem, error
from grue.tasks import MetricSpec, Task

TOLERANCE = 1e-6
MODEL_TOLERANCE = 1e-4  # for metrics that run a model: their last digits depend on the machine
ROUNDING = 1e-9  # of what follows from a value by arithmetic alone


def check_claims(path: Path, result: Result, scored: Scored, task: Task) -> Iterator[Problem]:
    """Yield where a result differs from what its predictions give; a problem for each kind of claim."""
    invented = sorted({_metric(line) for line in result.errors} - {_metric(line) for line in scored.errors})
    if differences := list(_other_scores(result, scored, invented)) or list(_other_means(result, task)):
        yield error(9, path, " ".join(differences))
    if invented:
        yield error(48, path, f"errors: names {', '.join(invented)}.")
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
        yield error(20, path, others)


def _metric(line: str) -> str:
    """Return the metric of a line of a result's `errors`."""
    return line.partition(": ")[0]


def _others(stated: Mapping[str, Any], computed: Mapping[str, Any]) -> str:
    """Return where stated values differ from the computed ones, key by key; empty if nowhere."""
    return " ".join(
        f"{key}: states {stated.get(key)!r}; computed: {value!r}."
        for key, value in computed.items()
        if stated.get(key) != value
    )


def _other_scores(result: Result, scored: Scored, invented: list[str]) -> Iterator[str]:
    claimed = {score.metric: score for score in result.scores}
    if len(claimed) < len(result.scores):
        yield "A metric has two scores."
    for score in scored.scores:
        claim = claimed.pop(score.metric, None)
        if claim is not None:
            yield from _parts_that_differ(claim, score)
        elif score.metric not in invented:
            yield f"{score.metric}: is missing; computed: {score.value:.10g}."
    unknown = {_metric(line) for line in scored.errors}
    yield from (f"{metric}: is not computed for this task." for metric in claimed if metric not in unknown)


def agrees(metric: str, stated: float, computed: float) -> bool:
    """Whether a stated value of a metric is the computed one, up to rounding."""
    tolerance = MODEL_TOLERANCE if "model" in metric_parameters(metric) else TOLERANCE
    return math.isclose(stated, computed, rel_tol=tolerance, abs_tol=tolerance)


def _parts_that_differ(claim: Score, score: Score) -> Iterator[str]:
    if not agrees(score.metric, claim.value, score.value):
        yield f"{score.metric}: states {claim.value:.10g}; computed: {score.value:.10g}."
    for part in ("axis", "n", "direction", "signature"):
        said, computed = getattr(claim, part), getattr(score, part)
        if said != computed:
            yield f"{score.metric}: {part}: states {said!r}; computed: {computed!r}."


def _other_means(result: Result, task: Task) -> Iterator[str]:
    """Yield what does not follow from the values that the result itself states, which are right."""
    specs = {spec.name: spec for spec in task.metrics}
    for score in result.scores:
        spec = specs.get(score.metric)
        scaled = _scaled(spec, score.value) if spec is not None and spec.axis in SCORED else None
        if not _follows(score.scaled, scaled):
            yield f"{score.metric}: scaled: states {_shown(score.scaled)}; follows: {_shown(scaled)}."
    for axis in SCORED:
        said, mean = getattr(result, axis), axis_mean(task, result.scores, axis)
        if not _follows(said, mean):
            yield f"{axis}: states {_shown(said)}; follows: {_shown(mean)}."


def _scaled(spec: MetricSpec, value: float) -> float | None:
    """Return a value scaled; not a number for one that the metric cannot have, and that could not be computed here."""
    return math.nan if spec.reference is not None and value <= 0 else spec.scale(value)


def _follows(stated: float | None, computed: float | None) -> bool:
    if stated is None or computed is None:
        return stated is computed
    return math.isclose(stated, computed, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _shown(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.10g}"

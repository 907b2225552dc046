"""Compare two systems' predictions for a task: what each example contributes to a score, and where they differ most.

BLEU, TER and perplexity are values of a whole corpus. The effect of one example is measured by leaving it out, and the
resulting pseudo-value behaves like the value of that example: the mean of the pseudo-values is the score up to a small
bias, and their spread gives its standard error (Tukey, "Bias and confidence in not-quite large samples", 1958).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from grue.errors import ConfigError, DataError
from grue.evaluation.predictions import match
from grue.evaluation.scoring import drawn_texts, prepared_metric
from grue.metrics.metric import Average, FloatArray, Metric
from grue.records import Axis, Example, Prediction, as_scored
from grue.stats.paired import Contrast, Difference, contrast, draw, judge
from grue.tasks import MetricSpec, Task

Metrics = Sequence[tuple[MetricSpec, Metric]]

BySeed = Sequence[Sequence[Prediction] | None]
"""A system's predictions, one entry per seed; None is a failed run, which counts as 0, as on the board."""


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """A run's score, and what each example is worth to it.

    Attributes:
        score: Mean of the scaled metrics of an axis, 0–100, as on the board; or a mean reward, in its unit.
        values: [N] N·score - (N-1)·(score without the example), in the split's order. If every metric is a mean and
            none is clipped, they are the examples' own scaled values; otherwise they may be outside 0–100.
    """

    score: float
    values: FloatArray

    @property
    def error(self) -> float | None:
        """Standard error of the score, over examples; None for a single one."""
        return standard_error(self.values)

    def gain_on(self, other: "Worth") -> tuple[float, float | None]:
        """Return the difference from another score on the same examples, and its standard error, paired by example."""
        return self.score - other.score, standard_error(self.values - other.values)


def standard_error(values: FloatArray) -> float | None:
    """Return the standard error of the mean of [N] values; None for a single one."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def compare_task(
    task: Task,
    examples: Sequence[Example],
    a: BySeed,
    b: BySeed,
    generator: np.random.Generator,
    axis: Axis = "preference",
    paired: bool = False,
) -> Difference:
    """Return the difference of two systems on an axis of a task, from their predictions, tested over both."""
    metrics = axis_metrics(task, examples, axis)
    of_a, of_b = ([worth(metrics, examples, predictions) for predictions in by_seed] for by_seed in (a, b))
    compared = contrast_of(of_a, of_b, paired)
    return judge(compared, draw(compared, generator), generator)


def contrast_of(a: Sequence[Worth], b: Sequence[Worth], paired: bool = False) -> Contrast:
    """Return the contrast of two systems' runs, one entry per seed; `paired` says whether the seeds are paired."""
    values_a, values_b = (np.stack([run.values for run in runs]) for runs in (a, b))
    return contrast(values_a, values_b, [run.score for run in a], [run.score for run in b], paired)


# --- the worth of an example -----------------------------------------------------------------------------------------


def axis_metrics(task: Task, examples: Sequence[Example], axis: Axis) -> Metrics:
    """Return the metrics of an axis, prepared on the examples.

    Raises:
        ConfigError: The task has no metric on this axis.
        Unavailable: This machine cannot compute one of them.
    """
    examples = list(map(as_scored, examples))
    metrics = [(spec, prepared_metric(spec, examples, task.folder)) for spec in task.metrics if spec.axis == axis]
    if not metrics:
        raise ConfigError(f"The task {task.name} has no metric that counts towards {axis}.")
    return metrics


def worth(metrics: Metrics, examples: Sequence[Example], predictions: Iterable[Prediction] | None) -> Worth:
    """Score one prediction for each example, and the same again without each of the examples.

    What a metric prepared stays fixed: CIDEr's document frequencies are those of all examples.

    Args:
        metrics: As `axis_metrics` returns them.
        predictions: In any order; None for a failed run, which is worth 0 everywhere.

    Raises:
        SubmissionError: An example has no prediction or two, or a prediction no example.
        DataError: There are fewer than two examples, or a metric gives a value that is not a finite number.
        Unavailable: A metric cannot be computed on this machine, or not without one of the examples.
    """
    count = len(examples)
    if count < 2:
        raise DataError(f"{count} example: nothing is left when one is left out; compare on two or more.")
    if predictions is None:
        return Worth(0.0, np.zeros(count))
    draws = drawn_texts(match(examples, predictions))
    examples = list(map(as_scored, examples))
    return worth_of(
        [(spec, metric, [metric.statistics(examples, texts) for texts in draws]) for spec, metric in metrics]
    )


def worth_of(measured: Sequence[tuple[MetricSpec, Metric, Sequence[FloatArray]]]) -> Worth:
    """Return what each of N ≥ 2 examples is worth to the mean of scaled metrics, from statistics of each draw, [N, K].

    Raises:
        DataError: A metric gives a value that is not a finite number.
        Unavailable: A metric cannot be computed without one of the examples.
    """
    count = len(measured[0][2][0])
    score, without = 0.0, np.zeros(count)
    for spec, metric, of_draws in measured:
        value = float(np.mean([metric.corpus(statistics) for statistics in of_draws]))
        without_each = np.mean([_without_each(metric, statistics) for statistics in of_draws], axis=0)
        if not np.isfinite([value, *without_each]).all():
            raise DataError(f"The metric {spec.name!r} gave a value that is not a finite number; is its model damaged?")
        score += _scaled(spec, value) / len(measured)
        without += np.array([_scaled(spec, float(each)) for each in without_each]) / len(measured)
    return Worth(score, count * score - (count - 1) * without)


def worth_of_mean(values: Sequence[float | None]) -> Worth:
    """Return the worth of each example for the mean of values, which some examples, but not all, lack.

    The mean is a ratio of two sums, over the examples that have a value: an example without one is worth the mean, and
    the others' distances from it are divided by their share, so that the spread gives the ratio's error.
    """
    array = np.array([np.nan if value is None else value for value in values])
    mean = float(np.nanmean(array))
    growth = len(array) / np.count_nonzero(~np.isnan(array))
    return Worth(mean, mean + growth * np.nan_to_num(array - mean))


def _without_each(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return the corpus values [N] without each of the examples."""
    count = len(statistics)
    if isinstance(metric, Average):
        means: FloatArray = (statistics.sum() - statistics[:, 0]) / (count - 1)
        return means
    values = np.empty(count)
    rest = statistics[1:].copy()
    for left_out in range(count):
        values[left_out] = metric.corpus(rest)
        if left_out < count - 1:
            rest[left_out] = statistics[left_out]
    return values


def _scaled(spec: MetricSpec, value: float) -> float:
    scaled = spec.scale(value)
    if scaled is None:
        raise ConfigError(f"The task file gives {spec.name!r} no range, so that it cannot count towards {spec.axis}.")
    return scaled


# --- where two systems differ ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRun:
    """A run's predictions in the split's order, None if it failed, and what they are worth."""

    seed: int
    predictions: Sequence[Prediction] | None
    worth: Worth


@dataclass(frozen=True, slots=True)
class Side:
    """One system's text for an example: that of the seed whose value is nearest to the mean over all seeds.

    Attributes:
        seed: None if all runs failed; the text is then empty.
        value: What the example is worth to this seed's score.
        mean: The mean over all seeds, failed ones included.
    """

    seed: int | None
    text: str
    value: float
    mean: float


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An example on which two systems differ."""

    id: str
    prompt: str
    references: tuple[str, ...]
    a: Side
    b: Side


def disagreements(
    examples: Sequence[Example], a: Sequence[ScoredRun], b: Sequence[ScoredRun], most: int
) -> list[Disagreement]:
    """Return at most `most` examples on which two systems differ, seeds averaged, the largest differences first."""
    gaps = np.mean([run.worth.values for run in a], axis=0) - np.mean([run.worth.values for run in b], axis=0)
    places = np.argsort(-np.abs(gaps), kind="stable")[:most].tolist()
    return [
        Disagreement(example.id, example.prompt, example.references, _side(a, place), _side(b, place))
        for place, example in ((place, examples[place]) for place in places)
        if gaps[place]
    ]


def _side(runs: Sequence[ScoredRun], place: int) -> Side:
    mean = float(np.mean([run.worth.values[place] for run in runs]))
    written = [
        (float(run.worth.values[place]), run.seed, run.predictions[place].text)
        for run in runs
        if run.predictions is not None
    ]
    if not written:
        return Side(None, "", 0.0, mean)
    value, seed, text = min(written, key=lambda each: (abs(each[0] - mean), each[1]))
    return Side(seed, text, value, mean)

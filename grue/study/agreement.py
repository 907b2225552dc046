"""Agreement of metrics with people on texts and systems: rank correlations with an interval over items."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grue.stats.correlation import kendall, spearman
from grue.stats.intervals import FloatArray, Interval
from grue.stats.reliability import percentile_interval

DIGITS = 9  # decimals to which means are rounded, so that equal ones tie


@dataclass(frozen=True, slots=True)
class Correlated:
    """A rank correlation; None if one side is constant, or if there are too few points."""

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a metric with people's answers; positive if they agree, also if lower is better for the metric.

    Attributes:
        kendall: Kendall's τ-b over texts, all items and systems together. Likewise `spearman`.
        systems: Kendall's τ-b over the systems' means; undefined for fewer than three.
    """

    metric: str
    question: str
    texts: int
    kendall: Correlated
    spearman: Correlated
    systems: Correlated


def agree(metric: str, question: str, people: FloatArray, values: FloatArray, weights: FloatArray) -> Agreement:
    """Return how a metric agrees with people.

    Args:
        people: [items, systems] mean answers; NaN where a text has none.
        values: [items, systems] of the metric, higher is better.
        weights: [draws, items] how often each item is in a resample.
    """
    rated = ~np.isnan(people)
    items = np.nonzero(rated)[0]
    drawn = weights if len(np.unique(items)) > 1 else weights[:0]  # all resamples of one item are the same
    everything = np.vstack([np.ones(len(people)), drawn])
    x, y, of_texts = people[rated], values[rated], everything[:, items]
    by_system = _system_means(people, values, rated, everything)
    return Agreement(
        metric=metric,
        question=question,
        texts=len(items),
        kendall=_correlated(kendall(x, y, of_texts)),
        spearman=_correlated(spearman(x, y, of_texts)),
        systems=Correlated(None, None) if by_system is None else _correlated(kendall(*by_system)),
    )


def _system_means(
    people: FloatArray, values: FloatArray, rated: NDArray[np.bool_], weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return [draws, systems] means of both and weights of 1, over texts with answers; None for fewer than 3 systems.

    A system without an answer in a draw has weight 0.
    """
    if rated.any(axis=0).sum() < 3:
        return None
    counts = weights @ rated
    answered = counts > 0
    sums = [weights @ np.where(rated, array, 0.0) for array in (people, values)]
    # Sums of thirds that should be equal differ in their last digits.
    means = [np.round(total / np.where(answered, counts, 1.0), DIGITS) for total in sums]
    return means[0], means[1], answered.astype(np.float64)


def _correlated(drawn: FloatArray) -> Correlated:
    """Return the first value, with the interval of the others if there are any."""
    value = float(drawn[0])
    if np.isnan(value):
        return Correlated(None, None)
    return Correlated(value, percentile_interval(drawn[1:]) if len(drawn) > 1 else None)

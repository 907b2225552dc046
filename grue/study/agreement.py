"""How far metrics order texts, and systems, as people do: rank correlations with an interval over items."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grue.stats.correlation import kendall, spearman
from grue.stats.intervals import Interval
from grue.stats.reliability import percentile_interval

FloatArray = NDArray[np.float64]

DIGITS = 9  # behind the point, to which means are equal


@dataclass(frozen=True, slots=True)
class Correlated:
    """A rank correlation; None where one side is constant, or where there are too few points."""

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """A metric beside people's answers; positive where they agree, also for a metric that is better low.

    Attributes:
        question: What people were asked.
        texts: Number of texts.
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
    drawn = weights if len(np.unique(items)) > 1 else weights[:0]  # of one item every resample is the same
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
    """Return [draws, systems] means of both and weights of 1, over texts with answers; None for too few systems.

    A draw that leaves a system without an answer leaves it out, by a weight of 0.
    """
    if rated.any(axis=0).sum() < 3:
        return None
    counts = weights @ rated
    known = counts > 0
    sums = [weights @ np.where(rated, array, 0.0) for array in (people, values)]
    # Equal sums of thirds differ in their last digits, and would be ranked by them.
    means = [np.round(total / np.where(known, counts, 1.0), DIGITS) for total in sums]
    return means[0], means[1], known.astype(np.float64)


def _correlated(drawn: FloatArray) -> Correlated:
    """Return the first value, and the interval of the others, if there are any."""
    value = float(drawn[0])
    if np.isnan(value):
        return Correlated(None, None)
    return Correlated(value, percentile_interval(drawn[1:]) if len(drawn) > 1 else None)

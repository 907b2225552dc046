"""Agreement of several judges: Krippendorff's α, with missing answers and an interval over the judged items.

α = 1 - observed / expected disagreement (Krippendorff, "Computing Krippendorff's alpha-reliability", 2011). Both follow
from the matrix of coincidences, which is a sum over the units: a resample of the units is a weighted sum of their
matrices, so a bootstrap is one product. (The package `krippendorff`, which gives the same values, has no matrices by
unit.)
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from grue.stats.intervals import FloatArray, Interval

Level = Literal["ordinal", "interval"]


def coincidences(ratings: FloatArray, values: Sequence[float]) -> FloatArray:
    """Return [units, V, V]: how often two judges of a unit gave the values c and k, each pair over its judges less one.

    Args:
        ratings: [units, judges]; NaN where a judge did not answer. Units with fewer than two answers do not count.
        values: The V values that answers may have, in ascending order.
    """
    counts = (ratings[:, :, None] == np.asarray(values, dtype=np.float64)).sum(axis=1).astype(np.float64)
    judges = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(len(values))
    result: FloatArray = pairs / np.maximum(judges - 1, 1)[:, None, None]
    return result


def alphas(table: FloatArray, values: Sequence[float], level: Level) -> FloatArray:
    """Return [...] α of matrices of coincidences; NaN where undefined: all answers are equal, or none are paired.

    Args:
        table: [..., V, V] sums of coincidences over units.
        values: As for `coincidences`.
        level: The level of measurement, which defines the distance between two values.
    """
    counts = table.sum(axis=-1)
    # The distance of ordinal values is that of their middle ranks among the answers given.
    places = np.cumsum(counts, axis=-1) - counts / 2 if level == "ordinal" else np.asarray(values, dtype=np.float64)
    distances = (places[..., :, None] - places[..., None, :]) ** 2
    observed = (table * distances).sum(axis=(-2, -1))
    expected = (counts[..., :, None] * counts[..., None, :] * distances).sum(axis=(-2, -1))
    total = counts.sum(axis=-1)
    defined = expected > 0
    result: FloatArray = np.where(defined, 1 - (total - 1) * observed / np.where(defined, expected, 1.0), np.nan)
    return result


def alpha(ratings: FloatArray, values: Sequence[float], level: Level) -> float | None:
    """Return Krippendorff's α; None where it is undefined. Arguments as for `coincidences`."""
    value = float(alphas(coincidences(ratings, values).sum(axis=0), values, level))
    return None if np.isnan(value) else value


def resamples(items: int, draws: int, generator: np.random.Generator) -> FloatArray:
    """Return [draws, items]: how often each item is in a resample of as many items, drawn with replacement."""
    return generator.multinomial(items, np.full(items, 1 / items), size=draws).astype(np.float64)


def percentile_interval(drawn: FloatArray) -> Interval | None:
    """Return the interval with 95 % of the defined draws; None if half of the draws or more are NaN."""
    defined = drawn[~np.isnan(drawn)]
    if 2 * len(defined) <= len(drawn):
        return None
    low, high = np.quantile(defined, [(1 - 0.95) / 2, (1 + 0.95) / 2])
    return Interval(float(low), float(high))

"""How good probabilities of a yes or no are: calibrated by a temperature, and judged by accuracy, log-loss and ECE.

A margin is the log-odds that something is so, N of them. A target is 1 where it is so, 0 where it is not, and ½ where
it is neither, which is learned from and counts in the log-loss, and is left out of what is right or wrong.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grue.stats.intervals import Interval

FloatArray = NDArray[np.float64]

COLDEST, HOTTEST = 0.05, 20.0
"""Bounds of a temperature: margins that sort everything rightly would be divided by 0, useless ones by infinity."""
BINS = 10
Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers whose confidence lies in a range.

    Attributes:
        low: Least confidence; a half is the least that there is.
        high: Highest, which belongs to the next bin but for the last.
        count: Answers.
        confidence: Their mean; None without any.
        right: The share of them that are right; None without any.
    """

    low: float
    high: float
    count: int
    confidence: float | None
    right: float | None


def log_losses(margins: FloatArray, targets: FloatArray) -> FloatArray:
    """Return −t·log σ(m) − (1 − t)·log σ(−m) of each, [N]."""
    found: FloatArray = np.logaddexp(0.0, -margins) * targets + np.logaddexp(0.0, margins) * (1.0 - targets)
    return found


def best_temperature(margins: FloatArray, targets: FloatArray) -> float:
    """Return the T > 0 by which margins are divided for the least log-loss, from `COLDEST` to `HOTTEST`.

    The loss is convex in 1/T, so that its slope is bisected. Dividing changes no order.
    """
    low, high = 1.0 / HOTTEST, 1.0 / COLDEST

    def slope(scale: float) -> float:
        chances = 0.5 * (1.0 + np.tanh(0.5 * scale * margins))
        return float(((chances - targets) * margins).sum())

    if slope(low) >= 0:
        return HOTTEST
    if slope(high) <= 0:
        return COLDEST
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 2.0 / (low + high)


def rights(margins: FloatArray, targets: FloatArray) -> FloatArray:
    """Return of each whether its sign is right: 1, 0, and ½ for a margin of 0; [N] without those that are neither."""
    decided = targets != 0.5
    agrees: FloatArray = 0.5 + 0.5 * np.sign(margins[decided]) * np.sign(targets[decided] - 0.5)
    return agrees


def reliability(margins: FloatArray, targets: FloatArray, bins: int = BINS) -> tuple[ReliabilityBin, ...]:
    """Return how often answers of each confidence, σ(|m|) from ½ to 1, are right; what is neither is left out."""
    decided = targets != 0.5
    confidence = 0.5 * (1.0 + np.tanh(0.5 * np.abs(margins[decided])))
    right = rights(margins, targets)
    edges = np.linspace(0.5, 1.0, bins + 1)
    places = np.minimum(((confidence - 0.5) * 2 * bins).astype(int), bins - 1)
    found = []
    for place in range(bins):
        here = places == place
        count = int(here.sum())
        means = (float(confidence[here].mean()), float(right[here].mean())) if count else (None, None)
        found.append(ReliabilityBin(float(edges[place]), float(edges[place + 1]), count, *means))
    return tuple(found)


def expected_calibration_error(bins: Sequence[ReliabilityBin]) -> float | None:
    """Return the mean over answers of |confidence − share right| of their bin, 0–1; None without answers."""
    total = sum(one.count for one in bins)
    if not total:
        return None
    gaps = (one.count * abs(one.confidence - one.right) for one in bins if None not in (one.confidence, one.right))  # type: ignore[operator]  # neither is None
    return math.fsum(gaps) / total


def share_interval(values: FloatArray, clusters: Sequence[Hashable]) -> Interval | None:
    """Return the 95 % interval of the mean of values from 0 to 1 that come in clusters; None without any.

    It is Wilson's with as many values as independent ones would give that variance: the variance of the mean over
    clusters against that of independent values. Where all values are equal, that is not known, and clusters count.
    """
    count = len(values)
    if not count:
        return None
    share = float(values.mean())
    sums: dict[Hashable, float] = {}
    for value, cluster in zip(values.tolist(), clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - share
    spread, many = share * (1.0 - share) / max(1, count - 1), len(sums)
    if spread and many > 1:
        between = math.fsum(one * one for one in sums.values()) / count**2 * many / (many - 1)
        effective = count / max(1.0, between / spread)
    else:
        effective = float(many)
    below = Z * Z / effective
    middle = (share + below / 2) / (1 + below)
    half = Z / (1 + below) * math.sqrt(share * (1 - share) / effective + below / (4 * effective))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))

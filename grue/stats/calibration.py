"""Binary probabilities: calibrate them by a temperature, and evaluate them by accuracy, log-loss and ECE.

There are N margins, log-odds that something is true. A target is 1 if it is true, 0 if it is false, and ½ if it is
neither, which counts in the log-loss but not in the accuracy.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from grue.stats.intervals import FloatArray, Interval

COLDEST, HOTTEST = 0.05, 20.0
"""Bounds of a temperature: perfect margins would be divided by 0, useless ones by infinity."""
BINS = 10
Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers with a confidence in a range.

    Attributes:
        low: Lowest confidence, at least ½.
        high: Highest confidence; except in the last bin, it belongs to the next one.
        confidence: Mean confidence; None without answers.
        right: Share of right answers; None without answers.
    """

    low: float
    high: float
    count: int
    confidence: float | None
    right: float | None


def log_losses(margins: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the losses −t·log σ(m) − (1 − t)·log σ(−m), [N]."""
    losses: FloatArray = np.logaddexp(0.0, -margins) * targets + np.logaddexp(0.0, margins) * (1.0 - targets)
    return losses


def best_temperature(margins: FloatArray, targets: FloatArray) -> float:
    """Return the temperature T, from `COLDEST` to `HOTTEST`, for which margins divided by T have the least log-loss.

    The loss is convex in 1/T, so its slope is bisected.
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
    """Return 1 for each margin of the right sign, 0 for a wrong one, ½ for a margin of 0; targets of ½ are left out."""
    decided = targets != 0.5
    agrees: FloatArray = 0.5 + 0.5 * np.sign(margins[decided]) * np.sign(targets[decided] - 0.5)
    return agrees


def reliability(margins: FloatArray, targets: FloatArray, bins: int = BINS) -> tuple[ReliabilityBin, ...]:
    """Return how often answers of each confidence, σ(|m|) from ½ to 1, are right; targets of ½ are left out."""
    decided = targets != 0.5
    confidence = 0.5 * (1.0 + np.tanh(0.5 * np.abs(margins[decided])))
    right = rights(margins, targets)
    edges = np.linspace(0.5, 1.0, bins + 1)
    places = np.minimum(((confidence - 0.5) * 2 * bins).astype(int), bins - 1)
    result = []
    for place in range(bins):
        inside = places == place
        count = int(inside.sum())
        means = (float(confidence[inside].mean()), float(right[inside].mean())) if count else (None, None)
        result.append(ReliabilityBin(float(edges[place]), float(edges[place + 1]), count, *means))
    return tuple(result)


def expected_calibration_error(bins: Sequence[ReliabilityBin]) -> float | None:
    """Return the mean over answers of |confidence − accuracy| of their bin, 0–1; None without answers."""
    total = sum(bin.count for bin in bins)
    if not total:
        return None
    gaps = (bin.count * abs(bin.confidence - bin.right) for bin in bins if None not in (bin.confidence, bin.right))  # type: ignore[operator]  # neither is None
    return math.fsum(gaps) / total


def share_interval(values: FloatArray, clusters: Sequence[Hashable]) -> Interval | None:
    """Return the 95 % interval of the mean of clustered values from 0 to 1; None without values.

    It is Wilson's, with the number of independent values that would give the same variance: the variance of the mean
    over clusters against that of independent values. If all values are equal, it is the number of clusters.
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
        between = math.fsum(total * total for total in sums.values()) / count**2 * many / (many - 1)
        effective = count / max(1.0, between / spread)
    else:
        effective = float(many)
    below = Z * Z / effective
    middle = (share + below / 2) / (1 + below)
    half = Z / (1 + below) * math.sqrt(share * (1 - share) / effective + below / (4 * effective))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))

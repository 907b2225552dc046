"""Scores that differ by seed: mean, standard deviation, and the interval of a mean over tasks."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval, in the unit of the scores."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The number behind the ±."""
        return (self.high - self.low) / 2


def mean(values: Collection[float]) -> float:
    """Return the arithmetic mean of at least one value, independent of their order; of equal values that value."""
    return min(max(math.fsum(values) / len(values), min(values)), max(values))  # rounding may lead outside the range


def sd(values: Collection[float]) -> float | None:
    """Return the sample standard deviation (n - 1), or None for a single value."""
    if len(values) < 2:
        return None
    if min(values) == max(values):  # a rounded mean would leave a tiny spread
        return 0.0
    centre = mean(values)
    deviations = [value - centre for value in values]
    unit = _unit(deviations)
    return math.sqrt(math.fsum((part / unit) ** 2 for part in deviations) / (len(values) - 1)) * unit


def mean_over_tasks(scores: Mapping[str, Collection[float]]) -> float:
    """Return the mean over tasks of the means over seeds, of any number: every task has the same weight."""
    return mean([mean(values) for values in scores.values()])


def satterthwaite_interval(scores: Mapping[str, Collection[float]], level: float = 0.95) -> Interval | None:
    """Return the interval of the mean over tasks of the means over seeds; None if a task has a single seed.

    Tasks are fixed and seeds are random: the squared standard error is the sum over the K tasks of v = s²/(K²·n). Its
    distribution is approximated by a chi-squared one with (Σ v)² / Σ (v²/(n - 1)) degrees of freedom (Satterthwaite,
    "An approximate distribution of estimates of variance components", 1946). For one task this is the usual t interval.

    Args:
        scores: Task → its seeds' scores; the tasks may have different numbers of seeds.
        level: The share of such intervals that contain the true mean, between 0 and 1.
    """
    centre = mean_over_tasks(scores)
    spreads = [sd(values) for values in scores.values()]
    deviations = [spread for spread in spreads if spread is not None]
    if len(deviations) < len(spreads):
        return None
    if not any(deviations):
        return Interval(centre, centre)
    unit, seeds = _unit(deviations), [len(values) for values in scores.values()]
    parts = [(spread / unit) ** 2 / (len(seeds) ** 2 * n) for spread, n in zip(deviations, seeds, strict=True)]
    variance = math.fsum(parts)
    shares = [part / variance for part in parts]
    degrees = 1 / math.fsum(share**2 / (n - 1) for share, n in zip(shares, seeds, strict=True))
    half = student_t_quantile((1 + level) / 2, degrees) * math.sqrt(variance) * unit
    return Interval(centre - half, centre + half)


def prediction_interval(values: Collection[float], level: float = 0.95) -> Interval | None:
    """Return the interval in which one further value of the same normal distribution lies; None for a single value.

    It is mean ± t·s·√(1 + 1/n), where t is Student's quantile of n - 1 degrees of freedom: s·√(1 + 1/n) is the standard
    error of the difference between a new value and the mean of n others.
    """
    spread = sd(values)
    if spread is None:
        return None
    n, centre = len(values), mean(values)
    half = student_t_quantile((1 + level) / 2, n - 1) * spread * math.sqrt(1 + 1 / n)
    return Interval(centre - half, centre + half)


def _unit(values: Collection[float]) -> float:
    """Return a power of two near the largest value: division by it is exact, and squares stay in range."""
    return math.ldexp(1.0, math.frexp(max(abs(value) for value in values))[1] - 1)


@lru_cache(maxsize=4096)
def student_t_quantile(probability: float, degrees: float) -> float:
    """Return the t below which Student's distribution has `probability`, to twelve digits.

    Args:
        degrees: Degrees of freedom ν, at least 1; not always whole.
    """
    from scipy.special import stdtrit

    return float(f"{stdtrit(degrees, probability):.12g}")  # later digits depend on the processor


def student_t_p(t: FloatArray, degrees: FloatArray) -> FloatArray:
    """Return the two-sided p values of Student's t: how often it is at least `t` from 0.

    The relative error is below 1e-10 up to 100,000 degrees of freedom.

    Args:
        t: [N], at least 0.
        degrees: [N] degrees of freedom, at least 1; not always whole.
    """
    from scipy.special import stdtr

    tails: FloatArray = 2 * stdtr(degrees, -t)
    return tails

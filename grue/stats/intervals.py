"""What can be said about scores that differ by seed: mean, sd, and the interval of a mean over tasks."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


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
    """Return the arithmetic mean of at least one value, independent of their order."""
    return math.fsum(values) / len(values)


def sd(values: Collection[float]) -> float | None:
    """Return the sample standard deviation (n - 1), or None for a single value, from which it cannot be known."""
    if len(values) < 2:
        return None
    if min(values) == max(values):  # a rounded mean would leave a trace of a spread
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def mean_over_tasks(scores: Mapping[str, Collection[float]]) -> float:
    """Return the mean over tasks of the means over seeds, so that every task weighs the same.

    Args:
        scores: Task → its seeds' scores; the tasks may have different numbers of seeds.
    """
    return mean([mean(values) for values in scores.values()])


def satterthwaite_interval(scores: Mapping[str, Collection[float]], level: float = 0.95) -> Interval | None:
    """Return the interval of the mean over tasks of the means over seeds; None if a task has a single seed.

    Tasks are fixed and seeds are random: the squared standard error is the sum over the K tasks of v = s²/(K²·n). Its
    distribution is taken for a chi-squared one with (Σ v)² / Σ (v²/(n - 1)) degrees of freedom (Satterthwaite, "An
    approximate distribution of estimates of variance components", 1946). With one task this is the usual t interval.

    Args:
        scores: Task → its seeds' scores; the tasks may have different numbers of seeds.
        level: The share of such intervals that hold the true mean, between 0 and 1.
    """
    centre = mean_over_tasks(scores)
    variances, weights = [], []
    for values in scores.values():
        spread = sd(values)
        if spread is None:
            return None
        variances.append(spread**2 / (len(scores) ** 2 * len(values)))
        weights.append(1 / (len(values) - 1))
    variance = math.fsum(variances)
    if variance == 0:
        return Interval(centre, centre)
    shares = [part / variance for part in variances]  # squares of shares cannot underflow, of variances they can
    degrees = 1 / math.fsum(share**2 * weight for share, weight in zip(shares, weights, strict=True))
    half = student_t_quantile((1 + level) / 2, degrees) * math.sqrt(variance)
    return Interval(centre - half, centre + half)


def student_t_quantile(probability: float, degrees: float) -> float:
    """Return the t below which Student's distribution has `probability`.

    With t = √ν·tan θ the density becomes c·cos(θ)^(ν-1), smooth and falling in θ > 0. Its integral from 0 is therefore
    concave, so that Newton's steps from 0 approach the root from below and never overshoot. The relative error is below
    1e-11 for probabilities between 0.001 and 0.999.

    Args:
        probability: Above 0 and below 1.
        degrees: Degrees of freedom ν, at least 1; not always whole.

    Raises:
        ValueError: An argument outside these bounds.
    """
    if not (0 < probability < 1 and degrees >= 1):
        raise ValueError(f"no Student t quantile at probability {probability} with {degrees} degrees of freedom")
    if probability < 0.5:
        return -student_t_quantile(1 - probability, degrees)
    target = probability - 0.5
    constant = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    theta = 0.0
    for _ in range(100):
        cosines = np.cos(theta / 2 * (_NODES + 1))
        reached = constant * theta / 2 * float(_WEIGHTS @ cosines ** (degrees - 1))
        step = (target - reached) / (constant * math.cos(theta) ** (degrees - 1))
        theta += step
        if step <= 1e-15 * theta:
            break
    return math.sqrt(degrees) * math.tan(theta)

"""Scores that differ by seed: mean, standard deviation, and the interval of a mean over tasks."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

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
    """Return the mean over tasks of the means over seeds: every task has the same weight.

    Args:
        scores: Task → its seeds' scores; the tasks may have different numbers of seeds.
    """
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
    """Return the t below which Student's distribution has `probability`.

    With t = √ν·tan θ the density becomes c·cos(θ)^(ν-1), smooth and falling in θ > 0. Its integral from 0 is therefore
    concave, so that Newton's steps from 0 approach the root from below and never overshoot. The relative error is below
    1e-11 for probabilities between 0.005 and 0.995 and up to 3,000 degrees of freedom.

    Args:
        probability: Above 0 and below 1.
        degrees: Degrees of freedom ν, at least 1; not always whole.

    Raises:
        ValueError: An argument is outside these bounds.
    """
    if not (0 < probability < 1 and degrees >= 1):
        raise ValueError(f"no Student t quantile at probability {probability} with {degrees} degrees of freedom")
    if probability < 0.5:
        return -student_t_quantile(1 - probability, degrees)
    target = probability - 0.5
    constant = _student_constant(degrees)
    theta = 0.0
    for _ in range(100):
        step = (target - _student_area(theta, degrees)) / (constant * math.cos(theta) ** (degrees - 1))
        theta += step
        if step <= 1e-15 * theta:
            break
    # Later digits depend on the processor, and the bytes of a board must not.
    return float(f"{math.sqrt(degrees) * math.tan(theta):.12g}")


def student_t_p(t: FloatArray, degrees: FloatArray) -> FloatArray:
    """Return the two-sided p values of Student's t: how often it is at least `t` from 0.

    The relative error is below 1e-10 for t up to 1e150, as which larger ones count, and up to 100,000 degrees of
    freedom, and grows with these. It is the regularised incomplete beta function I(x; ν/2, 1/2) at x = ν/(ν+t²), by its
    continued fraction, or 1 - I(1-x; 1/2, ν/2) where that one converges faster.

    Args:
        t: [N], at least 0.
        degrees: [N] degrees of freedom, at least 1; not always whole.

    Raises:
        ValueError: An argument is outside these bounds.
    """
    if not ((t >= 0).all() and (degrees >= 1).all()):
        raise ValueError(f"no Student t probability at {t} with {degrees} degrees of freedom")
    squares = np.minimum(t, 1e150) ** 2  # larger ones overflow
    x, y = degrees / (degrees + squares), squares / (degrees + squares)
    swap = x > (degrees + 2) / (degrees + 5)
    a, b = np.where(swap, 0.5, degrees / 2), np.where(swap, degrees / 2, 0.5)
    z, rest = np.where(swap, y, x), np.where(swap, x, y)
    front = z**a * rest**b * _gamma_ratio(degrees / 2) / (math.sqrt(math.pi) * a)
    area = front * _beta_fraction(z, a, b)
    tails: FloatArray = np.clip(np.where(swap, 1 - area, area), 0.0, 1.0)
    return tails


def _gamma_ratio(x: FloatArray) -> FloatArray:
    """Return Γ(x + 1/2) / Γ(x), for x from 1/2 on: its asymptotic series at x + 24, and the recurrence back."""
    far = x + 24
    series = 1 - 1 / (8 * far) + 1 / (128 * far**2) + 5 / (1024 * far**3) - 21 / (32768 * far**4)
    ratio = np.sqrt(far) * (series - 399 / (262144 * far**5))
    for k in range(24):
        ratio *= (x + k) / (x + k + 0.5)
    return ratio


def _beta_fraction(x: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c = np.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / (1 + even * d), 1 + even / c
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        step = d * c
        value *= step
        if np.abs(step - 1).max(initial=0.0) < 1e-14:
            break
    return value


def _student_constant(degrees: float) -> float:
    return math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)


def _student_area(theta: float, degrees: float) -> float:
    """Return the probability between 0 and t = √ν·tan θ.

    Since cos θ ≤ exp(-θ²/2), the density beyond 9 / √(ν-1) is negligible.
    """
    theta = min(theta, 9 / math.sqrt(degrees - 1)) if degrees > 1 else theta
    cosines = np.cos(theta / 2 * (_NODES + 1))
    return _student_constant(degrees) * theta / 2 * float(_WEIGHTS @ cosines ** (degrees - 1))


def in_order(scores: Mapping[str, Collection[float]]) -> dict[str, FloatArray]:
    """Return task → [seed], both sorted, so that no sum and no draw depends on the order of the scores.

    Raises:
        ValueError: There is no task, a task has no scores, or a score is not finite.
    """
    arrays = {task: np.sort(np.array(list(scores[task]), dtype=np.float64)) for task in sorted(scores)}
    if not arrays:
        raise ValueError("no task has scores")
    for task, values in arrays.items():
        if not (len(values) and np.isfinite(values).all()):
            raise ValueError(f"the scores of {task} must be at least one, and finite: {values.tolist()}")
    return arrays

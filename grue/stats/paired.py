"""Two systems on one task: their difference and its uncertainty, with both seeds and examples as random draws.

The difference D is the one on the board: A's mean over its seeds minus B's. It has two sources of chance. Other seeds
would give other scores on these examples: W = s²_A/n_A + s²_B/n_B, as in Welch's test. Other examples would give
another difference: the mean of the examples' differences, seeds averaged, has the variance V. V also contains the
interaction of seeds and examples, which W counts already; an analysis of variance measures it, and subtracting it
leaves what the examples alone add (the crossed design of readers and cases: Dorfman, Berbaum & Metz, "Receiver
operating characteristic rating analysis", 1992, with the same pseudo-values).

The test is approximate randomisation over examples (Noreen, "Computer-intensive methods for testing hypotheses", 1989):
each draw flips the sign of some examples' differences, all seeds of an example together, and adds a normal draw for the
seeds. The sum is stretched as in Student's t, with Satterthwaite's degrees of freedom, since W is estimated from few
seeds. If no seeds differ this is the plain randomisation test; if no examples differ it is Welch's test. The mean over
tasks is the mean of such draws, stretched with the degrees of freedom of the whole, as the board's intervals are. The
interval is of the same draws, around their mean; there the part of N examples is wider by √(N/(N - 1)) and by Student's
quantile over the normal one, since it must not take the examples' spread as known.

Where seed k of both systems began from the same weights, seeds are pairs: W is then s²/n of the pairs' differences, and
if no examples differ the test is the paired t test.

Ranks on the board take the examples as fixed, as its intervals do (`judge_seeds`): V is 0, and p is exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from grue.stats.intervals import FloatArray, Interval, mean, sd, student_t_p, student_t_quantile

DRAWS = 10_000
LEVEL = 0.95
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
_SIGNS = 1 << 22  # signs drawn at once; bounds the memory
_FIXED: FloatArray = np.empty(0)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two systems on a task; all but `p` in points of the board, 0–100.

    Attributes:
        a: A's mean over its seeds.
        b: B's mean over its seeds.
        value: a - b.
        p: How often chance alone gives a difference at least as large, if neither is better; never 0.
        seeds_a: Number of A's seeds. Likewise `seeds_b`.
        sd_a: Standard deviation over A's seeds; None for one seed. Likewise `sd_b`.
        seed_error: Standard error of `value` due to the seeds; None if neither system has two. If only one has, it is
            that system's share.
        test_set_error: Standard error of `value` due to the examples.
        paired: Whether the seeds are pairs.
    """

    a: float
    b: float
    value: float
    interval: Interval
    p: float
    seeds_a: int
    seeds_b: int
    sd_a: float | None
    sd_b: float | None
    seed_error: float | None
    test_set_error: float
    examples: int
    paired: bool = False


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The mean of the differences on several tasks with equal weights; fields as in `Difference`."""

    a: float
    b: float
    value: float
    interval: Interval
    p: float


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """The data behind a difference and its noise.

    Attributes:
        scores_a: A's scores by seed, 0–100. Likewise `scores_b`.
        examples: [examples] differences of the examples. Their mean is the difference of the scores, and their spread
            is due to the examples alone: the interaction with the seeds is removed. Empty where they are fixed.
        paired: Whether the scores at the same place in `scores_a` and `scores_b` are a pair.
    """

    scores_a: tuple[float, ...]
    scores_b: tuple[float, ...]
    examples: FloatArray = field(default_factory=lambda: _FIXED)
    paired: bool = False

    @property
    def value(self) -> float:
        """A's mean minus B's."""
        return mean(self.scores_a) - mean(self.scores_b)

    @property
    def seed_variances(self) -> tuple[tuple[float, int], ...]:
        """The squared standard error of the mean and its degrees of freedom, of each system with two seeds or more.

        Those of the pairs' differences, if the seeds are paired.
        """
        samples = (self.scores_a, self.scores_b)
        if self.paired:
            return (_error(tuple(a - b for a, b in zip(*samples, strict=True))),)
        return tuple(_error(scores) for scores in samples if len(scores) > 1)

    @property
    def seed_variance(self) -> float:
        """The squared standard error due to the seeds, as far as it is known."""
        return math.fsum(variance for variance, _ in self.seed_variances)

    @property
    def test_set_variance(self) -> float:
        """The squared standard error due to the examples; 0 where they are fixed."""
        return _variance_of_mean(self.examples) if len(self.examples) else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Draws of a difference under chance, as if the seeds' variance were known exactly.

    Attributes:
        null: [draws] differences if neither system were better.
        around: [draws] deviations from the true difference, wider where the examples are few.
    """

    null: FloatArray
    around: FloatArray


def difference(
    a_values: FloatArray,
    b_values: FloatArray,
    a_scores: Sequence[float],
    b_scores: Sequence[float],
    generator: np.random.Generator,
    draws: int = DRAWS,
    paired: bool = False,
) -> Difference:
    """Return the difference of two systems on a task, with its interval and its test.

    Args:
        a_values: [A's seeds, examples] contribution of each example to the score of each seed: its value if the score
            is a mean, else its jackknife pseudo-value.
        b_values: [B's seeds, examples] the same examples.
        a_scores: A's scores by seed, 0–100.
        b_scores: B's scores by seed.
        paired: Whether seed k of A and seed k of B are a pair, which began from the same weights.
    """
    compared = contrast(a_values, b_values, a_scores, b_scores, paired)
    return judge(compared, draw(compared, generator, draws), generator)


def contrast(
    a_values: FloatArray,
    b_values: FloatArray,
    a_scores: Sequence[float],
    b_scores: Sequence[float],
    paired: bool = False,
) -> Contrast:
    """Return the data behind the difference of two systems; arguments as in `difference`, of two examples at least."""
    value = mean(a_scores) - mean(b_scores)
    raw = _means_of_seeds(a_values) - _means_of_seeds(b_values)
    whole = _variance_of_mean(raw)
    samples = [a_values - b_values] if paired else [a_values, b_values]
    alone = max(0.0, whole - sum(_interaction(values) for values in samples))
    shrink = math.sqrt(alone / whole) if whole else 0.0
    return Contrast(tuple(a_scores), tuple(b_scores), value + shrink * (raw - raw.mean()), paired)


def _means_of_seeds(values: FloatArray) -> FloatArray:
    """Return [examples] means over the seeds; those of equal values are that value, without rounding."""
    means: FloatArray = values.mean(axis=0).clip(values.min(axis=0), values.max(axis=0))
    return means


def draw(compared: Contrast, generator: np.random.Generator, draws: int = DRAWS) -> Noise:
    """Draw differences under chance."""
    count = len(compared.examples)
    centred = compared.examples - compared.value
    at_once = max(1, _SIGNS // count)
    around, turned = np.empty(draws), np.empty(draws)
    # Flipped signs vary as if the examples' spread were known; Student's t allows for few of them.
    wider = math.sqrt(count / (count - 1)) * student_t_quantile((1 + LEVEL) / 2, count - 1) / NORMAL
    for start in range(0, draws, at_once):
        part = slice(start, min(draws, start + at_once))
        flips = generator.integers(0, 2, size=(part.stop - start, count), dtype=np.int8)
        around[part] = (2 * (flips @ centred) - centred.sum()) / count
        turned[part] = 2 * flips.mean(axis=1) - 1
    seeds = math.sqrt(compared.seed_variance) * generator.standard_normal(draws)
    return Noise(around + compared.value * turned + seeds, wider * around + seeds)


def judge(compared: Contrast, noise: Noise, generator: np.random.Generator) -> Difference:
    """Return the difference with its interval and p value."""
    overall = judge_mean([compared], [noise], generator)
    return Difference(
        *(overall.a, overall.b, overall.value, overall.interval, overall.p),
        seeds_a=len(compared.scores_a),
        seeds_b=len(compared.scores_b),
        sd_a=sd(compared.scores_a),
        sd_b=sd(compared.scores_b),
        seed_error=math.sqrt(compared.seed_variance) if compared.seed_variances else None,
        test_set_error=math.sqrt(compared.test_set_variance),
        examples=len(compared.examples),
        paired=compared.paired,
    )


def judge_mean(compared: Sequence[Contrast], noises: Sequence[Noise], generator: np.random.Generator) -> MeanDifference:
    """Return the mean difference over tasks, whose noise is independent: they share neither examples nor runs."""
    value = mean([of_task.value for of_task in compared])
    null = np.mean([of_task.null for of_task in noises], axis=0)
    around = np.mean([of_task.around for of_task in noises], axis=0)
    degrees = degrees_of_freedom(compared)
    if math.isfinite(degrees):
        stretch = np.sqrt(degrees / generator.chisquare(degrees, len(null)))
        null, around = null * stretch, around * stretch
    half = float(np.quantile(np.abs(around), LEVEL))
    # Draws that equal the difference up to rounding count as equal: no flipped sign is one of the outcomes.
    reached = int(np.sum(np.abs(null) >= abs(value) * (1 - 1e-9)))
    return _mean_difference(compared, half, p=(1 + reached) / (1 + len(null)))


def _mean_difference(compared: Sequence[Contrast], half: float, p: float) -> MeanDifference:
    """Return the mean difference with half the width of its interval."""
    value = mean([of_task.value for of_task in compared])
    a = mean([mean(of_task.scores_a) for of_task in compared])
    b = mean([mean(of_task.scores_b) for of_task in compared])
    return MeanDifference(a, b, value, Interval(value - half, value + half), p)


def judge_seeds(compared: Sequence[Contrast]) -> MeanDifference:
    """Return the mean difference over tasks whose examples are fixed: only seeds are random.

    On one task this is Welch's test, or the paired t test. If one system has a single seed on a task there is no
    verdict: p is 1, and the interval covers everything.

    Args:
        compared: At least one task, each without `examples`.
    """
    _, error, degrees = _seed_statistic(compared)
    half = 0.0 if error == 0 else math.inf
    if 0 < error < math.inf:
        half = error * student_t_quantile((1 + LEVEL) / 2, degrees)
    return _mean_difference(compared, half, p_of_each([compared])[0])


def p_of_each(comparisons: Sequence[Sequence[Contrast]]) -> list[float]:
    """Return the p value of `judge_seeds` of each of many comparisons."""
    statistics = [_seed_statistic(compared) for compared in comparisons]
    t = np.array([abs(value) / error if error else 0.0 for value, error, _ in statistics])
    p = student_t_p(t, np.array([degrees for _, _, degrees in statistics]))
    return [float(q if error else value == 0) for q, (value, error, _) in zip(p, statistics, strict=True)]


def _seed_statistic(compared: Sequence[Contrast]) -> tuple[float, float, float]:
    """Return the mean difference, its standard error due to the seeds, and the degrees of freedom of that.

    The error is infinite if one system has a single seed on a task; without error there is one degree of freedom.
    """
    value = mean([of_task.value for of_task in compared])
    error = math.sqrt(math.fsum(of_task.seed_variance for of_task in compared)) / len(compared)
    if any(min(len(of_task.scores_a), len(of_task.scores_b)) < 2 for of_task in compared):
        return value, math.inf, 1.0
    return value, error, degrees_of_freedom(compared) if error else 1.0


def degrees_of_freedom(compared: Sequence[Contrast]) -> float:
    """Return Satterthwaite's degrees of freedom of a mean of differences; infinite if no seeds differ.

    With many examples their variance counts as known.
    """
    variances = [part for of_task in compared for part in of_task.seed_variances]
    whole = math.fsum([*(variance for variance, _ in variances), *(of_task.test_set_variance for of_task in compared)])
    # Squares of shares cannot underflow; squares of variances can.
    uncertain = math.fsum((variance / whole) ** 2 / degrees for variance, degrees in variances) if whole else 0.0
    return 1 / uncertain if uncertain else math.inf


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for multiple testing: at most a share α of such families has a false one below α.

    The i-th smallest of n is multiplied by n - i + 1, never below the one before, never above 1 (Holm, "A simple
    sequentially rejective multiple test procedure", 1979).
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = highest
    return corrected


@lru_cache(maxsize=1 << 14)
def _error(scores: tuple[float, ...]) -> tuple[float, int]:
    """Return the squared standard error of the mean of at least two scores, and its degrees of freedom."""
    spread = sd(scores)
    assert spread is not None
    return spread**2 / len(scores), len(scores) - 1


def _variance_of_mean(values: FloatArray) -> float:
    return float(values.var(ddof=1) / len(values))


def _interaction(values: FloatArray) -> float:
    """Return the variance of the mean due to the interaction of seeds and examples; 0 for one seed.

    Args:
        values: [seeds, examples].
    """
    seeds, examples = values.shape
    if seeds < 2:
        return 0.0
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    return float((rest**2).sum() / ((seeds - 1) * (examples - 1)) / (seeds * examples))

"""Statistics beside the mean: interquartile mean, probability of improvement, performance profile.

All three are of Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice" (2021). Scores
are task → its seeds' scores. Tasks may have different numbers of seeds: each task weighs the same, and in it each seed.
A function named `…_of` takes many resamples at once, task → [draw, seed].
"""

from collections.abc import Collection, Mapping

import numpy as np

from grue.stats.intervals import FloatArray, Interval, bootstrap_interval, in_order, middle, resampled

Scores = Mapping[str, Collection[float]]


# --- interquartile mean ----------------------------------------------------------------------------------------------


def iqm(scores: Scores) -> float:
    """Return the mean of the middle half of all runs, in the unit of the scores (section 4.3).

    A run that lies across the border of the middle half counts with the part that is inside. So ragged seeds need no
    rule of their own, and nothing jumps when a seed is added. rliable and `scipy.stats.trim_mean` keep or drop whole
    runs, which is the same where a quarter of the runs is a whole number.

    Over seven tasks whose scores lie apart, the best and the worst task have no weight at all: never a headline.

    Raises:
        ValueError: There is no task, a task without scores, or a score that is not finite.
    """
    return float(iqm_of(_one_draw(scores))[0])


def iqm_interval(
    scores: Scores, generator: np.random.Generator, level: float = 0.95, draws: int = 2000
) -> Interval | None:
    """Return the stratified bootstrap's interval of the interquartile mean; None if a task has a single seed."""
    return bootstrap_interval(scores, generator, level, draws, iqm_of)


def iqm_of(samples: Mapping[str, FloatArray]) -> FloatArray:
    """Return the interquartile mean of each draw, [draw]."""
    runs = np.concatenate(list(samples.values()), axis=1)  # [draw, run]
    seeds = [values.shape[1] for values in samples.values()]
    share = np.repeat([1 / (len(seeds) * n) for n in seeds], seeds)  # [run], of the whole
    order = np.argsort(runs, axis=1, kind="stable")
    ordered, shares = np.take_along_axis(runs, order, axis=1), share[order]
    up_to = np.cumsum(shares, axis=1)
    kept = np.clip(up_to, 0.25, 0.75) - np.clip(up_to - shares, 0.25, 0.75)
    means: FloatArray = (kept * ordered).sum(axis=1) / kept.sum(axis=1)
    return means.clip(ordered[:, 0], ordered[:, -1])  # of equal runs exactly their value


# --- probability of improvement --------------------------------------------------------------------------------------


def probability_of_improvement(x: Scores, y: Scores) -> float:
    """Return the chance that a run of `x` beats a run of `y` on a task drawn at random; a tie is half a win.

    It is the mean over tasks of Mann and Whitney's U as a share of its largest value (section 4.3). It says how often
    one is better, not by how much.

    Args:
        x: Task → its seeds' scores.
        y: The same tasks; the seeds need not be as many.

    Returns:
        0–1; 0.5 if neither is better.

    Raises:
        ValueError: The tasks differ, there is none, one has no scores, or a score is not finite.
    """
    _refuse_other_tasks(x, y)
    return float(_improvement_of(_one_draw(x), _one_draw(y))[0])


def probability_of_improvement_interval(
    x: Scores, y: Scores, generator: np.random.Generator, level: float = 0.95, draws: int = 2000
) -> Interval | None:
    """Return the stratified bootstrap's interval, with the seeds of both resampled; None if a task has a single seed.

    Where on every task all runs of one system beat all of the other, the resamples agree and the interval has no width:
    the seeds showed no exception, which is not to say that there is none.
    """
    _refuse_other_tasks(x, y)
    if any(len(values) == 1 for values in (*x.values(), *y.values())):
        return None
    low, high = middle(_improvement_of(resampled(x, generator, draws), resampled(y, generator, draws)), level)
    return Interval(float(low), float(high))


def _refuse_other_tasks(x: Scores, y: Scores) -> None:
    if set(x) != set(y):
        raise ValueError(f"only one of the two systems has scores of {', '.join(sorted(set(x) ^ set(y)))}")


def _improvement_of(x: Mapping[str, FloatArray], y: Mapping[str, FloatArray]) -> FloatArray:
    """Return the probability of improvement of each pair of draws, [draw]."""
    by_task: list[FloatArray] = []
    for task, values in x.items():
        ours, theirs = values[:, :, None], y[task][:, None, :]  # every run against every run
        by_task.append(((ours > theirs) + 0.5 * (ours == theirs)).mean(axis=(1, 2)))
    chances: FloatArray = np.mean(by_task, axis=0)
    return chances


# --- performance profile ---------------------------------------------------------------------------------------------


def performance_profile(scores: Scores, thresholds: Collection[float]) -> FloatArray:
    """Return the share of runs that score above each threshold (section 4.2).

    Args:
        scores: Task → its seeds' scores.
        thresholds: In the unit of the scores, in any order.

    Returns:
        [threshold], 0–1.

    Raises:
        ValueError: There is no task, a task without scores, or a score that is not finite.
    """
    (profile,) = _profile_of(_one_draw(scores), thresholds)
    return np.asarray(profile)


def performance_profile_band(
    scores: Scores,
    thresholds: Collection[float],
    generator: np.random.Generator,
    level: float = 0.95,
    draws: int = 2000,
) -> tuple[FloatArray, FloatArray] | None:
    """Return the profile's low and high end at each threshold, [threshold] each; None if a task has a single seed.

    By the stratified bootstrap. The level holds for each threshold by itself, not for the whole curve at once.
    """
    if any(len(values) == 1 for values in scores.values()):
        return None
    low, high = middle(_profile_of(resampled(scores, generator, draws), thresholds), level)
    return low, high


def _profile_of(samples: Mapping[str, FloatArray], thresholds: Collection[float]) -> FloatArray:
    """Return the share of runs above each threshold, [draw, threshold]."""
    limits = np.array(list(thresholds), dtype=np.float64)
    by_task = [(values[:, :, None] > limits).mean(axis=1) for values in samples.values()]
    shares: FloatArray = np.mean(by_task, axis=0)
    return shares


def _one_draw(scores: Scores) -> dict[str, FloatArray]:
    """Return the scores themselves as a single draw: task → [1, seed]."""
    return {task: values[None, :] for task, values in in_order(scores).items()}

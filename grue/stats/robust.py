"""The interquartile mean, shown beside the mean: a few failed runs hardly change it."""

from collections.abc import Collection, Mapping

import numpy as np


def iqm(scores: Mapping[str, Collection[float]]) -> float:
    """Return the mean of the middle half of all runs, in the unit of the scores.

    Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice" (2021), section 4.3. Each
    task has the same weight, and so has each seed of a task. A run that lies across the border of the middle half
    counts with the part that is inside; rliable and `scipy.stats.trim_mean` keep or drop whole runs, which gives the
    same result if a quarter of the runs is a whole number.

    Over seven tasks with distinct scores, the best and the worst task have no weight at all, so it is not a headline.
    """
    by_task = [np.sort(np.array(list(scores[task]), dtype=np.float64)) for task in sorted(scores)]  # in any order
    runs = np.concatenate(by_task)
    share = np.concatenate([np.full(len(values), 1 / (len(by_task) * len(values))) for values in by_task])
    order = np.argsort(runs, kind="stable")
    ordered, shares = runs[order], share[order]
    up_to = np.cumsum(shares)
    weights = np.clip(up_to, 0.25, 0.75) - np.clip(up_to - shares, 0.25, 0.75)
    mean = float((weights * ordered).sum() / weights.sum())
    return min(max(mean, float(ordered[0])), float(ordered[-1]))  # equal runs give exactly their value

"""Ranks by pairwise tests over seeds, with Holm's correction over all pairs of a table.

The test of two systems is `grue.stats.paired.judge_seeds`; here it is computed for all pairs of a table at once.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grue.leaderboard.board import Row
from grue.leaderboard.lineage import Starts, pairs_of, starts_on
from grue.records import Direction
from grue.stats.intervals import mean, sd, student_t_p_each
from grue.stats.paired import LEVEL, Contrast, judge_seeds

Scores = Mapping[str, Mapping[int, float]]
"""Task → seed → score."""
NORMAL = 1.95  # below this t, p is above 5 % for the normal and every t distribution
FloatArray = NDArray[np.float64]
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]


def shared_ranks(
    rows: Sequence[Row], scores: Sequence[Scores | None], direction: Direction = "higher"
) -> list[int | None]:
    """Return 1 + the number of systems significantly above each; None for those that do not compete.

    Every two are tested on the mean over tasks (`judge_seeds`), with paired seeds on tasks where both began from the
    same weights and a run of the board made these; the p values are corrected over all pairs (Holm). No system has a
    better rank than one with a better mean: more noise, as from a lost seed, does not improve a rank.

    Args:
        rows: All rows of the board.
        scores: The scores of each row, on the same tasks; None for a row that does not compete.
        direction: Whether higher or lower is better.
    """
    competing = [i for i, scores_of_row in enumerate(scores) if scores_of_row is not None]
    ranks: list[int | None] = [None] * len(rows)
    compared = [scores_of_row for scores_of_row in scores if scores_of_row is not None]
    above = significantly_above([rows[i] for i in competing], compared, starts_on(rows))
    own = 1 + above.sum(axis=0 if direction == "higher" else 1)
    means = np.array([mean([mean(values.values()) for values in scores_of_row.values()]) for scores_of_row in compared])
    better = means[:, None] > means if direction == "higher" else means[:, None] < means
    reached = np.where(better, own[:, None], 1).max(axis=0, initial=1)
    for i, rank in zip(competing, np.maximum(own, reached).tolist(), strict=True):
        ranks[i] = rank
    return ranks


def significantly_above(rows: Sequence[Row], scores: Sequence[Scores], starts: Starts) -> NDArray[np.bool_]:
    """Return [systems, systems]: whether the first is significantly higher than the second."""
    above = np.zeros((len(rows), len(rows)), dtype=np.bool_)
    if len(rows) < 2:
        return above
    pairs: Pairs = np.triu_indices(len(rows), 1)
    tasks = [_on(task, rows, scores, pairs, starts.get(task, {})) for task in scores[0]]
    value = np.sum([task.value for task in tasks], axis=0) / len(tasks)
    sure = _holm(_p(tasks, value, scores, pairs)) < 1 - LEVEL
    higher = value > 0
    above[pairs[0][sure & higher], pairs[1][sure & higher]] = True
    above[pairs[1][sure & ~higher], pairs[0][sure & ~higher]] = True
    return above


@dataclass(frozen=True, slots=True, eq=False)
class PairsOnTask:
    """All pairs of systems on one task; arrays of [pairs].

    Attributes:
        value: The first's mean minus the second's.
        variance: Its squared standard error.
        uncertain: Σ variance² / degrees of freedom of its parts, as Satterthwaite adds them up.
        alone: Whether one of the two has a single seed, so that there is no verdict.
        paired: Whether the seeds are pairs.
    """

    value: FloatArray
    variance: FloatArray
    uncertain: FloatArray
    alone: NDArray[np.bool_]
    paired: NDArray[np.bool_]


def _on(
    task: str, rows: Sequence[Row], scores: Sequence[Scores], pairs: Pairs, starts: Mapping[int, Set[str]]
) -> PairsOnTask:
    first, second = pairs
    by_seed = [scores_of_row[task] for scores_of_row in scores]
    centres = np.array([mean(values.values()) for values in by_seed])
    variances = np.array([(sd(values.values()) or 0.0) ** 2 / len(values) for values in by_seed])
    sizes = np.array([len(values) for values in by_seed])
    shares = variances**2 / np.maximum(sizes - 1, 1)
    variance, uncertain = variances[first] + variances[second], shares[first] + shares[second]
    paired = pairs_of([row.cells[task] for row in rows], starts)[pairs]
    for seeds in {tuple(sorted(values)) for values in by_seed}:
        alike = np.array([values.keys() == set(seeds) for values in by_seed])
        chosen = np.flatnonzero(paired & alike[first] & alike[second])
        if len(chosen):
            table = np.array([[values.get(seed, 0.0) for seed in seeds] for values in by_seed])
            variance[chosen] = _variance_of_mean(table[first[chosen]] - table[second[chosen]])
            uncertain[chosen] = variance[chosen] ** 2 / (len(seeds) - 1)
    alone = np.minimum(sizes[first], sizes[second]) < 2
    return PairsOnTask(centres[first] - centres[second], variance, uncertain, alone, paired)


def _variance_of_mean(values: FloatArray) -> FloatArray:
    """Return the squared standard error of the mean of each row of [N, seeds]; exactly 0 where all are equal."""
    seeds = values.shape[1]
    deviations = values - values.mean(axis=1, keepdims=True)
    variances: FloatArray = (deviations**2).sum(axis=1) / (seeds - 1) / seeds
    variances[values.min(axis=1) == values.max(axis=1)] = 0.0
    return variances


def _p(tasks: Sequence[PairsOnTask], value: FloatArray, scores: Sequence[Scores], pairs: Pairs) -> FloatArray:
    """Return [pairs] how often chance alone gives a difference at least as large; 1 where that is above 5 % anyway."""
    variance = np.sum([task.variance for task in tasks], axis=0)
    uncertain = np.sum([task.uncertain for task in tasks], axis=0)
    alone = np.any([task.alone for task in tasks], axis=0)
    # Squares of tiny variances underflow, and without variance rounding decides: these few are tested one by one.
    plain = (uncertain > 1e-200) & ~alone
    p = np.ones(len(value))
    t = np.abs(value) * len(tasks) / np.sqrt(np.where(plain, variance, 1.0))
    above_normal = plain & (t > NORMAL)
    p[above_normal] = student_t_p_each(t[above_normal], variance[above_normal] ** 2 / uncertain[above_normal])
    names = list(scores[0])
    for place in np.flatnonzero(~plain & ~alone):
        i, j = int(pairs[0][place]), int(pairs[1][place])
        contrasts = [
            _contrast(scores[i][n], scores[j][n], bool(t.paired[place])) for n, t in zip(names, tasks, strict=True)
        ]
        p[place] = judge_seeds(contrasts).p
    return p


def _contrast(a: Mapping[int, float], b: Mapping[int, float], paired: bool) -> Contrast:
    paired = paired and a.keys() == b.keys()
    seeds = sorted(a) if paired else None
    return Contrast(_of(a, seeds), _of(b, seeds), paired=paired)


def _of(scores: Mapping[int, float], seeds: Sequence[int] | None) -> tuple[float, ...]:
    return tuple(scores.values()) if seeds is None else tuple(scores[seed] for seed in seeds)


def _holm(p: FloatArray) -> FloatArray:
    """Return p values corrected as by `grue.stats.paired.holm`; 1 for those from 5 % on."""
    low = np.flatnonzero(p < 1 - LEVEL)
    order = low[np.argsort(p[low])]
    corrected = np.ones_like(p)
    steps = len(p) - np.arange(len(order))
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, steps * p[order]))
    return corrected

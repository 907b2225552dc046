"""Tests of differences between systems' ratings: the paper's, which take texts as independent, and tests within items.

All systems answer the same items, and an easy item is easy for all. One-way analysis of variance and Tukey's HSD count
that as noise; permuting systems within each item does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from grue.stats.intervals import FloatArray, Interval
from grue.stats.paired import difference, holm


@dataclass(frozen=True, slots=True)
class Anova:
    """One-way analysis of variance: F with its degrees of freedom between and within systems."""

    f: float
    between: int
    within: int
    p: float


@dataclass(frozen=True, slots=True)
class PairOfSystems:
    """Two systems compared on a scale.

    Attributes:
        value: a's mean less b's, over the texts of each.
        tukey_interval: Tukey's simultaneous interval of `value`; None if ratings do not vary.
        tukey_p: Its p value, corrected for all pairs.
        paired: The same difference over the items that both have; None if there are fewer than two.
        paired_interval: Its interval, from flipped signs of items' differences.
        paired_p: Its p value, corrected for all pairs by Holm.
    """

    a: str
    b: str
    value: float
    tukey_interval: Interval | None
    tukey_p: float | None
    paired: float | None
    paired_interval: Interval | None
    paired_p: float | None


def one_way(groups: Sequence[FloatArray]) -> Anova | None:
    """Return the analysis of variance of groups of values; None without two groups of two, or if no group varies."""
    from scipy.stats import f_oneway

    if not _can_be_tested(groups):
        return None
    tested = f_oneway(*groups)
    within = sum(map(len, groups)) - len(groups)
    return Anova(float(tested.statistic), len(groups) - 1, within, float(tested.pvalue))


def _can_be_tested(groups: Sequence[FloatArray]) -> bool:
    enough = len(groups) > 1 and all(len(group) > 1 for group in groups)
    return enough and any(group.max() > group.min() for group in groups)


def within_items(values: FloatArray, generator: np.random.Generator, draws: int) -> float | None:
    """Return the p value of a permutation test: systems are exchanged within each item.

    The statistic is the sum of squares between systems. Exact up to the draws for any ratings.

    Args:
        values: [items, systems]; items that lack a value are left out.

    Returns:
        None if fewer than two items have all systems, or if there is one system.
    """
    whole = values[~np.isnan(values).any(axis=1)]
    if len(whole) < 2 or whole.shape[1] < 2:
        return None
    reached = 0
    observed = _between(whole)
    for _ in range(draws):
        reached += bool(_between(generator.permuted(whole, axis=1)) >= observed * (1 - 1e-9))
    return (1 + reached) / (1 + draws)


def _between(values: FloatArray) -> float:
    return float(((values.mean(axis=0) - values.mean()) ** 2).sum())


def pairs_of_systems(
    values: FloatArray, names: Sequence[str], generator: np.random.Generator, draws: int
) -> tuple[PairOfSystems, ...]:
    """Compare every two systems, by Tukey's HSD and within items.

    Args:
        values: [items, systems]; NaN where a text has no rating.
    """
    groups = [column[~np.isnan(column)] for column in values.T]
    tukey = _tukey(groups)
    compared = []
    for i, j in combinations(range(len(names)), 2):
        both = values[~np.isnan(values[:, [i, j]]).any(axis=1)][:, [i, j]]
        paired = None
        if len(both) > 1:
            means = both.mean(axis=0).tolist()
            paired = difference(both[None, :, 0], both[None, :, 1], [means[0]], [means[1]], generator, draws)
        if len(groups[i]) and len(groups[j]):
            compared.append((i, j, paired))
    corrected = iter(holm([paired.p for _, _, paired in compared if paired is not None]))
    return tuple(
        PairOfSystems(
            a=names[i],
            b=names[j],
            value=float(groups[i].mean() - groups[j].mean()),
            tukey_interval=None if tukey is None else tukey[i, j][0],
            tukey_p=None if tukey is None else tukey[i, j][1],
            paired=None if paired is None else paired.value,
            paired_interval=None if paired is None else paired.interval,
            paired_p=None if paired is None else next(corrected),
        )
        for i, j, paired in compared
    )


def _tukey(groups: Sequence[FloatArray]) -> dict[tuple[int, int], tuple[Interval, float]] | None:
    """Return (i, j) → interval and p value of i less j, by Tukey's HSD (Tukey–Kramer for unequal numbers of texts)."""
    from scipy.stats import tukey_hsd

    if not _can_be_tested(groups):
        return None
    tested = tukey_hsd(*groups)
    bounds = tested.confidence_interval()
    return {
        (i, j): (Interval(float(bounds.low[i, j]), float(bounds.high[i, j])), float(tested.pvalue[i, j]))
        for i, j in combinations(range(len(groups)), 2)
    }

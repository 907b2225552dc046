"""Ranks by pairwise tests over seeds, with Holm's correction over all pairs of a table."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from grue.leaderboard.board import Row
from grue.leaderboard.lineage import Starts, are_pairs, starts_on
from grue.records import Direction
from grue.stats.intervals import mean
from grue.stats.paired import LEVEL, Contrast, holm, p_of_each

Scores = Mapping[str, Mapping[int, float]]
"""Task → seed → score."""


def shared_ranks(
    rows: Sequence[Row],
    scores: Sequence[Scores | None],
    direction: Direction = "higher",
    starts: Starts | None = None,
) -> list[int | None]:
    """Return 1 + the number of systems significantly above each; None for those that do not compete.

    Every two are tested on the mean over tasks (`judge_seeds`), with paired seeds on tasks where both began from the
    same weights and a run of the board made these; the p values are corrected over all pairs (Holm). No system has a
    better rank than one with a better mean: more noise, as from a lost seed, does not improve a rank.

    Args:
        rows: Those of the board, or some of them.
        scores: The scores of each row, on the same tasks; None for a row that does not compete.
        starts: The weights that make pairs, of the whole board. [default: of these rows]
    """
    competing = {i: of_row for i, of_row in enumerate(scores) if of_row is not None}
    above = significantly_above([rows[i] for i in competing], list(competing.values()), starts or starts_on(rows))
    own = 1 + above.sum(axis=0 if direction == "higher" else 1)
    means = np.array([mean([mean(values.values()) for values in of_row.values()]) for of_row in competing.values()])
    better = means[:, None] > means if direction == "higher" else means[:, None] < means
    reached = np.where(better, own[:, None], 1).max(axis=0, initial=1)
    ranks = dict(zip(competing, np.maximum(own, reached).tolist(), strict=True))
    return [ranks.get(i) for i in range(len(rows))]


def significantly_above(rows: Sequence[Row], scores: Sequence[Scores], starts: Starts) -> NDArray[np.bool_]:
    """Return [systems, systems]: whether the first is significantly higher than the second."""
    above = np.zeros((len(rows), len(rows)), dtype=np.bool_)
    pairs = list(combinations(range(len(rows)), 2))
    contrasts = [
        [
            contrast(a, scores[j][task], are_pairs(rows[i].cells[task], rows[j].cells[task], starts.get(task, {})))
            for task, a in scores[i].items()
        ]
        for i, j in pairs
    ]
    for (i, j), compared, p in zip(pairs, contrasts, holm(p_of_each(contrasts)), strict=True):
        if p < 1 - LEVEL:
            above[(i, j) if sum(of_task.value for of_task in compared) > 0 else (j, i)] = True
    return above


def contrast(a: Mapping[int, float], b: Mapping[int, float], paired: bool) -> Contrast:
    """Return two systems' scores by seed as the tests read them, paired seeds in one order.

    A metric may be missing for a seed, and then the others are no pairs.
    """
    if paired and a.keys() == b.keys():
        return Contrast(tuple(a[seed] for seed in sorted(a)), tuple(b[seed] for seed in sorted(b)), paired=True)
    return Contrast(tuple(a.values()), tuple(b.values()))

"""Ranks by pairs: who is significantly above whom, over seeds, with Holm's correction over all pairs of a table."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from grue.leaderboard.board import Row
from grue.leaderboard.lineage import Made, are_pairs, made_on
from grue.records import Direction
from grue.stats.paired import LEVEL, Contrast, holm, judge_seeds

Scores = Mapping[str, Mapping[int, float]]
"""Task → seed → score."""


def shared_ranks(
    rows: Sequence[Row], scores: Sequence[Scores | None], direction: Direction = "higher"
) -> list[int | None]:
    """Return 1 + the number of systems significantly above each; None for those that do not compete.

    Every two are tested on the mean over tasks (`judge_seeds`), seeds as pairs on the tasks where both began from the
    same weights and a run of the board made these; the p values are corrected over all pairs (Holm).

    Args:
        rows: All rows of the board.
        scores: What each row is compared by, on the same tasks; None for a row that does not compete.
        direction: Whether higher or lower is better.
    """
    competing = {i: known for i, known in enumerate(scores) if known is not None}
    pairs = list(combinations(competing, 2))
    made = made_on(rows) if pairs else {}
    found = [judge_seeds(_contrasts(rows[i], rows[j], competing[i], competing[j], made)) for i, j in pairs]
    above = dict.fromkeys(competing, 0)
    for (i, j), one, p in zip(pairs, found, holm([one.p for one in found]), strict=True):
        if p < 1 - LEVEL:
            above[j if (one.value > 0) == (direction == "higher") else i] += 1
    return [1 + above[i] if i in competing else None for i in range(len(rows))]


def _contrasts(a: Row, b: Row, scores_a: Scores, scores_b: Scores, made: Made) -> list[Contrast]:
    contrasts = []
    for task in scores_a:
        of_a, of_b = scores_a[task], scores_b[task]
        paired = of_a.keys() == of_b.keys() and are_pairs(a.cells[task], b.cells[task], made.get(task, {}))
        seeds = sorted(of_a) if paired else None
        contrasts.append(Contrast(_of(of_a, seeds), _of(of_b, seeds), paired=paired))
    return contrasts


def _of(scores: Mapping[int, float], seeds: Sequence[int] | None) -> tuple[float, ...]:
    return tuple(scores.values()) if seeds is None else tuple(scores[seed] for seed in seeds)

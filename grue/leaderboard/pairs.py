"""All pairs of several systems on a board: differences, tests, the seeds that would decide, and how firm the order is.

Examples are fixed, as for ranks: only seeds are random. Student's t (`judge_seeds`) decides, corrected over all pairs
by Holm; the exact sign-flip test of paired seeds stands beside it and assumes no distribution. With n pairs it cannot
give a p below 2 / 2^n.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from grue.leaderboard.board import Estimate, Row
from grue.leaderboard.lineage import are_pairs, starts_on
from grue.leaderboard.places import contrast
from grue.records import Axis
from grue.stats.intervals import Interval, mean, student_t_quantile
from grue.stats.paired import LEVEL, Contrast, degrees_of_freedom, holm, judge_seeds

FloatArray = NDArray[np.float64]

POWER = 0.8
MOST_SEEDS = 1000
FEWEST_TASKS = 3  # to draw tasks from
DRAWS = 10_000
MOST_FLIPS = 16  # seeds up to which all signs are tried; beyond, the t test needs no second opinion


@dataclass(frozen=True, slots=True)
class SystemPair:
    """Two systems, compared on the tasks that all systems of the table have.

    Attributes:
        a: The first's name. Likewise `b`.
        value: The first's mean minus the second's, in points of the board.
        interval: Its interval by seeds; it covers everything where one has a single seed.
        p: Of Student's t; 1 where one has a single seed.
        p_signs: Of the sign-flip test; None where seeds are not pairs.
        p_holm: `p`, corrected for the number of pairs.
        seeds: Seeds each from which on a true difference of this size would be decided four times in five, at as much
            noise; None where that is unknown, or more than `MOST_SEEDS`.
        examples: The same of examples a task, where the test is over examples; None where it is not.
        paired: The tasks on which the seeds of both are pairs.
    """

    a: str
    b: str
    value: float
    interval: Interval
    p: float
    p_signs: float | None
    p_holm: float
    seeds: int | None
    examples: int | None = None
    paired: tuple[str, ...] = ()

    @property
    def is_decided(self) -> bool:
        """Whether the corrected p is below 1 - level."""
        return self.p_holm < 1 - LEVEL


def all_pairs(rows: Sequence[Row], compared: Sequence[Row], axis: Axis = "preference") -> list[SystemPair]:
    """Return every two of the compared systems, in their order; none where they have no task of the axis in common.

    Args:
        rows: All rows of the board, which say what the runs began from.
        compared: Those to compare, at least two.
    """
    starts, reached = starts_on(rows), _reached(compared, axis)
    if not reached:
        return []
    count, pairs = math.comb(len(compared), 2), []
    for (i, a), (j, b) in combinations(enumerate(compared), 2):
        contrasts = []
        for task, of_task in reached.items():
            are_paired = are_pairs(a.cells[task], b.cells[task], starts.get(task, {}))
            contrasts.append(contrast(of_task[i].by_seed, of_task[j].by_seed, are_paired))
        judged = judge_seeds(contrasts)
        found = (judged.value, judged.interval, judged.p, sign_flip_p(contrasts))  # p_holm is that of all, see below
        seeds = seeds_to_decide(contrasts, judged.value, count)
        paired = tuple(task for task, each in zip(reached, contrasts, strict=True) if each.paired)
        pairs.append(SystemPair(a.system, b.system, *found, 1.0, seeds, paired=paired))
    return with_holm(pairs)


def with_holm(pairs: Sequence[SystemPair]) -> list[SystemPair]:
    """Return the pairs with p values corrected for their number."""
    return [replace(pair, p_holm=p) for pair, p in zip(pairs, holm([pair.p for pair in pairs]), strict=True)]


@dataclass(frozen=True, slots=True)
class RankRange:
    """Where a system stands by its mean, and where it would stand had the suite other tasks.

    Attributes:
        mean: Over the tasks that all systems of the table have.
        rank: 1 + the number of systems with a higher mean.
        without: Task → the rank without it; empty on a single task.
        low: The best rank in 95 % of draws of as many tasks, with replacement; `high` is the worst. None on fewer
            than `FEWEST_TASKS` tasks.
    """

    system: str
    mean: float
    rank: int
    without: Mapping[str, int]
    low: int | None
    high: int | None


def rank_ranges(compared: Sequence[Row]) -> list[RankRange]:
    """Return how far the order of systems depends on the choice of tasks, in their order."""
    reached = _reached(compared)
    tasks = list(reached)
    means = np.array([[estimate.mean for estimate in of_task] for of_task in reached.values()]).T
    ranks = _ranks(means.mean(axis=1))
    places = range(len(tasks) if len(tasks) > 1 else 0)
    left_out = [_ranks(np.delete(means, place, axis=1).mean(axis=1)) for place in places]
    ends: FloatArray | None = None
    if len(tasks) >= FEWEST_TASKS:
        chosen = np.random.default_rng(0).integers(0, len(tasks), size=(DRAWS, len(tasks)))
        drawn = np.array([_ranks(means[:, of].mean(axis=1)) for of in chosen])
        ends = np.quantile(drawn, (0.025, 0.975), axis=0, method="inverted_cdf")
    return [
        RankRange(
            system=row.system,
            mean=float(means[i].mean()),
            rank=int(ranks[i]),
            without={task: int(of[i]) for task, of in zip(tasks, left_out, strict=False)},
            low=None if ends is None else int(ends[0, i]),
            high=None if ends is None else int(ends[1, i]),
        )
        for i, row in enumerate(compared)
    ]


def _ranks(means: FloatArray) -> NDArray[np.intp]:
    """Return 1 + the number of higher means; rounding makes no rank."""
    higher: NDArray[np.intp] = (means[None, :] > means[:, None] + 1e-9).sum(axis=1)
    return 1 + higher


def common_tasks(rows: Sequence[Row], axis: Axis = "preference") -> list[str]:
    """Return the tasks on which every row has a score of the axis, in the order of the first."""
    return list(_reached(rows, axis))


def _reached(rows: Sequence[Row], axis: Axis = "preference") -> dict[str, list[Estimate]]:
    """Return task → the score of each row, of the tasks on which every row has one."""
    reached = {}
    for task in rows[0].cells:
        cells = [row.cells[task] for row in rows if task in row.cells]
        estimates = [estimate for cell in cells if (estimate := getattr(cell, axis)) is not None]
        if len(estimates) == len(rows):
            reached[task] = estimates
    return reached


def sign_flip_p(contrasts: Sequence[Contrast]) -> float | None:
    """Return the share of sign patterns of the seeds' differences whose mean is at least as far from 0.

    Seed k's difference is its mean over tasks, since the tasks of one seed may share a start. None where the seeds of a
    task are not pairs, or tasks have unlike numbers of them.
    """
    sizes = {len(each.scores_a) for each in contrasts}
    if len(sizes) != 1 or not all(each.paired for each in contrasts) or sizes.pop() > MOST_FLIPS:
        return None
    tables = [np.subtract(each.scores_a, each.scores_b) for each in contrasts]
    differences = np.mean(tables, axis=0)
    signs = np.array(list(product((1, -1), repeat=len(differences))))
    reached = np.abs(signs @ differences) >= abs(differences.sum()) * (1 - 1e-9)
    return float(reached.mean())


def seeds_to_decide(contrasts: Sequence[Contrast], value: float, tests: int = 1) -> int | None:
    """Return the seeds each with which a true difference of `value` is found with probability `POWER`.

    The noise of a seed is that of the given ones; the level is 5 % over so many `tests`, the strictest of Holm's.
    """
    if not value or any(min(len(each.scores_a), len(each.scores_b)) < 2 for each in contrasts):
        return None
    wanted = abs(value)
    found = bisect_left(
        range(2, MOST_SEEDS + 1), True, key=lambda n: smallest_difference(contrasts, n, tests) <= wanted
    )
    return 2 + found if 2 + found <= MOST_SEEDS else None


def smallest_difference(contrasts: Sequence[Contrast], seeds: int, tests: int = 1) -> float:
    """Return the true mean difference that so many seeds each would find with probability `POWER`, in so many tests."""
    variance = math.fsum(each.seed_variance for each in contrasts)
    if not variance:
        return 0.0
    now = mean([len(each.scores_a) for each in contrasts])
    degrees = max(1.0, degrees_of_freedom(contrasts) * (seeds - 1) / (now - 1))
    quantiles = student_t_quantile(1 - (1 - LEVEL) / 2 / tests, degrees) + student_t_quantile(POWER, degrees)
    return quantiles * math.sqrt(variance * now / seeds) / len(contrasts)

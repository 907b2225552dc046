"""Whether an interval holds what it promises: worlds with a known truth, drawn thousands of times."""

from itertools import combinations

import numpy as np
import pytest
from support.late import late
from support.seed_worlds import SEEDS, TRUTHS, WORLDS

from grue.stats.intervals import satterthwaite_interval
from grue.stats.paired import Contrast, holm, judge_seeds

pytestmark = pytest.mark.slow
stats = late("scipy.stats")

DRAWS = 6_000  # the share of 95 % is then known to ± 0.6 % (two standard errors)
BOARDS = 500  # ± 2 % at 5 %
TRUTH = TRUTHS.mean()


def share_that_holds(intervals, truth=TRUTH):
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_default_interval_holds_the_truth_as_often_as_it_says(world, seeds):
    low, high = WORLDS[world].holds
    systems = WORLDS[world].systems(np.random.default_rng(1), SEEDS[seeds], DRAWS)
    share = share_that_holds(map(satterthwaite_interval, systems))
    assert low <= share <= high


def test_a_board_of_equally_good_systems_seldom_has_an_order():
    generator = np.random.default_rng(4)
    worth = 3 * generator.normal(size=(BOARDS, 7, 5))  # of the weights that pairs began from
    wrong = {False: 0, True: 0}
    for board in range(BOARDS):
        drawn = list(WORLDS["normal"].systems(generator, SEEDS["5"], 5))
        for paired in wrong:
            systems = [
                [tuple(np.array(of_task) + paired * worth[board, i]) for i, of_task in enumerate(scores.values())]
                for scores in drawn
            ]
            found = [
                judge_seeds([Contrast(a, b, paired=paired) for a, b in zip(one, other, strict=True)]).p
                for one, other in combinations(systems, 2)
            ]
            wrong[paired] += min(holm(found)) < 0.05
    assert all(0.02 <= count / BOARDS <= 0.06 for count in wrong.values())

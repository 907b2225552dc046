"""The frontier against worlds whose best policies are known, and enumeration."""

import itertools
import math

import numpy as np
import pytest

from grue.errors import DataError
from grue.stats.frontier import FrontierPoint, best_of, reward_at, share_of_gain, tilted


def test_two_kinds_of_answers_give_the_known_curve():
    """A quarter of the samples is right: with a mass m on them, the KL is that of two Bernoullis."""
    rewards = np.tile([1.0, 0.0, 0.0, 0.0] * 16, (5, 1))
    points = tilted(rewards)
    assert points[0] == FrontierPoint(0.0, 0.25) and len(points) > 20
    for point in points[:-1]:
        m = point.reward
        rest = (1 - m) * math.log((1 - m) / 0.75) if m < 1 else 0.0
        assert point.kl == pytest.approx(m * math.log(m / 0.25) + rest, abs=1e-9)
    assert points[-2].reward == pytest.approx(1.0) and points[-2].kl == pytest.approx(math.log(4), abs=1e-4)
    assert points[-1] == FrontierPoint(math.log(64) - 1, points[-2].reward)  # nothing is left to gain


def test_the_curve_rises_and_ends_where_it_is_no_longer_to_be_trusted():
    rewards = np.random.default_rng(0).normal(size=(50, 32))
    points = tilted(rewards)
    assert all(a.kl < b.kl and a.reward < b.reward for a, b in itertools.pairwise(points))
    assert math.log(32) - 1.3 < points[-1].kl <= math.log(32) - 1
    # A normal reward of sd 1: the tilted mean is sqrt(2 KL) above the start's, up to what 32 samples hide.
    assert reward_at(points, 0.5) - points[0].reward == pytest.approx(1.0, abs=0.08)


def test_weights_are_judged_by_what_they_do_not_know():
    """Rewards that agree in nothing gain nothing; those that agree in part gain that part."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=(400, 32))
    one, other, alike = (rng.normal(size=common.shape) for _ in range(3))
    assert tilted(one, other)[-1].reward == pytest.approx(0.0, abs=0.1)  # sd .03
    half = tilted(common + one, common + alike)[-1].reward
    assert half == pytest.approx(tilted(common + one)[-1].reward / 2, rel=0.1)


def test_the_best_of_k_by_a_proxy_is_the_mean_over_all_ways_to_draw_k():
    rng = np.random.default_rng(1)
    proxy, gold = rng.normal(size=(3, 8)), rng.normal(size=(3, 8))
    for picked, judged in ((proxy, gold), (proxy, None)):
        found = best_of(picked, judged)
        assert list(found) == [2, 4, 8]
        for k, point in found.items():
            values = proxy if judged is None else judged
            ways = [
                values[row, max(some, key=proxy[row].__getitem__)]
                for row in range(3)
                for some in itertools.combinations(range(8), k)
            ]
            assert point.reward == pytest.approx(sum(ways) / len(ways))
            assert point.kl == pytest.approx(math.log(k) - (k - 1) / k)


def test_between_and_beyond_its_points():
    points = [FrontierPoint(0.0, 0.4), FrontierPoint(1.0, 0.6), FrontierPoint(2.0, 0.7)]
    assert (reward_at(points, 0.5), reward_at(points, -0.01), reward_at(points, 2.1)) == (pytest.approx(0.5), 0.4, None)
    assert share_of_gain(points, 1.0, 0.1) == pytest.approx(0.5)
    assert share_of_gain(points, 2.5, 0.3) is None
    assert share_of_gain(points, 0.0, 0.0) is None
    points = tilted(np.full((2, 16), 0.5))
    assert [point.reward for point in points] == [0.5, 0.5]
    assert share_of_gain(points, 1.0, 0.0) is None


@pytest.mark.parametrize("rewards", [np.zeros((3, 7)), np.full((3, 8), np.nan)], ids=["too few", "nan"])
def test_what_gives_no_curve_is_refused(rewards, refused):
    with refused(DataError):
        tilted(rewards)

"""How much of a gradient is signal, against worlds whose gradient and noise are known, and where rewards vary."""

import itertools

import numpy as np
import pytest

from grue.errors import DataError
from grue.stats.signal import gradient_signal, reward_spread


def by_pairs(gradients):
    """|G|² as the mean product of two different batches, over what squares have beyond it."""
    signal = np.mean([a @ b for a, b in itertools.permutations(gradients, 2)])
    return signal / (np.mean([one @ one for one in gradients]) - signal)


def test_the_ratio_and_its_interval_by_hand():
    """Products of different batches are 1 or 3, squares are 6: five of the pairs give 1, one gives 3."""
    products = np.full((4, 4), 1.0)
    np.fill_diagonal(products, 6.0)
    products[0, 1] = products[1, 0] = 3.0
    found = gradient_signal(products, batch=10)
    assert found.ratio == pytest.approx((8 / 6) / (6 - 8 / 6))
    without = np.array([1 / 5, 1 / 5, (5 / 3) / (6 - 5 / 3), (5 / 3) / (6 - 5 / 3)])  # the first two have the 3
    half = 3.182446 * np.sqrt(3 / 4 * np.square(without - without.mean()).sum())  # Student's t, 3 degrees of freedom
    assert (found.low, found.high) == (pytest.approx(found.ratio - half), pytest.approx(found.ratio + half))
    assert found.low < 0 and (found.noise_scale, found.most) == (None, None)
    assert found.fewest == pytest.approx(10 / found.high)
    assert found.norm == pytest.approx(np.sqrt(6))
    gradients = np.random.default_rng(1).normal(0.3, 1.0, size=(9, 20))
    assert gradient_signal(gradients @ gradients.T, 64).ratio == pytest.approx(by_pairs(gradients))


def test_a_bernoulli_policy_in_closed_form():
    """Say yes with p = σ(w) and be paid for it: (r − b)·(y − p) has mean p(1 − p) and variance p(1 − p)(1 − 2p)²/4.

    That is for b = ½: r − b is ±½ with y, so that a sample is (1 − p)/2 with p and p/2 without.
    """
    p, batch, rng = 0.2, 4, np.random.default_rng(3)
    mean = p * (1 - p) / 2 + (1 - p) * p / 2
    variance = p * ((1 - p) / 2) ** 2 + (1 - p) * (p / 2) ** 2 - mean**2
    said = rng.random((400, batch)) < p
    gradients = ((said - 0.5) * (said - p)).mean(axis=1, keepdims=True)
    found = gradient_signal(gradients @ gradients.T, batch)
    assert found.fewest < variance / mean**2 < found.most
    assert found.noise_scale == pytest.approx(variance / mean**2, rel=0.15)


def test_what_has_no_noise_has_no_ratio():
    for products in (np.zeros((5, 5)), np.full((5, 5), 4.0)):
        found = gradient_signal(products, 64)
        assert (found.ratio, found.low, found.noise_scale, found.fewest) == (None, None, None, None)
        assert found.norm == np.sqrt(products[0, 0])


def test_what_says_nothing_is_refused(refused):
    with refused(DataError):
        gradient_signal(np.eye(3), 64)
    with refused(DataError):
        gradient_signal(np.full((4, 4), np.nan), 64)
    for shape in ((1, 4), (4, 1)):
        with refused(DataError):
            reward_spread(np.zeros(shape))


def test_rewards_within_and_between_prompts_by_hand():
    """Within: sample variances 2 and 0, mean 1. Between: that of the means 1 and 5 is 8, less 1/2 of the 1."""
    found = reward_spread(np.array([[0.0, 2.0], [5.0, 5.0]]))
    assert found.within == pytest.approx(1 / (1 + 7.5))
    assert (found.mean, found.flat, found.prompts, found.samples) == (3.0, 0.5, 2, 2)
    assert found.sd == pytest.approx(np.sqrt((9 + 1 + 4 + 4) / 4))
    rng = np.random.default_rng(5)
    rewards = rng.normal(0, 2.0, size=(3000, 1)) + rng.normal(0, 1.0, size=(3000, 4))
    assert reward_spread(rewards).within == pytest.approx(1 / 5, abs=0.01)
    assert reward_spread(rng.normal(size=(3000, 4))).within == pytest.approx(1.0, abs=0.02)
    found = reward_spread(np.full((4, 3), 0.1))
    assert (found.within, found.flat, found.sd) == (None, 1.0, 0.0)
    found = reward_spread(np.repeat([[0.1], [0.7]], 3, axis=1))
    assert (found.within, found.flat) == (0.0, 1.0)

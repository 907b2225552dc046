"""Calibration and reliability, against loops in plain floats."""

import math

import numpy as np
import pytest

from grue.stats.calibration import (
    COLDEST,
    HOTTEST,
    best_temperature,
    expected_calibration_error,
    log_losses,
    reliability,
    rights,
    share_interval,
)


def loss(margins, targets, temperature):
    total = 0.0
    for margin, target in zip(margins, targets, strict=True):
        chance = 1 / (1 + math.exp(-margin / temperature))
        total -= target * math.log(chance) + (1 - target) * math.log(1 - chance)
    return total / len(margins)


def test_log_losses_are_those_of_a_loop_and_stay_finite():
    margins, targets = [0.3, -2.0, 1.5, 0.0], [1.0, 1.0, 0.5, 0.0]
    found = log_losses(np.array(margins), np.array(targets))
    assert float(found.mean()) == pytest.approx(loss(margins, targets, 1.0), rel=1e-12)
    assert log_losses(np.array([-800.0, 800.0]), np.array([1.0, 1.0])).tolist() == [800.0, 0.0]


def test_a_known_temperature():
    """Of margins of 2 three quarters are right: σ(2/T) = 3/4, so that T = 2 / ln 3."""
    margins, targets = np.full(8, 2.0), np.array([1, 1, 1, 0, 1, 1, 1, 0.0])
    assert best_temperature(margins, targets) == pytest.approx(2 / math.log(3), rel=1e-9)
    # A tie is half a right and half a wrong.
    assert best_temperature(np.full(2, 2.0), np.array([1.0, 0.5])) == pytest.approx(2 / math.log(3), rel=1e-9)


def test_the_temperature_is_the_least_loss_grows_with_the_margins_and_keeps_its_bounds():
    rng = np.random.default_rng(0)
    margins = rng.normal(size=400) * 3
    targets = (rng.random(400) < 1 / (1 + np.exp(-margins / 2.5))).astype(float)
    found = best_temperature(margins, targets)
    assert all(loss(margins, targets, found) <= loss(margins, targets, found * by) for by in (0.5, 0.97, 1.03, 2))
    assert best_temperature(3 * margins, targets) == pytest.approx(3 * found, rel=1e-6)
    before, after = rights(margins, targets), rights(margins / found, targets)
    assert (before == after).all()  # dividing changes no order
    assert best_temperature(np.array([1.0, 2.0]), np.ones(2)) == COLDEST
    assert best_temperature(np.array([-1.0, -2.0]), np.ones(2)) == HOTTEST
    assert best_temperature(np.zeros(3), np.ones(3)) == HOTTEST  # what says nothing


def test_rights_count_halves_and_leave_ties_out_and_bins_hold_every_answer_once():
    margins, targets = np.array([1.0, -1.0, 0.0, 5.0, -2.0]), np.array([1.0, 1.0, 1.0, 0.5, 0.0])
    assert rights(margins, targets).tolist() == [1.0, 0.0, 0.5, 1.0]
    margins = np.array([0.0, 0.1, -0.1, 3.0, 800.0, 2.0])
    targets = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.5])
    bins = reliability(margins, targets, bins=5)
    assert [one.count for one in bins] == [3, 0, 0, 0, 2] and bins[1].confidence is None
    assert bins[0].right == pytest.approx(0.5) and bins[4].right == 1.0
    exact = (3 * abs(bins[0].confidence - 0.5) + 2 * abs(bins[4].confidence - 1.0)) / 5
    assert expected_calibration_error(bins) == pytest.approx(exact, rel=1e-12)
    assert expected_calibration_error(reliability(np.array([1.0]), np.array([0.5]))) is None


def test_the_interval_of_independent_answers_is_wilsons_and_widens_where_they_come_together():
    # Wilson's for 8 of 10: 0.4902 to 0.9433 (Wilson 1927, by hand).
    found = share_interval(np.array([1.0] * 8 + [0.0] * 2), range(10))
    assert found.low == pytest.approx(0.4902, abs=2e-3) and found.high == pytest.approx(0.9433, abs=2e-3)
    values = np.array([1.0] * 60 + [0.0] * 40)
    alone = share_interval(values, range(100))
    together = share_interval(values, [place // 10 for place in range(100)])  # ten prompts, each all right or all wrong
    few = share_interval(np.array([1.0] * 6 + [0.0] * 4), range(10))
    assert together.half_width > 2.5 * alone.half_width
    assert together.half_width == pytest.approx(few.half_width, rel=0.1)
    all_right = share_interval(np.ones(50), [0] * 50)  # one prompt says nothing of others
    assert all_right.low < 0.3 and all_right.high == 1.0
    assert share_interval(np.array([]), []) is None

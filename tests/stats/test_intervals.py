"""Means, spreads, Student's t, and its intervals, against tables, scipy, closed forms and loops."""

import itertools
import math

import numpy as np
import pytest
from support.late import late

from grue.stats.intervals import (
    Interval,
    mean,
    mean_over_tasks,
    satterthwaite_interval,
    sd,
    student_t_p,
    student_t_quantile,
)

stats = late("scipy.stats")

RAGGED = {"a": [41.0, 43.5, 40.2], "b": [12.0, 18.0], "c": [77.0, 71.0, 75.5, 70.2]}
T_975 = {  # two-sided 95 % points of Student's t, as tabulated
    1: 12.706204736174707,
    2: 4.302652729749464,
    4: 2.776445105197793,
    9: 2.262157162798205,
    30: 2.042272456301238,
    100: 1.983971518523552,
}


def fresh(seed=0):
    return np.random.default_rng(seed)


def bounds(interval):
    return interval.low, interval.high


# --- Student's t -----------------------------------------------------------------------------------------------------


def test_quantiles_are_the_tables_and_the_closed_forms():
    for degrees, tabulated in T_975.items():
        assert student_t_quantile(0.975, degrees) == pytest.approx(tabulated, rel=2e-12)
    for p in (0.001, 0.025, 0.3, 0.5, 0.6, 0.9, 0.995, 0.999):
        assert student_t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-11, abs=1e-15)
        assert student_t_quantile(p, 2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)), rel=1e-11, abs=1e-15)


def test_probabilities_are_the_closed_forms_and_turn_the_quantiles_round():
    t = np.array([0, 1e-6, 0.3, 1, 2.5, 10, 1e3, 1e6, math.inf])
    assert student_t_p(t, np.full(9, 1.0)) == pytest.approx(2 / math.pi * np.arctan2(1, t), rel=1e-10)
    assert student_t_p(t[:-2], np.full(7, 2.0)) == pytest.approx(1 - t[:-2] / np.sqrt(2 + t[:-2] ** 2), rel=1e-9)
    for degrees in (1.3, 3.7, 28.0, 3000.0):
        quantile = student_t_quantile(0.975, degrees)
        assert student_t_p(np.array([quantile]), np.array([degrees])) == pytest.approx(0.05, rel=1e-9)


# --- means and the t interval ----------------------------------------------------------------------------------------


def test_mean_and_sd_by_hand():
    assert mean([2.0, 4.0, 9.0]) == 5.0
    assert sd([2.0, 4.0, 9.0]) == pytest.approx(math.sqrt(13))
    assert (sd([2.0]), sd([0.1, 0.1, 0.1])) == (None, 0.0)
    for count in range(1, 12):
        assert mean([86.50635070860136] * count) == 86.50635070860136  # the sum of seven is something else, rounded
    assert mean_over_tasks({"a": [10.0], "b": [20.0, 30.0, 40.0]}) == 20.0, "every task weighs the same"


def test_one_task_gives_scipys_t_interval_and_two_give_welchs():
    """Half the sum of two means is half the difference to a mirrored sample, whose interval is Welch's."""
    for seeds, level in itertools.product((2, 3, 5, 30), (0.5, 0.9, 0.95, 0.99)):
        values = fresh(seeds).normal(50, 3, seeds).tolist()
        expected = stats.t.interval(level, seeds - 1, np.mean(values), stats.sem(values))
        assert bounds(satterthwaite_interval({"a": values}, level)) == pytest.approx(expected, rel=1e-11)
    one, other = RAGGED["a"], RAGGED["c"]
    for level in (0.9, 0.99):
        welch = stats.ttest_ind(one, [-value for value in other], equal_var=False).confidence_interval(level)
        found = satterthwaite_interval({"a": one, "c": other}, level)
        assert bounds(found) == pytest.approx((welch.low / 2, welch.high / 2), rel=1e-11)


def test_ragged_seeds_and_tasks_without_spread_by_hand():
    scores = {"a": [1.0, 3.0], "b": [0.0, 3.0, 6.0, 3.0], "c": [4.0, 4.0]}  # s² = 2, 6 and 0
    v_a, v_b = 2 / (9 * 2), 6 / (9 * 4)
    degrees = (v_a + v_b) ** 2 / (v_a**2 / 1 + v_b**2 / 3)
    interval = satterthwaite_interval(scores, level=0.9)
    assert interval.half_width == pytest.approx(stats.t.ppf(0.95, degrees) * math.sqrt(v_a + v_b), rel=1e-10)
    assert interval.low + interval.high == pytest.approx(2 * 3)
    assert satterthwaite_interval({"a": [0.1] * 5, "b": [0.3] * 3}) == Interval(0.2, 0.2)


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-1, 2.0**600])
def test_a_power_of_two_scales_every_digit(factor):
    """Squares of 1e180 would be infinite, and those of 1e-180 nothing."""
    scaled = {task: [value * factor for value in values] for task, values in RAGGED.items()}
    plain, large = satterthwaite_interval(RAGGED), satterthwaite_interval(scaled)
    assert sd(scaled["a"]) == sd(RAGGED["a"]) * factor
    assert bounds(large) == (plain.low * factor, plain.high * factor)


def test_neither_order_nor_container_matters_and_a_lone_seed_leaves_the_interval_unknown():
    interval = satterthwaite_interval
    backwards = {task: values[::-1] for task, values in reversed(RAGGED.items())}
    views = {task: dict(enumerate(values)).values() for task, values in RAGGED.items()}
    assert repr(interval(RAGGED)) == repr(interval(backwards)) == repr(interval(views))
    assert list(backwards) == ["c", "b", "a"] and backwards["a"] == [40.2, 43.5, 41.0], (
        "the scores are left as they were"
    )
    assert interval({"a": [1.0, 2.0], "b": [3.0]}) is None

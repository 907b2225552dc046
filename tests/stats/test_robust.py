"""Interquartile mean, probability of improvement and performance profile against slow loops, scipy and closed forms."""

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from support.paths import ROOT

from grue.stats.intervals import Interval
from grue.stats.robust import (
    iqm,
    iqm_interval,
    performance_profile,
    performance_profile_band,
    probability_of_improvement,
    probability_of_improvement_interval,
)

RAGGED = {"a": [41.0, 43.5, 40.2], "b": [12.0, 18.0], "c": [77.0, 71.0, 75.5, 70.2]}
OTHER = {"a": [41.0, 39.0], "b": [19.0, 12.0, 15.0], "c": [72.0, 60.0]}


def fresh(seed=0):
    return np.random.default_rng(seed)


def spread_out(tasks, seeds, seed=0):
    return {f"task {i}": fresh(seed + i).normal(50, 20, seeds).tolist() for i in range(tasks)}


def middle_half(scores):
    """Cut every run into equal grains, sort them all, and average those between the quarters, in exact fractions."""
    grains = math.lcm(4, *(len(values) for values in scores.values()))
    heap = sorted(
        Fraction(value) for values in scores.values() for value in values for _ in range(4 * grains // len(values))
    )
    quarter = len(heap) // 4
    kept = heap[quarter : len(heap) - quarter]
    return float(sum(kept) / len(kept))


# --- interquartile mean ----------------------------------------------------------------------------------------------


def test_the_middle_half_by_hand():
    assert iqm({"a": [1.0, 2.0, 3.0, 100.0]}) == 2.5
    assert iqm({"a": [0.0, 10.0, 20.0]}) == pytest.approx((0.25 * 0 + 10 + 0.25 * 20) / 1.5)
    assert iqm({"a": [10.0], "b": [20.0, 30.0]}) == pytest.approx((10 + 20) / 2)  # half of the runs are a's, by weight


@pytest.mark.parametrize("scores", [RAGGED, OTHER, spread_out(7, 5), spread_out(7, 3), spread_out(1, 9)])
def test_the_middle_half_equals_sorted_grains(scores):
    assert iqm(scores) == pytest.approx(middle_half(scores), rel=1e-13)


@pytest.mark.parametrize(("tasks", "seeds"), [(7, 4), (4, 5), (1, 8), (26, 10), (2, 2)])
def test_whole_quarters_give_scipys_trimmed_mean(tasks, seeds):
    scores = spread_out(tasks, seeds)
    runs = [value for values in scores.values() for value in values]
    assert iqm(scores) == pytest.approx(scipy.stats.trim_mean(runs, 0.25), rel=1e-13)


def test_over_seven_tasks_the_best_and_the_worst_have_no_weight():
    scores = {f"task {i}": [10.0 * i + seed for seed in range(5)] for i in range(7)}
    weights = [iqm(scores | {task: [value + 1 for value in values]}) - iqm(scores) for task, values in scores.items()]
    assert weights == pytest.approx([0, 1 / 14, 2 / 7, 2 / 7, 2 / 7, 1 / 14, 0], abs=1e-12)


def test_a_lost_run_hardly_moves_it():
    scores = spread_out(7, 5)
    lost = scores | {"task 0": [*scores["task 0"][1:], 0.0]}
    assert abs(iqm(lost) - iqm(scores)) < 3


# --- probability of improvement --------------------------------------------------------------------------------------


def wins(x, y):
    """Count every pair."""
    by_task = []
    for task in x:
        points = 0.0
        for ours in x[task]:
            for theirs in y[task]:
                points += 1.0 if ours > theirs else 0.5 if ours == theirs else 0.0
        by_task.append(points / (len(x[task]) * len(y[task])))
    return sum(by_task) / len(by_task)


def test_every_pair_is_counted():
    assert probability_of_improvement(RAGGED, OTHER) == pytest.approx(wins(RAGGED, OTHER), rel=1e-14)
    assert probability_of_improvement({"a": [2.0, 3.0]}, {"a": [1.0, 2.0, 4.0]}) == (1.5 + 2) / 6


def test_it_is_mann_and_whitneys_u():
    one, other = fresh(1).normal(size=9), fresh(2).normal(size=6)
    u = scipy.stats.mannwhitneyu(one, other).statistic
    assert probability_of_improvement({"a": one.tolist()}, {"a": other.tolist()}) == pytest.approx(u / 54)


def test_both_ways_make_one_and_a_system_is_even_with_itself():
    assert probability_of_improvement(RAGGED, OTHER) + probability_of_improvement(OTHER, RAGGED) == pytest.approx(1)
    assert probability_of_improvement(RAGGED, RAGGED) == 0.5


def test_only_common_tasks_are_compared():
    with pytest.raises(ValueError, match="only one of the two systems has scores of b, d"):
        probability_of_improvement({"a": [1.0], "b": [1.0]}, {"a": [1.0], "d": [1.0]})


def test_its_interval_equals_a_plain_loop():
    dice, chances = fresh(3), []
    for _ in range(10_000):
        drawn = [{task: dice.choice(values, len(values)) for task, values in s.items()} for s in (RAGGED, OTHER)]
        chances.append(wins(*drawn))
    interval = probability_of_improvement_interval(RAGGED, OTHER, fresh(4), draws=10_000)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(chances, [0.025, 0.975])), abs=0.03)


def test_no_exception_among_the_seeds_gives_no_width():
    better = {task: [value + 100 for value in values] for task, values in OTHER.items()}
    assert probability_of_improvement_interval(better, RAGGED, fresh()) == Interval(1.0, 1.0)


# --- performance profile ---------------------------------------------------------------------------------------------


def test_the_profile_by_hand():
    profile = performance_profile({"a": [1.0, 3.0], "b": [2.0, 2.0, 5.0]}, [0, 2, 1, 4, 5])
    assert profile == pytest.approx([1, (1 / 2 + 1 / 3) / 2, (1 / 2 + 1) / 2, (0 + 1 / 3) / 2, 0])


def test_one_task_gives_the_empirical_survival_function():
    values = fresh(6).normal(50, 10, 40)
    thresholds = np.linspace(20, 80, 61)
    expected = scipy.stats.ecdf(values).sf.evaluate(thresholds)
    assert performance_profile({"a": values.tolist()}, thresholds) == pytest.approx(expected, abs=1e-12)


def test_the_area_under_a_profile_is_the_mean():
    scores = {"a": [10.0, 30.0], "b": [20.0, 60.0, 70.0]}
    thresholds = np.arange(0.005, 100, 0.01)
    area = performance_profile(scores, thresholds).sum() * 0.01
    assert area == pytest.approx((20 + 50) / 2, abs=0.01)


def test_the_band_is_a_binomials_quantiles():
    """Of 20 seeds of which 8 are above: a resample has Binomial(20, 0.4) above."""
    low, high = performance_profile_band({"a": [1.0] * 12 + [9.0] * 8}, [5, 10], fresh(), level=0.9, draws=20_000)
    expected = scipy.stats.binom.ppf([0.05, 0.95], 20, 0.4) / 20
    assert [low[0], high[0]] == pytest.approx(expected)
    assert [low[1], high[1]] == [0, 0]


def test_the_band_holds_the_profile():
    thresholds = np.linspace(0, 100, 21)
    profile, (low, high) = (
        performance_profile(RAGGED, thresholds),
        performance_profile_band(RAGGED, thresholds, fresh()),
    )
    assert low.shape == high.shape == profile.shape == (21,)
    assert np.all((low <= profile) & (profile <= high))
    assert np.any(low < high)


# --- all of them -----------------------------------------------------------------------------------------------------

INTERVALS = {
    "iqm": lambda scores, generator: iqm_interval(scores, generator),
    "improvement": lambda scores, generator: probability_of_improvement_interval(scores, OTHER, generator),
    "profile": lambda scores, generator: performance_profile_band(scores, [15, 42, 72], generator),
}
POINTS = {
    "iqm": iqm,
    "improvement": lambda scores: probability_of_improvement(scores, OTHER),
    "profile": lambda scores: performance_profile(scores, [15, 42, 72]),
}


@pytest.mark.parametrize("interval", INTERVALS.values(), ids=INTERVALS)
def test_equal_seeds_give_equal_bytes_in_any_order(interval):
    backwards = {task: values[::-1] for task, values in reversed(RAGGED.items())}
    assert repr(interval(RAGGED, fresh(7))) == repr(interval(backwards, fresh(7)))


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_no_order_matters(point):
    backwards = {task: values[::-1] for task, values in reversed(RAGGED.items())}
    assert repr(point(RAGGED)) == repr(point(backwards))


@pytest.mark.parametrize("interval", INTERVALS.values(), ids=INTERVALS)
def test_a_single_seed_leaves_every_interval_unknown(interval):
    assert interval(RAGGED | {"b": [3.0]}, fresh()) is None


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_score_that_is_not_finite_is_refused(point):
    with pytest.raises(ValueError, match="scores of b .* finite"):
        point(RAGGED | {"b": [3.0, float("nan")]})


@pytest.mark.parametrize("value", [0.0, 0.1, 33.3, 1e200])
@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_equal_runs_give_exactly_their_value(value, seeds):
    scores = {f"task {i}": [value] * seeds for i in range(7)}
    assert iqm(scores) == value
    assert probability_of_improvement(scores, scores) == 0.5
    assert performance_profile(scores, [value]).tolist() == [0.0]


def test_the_interval_of_the_interquartile_mean_equals_a_plain_loop():
    dice = fresh(8)
    means = [
        middle_half({task: dice.choice(values, len(values)).tolist() for task, values in RAGGED.items()})
        for _ in range(4000)
    ]
    interval = iqm_interval(RAGGED, fresh(9), draws=4000)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.5)


def test_the_page_shows_what_is_printed():
    page = ROOT / "docs/statistics.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert outcome.failed == 0 < outcome.attempted

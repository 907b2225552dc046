"""The stratified bootstrap against enumeration, scipy and a plain loop; and what must not change its numbers."""

import itertools
import random

import numpy as np
import pytest
import scipy.stats

from grue.stats.intervals import (
    Interval,
    bootstrap_interval,
    mean_over_tasks,
    means_over_tasks,
    resampled,
    satterthwaite_interval,
    sd,
    student_t_quantile,
)

RAGGED = {"a": [41.0, 43.5, 40.2], "b": [12.0, 18.0], "c": [77.0, 71.0, 75.5, 70.2]}


def fresh(seed=0):
    return np.random.default_rng(seed)


# --- the t interval and scipy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("seeds", [2, 3, 5, 30])
def test_one_task_gives_scipys_t_interval(seeds, level):
    values = fresh(seeds).normal(50, 3, seeds).tolist()
    expected = scipy.stats.t.interval(level, seeds - 1, np.mean(values), scipy.stats.sem(values))
    interval = satterthwaite_interval({"a": values}, level)
    assert (interval.low, interval.high) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("level", [0.9, 0.99])
def test_two_tasks_give_welchs_interval(level):
    """Half the sum of two means is half the difference to a mirrored sample, whose interval is Welch's."""
    one, other = RAGGED["a"], RAGGED["c"]
    welch = scipy.stats.ttest_ind(one, [-value for value in other], equal_var=False).confidence_interval(level)
    interval = satterthwaite_interval({"a": one, "c": other}, level)
    assert (interval.low, interval.high) == pytest.approx((welch.low / 2, welch.high / 2), rel=1e-11)


@pytest.mark.parametrize("probability", [0.005, 0.025, 0.4, 0.9, 0.975, 0.995])
@pytest.mark.parametrize("degrees", [1, 1.3, 2, 4, 7.24, 28, 300, 3000])
def test_quantiles_are_scipys(probability, degrees):
    expected = scipy.stats.t.ppf(probability, degrees)
    assert student_t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-1, 2.0**7, 2.0**600])
def test_a_power_of_two_scales_every_digit(factor):
    """Squares of 1e180 would be infinite, and those of 1e-180 nothing."""
    scaled = {task: [value * factor for value in values] for task, values in RAGGED.items()}
    plain, large = satterthwaite_interval(RAGGED), satterthwaite_interval(scaled)
    assert sd(scaled["a"]) == sd(RAGGED["a"]) * factor
    assert (large.low, large.high) == (plain.low * factor, plain.high * factor)


def test_adding_a_constant_moves_an_interval_and_keeps_its_width():
    moved = {task: [value + 1000 for value in values] for task, values in RAGGED.items()}
    plain, far = satterthwaite_interval(RAGGED), satterthwaite_interval(moved)
    assert (far.low, far.high) == pytest.approx((plain.low + 1000, plain.high + 1000), rel=1e-12)


# --- the bootstrap against slower ways -------------------------------------------------------------------------------


def test_it_converges_to_the_quantiles_of_all_resamples():
    means = []
    for a in itertools.product(RAGGED["a"], repeat=3):
        for b in itertools.product(RAGGED["b"], repeat=2):
            means.append((sum(a) / 3 + sum(b) / 2) / 2)
    interval = bootstrap_interval({"a": RAGGED["a"], "b": RAGGED["b"]}, fresh(), level=0.8, draws=400_000)
    for bound, share in ((interval.low, 0.1), (interval.high, 0.9)):
        below = np.mean(np.array(means) < bound - 1e-9)
        assert below - 0.005 <= share <= below + np.mean(np.isclose(means, bound)) + 0.005


def test_it_equals_a_plain_loop():
    dice, means = random.Random(5), []
    for _ in range(20_000):
        drawn = {task: [dice.choice(values) for _ in values] for task, values in RAGGED.items()}
        means.append(mean_over_tasks(drawn))
    interval = bootstrap_interval(RAGGED, fresh(), draws=20_000)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.06)


def test_one_task_equals_scipys_bootstrap():
    values = fresh(3).gamma(2, 5, 12)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, method="percentile", rng=fresh(1)
    ).confidence_interval
    ours = bootstrap_interval({"a": values.tolist()}, fresh(2), draws=50_000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.08)


def test_a_resample_draws_each_task_from_its_own_seeds():
    samples = resampled(RAGGED, fresh(), 500)
    assert {task: values.shape for task, values in samples.items()} == {"a": (500, 3), "b": (500, 2), "c": (500, 4)}
    assert all(set(values.ravel()) == set(RAGGED[task]) for task, values in samples.items())


def test_means_of_many_draws_are_the_means_of_each():
    samples = resampled(RAGGED, fresh(), 50)
    each = [mean_over_tasks({task: values[i].tolist() for task, values in samples.items()}) for i in range(50)]
    assert means_over_tasks(samples) == pytest.approx(each, rel=1e-14)


def test_a_higher_level_is_wider():
    narrow, wide = (bootstrap_interval(RAGGED, fresh(), level) for level in (0.8, 0.99))
    assert wide.low < narrow.low < mean_over_tasks(RAGGED) < narrow.high < wide.high


# --- what must not matter --------------------------------------------------------------------------------------------


def test_equal_seeds_give_equal_bytes():
    one, same, other = (bootstrap_interval(RAGGED, fresh(seed)) for seed in (7, 7, 8))
    assert repr(one) == repr(same) != repr(other)


@pytest.mark.parametrize("interval", [bootstrap_interval, lambda scores, _: satterthwaite_interval(scores)])
def test_neither_the_order_of_tasks_nor_of_seeds_matters(interval):
    backwards = {task: values[::-1] for task, values in reversed(RAGGED.items())}
    assert repr(interval(RAGGED, fresh())) == repr(interval(backwards, fresh()))


def test_another_system_changes_no_interval():
    alone = {"x": bootstrap_interval(RAGGED, fresh())}
    others = {"a": [1.0, 2.0], "b": [3.0, 4.0, 9.0], "c": [5.0, 6.0]}
    together = {name: bootstrap_interval(scores, fresh()) for name, scores in (("new", others), ("x", RAGGED))}
    assert together["x"] == alone["x"]


def test_the_scores_are_left_as_they_were():
    scores = {"a": [3.0, 1.0, 2.0], "b": [9.0, 8.0]}
    bootstrap_interval(scores, fresh())
    assert scores == {"a": [3.0, 1.0, 2.0], "b": [9.0, 8.0]}


def test_a_view_of_a_mapping_will_do():
    by_seed = {1: 41.0, 2: 43.5, 3: 40.2}
    assert bootstrap_interval({"a": by_seed.values()}, fresh()) == bootstrap_interval({"a": RAGGED["a"]}, fresh())


# --- edges -----------------------------------------------------------------------------------------------------------


def test_a_single_seed_leaves_the_interval_unknown():
    assert bootstrap_interval({"a": [1.0, 2.0], "b": [3.0]}, fresh()) is None


@pytest.mark.parametrize("value", [0.0, 0.1, 33.3, 1e200])
@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_equal_seeds_of_one_task_give_exactly_their_value(value, seeds):
    assert bootstrap_interval({"a": [value] * seeds}, fresh()) == Interval(value, value)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ({}, "no task has scores"),
        ({"a": []}, "scores of a must be at least one"),
        ({"a": [1.0, float("nan")]}, "scores of a .* finite"),
        ({"a": [1.0, 2.0], "b": [1.0, float("inf")]}, "scores of b .* finite"),
    ],
)
def test_what_cannot_be_resampled_is_refused(scores, says):
    with pytest.raises(ValueError, match=says):
        bootstrap_interval(scores, fresh())


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, float("nan")])
def test_a_level_outside_0_to_1_is_refused(level):
    with pytest.raises(ValueError, match="level is above 0 and below 1"):
        bootstrap_interval(RAGGED, fresh(), level)


def test_no_draws_are_refused():
    with pytest.raises(ValueError, match="at least one draw, not 0"):
        bootstrap_interval(RAGGED, fresh(), draws=0)

"""The interquartile mean against exact fractions, scipy and closed forms."""

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from support.paths import ROOT

from grue.stats.robust import iqm

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


def test_no_order_matters():
    backwards = {task: values[::-1] for task, values in reversed(RAGGED.items())}
    assert repr(iqm(RAGGED)) == repr(iqm(backwards))


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ({}, "no task has scores"),
        ({"a": []}, "scores of a must be at least one"),
        (RAGGED | {"b": [3.0, float("nan")]}, "scores of b .* finite"),
    ],
)
def test_scores_without_a_middle_are_refused(scores, says):
    with pytest.raises(ValueError, match=says):
        iqm(scores)


@pytest.mark.parametrize("value", [0.0, 0.1, 33.3, 1e200])
@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_equal_runs_give_exactly_their_value(value, seeds):
    assert iqm({f"task {i}": [value] * seeds for i in range(7)}) == value


def test_the_page_shows_what_is_printed():
    page = ROOT / "docs/background/statistics.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert outcome.failed == 0 < outcome.attempted

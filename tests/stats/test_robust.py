"""The interquartile mean against exact fractions, scipy and closed forms."""

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
from support.late import late
from support.paths import ROOT

from grue.stats.robust import iqm

RAGGED = {"a": [41.0, 43.5, 40.2], "b": [12.0, 18.0], "c": [77.0, 71.0, 75.5, 70.2]}


def spread_out(tasks, seeds):
    return {f"task {i}": np.random.default_rng(i).normal(50, 20, seeds).tolist() for i in range(tasks)}


def middle_half(scores):
    """Cut every run into equal grains, sort them all, and average those between the quarters, in exact fractions."""
    grains = math.lcm(4, *(len(values) for values in scores.values()))
    heap = sorted(
        Fraction(value) for values in scores.values() for value in values for _ in range(4 * grains // len(values))
    )
    kept = heap[len(heap) // 4 : len(heap) - len(heap) // 4]
    return float(sum(kept) / len(kept))


def test_the_middle_half_by_hand_in_sorted_grains_and_where_quarters_are_whole_scipys():
    assert iqm({"a": [1.0, 2.0, 3.0, 100.0]}) == 2.5
    assert iqm({"a": [0.0, 10.0, 20.0]}) == pytest.approx((0.25 * 0 + 10 + 0.25 * 20) / 1.5)
    assert iqm({"a": [10.0], "b": [20.0, 30.0]}) == pytest.approx((10 + 20) / 2)  # half of the runs are a's, by weight
    for scores in (RAGGED, spread_out(7, 5), spread_out(7, 3), spread_out(1, 9)):
        assert iqm(scores) == pytest.approx(middle_half(scores), rel=1e-13)
    for tasks, seeds in ((7, 4), (4, 5), (1, 8), (26, 10), (2, 2)):
        scores = spread_out(tasks, seeds)
        trimmed = late("scipy.stats").trim_mean([value for values in scores.values() for value in values], 0.25)
        assert iqm(scores) == pytest.approx(trimmed, rel=1e-13)
    for seeds in (1, 3, 5):
        assert all(iqm({f"task {i}": [v] * seeds for i in range(7)}) == v for v in (0.0, 0.1, 33.3, 1e200))


def test_over_seven_tasks_the_best_and_the_worst_have_no_weight_and_no_order_matters():
    scores = {f"task {i}": [10.0 * i + seed for seed in range(5)] for i in range(7)}
    weights = [iqm(scores | {task: [value + 1 for value in values]}) - iqm(scores) for task, values in scores.items()]
    assert weights == pytest.approx([0, 1 / 14, 2 / 7, 2 / 7, 2 / 7, 1 / 14, 0], abs=1e-12)
    assert repr(iqm(RAGGED)) == repr(iqm({task: values[::-1] for task, values in reversed(RAGGED.items())}))


def test_the_page_shows_what_is_printed():
    outcome = doctest.testfile(str(ROOT / "docs/background/statistics.md"), module_relative=False)
    assert outcome.failed == 0 < outcome.attempted

"""Statistics against tables, closed forms, plain quadrature and simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from grue.stats.intervals import (
    Interval,
    mean,
    mean_over_tasks,
    satterthwaite_interval,
    sd,
    student_t_p,
    student_t_quantile,
)

T_975 = {  # two-sided 95 % points of Student's t, as tabulated
    1: 12.706204736174707,
    2: 4.302652729749464,
    3: 3.182446305283710,
    4: 2.776445105197793,
    5: 2.570581835636314,
    9: 2.262157162798205,
    10: 2.228138851986274,
    30: 2.042272456301238,
    100: 1.983971518523552,
}


def t_probability(t: float, degrees: float, panels: int = 20_000) -> float:
    """P(T < t) by Simpson's rule on the density itself."""
    constant = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
    width = t / panels
    total = 0.0
    for i in range(panels + 1):
        factor = 1 if i in (0, panels) else 4 if i % 2 else 2
        total += factor * constant * (1 + (i * width) ** 2 / degrees) ** (-(degrees + 1) / 2)
    return 0.5 + total * width / 3


@pytest.mark.parametrize(("degrees", "tabulated"), T_975.items())
def test_t_quantile_equals_the_table(degrees: int, tabulated: float) -> None:
    assert student_t_quantile(0.975, degrees) == pytest.approx(tabulated, rel=2e-12)


@pytest.mark.parametrize("probability", [0.001, 0.025, 0.3, 0.5, 0.6, 0.9, 0.995, 0.999])
@pytest.mark.parametrize(
    ("degrees", "closed"),
    [
        (1, lambda p: math.tan(math.pi * (p - 0.5))),
        (2, lambda p: (2 * p - 1) / math.sqrt(2 * p * (1 - p))),
    ],
)
def test_t_quantile_equals_the_closed_forms(probability: float, degrees: int, closed: Callable[[float], float]) -> None:
    assert student_t_quantile(probability, degrees) == pytest.approx(closed(probability), rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("degrees", [1.2, 3.7, 12.34, 57.9])
@pytest.mark.parametrize("probability", [0.75, 0.975])
def test_t_quantile_inverts_the_integral_of_the_density(probability: float, degrees: float) -> None:
    assert t_probability(student_t_quantile(probability, degrees), degrees) == pytest.approx(probability, abs=1e-10)


@pytest.mark.parametrize(("probability", "degrees"), [(0, 5), (1, 5), (0.9, 0.5), (0.9, math.nan)])
def test_t_quantile_refuses_what_has_none(probability: float, degrees: float) -> None:
    with pytest.raises(ValueError, match="no Student t quantile"):
        student_t_quantile(probability, degrees)


@pytest.mark.parametrize("degrees", [1, 1.0001, 1.01, 1.1, 1.5, 2, 3.7, 57.9, 3000, 100_000])
def test_t_probability_is_scipys(degrees: float) -> None:
    for t in (0, 1e-6, 0.3, 1, 2.5, 10, 1e3, 1e6, 1e15, 1e100):
        assert student_t_p(t, degrees) == pytest.approx(2 * scipy.stats.t.sf(t, degrees), rel=1e-10, abs=1e-290), t
    assert student_t_p(math.inf, degrees) == pytest.approx(0, abs=1e-149)


@pytest.mark.parametrize(("t", "degrees"), [(-1, 5), (math.nan, 5), (1, 0.5), (1, math.nan)])
def test_t_probability_refuses_what_has_none(t: float, degrees: float) -> None:
    with pytest.raises(ValueError, match="no Student t probability"):
        student_t_p(t, degrees)


def test_mean_and_sd_by_hand() -> None:
    assert mean([2.0, 4.0, 9.0]) == 5.0
    assert sd([2.0, 4.0, 9.0]) == pytest.approx(math.sqrt(13))
    assert sd([2.0]) is None
    assert sd([0.1, 0.1, 0.1]) == 0.0


@pytest.mark.parametrize("count", range(1, 12))
def test_the_mean_of_equal_values_is_that_value(count: int) -> None:
    value = 86.50635070860136  # seven of them sum to something else, rounded
    assert mean([value] * count) == value


def test_every_task_weighs_the_same_whatever_its_seeds() -> None:
    assert mean_over_tasks({"a": [10.0], "b": [20.0, 30.0, 40.0]}) == 20.0


def test_one_task_gives_the_usual_t_interval() -> None:
    interval = satterthwaite_interval({"a": [1.0, 2.0, 3.0, 4.0, 5.0]})
    half = T_975[4] * math.sqrt(2.5) / math.sqrt(5)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((3 - half, 3 + half), rel=2e-12)
    assert interval.half_width == pytest.approx(half, rel=2e-12)


def test_two_equally_uncertain_tasks_add_their_degrees_of_freedom() -> None:
    interval = satterthwaite_interval({"a": [1.0, 2.0, 3.0], "b": [11.0, 12.0, 13.0]})
    assert interval is not None
    assert interval.half_width == pytest.approx(T_975[4] * math.sqrt((1 / 3 + 1 / 3) / 4), rel=2e-12)


def test_ragged_seeds_by_hand() -> None:
    scores = {"a": [1.0, 3.0], "b": [0.0, 3.0, 6.0, 3.0]}  # s² = 2 and 6
    v_a, v_b = 2 / (4 * 2), 6 / (4 * 4)
    degrees = (v_a + v_b) ** 2 / (v_a**2 / 1 + v_b**2 / 3)
    interval = satterthwaite_interval(scores, level=0.9)
    assert interval is not None
    assert t_probability(interval.half_width / math.sqrt(v_a + v_b), degrees) == pytest.approx(0.95, abs=1e-10)
    assert interval.low + interval.high == pytest.approx(2 * 2.5)


def test_a_single_seed_leaves_the_interval_unknown() -> None:
    assert satterthwaite_interval({"a": [1.0, 2.0], "b": [3.0]}) is None


def test_no_spread_gives_no_width() -> None:
    assert satterthwaite_interval({"a": [0.1] * 5, "b": [0.3] * 3}) == Interval(0.2, 0.2)


def test_a_task_without_spread_adds_nothing_but_its_place_in_the_mean() -> None:
    interval = satterthwaite_interval({"a": [1.0, 2.0, 3.0], "b": [4.0, 4.0, 4.0]})
    assert interval is not None
    assert interval.half_width == pytest.approx(T_975[2] * math.sqrt(1 / 3) / 2, rel=2e-12)


def test_tiny_spreads_do_not_underflow() -> None:
    interval = satterthwaite_interval({"a": [0.0, 1e-100, 2e-100]})
    assert interval is not None
    assert interval.half_width == pytest.approx(T_975[2] * 1e-100 / math.sqrt(3), rel=2e-12)


def test_the_interval_does_not_depend_on_any_order() -> None:
    forwards = satterthwaite_interval({"a": [0.1, 0.7, 0.2], "b": [0.3, 0.9]})
    backwards = satterthwaite_interval({"b": [0.9, 0.3], "a": [0.2, 0.7, 0.1]})
    assert forwards == backwards


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_coverage_is_as_promised(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    truth = np.linspace(20, 60, 7)
    spreads = np.array([0.3, 0.5, 0.8, 1.0, 1.0, 1.5, 2.0])  # tasks are unequally noisy
    held = 0
    for _ in range(4000):
        draws = generator.normal(truth, spreads, size=(seeds, 7))
        interval = satterthwaite_interval({str(task): draws[:, task].tolist() for task in range(7)})
        assert interval is not None
        held += interval.low <= truth.mean() <= interval.high
    assert 0.93 <= held / 4000 <= 0.97

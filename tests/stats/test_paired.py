"""The difference of two systems: against enumeration, Welch's test, closed forms, hand-made tables and simulation."""

import itertools
import math
from dataclasses import astuple

import numpy as np
import pytest
from support.late import late

from grue.stats.intervals import Interval, mean_over_tasks, satterthwaite_interval
from grue.stats.paired import Noise, contrast, degrees_of_freedom, difference, draw, holm, judge, judge_mean

stats = late("scipy.stats")


def one_seed(values):
    return np.array([values], dtype=np.float64)


def scores(values):
    return [float(row.mean()) for row in values]


def fresh(seed=7):
    return np.random.default_rng(seed)


# --- examples alone --------------------------------------------------------------------------------------------------

A, B = [3.0, 8.0, 5.5, 9.0, 1.0, 7.0, 4.0, 6.0], [2.0, 5.0, 6.0, 4.0, 1.5, 3.0, 4.5, 2.0]
GAPS = [a - b for a, b in zip(A, B, strict=True)]
ONE_SEED = (one_seed(A), one_seed(B), [5.4375], [3.5])


def enumerated(differences):
    """The mean difference for every way of turning signs."""
    signs = itertools.product((1, -1), repeat=len(differences))
    return [math.fsum(s * d for s, d in zip(turned, differences, strict=True)) / len(differences) for turned in signs]


def test_with_one_seed_p_and_interval_are_those_of_all_exchanges_of_outputs():
    outcomes, centre = enumerated(GAPS), sum(GAPS) / 8
    exact = sum(abs(outcome) >= abs(centre) - 1e-12 for outcome in outcomes) / len(outcomes)
    found = difference(*ONE_SEED, fresh(), draws=100_000)
    assert exact == 24 / 256
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 100_000))
    half = sorted(abs(outcome) for outcome in enumerated([gap - centre for gap in GAPS]))[int(0.95 * 256)]
    half *= math.sqrt(8 / 7) * stats.t.ppf(0.975, 7) / stats.norm.ppf(0.975)  # the spread of eight is not known
    assert (found.interval.low, found.interval.high) == pytest.approx((centre - half, centre + half), abs=0.05)


@pytest.mark.parametrize("count", [8, 12, 200])
def test_the_interval_of_few_examples_is_as_wide_as_students(count):
    gaps = np.random.default_rng(3).normal(1.0, 2.0, count)
    found = difference(one_seed(gaps), one_seed(np.zeros(count)), [float(gaps.mean())], [0.0], fresh())
    students = stats.t.ppf(0.975, count - 1) * gaps.std(ddof=1) / math.sqrt(count)
    assert found.interval.half_width == pytest.approx(students, rel=0.06)


def test_one_seed_says_nothing_of_seeds_and_its_copies_change_nothing():
    """Five copies of one output are no more than one: an example's seeds move together."""
    found = difference(*ONE_SEED, fresh())
    assert (found.a, found.b, found.value) == (5.4375, 3.5, 1.9375)
    assert (found.seeds_a, found.seeds_b, found.examples) == (1, 1, 8)
    assert (found.sd_a, found.sd_b, found.seed_error) == (None, None, None)
    assert found.test_set_error == pytest.approx(math.sqrt(np.var(GAPS, ddof=1) / 8))
    copies = difference(np.repeat(one_seed(A), 5, axis=0), one_seed(B), [5.4375] * 5, [3.5], fresh())
    assert (copies.p, copies.interval) == (found.p, found.interval)
    assert (copies.sd_a, copies.seed_error) == (0.0, 0.0)
    shifted = difference(one_seed(A), one_seed(B), [60.0], [50.0], fresh(), draws=100)  # pseudo-values may have a bias
    assert shifted.value == 10.0 and contrast(*ONE_SEED[:2], [60.0], [50.0]).examples.mean() == pytest.approx(10.0)
    same = np.tile([86.50635070860136, 30.333333333333336, 0.1, 70.7], (5, 1))
    equal = difference(same, same, [float(same[0].mean())] * 5, [float(same[0].mean())] * 5, fresh(0))
    assert (equal.value, equal.interval, equal.p) == (0.0, Interval(0.0, 0.0), 1.0), "no rounding"


# --- seeds alone -----------------------------------------------------------------------------------------------------

SEEDS_A, SEEDS_B = [41.0, 43.5, 42.2, 45.1, 40.3], [39.0, 41.0, 36.0]
PAIRS_B = [40.1, 43.0, 40.9, 44.6, 39.6]


def without_spread(*by_seed, examples=1000):
    """Values of examples that do not differ, and then the scores; turning many signs says next to nothing."""
    return (*(np.repeat(np.array(each)[:, None], examples, axis=1) for each in by_seed), *by_seed)


def test_without_spread_over_examples_it_is_the_test_of_welch():
    compared = contrast(*without_spread(SEEDS_A, SEEDS_B))
    found = judge(compared, draw(compared, generator := fresh(), 100_000), generator)
    welch = stats.ttest_ind(SEEDS_A, SEEDS_B, equal_var=False)
    low, high = welch.confidence_interval(0.95)
    assert degrees_of_freedom([compared]) == pytest.approx(welch.df)
    assert found.p == pytest.approx(welch.pvalue, abs=0.002)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.1)
    assert found.seed_error == pytest.approx(abs(found.value) / welch.statistic)
    assert found.test_set_error == pytest.approx(0.0, abs=1e-9)
    assert (found.sd_a, found.sd_b) == pytest.approx((np.std(SEEDS_A, ddof=1), np.std(SEEDS_B, ddof=1)))
    alone = contrast(*without_spread(SEEDS_A, [39.0]))
    assert alone.seed_variance == pytest.approx(np.var(SEEDS_A, ddof=1) / 5), "the other system's share is unknown"
    assert degrees_of_freedom([alone]) == pytest.approx(4.0)


def test_without_spread_over_examples_pairs_give_the_paired_t_test():
    arguments = without_spread(SEEDS_A, PAIRS_B)
    found = difference(*arguments, fresh(), 100_000, paired=True)
    known = stats.ttest_rel(SEEDS_A, PAIRS_B)
    low, high = known.confidence_interval(0.95)
    assert found.p == pytest.approx(known.pvalue, abs=0.001)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.02)
    assert found.seed_error == pytest.approx(np.std(np.subtract(SEEDS_A, PAIRS_B), ddof=1) / math.sqrt(5))
    assert found.paired and found.p < 0.01 < 0.5 < difference(*arguments, fresh()).p


# --- both ------------------------------------------------------------------------------------------------------------


def test_what_seeds_and_examples_do_together_is_counted_once():
    """Values by hand: two seeds that swap on two examples. All spread of the examples is that of the seeds."""
    a = np.array([[10.0, 20.0], [20.0, 10.0]])
    assert contrast(a, np.array([[5.0, 5.0]]), scores(a), [5.0]).test_set_variance == 0.0
    together = np.array([[10.0, 20.0, 30.0], [14.0, 20.0, 26.0]])
    compared = contrast(together, np.zeros((1, 3)), scores(together), [0.0])
    # Means of examples 12, 20, 28: variance 64, of their mean 64/3. Residuals ±2, 0, ±2: 16 / (1·2) = 8, of the mean 8/6.
    assert compared.test_set_variance == pytest.approx(64 / 3 - 8 / 6)
    assert compared.value == 20.0


def test_exchanging_the_systems_turns_the_sign_and_neither_chunks_nor_another_call_matter(monkeypatch):
    rng = fresh()
    a, b = rng.normal(50, 10, (3, 40)), rng.normal(48, 10, (4, 40))
    one, other = difference(a, b, scores(a), scores(b), fresh()), difference(b, a, scores(b), scores(a), fresh())
    assert (other.value, other.p) == (-one.value, pytest.approx(one.p, abs=0.02))
    assert (other.seed_error, other.test_set_error) == pytest.approx((one.seed_error, one.test_set_error))
    assert difference(a, b, scores(a), scores(b), fresh()) == one
    assert difference(a, b, scores(a), scores(b), fresh(8)) != one
    monkeypatch.setattr("grue.stats.paired._SIGNS", 40 * 256)
    chunked = difference(a, b, scores(a), scores(b), fresh())
    assert chunked.p == pytest.approx(one.p, abs=0.02)
    assert chunked.interval.half_width == pytest.approx(one.interval.half_width, rel=0.05)


def test_p_is_never_0_and_the_interval_is_a_quantile_of_the_noise():
    a, b = one_seed([90.0, 91.0] * 50), one_seed([10.0, 12.0] * 50)
    sure = difference(a, b, [90.5], [11.0], fresh(), draws=999)
    assert sure.p == 1 / 1000
    noise = Noise(null=np.array([0.0, 1.0, -1.9375, 3.0]), around=np.linspace(-1.0, 1.0, 201))
    found = judge(contrast(*ONE_SEED), noise, fresh())
    assert found.p == 3 / 5
    assert found.interval.half_width == pytest.approx(0.95, abs=0.011)


# --- several tasks ---------------------------------------------------------------------------------------------------


def test_holm_by_hand():
    # Smallest first: 4·0.005 = 0.02, 3·0.01 = 0.03, 2·0.03 = 0.06, 1·0.04 < 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([0.6, 0.7]), holm([0.2]), holm([])) == ([1.0, 1.0], [0.2], [])


def test_the_mean_over_tasks_adds_variances_and_of_one_task_is_the_task():
    rng = fresh()
    tasks = [
        contrast(one_seed(rng.normal(gap, size, 200)), one_seed(rng.normal(0, size, 200)), [gap], [0.0])
        for size, gap in ((10.0, 3.0), (20.0, 1.0))
    ]
    generator = fresh()
    noises = [draw(task, generator, 50_000) for task in tasks]
    found = judge_mean(tasks, noises, generator)
    error = math.sqrt(sum(task.test_set_variance for task in tasks) * 199 / 200) / 2
    assert (found.a, found.b, found.value) == (2.0, 0.0, 2.0)
    assert found.interval.half_width == pytest.approx(stats.norm.ppf(0.975) * error, rel=0.02)
    alone, mean = judge(tasks[0], noises[0], fresh()), judge_mean(tasks[:1], noises[:1], fresh())
    assert astuple(mean) == (alone.a, alone.b, alone.value, astuple(alone.interval), alone.p)


def test_without_spread_over_examples_the_mean_s_interval_is_the_board_s():
    """Seeds of two systems as four tasks of one system, B's with the sign turned: the same sum of the same variances."""
    other_a, other_b = [10.0, 14.0, 11.0], [12.0, 9.0, 13.5, 10.0]
    tasks = [contrast(*without_spread(a, b, examples=2)) for a, b in ((SEEDS_A, SEEDS_B), (other_a, other_b))]
    generator = fresh()
    found = judge_mean(tasks, [draw(task, generator, 200_000) for task in tasks], generator)
    turned = {"1": SEEDS_A, "2": [-b for b in SEEDS_B], "3": other_a, "4": [-b for b in other_b]}
    assert found.value == pytest.approx(2 * mean_over_tasks(turned))
    assert found.interval.half_width == pytest.approx(2 * satterthwaite_interval(turned).half_width, rel=0.01)


# --- calibration -----------------------------------------------------------------------------------------------------


def systems(rng, seeds, of_examples, of_seeds, of_both, examples=200, shared=0.0):
    """Values of two systems that are equally good, each example suiting one of them."""
    suits = rng.normal(0, of_examples, examples)
    return [
        sign * suits / 2 + shared + rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_both, (seeds, examples))
        for sign in (1, -1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(
    ("noise", "of_starts", "paired"),
    [
        ((14.0, 1.0, 10.0), 0, False),
        ((0.0, 0.0, 20.0), 0, False),
        ((14.0, 1.0, 5.0), 0, True),
        ((14.0, 1.0, 5.0), 3, True),
    ],
)
def test_a_difference_that_is_not_there_is_found_in_5_percent(noise, of_starts, paired, seeds):
    rng, rejected, missed, repetitions = fresh(seeds), 0, 0, 4000 if noise[0] == 0 and seeds == 3 else 1500
    for _ in range(repetitions):
        starts = rng.normal(0, of_starts, (seeds, 1)) + rng.normal(0, 10, (seeds, 200)) if paired else 0.0
        a, b = systems(rng, seeds, *noise, shared=starts)
        found = difference(a, b, scores(a), scores(b), rng, draws=1000, paired=paired)
        rejected += found.p < 0.05
        missed += not found.interval.low <= 0 <= found.interval.high
    assert 0.03 <= rejected / repetitions <= (0.065 if paired and seeds == 3 else 0.06)
    assert paired or 0.03 <= missed / repetitions <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("of_examples", [0.5, 10.0])
def test_a_mean_over_seven_tasks_is_as_sure_as_it_says(of_examples):
    rng, repetitions, rejected = fresh(1), 700, 0
    for _ in range(repetitions):
        values = [systems(rng, 3, of_examples, 1, of_examples, examples=100) for _ in range(7)]
        tasks = [contrast(a, b, scores(a), scores(b)) for a, b in values]
        rejected += judge_mean(tasks, [draw(task, rng, 500) for task in tasks], rng).p < 0.05
    assert 0.03 <= rejected / repetitions <= 0.06

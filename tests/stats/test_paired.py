"""The difference of two systems: against enumeration, Welch's test, closed forms, hand-made tables and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from grue.stats.intervals import Interval, mean_over_tasks, satterthwaite_interval
from grue.stats.paired import (
    FloatArray,
    Noise,
    contrast,
    degrees_of_freedom,
    difference,
    draw,
    holm,
    judge,
    judge_mean,
)


def one_seed(values: list[float]) -> FloatArray:
    return np.array([values], dtype=np.float64)


def scores(values: FloatArray) -> list[float]:
    return [float(row.mean()) for row in values]


def a_generator() -> np.random.Generator:
    return np.random.default_rng(7)


# --- examples alone --------------------------------------------------------------------------------------------------

A = [3.0, 8.0, 5.5, 9.0, 1.0, 7.0, 4.0, 6.0]
B = [2.0, 5.0, 6.0, 4.0, 1.5, 3.0, 4.5, 2.0]


def enumerated(differences: list[float]) -> list[float]:
    """The mean difference for every way of turning signs."""
    signs = itertools.product((1, -1), repeat=len(differences))
    return [math.fsum(s * d for s, d in zip(turned, differences, strict=True)) / len(differences) for turned in signs]


def test_with_one_seed_p_is_that_of_all_exchanges_of_outputs() -> None:
    gaps = [a - b for a, b in zip(A, B, strict=True)]
    outcomes = enumerated(gaps)
    exact = sum(abs(outcome) >= abs(sum(gaps) / 8) - 1e-12 for outcome in outcomes) / len(outcomes)
    found = difference(one_seed(A), one_seed(B), [np.mean(A)], [np.mean(B)], a_generator(), draws=100_000)
    assert exact == 24 / 256
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 100_000))


def test_with_one_seed_the_interval_is_that_of_all_exchanges_of_centred_outputs() -> None:
    gaps = [a - b for a, b in zip(A, B, strict=True)]
    centre = sum(gaps) / 8
    half = sorted(abs(outcome) for outcome in enumerated([gap - centre for gap in gaps]))[int(0.95 * 256)]
    found = difference(one_seed(A), one_seed(B), [np.mean(A)], [np.mean(B)], a_generator(), draws=100_000)
    assert (found.interval.low, found.interval.high) == pytest.approx((centre - half, centre + half), abs=0.05)


def test_one_seed_says_nothing_of_seeds() -> None:
    found = difference(one_seed(A), one_seed(B), [5.4375], [3.5], a_generator(), draws=200)
    assert (found.a, found.b, found.value) == (5.4375, 3.5, 1.9375)
    assert (found.seeds_a, found.seeds_b, found.examples) == (1, 1, 8)
    assert (found.sd_a, found.sd_b, found.seed_error) == (None, None, None)
    gaps = [a - b for a, b in zip(A, B, strict=True)]
    assert found.test_set_error == pytest.approx(math.sqrt(np.var(gaps, ddof=1) / 8))


def test_equal_systems_do_not_differ() -> None:
    found = difference(one_seed(A), one_seed(A), [5.4375], [5.4375], a_generator(), draws=100)
    assert (found.value, found.p, found.interval.low, found.interval.high) == (0.0, 1.0, 0.0, 0.0)


def test_equal_seeds_are_equal_however_many_they_are() -> None:
    once = np.array([86.50635070860136, 30.333333333333336, 0.1, 70.7])
    a, b = np.tile(once, (5, 1)), np.tile(once, (7, 1))
    found = difference(a, b, [float(once.mean())] * 5, [float(once.mean())] * 7, np.random.default_rng(0))
    assert (found.value, found.interval, found.p) == (0.0, Interval(0.0, 0.0), 1.0)


def test_repeating_a_seed_changes_nothing() -> None:
    """Five copies of one output are no more than one: an example's seeds move together."""
    once = difference(one_seed(A), one_seed(B), [5.4375], [3.5], a_generator())
    copies = difference(np.repeat(one_seed(A), 5, axis=0), one_seed(B), [5.4375] * 5, [3.5], a_generator())
    assert (copies.p, copies.interval) == (once.p, once.interval)
    assert (copies.sd_a, copies.seed_error) == (0.0, 0.0)


def test_the_score_need_not_be_the_mean_of_its_pseudo_values() -> None:
    """Pseudo-values of BLEU have a small bias; what is tested is the board's difference."""
    found = difference(one_seed(A), one_seed(B), [60.0], [50.0], a_generator(), draws=100)
    compared = contrast(one_seed(A), one_seed(B), [60.0], [50.0])
    assert found.value == 10.0
    assert compared.examples.mean() == pytest.approx(10.0)


# --- seeds alone -----------------------------------------------------------------------------------------------------

SEEDS_A, SEEDS_B = [41.0, 43.5, 42.2, 45.1, 40.3], [39.0, 41.0, 36.0]


def without_spread(by_seed: list[float], examples: int = 2000) -> FloatArray:
    return np.repeat(np.array(by_seed)[:, None], examples, axis=1)


def test_without_spread_over_examples_it_is_the_test_of_welch() -> None:
    draws = 400_000
    found = judge(
        compared := contrast(without_spread(SEEDS_A), without_spread(SEEDS_B), SEEDS_A, SEEDS_B),
        draw(compared, generator := a_generator(), draws),
        generator,
    )
    welch = stats.ttest_ind(SEEDS_A, SEEDS_B, equal_var=False)
    low, high = welch.confidence_interval(0.95)
    assert degrees_of_freedom([compared]) == pytest.approx(welch.df)
    assert found.p == pytest.approx(welch.pvalue, abs=0.002)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.1)
    assert found.seed_error == pytest.approx(abs(found.value) / welch.statistic)
    assert found.test_set_error == pytest.approx(0.0, abs=1e-9)
    assert (found.sd_a, found.sd_b) == pytest.approx((np.std(SEEDS_A, ddof=1), np.std(SEEDS_B, ddof=1)))


def test_one_seed_of_one_system_leaves_the_other_s_share() -> None:
    compared = contrast(without_spread(SEEDS_A), without_spread([39.0]), SEEDS_A, [39.0])
    assert compared.seed_variance == pytest.approx(np.var(SEEDS_A, ddof=1) / 5)
    assert degrees_of_freedom([compared]) == pytest.approx(4.0)


# --- pairs of seeds --------------------------------------------------------------------------------------------------

PAIRS_A, PAIRS_B = [41.0, 43.5, 42.2, 45.1, 40.3], [40.1, 43.0, 40.9, 44.6, 39.6]


def test_without_spread_over_examples_pairs_give_the_paired_t_test() -> None:
    arguments = (without_spread(PAIRS_A), without_spread(PAIRS_B), PAIRS_A, PAIRS_B)
    found = difference(*arguments, a_generator(), 400_000, paired=True)
    known = stats.ttest_rel(PAIRS_A, PAIRS_B)
    low, high = known.confidence_interval(0.95)
    assert found.p == pytest.approx(known.pvalue, abs=0.001)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=0.02)
    assert found.seed_error == pytest.approx(np.std(np.subtract(PAIRS_A, PAIRS_B), ddof=1) / math.sqrt(5))
    assert found.paired and found.p < 0.01 < 0.5 < difference(*arguments, a_generator()).p


def test_what_pairs_have_in_common_does_not_count_as_chance() -> None:
    """What a pair shares, on all examples and on single ones, changes nothing."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(2, 5, (4, 50)), rng.normal(0, 5, (4, 50))
    shared = rng.normal(0, 30, (4, 1)) + rng.normal(0, 40, (4, 50))
    alone, together = (contrast(x, y, scores(x), scores(y), paired=True) for x, y in ((a, b), (a + shared, b + shared)))
    assert alone.seed_variance == pytest.approx(together.seed_variance)
    assert alone.examples == pytest.approx(together.examples)


# --- both ------------------------------------------------------------------------------------------------------------


def test_what_seeds_and_examples_do_together_is_counted_once() -> None:
    """Values by hand: two seeds that swap on two examples. All spread of the examples is that of the seeds."""
    a = np.array([[10.0, 20.0], [20.0, 10.0]])
    compared = contrast(a, np.array([[5.0, 5.0]]), scores(a), [5.0])
    assert compared.test_set_variance == 0.0
    together = np.array([[10.0, 20.0, 30.0], [14.0, 20.0, 26.0]])
    compared = contrast(together, np.zeros((1, 3)), scores(together), [0.0])
    # Means of examples 12, 20, 28: variance 64, of their mean 64/3. Residuals ±2, 0, ±2: 16 / (1·2) = 8, of the mean 8/6.
    assert compared.test_set_variance == pytest.approx(64 / 3 - 8 / 6)
    assert compared.value == 20.0


def test_degrees_of_freedom_are_satterthwaite_s() -> None:
    rng = a_generator()
    a, b = rng.normal(50, 10, (3, 40)), rng.normal(50, 10, (5, 40))
    compared = contrast(a, b, scores(a), scores(b))
    share_a, share_b = np.var(scores(a), ddof=1) / 3, np.var(scores(b), ddof=1) / 5
    total = share_a + share_b + compared.test_set_variance
    assert degrees_of_freedom([compared]) == pytest.approx(total**2 / (share_a**2 / 2 + share_b**2 / 4))


def test_noise_has_the_standard_error_of_both_sources() -> None:
    rng = a_generator()
    a = rng.normal(50, 10, 100) + rng.normal(0, 1, (30, 1)) + rng.normal(0, 3, (30, 100))
    b = rng.normal(50, 10, 100) + rng.normal(0, 1, (30, 1)) + rng.normal(0, 3, (30, 100))
    compared = contrast(a, b, scores(a), scores(b))
    noise = draw(compared, a_generator(), 100_000)
    wanted = math.sqrt(compared.seed_variance + compared.test_set_variance * 99 / 100)
    assert noise.around.std() == pytest.approx(wanted, rel=0.02)
    assert noise.around.mean() == pytest.approx(0.0, abs=0.02)


def test_exchanging_the_systems_turns_the_sign() -> None:
    rng = a_generator()
    a, b = rng.normal(50, 10, (3, 40)), rng.normal(48, 10, (4, 40))
    one = difference(a, b, scores(a), scores(b), a_generator())
    other = difference(b, a, scores(b), scores(a), a_generator())
    assert (other.value, other.p) == (-one.value, pytest.approx(one.p, abs=0.02))
    assert (other.seed_error, other.test_set_error) == pytest.approx((one.seed_error, one.test_set_error))


def test_equal_generators_give_equal_results_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = a_generator()
    a, b = rng.normal(50, 10, (3, 40)), rng.normal(48, 10, (4, 40))
    one = difference(a, b, scores(a), scores(b), a_generator())
    assert difference(a, b, scores(a), scores(b), a_generator()) == one
    assert difference(a, b, scores(a), scores(b), np.random.default_rng(8)) != one
    monkeypatch.setattr("grue.stats.paired._SIGNS", 40 * 256)
    chunked = difference(a, b, scores(a), scores(b), a_generator())
    assert chunked.p == pytest.approx(one.p, abs=0.02)
    assert chunked.interval.half_width == pytest.approx(one.interval.half_width, rel=0.05)


def test_p_is_never_0_and_a_wider_level_gives_a_wider_interval() -> None:
    a, b = one_seed([90.0, 91.0] * 50), one_seed([10.0, 12.0] * 50)
    sure = difference(a, b, [90.5], [11.0], a_generator(), draws=999)
    assert sure.p == 1 / 1000
    surer = difference(a, b, [90.5], [11.0], a_generator(), draws=999, level=0.99)
    assert surer.interval.half_width > sure.interval.half_width


@pytest.mark.parametrize(
    ("a", "b", "a_scores", "told"),
    [
        (np.zeros((2, 3)), np.zeros((1, 4)), [0.0, 0.0], "values"),
        (np.zeros((2, 3)), np.zeros((1, 3)), [0.0], "values"),
        (np.zeros((1, 1)), np.zeros((1, 1)), [0.0], "1 example"),
    ],
)
def test_values_that_do_not_fit_are_refused(a: FloatArray, b: FloatArray, a_scores: list[float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        contrast(a, b, a_scores, [0.0])


def test_unequal_numbers_of_seeds_are_no_pairs() -> None:
    with pytest.raises(ValueError, match="2 and 1 seeds are no pairs"):
        contrast(np.zeros((2, 3)), np.zeros((1, 3)), [0.0, 0.0], [0.0], paired=True)


# --- several tasks ---------------------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # Smallest first: 4·0.005 = 0.02, 3·0.01 = 0.03, 2·0.03 = 0.06, 1·0.04 < 0.06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_the_mean_over_tasks_adds_variances() -> None:
    rng = a_generator()
    tasks = []
    for size, gap in ((10.0, 3.0), (20.0, 1.0)):
        a, b = one_seed(list(rng.normal(gap, size, 200))), one_seed(list(rng.normal(0, size, 200)))
        tasks.append(contrast(a, b, [gap], [0.0]))
    generator = a_generator()
    noises = [draw(task, generator, 50_000) for task in tasks]
    found = judge_mean(tasks, noises, generator)
    error = math.sqrt(sum(task.test_set_variance for task in tasks) * 199 / 200) / 2
    assert (found.a, found.b, found.value) == (2.0, 0.0, 2.0)
    assert found.interval.half_width == pytest.approx(stats.norm.ppf(0.975) * error, rel=0.02)


def test_without_spread_over_examples_the_mean_s_interval_is_the_board_s() -> None:
    """Seeds of two systems as four tasks of one system, B's with the sign turned: the same sum of the same variances."""
    other_a, other_b = [10.0, 14.0, 11.0], [12.0, 9.0, 13.5, 10.0]
    tasks = [contrast(without_spread(a), without_spread(b), a, b) for a, b in ((SEEDS_A, SEEDS_B), (other_a, other_b))]
    generator = a_generator()
    found = judge_mean(tasks, [draw(task, generator, 200_000) for task in tasks], generator)
    turned = {"1": SEEDS_A, "2": [-b for b in SEEDS_B], "3": other_a, "4": [-b for b in other_b]}
    board = satterthwaite_interval(turned)
    assert board is not None
    assert found.value == pytest.approx(2 * mean_over_tasks(turned))
    assert found.interval.half_width == pytest.approx(2 * board.half_width, rel=0.01)


def test_one_task_s_mean_is_the_task() -> None:
    compared = contrast(one_seed(A), one_seed(B), [5.4375], [3.5])
    noise = draw(compared, a_generator(), 1000)
    alone, mean = judge(compared, noise, a_generator()), judge_mean([compared], [noise], a_generator())
    assert (mean.a, mean.b, mean.value, mean.interval, mean.p) == (
        *(alone.a, alone.b, alone.value),
        *(alone.interval, alone.p),
    )


def test_the_interval_is_a_quantile_of_the_noise() -> None:
    compared = contrast(one_seed(A), one_seed(B), [5.4375], [3.5])
    noise = Noise(null=np.array([0.0, 1.0, -1.9375, 3.0]), around=np.linspace(-1.0, 1.0, 201))
    found = judge(compared, noise, a_generator(), level=0.9)
    assert found.p == 3 / 5
    assert found.interval.half_width == pytest.approx(0.9, abs=0.011)


# --- calibration -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(("of_seeds", "of_examples", "of_both"), [(1.0, 14.0, 10.0), (0.0, 0.0, 20.0)])
def test_a_difference_that_is_not_there_is_found_in_5_percent(
    seeds: int, of_seeds: float, of_examples: float, of_both: float
) -> None:
    rng = np.random.default_rng(seeds)
    repetitions, rejected, missed = 4000, 0, 0
    for _ in range(repetitions):
        suits = rng.normal(0, of_examples, 200)
        a, b = (
            sign * suits / 2 + rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_both, (seeds, 200))
            for sign in (1, -1)
        )
        found = difference(a, b, scores(a), scores(b), rng, draws=1000)
        rejected += found.p < 0.05
        missed += not found.interval.low <= 0 <= found.interval.high
    assert 0.03 <= rejected / repetitions <= 0.06
    assert 0.03 <= missed / repetitions <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("of_starts", [0.0, 3.0])
def test_pairs_find_what_is_not_there_in_5_percent_too(seeds: int, of_starts: float) -> None:
    rng = np.random.default_rng(seeds)
    repetitions, rejected = 4000, 0
    for _ in range(repetitions):
        suits, starts = rng.normal(0, 14, 200), rng.normal(0, of_starts, (seeds, 1)) + rng.normal(0, 10, (seeds, 200))
        a, b = (
            sign * suits / 2 + starts + rng.normal(0, 1, (seeds, 1)) + rng.normal(0, 5, (seeds, 200))
            for sign in (1, -1)
        )
        rejected += difference(a, b, scores(a), scores(b), rng, draws=1000, paired=True).p < 0.05
    assert 0.03 <= rejected / repetitions <= (0.065 if seeds == 3 else 0.06)


@pytest.mark.slow
@pytest.mark.parametrize("of_examples", [0.5, 10.0])
def test_a_mean_over_seven_tasks_is_as_sure_as_it_says(of_examples: float) -> None:
    rng = np.random.default_rng(1)
    repetitions, rejected = 2000, 0
    for _ in range(repetitions):
        tasks = []
        for _ in range(7):
            suits = rng.normal(0, of_examples, 100)
            a, b = (
                sign * suits / 2 + rng.normal(0, 1, (3, 1)) + rng.normal(0, of_examples, (3, 100)) for sign in (1, -1)
            )
            tasks.append(contrast(a, b, scores(a), scores(b)))
        rejected += judge_mean(tasks, [draw(task, rng, 500) for task in tasks], rng).p < 0.05
    assert 0.03 <= rejected / repetitions <= 0.06

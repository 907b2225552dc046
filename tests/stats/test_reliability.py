"""Krippendorff's α beside a published example and a package; rank correlations beside scipy."""

import math

import numpy as np
import pytest
from support.late import late

from grue.stats.correlation import kendall, spearman
from grue.stats.reliability import alpha, alphas, coincidences, percentile_interval, resamples

stats = late("scipy.stats")

N = math.nan
# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section C: four observers, twelve units.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
        [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
    ]
).T
FIVE = (1, 2, 3, 4, 5)
# α as printed there; by the package krippendorff 0.9.0 (PyPI), `alpha(ratings.T, level_of_measurement=level)`, on that
# example, and on `drawn()`.
KNOWN = {
    "ordinal": (0.815, 0.8153875037548814, -0.01037694910511111),
    "interval": (0.849, 0.8491071428571428, -0.012227979274611389),
}


def drawn():
    generator = np.random.default_rng(7)
    ratings = generator.integers(1, 6, size=(3, 30)).astype(float)
    ratings[generator.random((3, 30)) < 0.2] = N
    return ratings.T


@pytest.mark.parametrize("level", KNOWN)
def test_alpha_is_as_published_and_as_by_the_package_and_a_weight_is_the_number_of_copies(level):
    printed, of_example, of_drawn = KNOWN[level]
    assert alpha(PUBLISHED, FIVE, level) == pytest.approx(printed, abs=0.0005)
    assert alpha(PUBLISHED, FIVE, level) == pytest.approx(of_example, abs=1e-12)
    assert alpha(drawn(), FIVE, level) == pytest.approx(of_drawn, abs=1e-12)
    weights = np.array([[2.0, 0, 1, 1, 0, 3, 1, 1, 1, 1, 1, 0]])
    copied = np.repeat(PUBLISHED, weights[0].astype(int), axis=0)
    weighed = alphas(np.tensordot(weights, coincidences(PUBLISHED, FIVE), axes=1), FIVE, level)
    assert weighed[0] == pytest.approx(alpha(copied, FIVE, level))


def test_perfect_agreement_is_1_and_equal_or_single_answers_are_undefined():
    assert alpha(np.array([[1.0, 1.0], [5.0, 5.0]]), FIVE, "ordinal") == pytest.approx(1)
    assert alpha(np.array([[4.0, 4.0], [4.0, 4.0]]), FIVE, "ordinal") is None, "nobody could have disagreed"
    assert alpha(np.array([[4.0], [2.0]]), FIVE, "interval") is None, "one judge"
    assert alpha(np.array([[4.0, N], [N, 2.0]]), FIVE, "interval") is None, "no unit has two answers"
    assert alpha(np.array([[1.0, 5.0], [5.0, 1.0]]), FIVE, "interval") < 0


def test_the_interval_surrounds_alpha_and_needs_more_than_half_of_the_draws():
    by_item = coincidences(PUBLISHED, FIVE)
    drawings = [resamples(12, 500, np.random.default_rng(1)) for _ in range(2)]
    first, again = (
        percentile_interval(alphas(np.tensordot(each, by_item, axes=1), FIVE, "ordinal")) for each in drawings
    )
    assert first == again and first.low < 0.815 < first.high <= 1
    assert percentile_interval(np.array([N, N, 1.0, 2.0])) is None
    assert percentile_interval(np.array([N, 1.0, 1.0])).low == 1


def test_rank_correlations_are_scipys_also_of_resamples_and_with_ties():
    generator = np.random.default_rng(5)
    for _ in range(10):
        x, y = generator.integers(0, 6, 20).astype(float), generator.normal(size=20).round(1)
        weights = np.vstack([np.ones(20), resamples(20, 4, generator)])
        for draw, tau, rho in zip(weights, kendall(x, y, weights), spearman(x, y, weights), strict=True):
            xs, ys = (np.repeat(values, draw.astype(int)) for values in (x, y))
            assert tau == pytest.approx(stats.kendalltau(xs, ys).statistic)
            assert rho == pytest.approx(stats.spearmanr(xs, ys).statistic)


def test_neither_a_constant_nor_no_points_have_a_rank_correlation():
    constant, rising, weights = np.ones(5), np.arange(5.0), np.array([[1.0] * 5, [0] * 5])
    assert np.isnan(kendall(constant, rising, weights)).all() and np.isnan(spearman(rising, constant, weights)).all()
    assert kendall(rising, -rising, weights[:1]) == pytest.approx(-1)
    for correlation in (kendall, spearman):
        found = correlation(rising, rising, weights)
        assert found[0] == pytest.approx(1) and np.isnan(found[1])
    assert np.isnan(spearman(np.empty(0), np.empty(0), np.empty((2, 0)))).all()

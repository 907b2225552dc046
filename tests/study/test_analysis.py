"""What answers say, beside figures worked out by hand, published ones, and tests by enumeration."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from support.studies import PAIRS, RUNS, a_study, filled, opinions, outputs, written

from grue import files
from grue.errors import DataError
from grue.study.analysis import agree, analyse
from grue.study.answers import read_answers
from grue.study.differences import one_way, pairs_of_systems, within_items

KEY = a_study(items=8)


def varied(number, screen, question):
    """Alpha 2 or 3, beta 3 or 4, gamma 4 or 5; the second annotator is one higher where the item is even."""
    low = 2 + screen.systems[0]
    return low if screen.item % 2 else min(5, low + (number == 1))


def analysed(key, rule, folder, **options):
    return analyse(key, opinions(key, rule, folder), draws=100, **options)


def random(seed=0):
    return np.random.default_rng(seed)


def test_means_are_over_texts_and_alpha_is_given_for_each_system_and_over_all(tmp_path):
    scale = analysed(KEY, varied, tmp_path).scales[0]
    alpha = scale.systems[0]
    # Text means: 2 + 1/3 for four items, 2 for the other four: mean 2 1/6, sd √(8/7)/6; t of 7 degrees is 2.3646.
    assert (scale.question, scale.points, alpha.system, alpha.answers, alpha.texts) == ("coherence", 5, "alpha", 24, 8)
    assert alpha.mean == pytest.approx(2 + 1 / 6)
    half = 2.364624 * math.sqrt(8 / 7) / 6 / math.sqrt(8)
    assert (alpha.interval.low, alpha.interval.high) == pytest.approx((2 + 1 / 6 - half, 2 + 1 / 6 + half))
    ordinal, interval = scale.alpha
    assert (ordinal.level, interval.level) == ("ordinal", "interval")
    assert 0.6 < interval.value < 1 and interval.interval.low < interval.value < interval.interval.high
    # One system: disagreement wherever it can be, so that people agree less than over all systems.
    assert alpha.alpha[1].value < 0.2


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (lambda number, screen, question: 4, "all answers are equal"),
        (lambda number, screen, question: 4 if number == 0 else None, "one annotator"),
        (lambda n, screen, question: 1 + n if screen.item % 3 == n else None, "no text was judged twice"),
        (lambda number, screen, question: 3 if question == "joy" else None, "no answers"),
    ],
)
def test_alpha_that_is_undefined_says_why(tmp_path, rule, why):
    found = analysed(KEY, rule, tmp_path)
    scale = found.scales[0]
    assert all((one.value, one.interval, one.why) == (None, None, why) for one in scale.alpha)
    json.loads(files.indented_json(found))  # neither NaN nor an infinity
    if why == "all answers are equal":
        assert scale.anova is None and scale.within_items_p == 1
        assert [one.mean for one in scale.systems] == [4, 4, 4] and scale.systems[0].interval.half_width == 0
        assert {(pair.value, pair.tukey_p, pair.paired_p) for pair in scale.pairs} == {(0, None, 1)}


def test_half_finished_answers_count_and_are_stated_or_refused(tmp_path, refused):
    def half(number, screen, question):
        return None if number == 2 and screen.item > 3 else varied(number, screen, question)

    found = analysed(KEY, half, tmp_path)
    assert [(one.done, one.asked) for one in found.annotators] == [(24, 24), (24, 24), (12, 24)]
    assert found.scales[0].systems[0].answers == 8 + 8 + 4
    with refused(DataError):
        analysed(KEY, half, tmp_path, complete=True)
    assert analysed(KEY, varied, tmp_path, complete=True).scales[0].systems[0].answers == 8 * 3


def test_what_has_nothing_to_compare_is_left_open(tmp_path):
    scale = analysed(a_study(systems=("alone",)), varied, tmp_path).scales[0]
    assert scale.systems[0].mean is not None
    assert (scale.anova, scale.within_items_p, scale.pairs) == (None, None, ())
    found = analysed(KEY, lambda n, screen, q: None if screen.systems[0] == 2 else varied(n, screen, q), tmp_path)
    scale = found.scales[0]
    assert scale.systems[2].mean is None and scale.systems[2].alpha[0].why == "no answers"
    assert [(pair.a, pair.b) for pair in scale.pairs] == [("alpha", "beta")] and scale.anova is None


def test_the_order_of_files_does_not_matter_and_that_answers_are_synthetic_is_kept(tmp_path):
    paths = written(tmp_path, [replace(found, synthetic=True) for found in filled(KEY, varied)])
    one, other = (analyse(KEY, read_answers(order, KEY), draws=100) for order in (paths, paths[::-1]))
    assert one == other
    assert one.synthetic == ("annotator-1", "annotator-2", "annotator-3")


# The example of `scipy.stats.tukey_hsd`, whose p values SAS and MATLAB confirm: brands of headache medicine.
BRANDS = np.array([[24.5, 28.4, 26.1], [23.5, 34.2, 28.3], [26.4, 29.5, 24.3], [27.1, 32.2, 26.2], [29.9, 30.1, 27.8]])


def test_analysis_of_variance_by_its_sums_of_squares_and_tukeys_published_p_values():
    groups = list(BRANDS.T)
    between = sum(len(g) * (g.mean() - BRANDS.mean()) ** 2 for g in groups) / 2
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / 12
    found = one_way(groups)
    assert (found.between, found.within) == (2, 12) and found.f == pytest.approx(between / within)
    assert 0 < found.p < 0.05
    pairs = pairs_of_systems(BRANDS, RUNS, random(), 200)
    assert [round(pair.tukey_p, 3) for pair in pairs] == [0.014, 0.980, 0.020]
    assert (pairs[0].tukey_interval.low, pairs[0].tukey_interval.high) == pytest.approx((-8.249, -0.951), abs=5e-4)
    assert pairs[0].value == pairs[0].paired == pytest.approx(-4.6)


def test_the_test_within_items_is_that_of_all_permutations():
    values = np.array([[1.0, 2.0, 4.0], [2.0, 2.5, 3.0], [1.0, 3.0, 2.0], [3.0, 3.5, 5.0]])

    def between(rows):
        means = np.mean(rows, axis=0)
        return ((means - means.mean()) ** 2).sum()

    every = [between(rows) for rows in itertools.product(*(itertools.permutations(row) for row in values))]
    exact = np.mean(np.array(every) >= between(values) * (1 - 1e-9))
    assert within_items(values, random(), 4000) == pytest.approx(exact, abs=0.02)


def test_what_all_items_share_is_seen_within_items_only():
    """Items differ much, systems little but always: blocks see it, one-way analysis does not."""
    generator = random(1)
    items = generator.normal(0, 5, 30)
    values = items[:, None] + np.array([0.0, 0.3]) + generator.normal(0, 0.2, (30, 2))
    (pair,) = pairs_of_systems(values, ("a", "b"), generator, 1000)
    assert one_way(list(values.T)).p > 0.5 and pair.tukey_p > 0.5
    assert within_items(values, generator, 1000) < 0.01 and pair.paired_p < 0.01
    gaps = np.array([[1.0, 2.0], [2.0, math.nan], [1.0, 3.0], [5.0, 7.0]])  # incomplete items are left out within items
    (pair,) = pairs_of_systems(gaps, ("a", "b"), random(), 200)
    assert pair.value == pytest.approx(9 / 4 - 4) and pair.paired == pytest.approx(7 / 3 - 4)
    assert within_items(gaps[:2], random(), 100) is None


def likes(first_until, tie_until):
    """Alpha for items below `first_until`, neither below `tie_until`, else beta."""

    def rule(number, screen, question):
        if first_until <= screen.item < tie_until:
            return "tie"
        return "ab"[screen.systems.index(0 if screen.item < first_until else 1)]

    return rule


def test_duels_by_hand(tmp_path):
    found = analysed(a_study(PAIRS, ("alpha", "beta"), 10, 2), likes(6, 8), tmp_path)
    (duel,) = found.pairs.duels
    assert (duel.a_wins, duel.ties, duel.b_wins, duel.items, duel.same) == (12, 4, 4, 10, 0)
    assert duel.rate == pytest.approx((6 + 1) / 10) and duel.interval.low < 0.7 < duel.interval.high
    assert 0.1 < duel.p < 0.6, "six of eight: 0.29 by the sign test"
    assert [one.value for one in found.pairs.alpha] == [1, 1]
    (duel,) = analysed(a_study(PAIRS, ("alpha", "beta"), 12, 2), likes(12, 12), tmp_path).pairs.duels
    assert duel.rate == 1 and duel.p < 0.02
    # Wilson's of 12 in 12, since no resample differs: nobody knows what the next item would say.
    assert (duel.interval.low, duel.interval.high) == pytest.approx((12 / (12 + 1.959964**2), 1))
    systems = [outputs(n, 10, texts=lambda seed, item, n=n: "all" if item < 4 else n) for n in ("alpha", "beta")]
    (duel,) = analysed(a_study(PAIRS, systems, 10, 2), likes(10, 10), tmp_path).pairs.duels
    assert (duel.a_wins, duel.items, duel.same) == (12, 6, 4) and duel.rate == pytest.approx(0.6 + 0.2), "equal: ties"


def test_a_pair_without_answers_is_left_open(tmp_path):
    key = a_study(PAIRS, RUNS, 5, 2)
    found = analysed(key, lambda n, screen, q: "a" if set(screen.systems) == {0, 1} else None, tmp_path)
    assert [duel.rate is None for duel in found.pairs.duels] == [False, True, True]
    assert found.pairs.duels[1].p is None and found.pairs.duels[1].interval is None


def test_a_metric_that_orders_texts_as_people_do_agrees_whichever_way_it_counts(tmp_path):
    found = analysed(KEY, lambda number, screen, question: min(5, 1 + screen.item // 2), tmp_path)
    by_metric = {one.metric: one for one in found.agreement if one.question == "joy"}
    assert by_metric["length"].kendall == by_metric["errors"].kendall, "errors are better low"
    assert 0.8 < by_metric["length"].kendall.value <= 1 and by_metric["length"].texts == 24
    assert by_metric["length"].systems.value is None, "all systems have the same mean"


def test_systems_that_people_rate_equally_are_ties():
    """Two systems have a total of 62/3, whose sums in another order differ in the last digit."""
    totals = ([5, 12, 15, 15, 4, 7, 4], [12, 15, 5, 4, 7, 4, 15], [3] * 7)
    people = np.array(totals).T / 3
    assert math.fsum(totals[0]) == math.fsum(totals[1]) and np.ones(7) @ people[:, 0] != np.ones(7) @ people[:, 1]
    found = agree("m", "q", people, np.tile([3.0, 2.0, 1.0], (7, 1)), np.ones((4, 7)))
    assert found.systems.value == pytest.approx(2 / math.sqrt(3 * 2)), "two of three pairs agree, and one is a tie"


def test_agreement_over_systems_needs_three_and_answers():
    people = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 5.0], [1.0, 3.0, math.nan]])
    values = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.9]])
    weights = np.ones((5, 3))
    found = agree("m", "q", people, values, weights)
    assert found.texts == 8 and found.systems.value == 1
    assert agree("m", "q", people[:, :2], values[:, :2], weights).systems.value is None
    assert agree("m", "q", people, np.ones((3, 3)), weights).kendall.value is None, "a constant metric"
    single = agree("m", "q", people[:1], people[:1], np.ones((9, 1)))
    assert (single.kendall.value, single.kendall.interval, single.systems.interval) == (1.0, None, None)


def test_a_metric_of_pairs_chooses_between_the_same_texts(tmp_path):
    """Its values differ between items far more than within: only the latter were asked about."""
    systems = []
    for better, name in enumerate(("alpha", "beta")):
        system = outputs(name, 8)
        scores = {"length": [100.0 * item + better for item in range(8)], "errors": [0.0] * 8}
        systems.append(replace(system, runs=[replace(system.runs[0], scores=scores)]))
    found = analysed(a_study(PAIRS, systems, 8, 2), likes(0, 0), tmp_path)
    by_metric = {one.metric: one for one in found.agreement}
    assert by_metric["length"].kendall.value == pytest.approx(1)
    assert by_metric["errors"].kendall.value is None, "it chooses neither"

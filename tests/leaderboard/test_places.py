"""Ranks of all pairs at once against the test of two systems, pair by pair."""

import random
from dataclasses import replace

import pytest
from support.late import late
from support.render_boards import SUITE

from grue.leaderboard.board import Cell, Estimate
from grue.leaderboard.places import shared_ranks
from grue.records import About
from grue.stats.paired import Contrast, judge_seeds, p_of_each

stats = late("scipy.stats")


def test_the_ps_of_all_pairs_at_once_are_those_of_pair_by_pair():
    """Of one to three tasks, paired or not, with other numbers of seeds, without spread, and of a lone seed."""
    draw = random.Random(0)

    def scores(seeds):
        spread = draw.choice((0.0, 0.01, 3.0))
        return tuple(draw.choice((40.0, 41.0, 60.0)) + spread * draw.gauss(0, 1) for _ in range(seeds))

    pairs = []
    for _ in range(300):
        sizes = [(draw.choice((1, 3, 5)), draw.choice((1, 3, 5))) for _ in range(draw.choice((1, 2, 3)))]
        pairs.append([Contrast(scores(a), scores(b), paired=a == b > 1 and draw.random() < 0.5) for a, b in sizes])
    assert p_of_each(pairs) == pytest.approx([judge_seeds(each).p for each in pairs], abs=1e-12)


def test_noise_leads_past_nobody():
    """The last has the second's runs but for one that failed: its interval holds the first, and its mean is lower."""
    values = ([98.6, 98.9, 98.4, 98.8, 98.7], [89.2, 88.1, 90.4, 89.9, 88.6], [0.0, 88.1, 90.4, 89.9, 88.6])
    scores = [{"x": dict(enumerate(seeds, start=1))} for seeds in values]
    cells = [Cell((1, 2, 3, 4, 5), (), Estimate(0.0, None, known["x"]), None, None, {}) for known in scores]
    rows = [replace(SUITE.rows[0], system=str(i), about=About(), cells={"x": cell}) for i, cell in enumerate(cells)]
    assert stats.ttest_ind(values[0], values[2], equal_var=False).pvalue > 0.05
    assert shared_ranks(rows, scores) == [1, 2, 2]
    errors = [{"x": {seed: 100 - value for seed, value in known["x"].items()}} for known in scores]
    assert shared_ranks(rows, errors, "lower") == [1, 2, 2]

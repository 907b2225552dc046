"""Ranks of all pairs at once against the test of two systems, pair by pair."""

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
from support.late import late
from support.render_boards import SUITE

from grue.leaderboard.board import Cell, Estimate
from grue.leaderboard.lineage import are_pairs, starts_on
from grue.leaderboard.places import shared_ranks
from grue.records import About
from grue.stats.paired import Contrast, holm, judge_seeds

stats = late("scipy.stats")


def ranks_pair_by_pair(rows, scores, direction):
    """Every two systems in turn: `judge_seeds`, then Holm's correction of the list."""
    competing = {i: known for i, known in enumerate(scores) if known is not None}
    pairs = list(combinations(competing, 2))
    made = starts_on(rows)
    found = []
    for i, j in pairs:
        contrasts = []
        for task, a in competing[i].items():
            b = competing[j][task]
            paired = a.keys() == b.keys() and are_pairs(rows[i].cells[task], rows[j].cells[task], made.get(task, {}))
            values = [[of[seed] for seed in sorted(a)] for of in (a, b)] if paired else [a.values(), b.values()]
            contrasts.append(Contrast(tuple(values[0]), tuple(values[1]), paired=paired))
        found.append(judge_seeds(contrasts))
    above = dict.fromkeys(competing, 0)
    for (i, j), one, p in zip(pairs, found, holm([one.p for one in found]), strict=True):
        if p < 0.05:
            above[j if (one.value > 0) == (direction == "higher") else i] += 1
    sign = 1 if direction == "higher" else -1
    means = {i: sign * np.mean([np.mean(list(v.values())) for v in known.values()]) for i, known in competing.items()}
    ranks = {i: 1 + max([above[i]] + [above[j] for j in competing if means[j] > means[i]]) for i in competing}
    return [ranks.get(i) for i in range(len(rows))]


def a_board(seed):
    """Systems on two or three tasks: paired by one of two starts or not, with other seeds, without spread, alone."""
    draw = random.Random(seed)
    tasks = ("x", "y", "z")[: draw.choice((1, 2, 3))]
    rows, scores = [], []
    for i in range(draw.randint(0, 14)):
        kind = draw.choice(("start", "trained", "trained", "trained", "fixed", "other seeds", "alone", "apart", "twin"))
        seeds = {"other seeds": (2, 3, 4, 7), "alone": (1,)}.get(kind, (1, 2, 3, 4, 5))
        cells, known = {}, {}
        for task in tasks:
            centre = draw.choice((40.0, 41.0, 44.0, 60.0))
            spread = 0.0 if kind == "fixed" else draw.choice((0.01, 0.5, 3.0))
            values = {s: centre + 0.3 * s + spread * draw.gauss(0, 1) for s in seeds}
            if kind == "fixed":
                values = dict.fromkeys(seeds, centre)
            if kind == "twin" and rows and rows[-1].cells[task].seeds == seeds:
                values = {s: v + 0.25 for s, v in rows[-1].cells[task].preference.by_seed.items()}
            if kind == "start":
                line = {s: (f"start{'ab'[i % 2]}{task}{s}",) for s in seeds}
            else:
                line = {s: (f"w{i}{task}{s}", f"start{draw.choice('ab')}{task}{s}") for s in seeds}
            lineage = {} if kind == "apart" else line
            cells[task] = Cell(seeds, (), Estimate(0.0, None, values), None, None, {}, lineage=lineage)
            known[task] = values
        rows.append(replace(SUITE.rows[0], system=f"s{i}", about=About(), cells=cells))
        scores.append(None if kind != "start" and draw.random() < 0.1 else known)
    return rows, scores


def test_ranks_of_all_pairs_at_once_are_those_of_pair_by_pair():
    several = 0
    for seed in range(30):
        rows, scores = a_board(seed)
        for direction in ("higher", "lower"):
            expected = ranks_pair_by_pair(rows, scores, direction)
            assert shared_ranks(rows, scores, direction) == expected, seed
            several += len({rank for rank in expected if rank}) > 2
    assert several > 10, "the boards are to tell systems apart"


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

"""Which signs of one board another has, recomputed from the boards' JSON."""

import json
from itertools import combinations

import pytest
from support.late import late
from support.paths import ROOT

predicts, stats = late("predicts"), late("scipy.stats")
PAIRED = "supervised+ppo", "supervised"
"""Runs and their starts, seed by seed, on both boards."""


def scores(suite, axis):
    rows = json.loads((ROOT / f"leaderboard/{suite}.json").read_text())["rows"]
    return {
        row["system"]: [score for _, score in sorted(row["cells"]["commongen"][axis]["by_seed"].items())]
        for row in rows
        if row["standing"] in ("ranked", "partial") and "commongen" in row["cells"]
    }


@pytest.mark.parametrize("axis", ["preference", "naturalness"])
def test_pairs_of_both_boards_are_held_against_each_other(axis):
    boards = [predicts.read_board(ROOT / f"leaderboard/{suite}.json") for suite in ("mini", "small")]
    lines = list(predicts.compared(*boards, axis, ["one", "other"]))
    (last,) = [number for number, line in enumerate(lines) if line.startswith("\ncommongen")]
    rows = [line.strip("| ").split(" | ") for line in lines[:last] if " − " in line]
    table = {tuple(cells[0].split(" − ")): cells[1:] for cells in rows}
    both = scores("mini", axis), scores("small", axis)
    names = set(both[0]) & set(both[1])
    pairs = {frozenset(pair) for pair in combinations(names, 2)}
    assert pairs <= {frozenset(pair) for pair in table} and PAIRED[1] in names
    found, clear = [], 0
    for of in both:
        differences = [a - b for a, b in zip(*(of[name] for name in PAIRED), strict=True)]
        test = stats.ttest_1samp(differences, 0)
        low, high = test.confidence_interval(0.95)
        found.append(f"{sum(differences) / len(differences):+.1f} [{low:.1f}, {high:.1f}]")
        clear += test.pvalue < 0.05
    assert table[PAIRED][:2] == found
    words = "clear on neither", "clear on one", "clear on both"
    assert table[PAIRED][2] == f"same sign, {words[clear]}"

"""The table of experiments/ten_seeds.py, as docs/background/validity.md shows it."""

import json
from itertools import combinations

import numpy as np
import pytest
from support.late import late
from support.paths import ROOT

from grue.leaderboard.published import read_board

ten_seeds, stats = late("ten_seeds"), late("scipy.stats")

KEPT = ROOT / "experiments/ten_seeds.json"


def test_the_page_shows_the_table_of_the_figures_that_are_kept():
    figures = ten_seeds.files.load_json(KEPT, ten_seeds.Figures)
    head, _, *lines = "\n".join(ten_seeds.tables(read_board(ten_seeds.BOARD), figures)).strip().splitlines()
    assert head == "### imdb"
    page = (ROOT / "docs/background/validity.md").read_text(encoding="utf-8")
    for line in lines:
        assert line in page.replace("\n", " "), "python experiments/ten_seeds.py prints it"


def test_the_figures_are_of_other_seeds_than_the_boards():
    runs = json.loads(KEPT.read_text())["runs"]
    assert {run["seed"] for run in runs} == {6, 7, 8, 9, 10}
    assert len(runs) == 20


def test_halves_agree_as_scipy_says():
    scores = np.random.default_rng(3).normal([[0.0], [1.0], [1.2], [3.0]], 1.0, (4, 6))
    expected = sorted(
        stats.kendalltau(scores[:, list(half)].mean(1), np.delete(scores, list(half), axis=1).mean(1)).statistic
        for half in combinations(range(6), 3)
        if 0 in half
    )
    found = ten_seeds.agreements(scores)
    assert len(found) == 10
    assert sorted(found) == pytest.approx(expected)
    assert min(found) < 1.0

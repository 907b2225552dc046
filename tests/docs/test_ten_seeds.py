"""The table of experiments/ten_seeds.py, as docs/background/validity.md shows it."""

import importlib
import json
import sys
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from support.paths import ROOT

from grue.leaderboard.published import read_board

KEPT = ROOT / "experiments/ten_seeds.json"


@pytest.fixture(scope="module")
def ten_seeds():
    sys.path.insert(0, str(ROOT / "experiments"))
    yield importlib.import_module("ten_seeds")
    sys.path.remove(str(ROOT / "experiments"))


def test_the_page_shows_the_table_of_the_figures_that_are_kept(ten_seeds):
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


def test_halves_agree_as_scipy_says(ten_seeds):
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

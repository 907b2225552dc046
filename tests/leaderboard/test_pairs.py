"""All pairs of several systems: values, tests and seeds to decide, by hand or by SciPy; the table and its refusals."""

import json
from dataclasses import replace

import pytest
from support.commands import grue
from support.late import late
from support.paths import ROOT
from support.rows import a_row

from grue import files
from grue.leaderboard.pairs import (
    all_pairs,
    common_tasks,
    rank_ranges,
    seeds_to_decide,
    sign_flip_p,
    smallest_difference,
)
from grue.stats.paired import Contrast

stats = late("scipy.stats")


def test_pairs_are_judged_by_t_and_by_signs_and_corrected_for_their_number():
    base = a_row("base", x=[10, 12, 11, 13, 9])
    one = a_row("one", "base", x=[13, 14, 14, 16, 13])
    two = a_row("two", "base", x=[13.5, 14.2, 14.4, 16.1, 13.2])
    rows = [base, one, two]
    pairs = all_pairs(rows, rows)
    assert [(pair.a, pair.b) for pair in pairs] == [("base", "one"), ("base", "two"), ("one", "two")]
    values = {row.system: list(row.cells["x"].preference.by_seed.values()) for row in rows}
    expected = [stats.ttest_rel(values[pair.a], values[pair.b]) for pair in pairs]
    assert [pair.p for pair in pairs] == pytest.approx([test.pvalue for test in expected], abs=1e-9)
    for pair, test in zip(pairs, expected, strict=True):
        interval = test.confidence_interval(0.95)
        assert (pair.interval.low, pair.interval.high) == pytest.approx((interval.low, interval.high))
        assert pair.p_signs == 2 / 32, "all five differences have one sign"
    first, second, third = sorted(test.pvalue for test in expected)
    holm = {first: 3 * first, second: max(3 * first, 2 * second), third: max(3 * first, 2 * second, third)}
    assert [pair.p_holm for pair in pairs] == pytest.approx([holm[test.pvalue] for test in expected])
    assert [pair.is_decided for pair in pairs] == [pair.p_holm < 0.05 for pair in pairs]
    both = Contrast(tuple(values["base"]), tuple(values["one"]), paired=True)
    assert pairs[0].seeds == seeds_to_decide([both], pairs[0].value, 3), "after the correction for three pairs"
    assert all_pairs(rows, rows, "naturalness") == [], "they have none"


def test_systems_without_a_common_start_are_not_pairs():
    rows = [a_row("a", x=[10, 12, 11]), a_row("b", x=[13, 14, 14])]
    (pair,) = all_pairs(rows, rows)
    assert pair.p == pytest.approx(stats.ttest_ind([10, 12, 11], [13, 14, 14], equal_var=False).pvalue)
    assert pair.p_signs is None


def test_only_tasks_that_all_have_are_compared():
    rows = [a_row("a", x=[1, 2], y=[5, 6]), a_row("b", y=[7, 9]), a_row("c", x=[1, 1], y=[0, 0])]
    assert common_tasks(rows) == ["y"]
    assert [pair.value for pair in all_pairs(rows, rows)] == [-2.5, 5.5, 8.0]


@pytest.mark.parametrize(
    ("differences", "expected"),
    [([1, 2, 3], 2 / 8), ([3, -1, 1], 6 / 8), ([0, 0], 1.0), ([5, 5, 5, 5, -1], 4 / 32)],
)
def test_signs(differences, expected):
    """Of 3, -1, 1 the sums that reach 3 are 3 + 1 - 1 in both orders, 3 + 1 + 1, and all of these turned round."""
    contrast = Contrast(tuple(map(float, differences)), (0.0,) * len(differences), paired=True)
    assert sign_flip_p([contrast]) == sign_flip_p([contrast, contrast]) == expected


def test_signs_need_pairs_and_equal_numbers_of_seeds():
    pair = Contrast((1.0, 2.0), (0.0, 0.0), paired=True)
    assert sign_flip_p([replace(pair, paired=False)]) is None
    assert sign_flip_p([pair, Contrast((1.0, 2.0, 3.0), (0.0,) * 3, paired=True)]) is None


def test_seeds_to_decide_are_the_fewest_with_the_power():
    contrast = Contrast((10.0, 12.0, 11.0), (9.0, 9.5, 8.5), paired=True)  # differences 1, 2.5, 2.5: sd .866
    for seeds in (2, 3, 5, 10):
        quantiles = stats.t.ppf(0.975, seeds - 1) + stats.t.ppf(0.8, seeds - 1)
        assert smallest_difference([contrast], seeds) == pytest.approx(quantiles * 0.75**0.5 / seeds**0.5)
    needed = seeds_to_decide([contrast], 1.0)
    assert smallest_difference([contrast], needed) <= 1.0 < smallest_difference([contrast], needed - 1)
    of_ten = stats.t.ppf(1 - 0.025 / 10, 4) + stats.t.ppf(0.8, 4)
    assert smallest_difference([contrast], 5, 10) == pytest.approx(of_ten * 0.75**0.5 / 5**0.5)
    assert seeds_to_decide([contrast], 1.0, 10) > needed
    assert seeds_to_decide([contrast], 0.0) is None
    assert seeds_to_decide([contrast], 0.01) is None, "more than a thousand"
    assert seeds_to_decide([Contrast((10.0,), (9.0, 9.5))], 1.0) is None
    uneven = Contrast((29.4, 28.8, 29.6), (32.7, 35.9))  # nearly all noise is that of two seeds
    assert smallest_difference([uneven], 2) > smallest_difference([uneven], 3) > 0
    assert seeds_to_decide([Contrast((10.0, 10.0), (9.0, 9.0))], 1.0) == 2


def test_the_order_without_a_task_and_with_other_tasks():
    rows = [
        a_row("even", x=[50.0], y=[50.0], z=[50.0]),
        a_row("one task", x=[95.0], y=[45.0], z=[45.0]),
        a_row("last", x=[10.0], y=[10.0], z=[10.0]),
        a_row("even again", x=[50.0], y=[50.0], z=[50.0]),
    ]
    even, one, last, again = rank_ranges(rows)
    assert (one.rank, even.rank, again.rank, last.rank) == (1, 2, 2, 4), "equal means share a rank"
    assert one.without == {"x": 3, "y": 1, "z": 1}
    assert even.without == {"x": 1, "y": 2, "z": 2}
    assert (last.low, last.high) == (4, 4)
    assert (one.low, one.high) == (1, 3), "a draw without x comes in 8 of 27 cases"
    assert even.mean == 50.0
    few = [replace(row, cells={"x": row.cells["x"], "y": row.cells["y"]}) for row in rows]
    assert [(place.low, place.high) for place in rank_ranges(few)] == [(None, None)] * 4
    assert [place.without for place in rank_ranges([replace(row, cells={"x": row.cells["x"]}) for row in rows])] == [
        {}
    ] * 4


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """In a working directory without submissions, where the board is the one that ships."""
    monkeypatch.chdir(tmp_path)


def board(*arguments, code=0):
    return grue("leaderboard", "--no-local", *arguments, code=code, COLUMNS="120")


@pytest.mark.usefixtures("elsewhere")
def test_the_table_and_its_json():
    shown = board("--pairs", "supervised+ppo, supervised,supervised+grpo").stdout
    assert shown.count("supervised+ppo") == 3 and "of 3 pairs are decided" in shown
    made = json.loads(board("--pairs", "supervised+ppo,supervised", "--format", "json").stdout)
    assert len(made["tasks"]) == 7
    (pair,) = made["pairs"]
    assert pair["p_holm"] == pair["p"]
    assert pair["interval"]["low"] < pair["value"] < pair["interval"]["high"]
    assert [place["rank"] for place in made["ranks"]] == [1, 2]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["supervised+pppo,supervised"], "Did you mean 'supervised+ppo'?"),
        (["supervised"], "name at least two systems"),
        (["a,b", "--format", "csv"], "leave out other formats and files"),
        (["a,b", "-o", "x.json"], "leave out other formats and files"),
    ],
)
def test_refusals(arguments, words):
    assert words in " ".join(board("--pairs", *arguments, code=2).output.split())


@pytest.fixture
def twin(elsewhere, tmp_path):
    """Beside the board that ships, one run of one's own with the name of a row, and one on ten examples."""
    made = files.read_json(ROOT / "submissions/mini/supervised/imdb/seed-1.result.json")
    files.write_json(tmp_path / "runs/mini/imdb/supervised/seed-1/result.json", made)
    part = {**made, "limited": True, "system": {**made["system"], "name": "part"}}
    files.write_json(tmp_path / "runs/mini/imdb/part/seed-1/result.json", part)


def pairs_beside(names, code=0):
    shown = grue("leaderboard", "--task", "imdb", "--pairs", names, "--format", "json", code=code)
    return " ".join(shown.output.split()) if code else json.loads(shown.stdout)["pairs"]


@pytest.mark.usefixtures("twin")
def test_a_run_of_ones_own_never_stands_for_the_row_of_its_name():
    alone = json.loads(board("--task", "imdb", "--pairs", "supervised,supervised+ppo", "--format", "json").stdout)
    told = pairs_beside("supervised,supervised+ppo", code=2)
    assert "supervised is the name of 2 rows; write submissions:supervised or runs:supervised" in told
    (theirs,) = pairs_beside("submissions:supervised,supervised+ppo")
    assert (theirs["a"], theirs["p"]) == ("submissions:supervised", alone["pairs"][0]["p"])
    (ours,) = pairs_beside("runs:supervised,supervised+ppo")
    assert (ours["a"], ours["p"]) == ("runs:supervised", 1.0), "of one seed"
    assert ours["interval"] == {"low": None, "high": None}, "JSON has no infinity"
    ranked = {name for pair in pairs_beside("ranked") for name in (pair["a"], pair["b"])}
    assert "submissions:supervised" in ranked and "runs:supervised" not in ranked


@pytest.mark.usefixtures("twin")
def test_a_row_of_other_examples_is_no_pair():
    assert "part was scored on other examples than the rest" in pairs_beside("part,supervised+ppo", code=2)

"""The other ways to make a board: intervals, interquartile mean, the paper's scores, another order."""

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.factories import LIKED, a_result, a_score, a_task, entries

from grue.errors import ConfigError, DataError, UnknownName
from grue.leaderboard.board import Board, Column, Row
from grue.leaderboard.compat import paper_value
from grue.leaderboard.order import sorted_by
from grue.leaderboard.rank import rank
from grue.records import Entry, Score
from grue.tasks import MetricSpec, Task

STORIES = a_task("stories")
JOKES = a_task("jokes", metrics=(LIKED,))
TASKS = [STORIES, JOKES]


def scattered(system: str, centre: float, status: Any = "local") -> list[Entry]:
    """Five seeds on both tasks, spread by a generator of the system's own."""
    generator = random.Random(system)
    first, second = ({seed: centre + generator.gauss(0, 2) for seed in range(1, 6)} for _ in range(2))
    return [
        *entries(STORIES, system, first, naturalness=60.0, status=status),
        *entries(JOKES, system, second, naturalness=None, status=status),
    ]


def row(board: Board, system: str) -> Row:
    (found,) = [row for row in board.rows if row.system == system]
    return found


def bootstrapped(found: list[Entry], seed: int = 0) -> Board:
    return rank(found, TASKS, interval_kind="bootstrap", generator=np.random.default_rng(seed))


# --- intervals -------------------------------------------------------------------------------------------------------


def test_a_bootstrap_interval_of_one_task_lies_within_its_seeds() -> None:
    found = entries(STORIES, "ppo", {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 60.0})
    (ppo,) = rank(found, [STORIES], interval_kind="bootstrap", generator=np.random.default_rng(0)).rows
    # 60 is drawn k of 5 times with chance binomial(5, 1/5): none 33 %, and four or more 0.7 %, three or more 5.8 %
    assert ppo.interval is not None
    assert (ppo.interval.low, ppo.interval.high) == (10.0, 40.0)
    assert ppo.cells["stories"].interval == ppo.interval
    assert ppo.rank == 1


def test_equal_seeds_give_equal_bootstraps_and_others_do_not() -> None:
    found = scattered("ppo", 40.0)
    assert bootstrapped(found) == bootstrapped(found)
    assert row(bootstrapped(found), "ppo").interval != row(bootstrapped(found, seed=1), "ppo").interval


def test_equal_scores_have_equal_bootstrap_intervals() -> None:
    twin = [replace(e, result=replace(e.result, system={"name": "twin"})) for e in scattered("ppo", 40.0)]
    board = bootstrapped(scattered("ppo", 40.0) + twin)
    assert row(board, "ppo").interval == row(board, "twin").interval


def test_a_bootstrap_needs_a_generator() -> None:
    with pytest.raises(ValueError, match=r"^the bootstrap draws at random: pass a generator$"):
        rank([], TASKS, interval_kind="bootstrap")


def test_without_intervals_ranks_and_standings_stay() -> None:
    found = scattered("better", 60.0) + scattered("ppo", 40.0) + entries(STORIES, "half", {1: 90.0})
    board = rank(found, TASKS, interval_kind="none")
    assert [(r.system, r.standing, r.rank, r.task_ranks, r.interval, r.naturalness_interval) for r in board.rows] == [
        ("better", "ranked", 1, {"jokes": 1, "stories": 1}, None, None),
        ("ppo", "ranked", 2, {"jokes": 2, "stories": 2}, None, None),
        ("half", "partial", None, {}, None, None),
    ]
    assert all(cell.interval is None for r in board.rows for cell in r.cells.values())
    assert row(board, "ppo").preference == row(rank(found, TASKS), "ppo").preference


def _numbers(found: Row) -> Row:
    return replace(found, rank=None, task_ranks={})


@pytest.mark.parametrize("options", [{}, {"interval_kind": "bootstrap"}, {"interval_kind": "none"}, {"iqm": True}])
def test_a_new_system_changes_no_number_but_ranks(options: dict[str, Any]) -> None:
    def board(found: list[Entry]) -> Board:
        return rank(found, TASKS, generator=np.random.default_rng(7), **options)

    old = scattered("ppo", 40.0) + scattered("nlpo", 42.0) + scattered("ppo", 41.0, status="rescored")
    old += entries(STORIES, "half", {1: 3.0, 2: 4.0}) + entries(STORIES, "whole", {1: 3.0}, limited=True)
    before, known = board(old), {}
    for new in (scattered("a first", 90.0), scattered("zz last", 1.0), entries(JOKES, "x", {1: 5.0}, naturalness=None)):
        after = board(old + new)
        known = {(r.system, r.status, r.standing): _numbers(r) for r in after.rows}
        for one in before.rows:
            assert known[one.system, one.status, one.standing] == _numbers(one)
    assert row(board(old + scattered("best", 99.0)), "nlpo").rank != row(before, "nlpo").rank


def test_no_order_matters_to_the_bootstrap() -> None:
    found = scattered("ppo", 40.0) + scattered("nlpo", 42.0)
    board = bootstrapped(found)
    for seed in range(5):
        random.Random(seed).shuffle(found)
        assert bootstrapped(found) == board


# --- interquartile mean ----------------------------------------------------------------------------------------------


def test_the_iqm_is_there_when_asked_for_and_only_of_whole_systems() -> None:
    found = entries(STORIES, "ppo", {1: 0.0, 2: 40.0, 3: 42.0, 4: 90.0})
    found += entries(JOKES, "ppo", {1: 10.0, 2: 50.0, 3: 52.0, 4: 100.0}, naturalness=None)
    found += entries(STORIES, "half", {1: 50.0})
    board = rank(found, TASKS, iqm=True)
    assert row(board, "ppo").iqm == pytest.approx((40 + 42 + 50 + 52) / 4)  # the middle four of eight
    assert row(board, "half").iqm is None
    assert [r.iqm for r in rank(found, TASKS).rows] == [None, None]


# --- standings -------------------------------------------------------------------------------------------------------


def test_what_has_no_predictions_is_never_ranked_and_in_nobodys_rank() -> None:
    found = scattered("claimed", 99.0, status="reported") + scattered("ppo", 40.0)
    board = rank(found, TASKS)
    assert [(r.system, r.status, r.standing, r.rank, r.task_ranks) for r in board.rows] == [
        ("ppo", "local", "ranked", 1, {"jokes": 1, "stories": 1}),
        ("claimed", "reported", "no predictions", None, {}),
    ]


def test_a_reference_is_never_ranked_and_one_seed_that_saw_references_is_enough() -> None:
    seeing = [
        replace(e, result=replace(e.result, generation={"best_of": {"n": 8, "oracle": e.result.seed == 5}}))
        for e in scattered("best-of-8", 99.0)
    ]
    constant = [replace(e, about=replace(e.about, deterministic=True)) for e in scattered("null", 98.0)]
    board = rank(seeing + constant + scattered("ppo", 40.0), TASKS)
    assert [(r.system, r.standing, r.rank) for r in board.rows] == [
        ("ppo", "ranked", 1),
        ("null", "reference", None),
        ("best-of-8", "reference", None),
    ]
    assert row(board, "ppo").task_ranks == {"jokes": 1, "stories": 1}


def test_lookups_are_references_whatever_their_seeds_and_references_stand_in_one_order() -> None:
    def baseline(name: str, preference: float) -> list[Entry]:
        about = {"name": name, "algorithm": name}
        return [replace(e, result=replace(e.result, system=about)) for e in scattered(name, preference)]

    chance, sure = baseline("best-of-n", 99.0), baseline("nearest", 20.0)
    others = [
        replace(e, about=replace(e.about, deterministic=True))
        for name in ("oracle", "ours", "copy", "null")
        for e in scattered(name, 50.0)
    ]
    board = rank(chance + others + sure + scattered("ppo", 40.0), TASKS)
    assert [(r.system, r.standing) for r in board.rows] == [
        ("ppo", "ranked"),
        *((name, "reference") for name in ("null", "copy", "nearest", "best-of-n", "ours", "oracle")),
    ]
    assert row(board, "best-of-n").cells["jokes"].seeds == (1, 2, 3, 4, 5)


def test_a_limited_reference_is_limited() -> None:
    found = [
        replace(e, about=replace(e.about, deterministic=True))
        for e in entries(STORIES, "oracle", {1: 99.0}, limited=True)
    ]
    assert rank(found, [STORIES]).rows[0].standing == "limited"


def test_a_hostile_name_is_data() -> None:
    name = "<script>alert(1)</script>\x1b[31m| [x](http://e.vil) __proto__"
    board = rank(scattered(name, 40.0) + scattered("ppo", 40.0), TASKS)
    assert {r.system for r in board.rows} == {name, "ppo"}
    assert {r.system for r in sorted_by(board, "system").rows} == {name, "ppo"}


# --- the paper's scores ----------------------------------------------------------------------------------------------


def column(metric: str, axis: Any = "preference", direction: Any = "higher", **scale: Any) -> Column:
    return Column(metric, axis, direction, **scale)


@pytest.mark.parametrize(
    ("of", "value", "suite", "expected"),
    [
        (column("rouge1", range=(0.0, 1.0)), 0.25, "grue", 0.25),
        (column("sacrebleu", range=(0.0, 100.0)), 25.0, "grue", 0.25),
        (column("ter", direction="lower", range=(100.0, 0.0)), 60.0, "grue", 0.4),
        (column("ter", direction="lower", range=(100.0, 0.0)), 130.0, "grue", -0.3),  # not clipped
        (column("cider", range=(0.0, 2.0)), 1.64, "grue", 0.164),  # the paper prints 16.4
        (column("bertscore", "naturalness", range=(0.8312, 1.0)), 0.9, "grue", 0.9),
        (column("summac", range=(0.0, 1.0)), -0.5, "grue", -0.5),
        (column("bleurt", "naturalness", range=(0.0, 1.0)), 0.2, "grue", 0.2),
        (column("bleurt", "naturalness", range=(0.0, 1.0)), -0.4, "grue", 0.0),  # drawn as 0
        (column("perplexity", "naturalness", "lower", reference=32.171), 32.37, "grue", 1.0),
        (column("perplexity", "naturalness", "lower", reference=32.171), 42.37, "grue", 0.841),
        (column("perplexity", "naturalness", "lower", reference=3.7), 7.4, "mini", 0.5),
        (column("perplexity", "naturalness", "lower", reference=3.7), 1.0, "mini", 1.0),
    ],
)
def test_a_metric_on_the_papers_scale(of: Column, value: float, suite: str, expected: float) -> None:
    assert paper_value(of, value, suite) == pytest.approx(expected)


def dialogue(suite: str = "grue") -> Task:
    return a_task(
        "dailydialog",
        suite=suite,
        metrics=(
            MetricSpec("meteor", "preference", range=(0.0, 0.5)),
            MetricSpec("intent", "preference", range=(0.0, 1.0)),
            MetricSpec("bertscore", "naturalness", range=(0.8, 1.0)),
        ),
    )


def dialogue_result(system: str, seed: int, meteor: float, intent: float, **changes: Any) -> Entry:
    scores = (
        a_score("meteor", meteor),
        a_score("intent", intent),
        Score("bertscore", "naturalness", 0.857, 28.5, 4, "higher", "bertscore|v1"),
    )
    result = a_result(dialogue(), system, seed, 99.0, 28.5, scores=scores, **changes)
    return Entry(result, Path(f"runs/{system}/{seed}"), "local")


@pytest.mark.parametrize(
    ("meteor", "intent", "drawn"),
    [(0.186, 0.437, 31.0), (0.221, 0.474, 34.7), (0.221, 0.49, 35.5), (0.198, 0.455, 32.5), (0.205, 0.454, 32.8)],
)
def test_the_papers_own_figure_comes_out(meteor: float, intent: float, drawn: float) -> None:
    """Table 33 of the paper gives what its Figure 2 draws for DailyDialog, as well as that can be read off."""
    (system,) = rank([dialogue_result("printed", 1, meteor, intent)], [dialogue()], scoring="paper").rows
    assert system.preference == pytest.approx(drawn, abs=0.2)


def test_the_papers_scores_are_plain_means_of_raw_metrics() -> None:
    found = [dialogue_result("supervised", seed, 0.184 + seed / 1000, 0.436) for seed in (0, 1, 2)]
    board = rank(found, [dialogue()], scoring="paper")
    (supervised,) = board.rows
    assert board.scoring == "paper"
    assert supervised.preference == pytest.approx(31.05)
    assert supervised.naturalness == pytest.approx(85.7)
    cell = supervised.cells["dailydialog"]
    assert cell.preference is not None
    assert cell.preference.by_seed == pytest.approx({0: 31.0, 1: 31.05, 2: 31.1})
    assert cell.preference.sd == pytest.approx(0.05)
    assert cell.interval is not None
    assert cell.interval.half_width == pytest.approx(4.302652729696142 * 0.05 / 3**0.5)  # t of 2 degrees, 97.5 %


def test_a_failed_run_is_the_floor_on_the_papers_scale_too() -> None:
    failed = dialogue_result("ppo", 2, 0, 0, status="failed")
    board = rank([dialogue_result("ppo", 1, 0.2, 0.4), failed], [dialogue()], scoring="paper")
    assert board.rows[0].preference == pytest.approx(15.0)


def test_the_papers_scores_say_what_they_are() -> None:
    task = a_task(
        "made_up",
        metrics=(
            MetricSpec("ter", "preference", range=(100.0, 0.0)),
            MetricSpec("chrf", "preference", range=(0.0, 100.0)),
            MetricSpec("cider", "preference", range=(0.0, 2.0)),
            MetricSpec("meteor", "preference", range=(0.0, 1.0)),
            MetricSpec("bleurt", "naturalness", range=(0.0, 1.0)),
            MetricSpec("perplexity", "naturalness", reference=3.7),
        ),
    )
    assert rank([], [task], scoring="paper").notes == (
        "On the paper's scale an axis is 100 × the plain mean of a task's raw metrics, nothing clipped; there ter is 1 − value / 100; chrf is value / 100; cider is value / 10; "
        "bleurt is its value, 0 if that is negative; perplexity is 3.7 / value, at most 1.",
    )
    assert rank([], [replace(task, suite="grue")], scoring="paper").notes == (
        "The metrics that the paper's Figure 2 averages for commongen and cnn_dailymail could not be identified; "
        "here they are the task's own.",
        "On the paper's scale an axis is 100 × the plain mean of a task's raw metrics, nothing clipped; there ter is 1 − value / 100; chrf is value / 100; cider is value / 10; "
        "bleurt is its value, 0 if that is negative; perplexity is 1 − 0.0159 × (value − 32.37), read off the figure.",
    )


def test_metrics_that_figure_two_does_not_average_are_left_out() -> None:
    """Figure 2 of the paper draws ToTTo as the mean of SacreBLEU and PARENT; Table 1 has PARENT's halves, too."""
    specs = [MetricSpec("sacrebleu", "preference", range=(0.0, 100.0))]
    specs += [MetricSpec(name, "preference", range=(0.0, 1.0)) for name in ("parent", "parent_overlap")]
    task = a_task("totto", metrics=tuple(specs))
    scores = tuple(a_score(spec.name, value) for spec, value in zip(specs, (40.0, 0.5, 0.9), strict=True))
    found = [replace(entry, result=replace(entry.result, scores=scores)) for entry in entries(task, "ppo", {1: 60.0})]
    board = rank(found, [task], scoring="paper")
    assert board.rows[0].preference == pytest.approx(45.0)
    assert board.notes[0] == "totto: parent_overlap left out, which the figure does not seem to average."


@pytest.mark.parametrize(
    ("name", "metric", "lacks"),
    [
        ("commongen", "coverage", "cider, rouge2, rougeL, bleu3, bleu4, meteor"),
        ("totto", "sacrebleu", "parent"),
        ("imdb", "meteor", "sentiment"),
    ],
)
def test_an_own_task_with_the_name_of_one_of_the_papers_is_not_taken_for_it(name: str, metric: str, lacks: str) -> None:
    """Figure 2 averages other metrics; what such a task lacks is said, and its own metrics are averaged."""
    extra = MetricSpec("rouge1", "preference", range=(0.0, 1.0))
    task = a_task(name, suite="mine", metrics=(MetricSpec(metric, "preference", range=(0.0, 1.0)), extra))
    scores = (a_score(metric, 0.5), a_score("rouge1", 0.25))
    found = [replace(entry, result=replace(entry.result, scores=scores)) for entry in entries(task, "ppo", {1: 9.0})]
    board = rank(found, [task], scoring="paper")
    highest = 100 if metric == "sacrebleu" else 1
    assert board.rows[0].preference == pytest.approx(100 * (0.5 / highest + 0.25) / 2)
    assert board.notes[0] == (
        f"{name} is not identified as the paper's task of that name: it lacks {lacks}, which the figure seems to "
        "average; here the mean is of its own metrics."
    )
    assert not any("left out" in note for note in board.notes)


def test_raw_metrics_that_are_shares_need_no_explanation() -> None:
    assert rank([], [replace(dialogue(), suite="mini")], scoring="paper").notes == (
        "On the paper's scale an axis is 100 × the plain mean of a task's raw metrics, nothing clipped.",
    )


def test_a_metric_of_ones_own_has_no_place_on_the_papers_scale() -> None:
    message = (
        "--compat paper divides each metric by its highest value, which the catalogue of metrics lacks for "
        "'liked'; leave the option out for tasks of your own."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        rank(entries(JOKES, "ppo", {1: 4.0}, naturalness=None), [JOKES], scoring="paper")


def test_a_seed_without_a_metric_is_not_averaged_over_the_others() -> None:
    lacking = dialogue_result("ppo", 2, 0.2, 0.4)
    lacking = replace(lacking, result=replace(lacking.result, scores=lacking.result.scores[1:]))
    message = "ppo on dailydialog, seed 2: meteor is missing, a metric of preference; evaluate the run again."
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        rank([dialogue_result("ppo", 1, 0.2, 0.4), lacking], [dialogue()], scoring="paper")


# --- another order ---------------------------------------------------------------------------------------------------


def four() -> Board:
    """Systems whose orders by rank, name, task and metric all differ."""
    found = [
        *entries(STORIES, "b", {1: 50.0}, naturalness=20.0),
        *entries(JOKES, "b", {1: 70.0}, naturalness=None),
        *entries(STORIES, "a", {1: 60.0}, naturalness=80.0),
        *entries(JOKES, "a", {1: 10.0}, naturalness=None),
        *entries(STORIES, "d", {1: 90.0}, naturalness=40.0),
        *entries(JOKES, "C", {1: 20.0}, naturalness=None),
    ]
    return rank(found, TASKS)


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("rank", "badC"),
        ("system", "Cabd"),
        ("preference", "badC"),
        ("naturalness", "abdC"),
        ("stories", "dabC"),
        ("jokes", "bCad"),
        ("stories.preference", "dabC"),
        ("stories.naturalness", "adbC"),
        ("stories.liked", "dabC"),
        ("stories.fluent", "adbC"),  # lower is better: 2000 / naturalness
    ],
)
def test_rows_are_sorted_best_first_and_the_unknown_comes_last(by: str, order: str) -> None:
    assert "".join(r.system for r in sorted_by(four(), by).rows) == order


def test_on_a_single_task_the_task_goes_without_saying() -> None:
    board = rank(
        entries(STORIES, "a", {1: 50.0}, naturalness=20.0) + entries(STORIES, "b", {1: 40.0}, naturalness=30.0),
        [STORIES],
    )
    assert [r.system for r in sorted_by(board, "fluent").rows] == ["b", "a"]
    assert [r.system for r in sorted_by(board, "stories.fluent").rows] == ["b", "a"]


@pytest.mark.parametrize(
    ("by", "close"),
    [("storys", " Did you mean 'stories'?"), ("stories.likd", " Did you mean 'stories.liked'?"), ("~", "")],
)
def test_an_unknown_column_is_refused_with_the_nearest_spelling(by: str, close: str) -> None:
    message = (
        f"There is no column '{by}' to sort by.{close} Known: rank, system, preference, naturalness, every task, "
        "and what a task has, such as 'jokes.liked'."
    )
    with pytest.raises(UnknownName, match=f"^{re.escape(message)}$"):
        sorted_by(four(), by)


def test_ranks_stay_in_another_order() -> None:
    board = rank(scattered("low", 40.0) + scattered("high", 60.0), TASKS)
    assert [(r.system, r.rank) for r in sorted_by(board, "system").rows] == [("high", 1), ("low", 2)]

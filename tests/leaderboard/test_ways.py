"""The other ways to make a board: intervals, interquartile mean, the paper's scores, another order."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.boards import JOKES, STORIES, references, row
from support.factories import a_result, a_score, a_task, entries

from grue.errors import ConfigError, DataError, UnknownName
from grue.leaderboard.board import Column
from grue.leaderboard.compat import paper_value
from grue.leaderboard.order import sorted_by
from grue.leaderboard.rank import rank
from grue.records import Entry, Score
from grue.tasks import MetricSpec

TASKS = [STORIES, JOKES]


def scattered(system, centre, status="local"):
    """Five seeds on both tasks, spread by a generator of the system's own."""
    generator = random.Random(system)
    first, second = ({seed: centre + generator.gauss(0, 2) for seed in range(1, 6)} for _ in range(2))
    jokes = entries(JOKES, system, second, naturalness=None, status=status)
    return [*entries(STORIES, system, first, naturalness=60.0, status=status), *jokes]


def bootstrapped(found, seed=0):
    return rank(found, TASKS, interval_kind="bootstrap", generator=np.random.default_rng(seed))


def test_a_bootstrap_interval_of_one_task_lies_within_its_seeds():
    found = entries(STORIES, "ppo", {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0, 5: 60.0})
    (ppo,) = rank(found, [STORIES], interval_kind="bootstrap", generator=np.random.default_rng(0)).rows
    # 60 is drawn k of 5 times with chance binomial(5, 1/5): none 33 %, and four or more 0.7 %, three or more 5.8 %
    assert (ppo.interval.low, ppo.interval.high, ppo.rank) == (10.0, 40.0, 1)
    assert ppo.cells["stories"].interval == ppo.interval


def test_bootstraps_depend_on_the_seed_and_the_scores_alone():
    found = scattered("ppo", 40.0) + scattered("nlpo", 42.0)
    found += [replace(e, result=replace(e.result, system={"name": "twin"})) for e in scattered("ppo", 40.0)]
    board = bootstrapped(found)
    assert row(board, "ppo").interval == row(board, "twin").interval
    assert row(board, "ppo").interval != row(bootstrapped(found, seed=1), "ppo").interval
    random.Random(1).shuffle(found)
    assert bootstrapped(found) == board
    with pytest.raises(ValueError, match=r"^the bootstrap draws at random: pass a generator$"):
        rank([], TASKS, interval_kind="bootstrap")


def test_without_intervals_ranks_and_standings_stay():
    found = scattered("better", 60.0) + scattered("ppo", 40.0) + entries(STORIES, "half", {1: 90.0})
    board = rank(found, TASKS, interval_kind="none")
    assert [(r.system, r.standing, r.rank, r.task_ranks, r.interval, r.naturalness_interval) for r in board.rows] == [
        ("better", "ranked", 1, {"jokes": 1, "stories": 1}, None, None),
        ("ppo", "ranked", 2, {"jokes": 2, "stories": 2}, None, None),
        ("half", "partial", None, {}, None, None),
    ]
    assert all(cell.interval is None for r in board.rows for cell in r.cells.values())
    assert row(board, "ppo").preference == row(rank(found, TASKS), "ppo").preference


@pytest.mark.parametrize("options", [{}, {"interval_kind": "bootstrap"}, {"interval_kind": "none"}, {"iqm": True}])
def test_a_new_system_changes_no_number_but_ranks(options):
    def board(found):
        made = rank(found, TASKS, generator=np.random.default_rng(7), **options)
        rows = {(r.system, r.status, r.standing): replace(r, rank=None, task_ranks={}) for r in made.rows}
        return rows, [r.rank for r in made.rows if r.system == "nlpo"]

    old = scattered("ppo", 40.0) + scattered("nlpo", 42.0) + scattered("ppo", 41.0, status="rescored")
    old += entries(STORIES, "half", {1: 3.0, 2: 4.0}) + entries(STORIES, "whole", {1: 3.0}, limited=True)
    before, first = board(old)
    for new in (scattered("a first", 90.0), scattered("zz last", 1.0), entries(JOKES, "x", {1: 5.0}, naturalness=None)):
        assert before.items() <= board(old + new)[0].items()
    assert board(old + scattered("best", 99.0))[1] != first


def test_the_iqm_is_there_when_asked_for_and_only_of_whole_systems():
    found = entries(STORIES, "ppo", {1: 0.0, 2: 40.0, 3: 42.0, 4: 90.0})
    found += entries(JOKES, "ppo", {1: 10.0, 2: 50.0, 3: 52.0, 4: 100.0}, naturalness=None)
    found += entries(STORIES, "half", {1: 50.0})
    board = rank(found, TASKS, iqm=True)
    assert row(board, "ppo").iqm == pytest.approx((40 + 42 + 50 + 52) / 4)  # the middle four of eight
    assert row(board, "half").iqm is None
    assert [r.iqm for r in rank(found, TASKS).rows] == [None, None]


def test_what_has_no_predictions_is_never_ranked_and_in_nobodys_rank():
    board = rank(scattered("claimed", 99.0, status="reported") + scattered("ppo", 40.0), TASKS)
    assert [(r.system, r.status, r.standing, r.rank, r.task_ranks) for r in board.rows] == [
        ("ppo", "local", "ranked", 1, {"jokes": 1, "stories": 1}),
        ("claimed", "reported", "no predictions", None, {}),
    ]


def test_a_reference_is_never_ranked_and_stands_in_the_order_of_references():
    """So does what saw the references with one of its seeds, and what looks answers up, whatever its seeds."""
    seeing = [
        replace(e, result=replace(e.result, generation={"best_of": {"n": 8, "oracle": e.result.seed == 5}}))
        for e in scattered("best-of-8", 80.0)
    ]
    lookups = [
        replace(e, result=replace(e.result, system={"name": name, "algorithm": name}))
        for name in ("best-of-n", "nearest")
        for e in scattered(name, 20.0)
    ]
    fixed = references([e for name in ("oracle", "ours", "copy", "null") for e in scattered(name, 98.0)])
    limited = references(entries(STORIES, "part", {1: 99.0}, limited=True))
    board = rank([*seeing, *lookups, *fixed, *limited, *scattered("ppo", 40.0)], TASKS)
    assert [(r.system, r.standing, r.rank) for r in board.rows] == [
        ("ppo", "ranked", 1),
        ("part", "limited", None),
        *(
            (name, "reference", None)
            for name in ("null", "copy", "nearest", "best-of-n", "ours", "best-of-8", "oracle")
        ),
    ]
    assert row(board, "ppo").task_ranks == {"jokes": 1, "stories": 1}
    assert row(board, "best-of-n").cells["jokes"].seeds == (1, 2, 3, 4, 5)


SHARE, CENT, WORST = {"range": (0.0, 1.0)}, {"range": (0.0, 100.0)}, {"direction": "lower", "range": (100.0, 0.0)}
PERPLEXITY = {"axis": "naturalness", "direction": "lower", "reference": 32.171}


@pytest.mark.parametrize(
    ("metric", "scale", "value", "suite", "expected"),
    [
        ("rouge1", SHARE, 0.25, "grue", 0.25),
        ("sacrebleu", CENT, 25.0, "grue", 0.25),
        ("ter", WORST, 60.0, "grue", 0.4),
        ("ter", WORST, 130.0, "grue", -0.3),  # not clipped
        ("cider", {"range": (0.0, 2.0)}, 1.64, "grue", 0.164),  # the paper prints 16.4
        ("bertscore", {"range": (0.8312, 1.0)}, 0.9, "grue", 0.9),
        ("summac", SHARE, -0.5, "grue", -0.5),
        ("bleurt", SHARE, 0.2, "grue", 0.2),
        ("bleurt", SHARE, -0.4, "grue", 0.0),  # drawn as 0
        ("perplexity", PERPLEXITY, 32.37, "grue", 1.0),
        ("perplexity", PERPLEXITY, 42.37, "grue", 0.841),
        ("perplexity", PERPLEXITY | {"reference": 3.7}, 7.4, "mini", 0.5),
        ("perplexity", PERPLEXITY | {"reference": 3.7}, 1.0, "mini", 1.0),
    ],
)
def test_a_metric_on_the_papers_scale(metric, scale, value, suite, expected):
    column = Column(metric, **{"axis": "preference", "direction": "higher"} | scale)
    assert paper_value(column, value, suite) == pytest.approx(expected)


def preferring(name, *metrics, suite="mine"):
    """A task whose preference is of these metrics, from 0 to their highest value."""
    most = {"sacrebleu": 100.0, "chrf": 100.0, "cider": 2.0, "intent": 1.0}
    specs = [MetricSpec(metric, "preference", range=(0.0, most.get(metric, 1.0))) for metric in metrics]
    return a_task(name, suite=suite, metrics=tuple(specs))


def scored(task, *values):
    scores = tuple(a_score(spec.name, value) for spec, value in zip(task.metrics, values, strict=True))
    return [replace(e, result=replace(e.result, scores=scores)) for e in entries(task, "ppo", {1: 60.0})]


DIALOGUE = a_task(
    "dailydialog",
    suite="grue",
    metrics=(
        MetricSpec("meteor", "preference", range=(0.0, 0.5)),
        MetricSpec("intent", "preference", range=(0.0, 1.0)),
        MetricSpec("bertscore", "naturalness", range=(0.8, 1.0)),
    ),
)


def talked(system, seed, meteor, intent, **changes):
    natural = Score("bertscore", "naturalness", 0.857, 28.5, 4, "higher", "bertscore|v1")
    scores = (a_score("meteor", meteor), a_score("intent", intent), natural)
    result = a_result(DIALOGUE, system, seed, 99.0, 28.5, scores=scores, **changes)
    return Entry(result, Path(f"runs/{system}/{seed}"), "local")


@pytest.mark.parametrize(
    ("meteor", "intent", "drawn"),
    [(0.186, 0.437, 31.0), (0.221, 0.474, 34.7), (0.221, 0.49, 35.5), (0.198, 0.455, 32.5), (0.205, 0.454, 32.8)],
)
def test_the_papers_own_figure_comes_out(meteor, intent, drawn):
    """Table 33 of the paper gives what its Figure 2 draws for DailyDialog, as well as that can be read off."""
    (system,) = rank([talked("printed", 1, meteor, intent)], [DIALOGUE], scoring="paper").rows
    assert system.preference == pytest.approx(drawn, abs=0.2)


def test_the_papers_scores_are_plain_means_of_raw_metrics():
    found = [talked("supervised", seed, 0.184 + seed / 1000, 0.436) for seed in (0, 1, 2)]
    board = rank(found, [DIALOGUE], scoring="paper")
    (supervised,) = board.rows
    assert board.scoring == "paper"
    assert (supervised.preference, supervised.naturalness) == pytest.approx((31.05, 85.7))
    cell = supervised.cells["dailydialog"]
    assert cell.preference.by_seed == pytest.approx({0: 31.0, 1: 31.05, 2: 31.1})
    assert cell.preference.sd == pytest.approx(0.05)
    assert cell.interval.half_width == pytest.approx(4.302652729696142 * 0.05 / 3**0.5)  # t of 2 degrees, 97.5 %
    failed = talked("ppo", 2, 0, 0, status="failed")
    board = rank([talked("ppo", 1, 0.2, 0.4), failed], [DIALOGUE], scoring="paper")
    assert board.rows[0].preference == pytest.approx(15.0), "a failed run is the floor"


def test_the_papers_scores_say_what_they_are(refused):
    task = preferring("made_up", "chrf", "cider", "meteor", suite="mini")
    natural = [
        MetricSpec("bleurt", "naturalness", range=(0.0, 1.0)),
        MetricSpec("perplexity", "naturalness", reference=3.7),
    ]
    ter = MetricSpec("ter", "preference", range=(100.0, 0.0))
    task = replace(task, metrics=(ter, *task.metrics, *natural))
    for one in (task, replace(task, suite="grue"), replace(DIALOGUE, suite="mini")):
        refused.message("\n".join(rank([], [one], scoring="paper").notes))


def test_metrics_that_figure_two_does_not_average_are_left_out():
    """Figure 2 of the paper draws ToTTo as the mean of SacreBLEU and PARENT; Table 1 has PARENT's halves, too."""
    task = preferring("totto", "sacrebleu", "parent", "parent_overlap", suite="mini")
    board = rank(scored(task, 40.0, 0.5, 0.9), [task], scoring="paper")
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
def test_an_own_task_with_the_name_of_one_of_the_papers_is_not_taken_for_it(name, metric, lacks):
    task = preferring(name, metric, "rouge1")
    board = rank(scored(task, 0.5, 0.25), [task], scoring="paper")
    highest = 100 if metric == "sacrebleu" else 1
    assert board.rows[0].preference == pytest.approx(100 * (0.5 / highest + 0.25) / 2)
    assert f"it lacks {lacks}, which" in board.notes[0]
    assert not any("left out" in note for note in board.notes)


def test_what_has_no_place_on_the_papers_scale_is_refused(refused):
    with refused(ConfigError):
        rank(entries(JOKES, "ppo", {1: 4.0}, naturalness=None), [JOKES], scoring="paper")
    lacking = talked("ppo", 2, 0.2, 0.4)
    lacking = replace(lacking, result=replace(lacking.result, scores=lacking.result.scores[1:]))
    with refused(DataError):
        rank([talked("ppo", 1, 0.2, 0.4), lacking], [DIALOGUE], scoring="paper")


FOUR = rank(  # systems whose orders by rank, name, task and metric all differ
    [
        *entries(STORIES, "b", {1: 50.0}, naturalness=20.0),
        *entries(JOKES, "b", {1: 70.0}, naturalness=None),
        *entries(STORIES, "a", {1: 60.0}, naturalness=80.0),
        *entries(JOKES, "a", {1: 10.0}, naturalness=None),
        *entries(STORIES, "d", {1: 90.0}, naturalness=40.0),
        *entries(JOKES, "C", {1: 20.0}, naturalness=None),
    ],
    TASKS,
)


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
def test_rows_are_sorted_best_first_and_the_unknown_comes_last(by, order):
    board = sorted_by(FOUR, by)
    assert "".join(r.system for r in board.rows) == order
    assert {r.system: r.rank for r in board.rows} == {r.system: r.rank for r in FOUR.rows}


def test_on_a_single_task_the_task_goes_without_saying():
    found = entries(STORIES, "a", {1: 50.0}, naturalness=20.0) + entries(STORIES, "b", {1: 40.0}, naturalness=30.0)
    for by in ("fluent", "stories.fluent"):
        assert [r.system for r in sorted_by(rank(found, [STORIES]), by).rows] == ["b", "a"]


@pytest.mark.parametrize("by", ["storys", "stories.likd", "~"])
def test_an_unknown_column_is_refused_with_the_nearest_spelling(refused, by):
    with refused(UnknownName):
        sorted_by(FOUR, by)

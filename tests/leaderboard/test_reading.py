"""How a board is read: ranks by pairs, what a row was trained on, and where a score stands."""

import random
from dataclasses import replace

import pytest
from support.boards import JOKES, STORIES, five, ranks, row, with_result, with_system
from support.factories import FLUENT, LIKED, a_score, a_task, entries
from support.late import late
from support.render_boards import SUITE

from grue.cli.score import places_of, score_table
from grue.errors import ConfigError
from grue.leaderboard.board import Cell, Estimate
from grue.leaderboard.neighbours import neighbours
from grue.leaderboard.places import shared_ranks
from grue.leaderboard.rank import rank
from grue.records import About
from grue.render import markdown
from grue.render.tables import page
from grue.stats.paired import Contrast, judge_seeds, p_of_each
from grue.task_files import load_task
from grue.tasks import MetricSpec

stats, as_csv = late("scipy.stats"), late("grue.render.as_csv")
STARTS = five(30.0, step=10.0)  # what the weights of seed 1 to 5 are worth


def began(system, gains, start="W"):
    """Runs that each gain a little on the weights that they began from; "W" are those that `supervised` made."""
    found = entries(STORIES, system, {seed: at + gain for (seed, at), gain in zip(STARTS.items(), gains, strict=True)})
    return [with_system(e, weights=f"{system}-{k}", start=f"{start}-{k}") for k, e in enumerate(found, start=1)]


def supervised(status="local"):
    found = entries(STORIES, "supervised", STARTS, status)
    return [with_system(entry, weights=f"W-{seed}") for seed, entry in enumerate(found, start=1)]


def test_with_fixed_examples_the_test_is_welchs_or_the_paired_t_test():
    a, b = (41.0, 43.5, 40.2, 44.1, 42.0), (39.0, 40.5, 38.9, 43.0, 40.2)
    welch = stats.ttest_ind(a, b, equal_var=False)
    found, ends = judge_seeds([Contrast(a, b)]), welch.confidence_interval(0.95)
    assert found.p == pytest.approx(welch.pvalue, rel=1e-9)
    assert (found.interval.low, found.interval.high) == pytest.approx((ends.low, ends.high), rel=1e-9)
    paired = judge_seeds([Contrast(a, b, paired=True)])
    assert paired.p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)
    unequal = stats.ttest_ind(a, b[:3], equal_var=False)
    assert judge_seeds([Contrast(a, b[:3])]).p == pytest.approx(unequal.pvalue, rel=1e-9)


def test_the_mean_over_tasks_adds_their_errors():
    # Both tasks: s² = 2.5, n = 5 a side, so each difference has the variance 1; the mean of two has (1 + 1) / 4, and
    # Satterthwaite's degrees of freedom are 2² / (4 · 0.5² / 4) = 16.
    few, more = (1.0, 2.0, 3.0, 4.0, 5.0), (3.0, 4.0, 5.0, 6.0, 7.0)
    found = judge_seeds([Contrast(more, few), Contrast(few, few)])
    assert found.value == 1.0
    assert found.p == pytest.approx(2 * stats.t.sf(1 / 0.5**0.5, 16), rel=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ((5.0,), (1.0, 2.0, 3.0), 1.0),  # one seed: no verdict
        ((5.0, 5.0), (5.0, 5.0), 1.0),
        ((5.0, 5.0), (4.0, 4.0), 0.0),  # seeds that never differ leave no doubt
    ],
)
def test_the_ends_of_the_test(a, b, p):
    assert judge_seeds([Contrast(a, b)]).p == p


def test_a_rank_counts_the_systems_significantly_above_after_holm():
    # Seeds 1 to 5 apart by 1: s² = 2.5, so that a difference d has t = d with 8 degrees of freedom.
    def ranked(*middles):
        return ranks(rank([e for m in middles for e in entries(STORIES, f"at {m:g}", five(m))], [STORIES]))

    assert 0.05 / 3 < 2 * stats.t.sf(2.4, 8) < 0.05
    assert ranked(50, 47.6) == {"at 50": 1, "at 47.6": 2}
    # Of three pairs, 2.4 is the second smallest difference: p · 2 is above 5 %, and the first rank is shared.
    assert ranked(50, 47.6, 48.8) == {"at 50": 1, "at 48.8": 1, "at 47.6": 1}
    assert ranked(50, 47.6, 20) == {"at 50": 1, "at 47.6": 2, "at 20": 3}


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


PPO, NLPO = began("ppo", (2.0, 3.0, 2.0, 3.0, 2.0)), began("nlpo", (5.0, 6.0, 6.0, 5.0, 6.0))
TIED = {"nlpo": 1, "ppo": 1}
SHIFTED = [with_result(entry, seed=entry.result.seed % 5 + 1) for entry in PPO]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([*supervised(), *PPO, *NLPO], {"nlpo": 1, "ppo": 2, "supervised": 3}),
        ([*PPO, *NLPO], TIED),  # nothing on the board made W
        ([*supervised("reported"), *PPO, *NLPO], {**TIED, "supervised": None}),
        ([*supervised(), *began("ppo", (2.0, 3.0, 2.0, 3.0, 2.0), "V")], {"ppo": 1, "supervised": 1}),
        ([with_system(entry, weights="") for entry in [*PPO, *NLPO]], TIED),  # a start is nothing that a run made
        ([*supervised(), *SHIFTED], {"ppo": 1, "supervised": 1}),
        ([*supervised(), *PPO, *entries(STORIES, "ppo", {6: 33.0})], {"ppo": 1, "supervised": 1}),
    ],
    ids=["pairs", "unmade", "unchecked", "elsewhere", "unstated", "other seeds", "more seeds"],
)
def test_systems_are_pairs_if_they_began_from_the_same_weights_that_a_run_of_the_board_made(found, expected):
    assert ranks(rank(found, [STORIES])) == expected


METEOR, ROUGE, FOUND = (MetricSpec(m, "preference", range=(0.0, 1.0)) for m in ("meteor", "rougeL", "coverage"))
TEXTS = a_task("texts", (METEOR, ROUGE, FOUND, FLUENT), reward="meteor", families=(("meteor", "rougeL"),))
VALUES = {"meteor": 0.6, "rougeL": 0.5, "coverage": 0.2}
BY_METEOR, UNTRAINED = {"algorithm": "ppo", "reward": "meteor"}, {"algorithm": "supervised", "reward": ""}


def trained(name, values=VALUES, task=TEXTS, **system):
    """Five runs with these values of the preference metrics, plus a hundredth a seed."""
    found = entries(task, name, dict.fromkeys(range(1, 6), 50.0))
    for k, entry in enumerate(found):
        scores = tuple(a_score(metric, value + entry.result.seed / 100) for metric, value in values.items())
        found[k] = with_system(with_result(entry, scores=scores), **system)
    return found


def cell_of(found, **options):
    return rank(found, [TEXTS], **options).rows[0].cells["texts"]


@pytest.mark.parametrize(
    ("system", "rewards", "held_out"),
    [
        # each metric's middle seed is 0.03 above its value
        (BY_METEOR, ("meteor",), 23.0),
        ({"algorithm": "ppo", "reward": "0.5*rougeL - 0.1*mean_length"}, ("mean_length", "rougeL"), 23.0),
        ({"algorithm": "ppo", "reward": "coverage"}, ("coverage",), 58.0),
        ({"algorithm": "ppo", "reward": "coverage + meteor"}, ("coverage", "meteor"), None),
        ({"algorithm": "ppo", "reward": "mine:politeness"}, ("mine:politeness",), (63 + 53 + 23) / 3),
        ({"algorithm": "ppo", "reward": "no sum at all"}, ("no sum at all",), (63 + 53 + 23) / 3),
        (UNTRAINED, (), 23.0),  # what the task's reward would leave
        ({"algorithm": "supervised+ppo"}, ("meteor",), 23.0),  # not said: the task's, with a note
    ],
)
def test_the_held_out_preference_leaves_out_rewards_and_their_relatives(system, rewards, held_out):
    board = rank(trained("one", **system), [TEXTS])
    cell = row(board, "one").cells["texts"]
    assert cell.rewards == rewards
    assert (None if cell.held_out is None else cell.held_out.mean) == (held_out and pytest.approx(held_out))
    left = {23.0: ("coverage",), 58.0: ("meteor", "rougeL"), None: ()}
    assert cell.held_out_metrics == left.get(held_out, ("meteor", "rougeL", "coverage"))
    said = "texts: the reward is not stated, and taken to be the task's: one (seeds 1, 2, 3, 4, 5)."
    assert (said in board.notes) == ("reward" not in system)


@pytest.mark.parametrize(
    ("generation", "rewards"),
    [
        ({"best_of": {"n": 4, "pick_by": "rougeL"}}, ("rougeL",)),
        *(({"best_of": {"n": 4, "pick_by": by}}, ()) for by in ("likelihood", "consensus")),
        ({"guided": {"decoder": "transfer_q", "rewards": ["rougeL", "coverage"]}}, ("coverage", "rougeL")),
        *(({"guided": {"decoder": "transfer_q", "rewards": of}}, ()) for of in ([], "rougeL")),
    ],
)
def test_what_was_picked_or_guided_by_a_reward_was_raised_by_it(generation, rewards):
    found = [with_result(entry, generation=generation) for entry in trained("one", **UNTRAINED)]
    assert cell_of(found).rewards == rewards


def test_a_failed_seed_says_nothing_of_its_reward_and_counts_as_0():
    first, *others = trained("one", algorithm="ppo", reward="coverage")
    said = {"name": "one", "algorithm": "ppo"}
    cell = cell_of([with_result(first, status="failed", scores=(), preference=None, system=said), *others])
    assert cell.rewards == ("coverage",)
    assert cell.held_out.by_seed == pytest.approx({1: 0.0, 2: 57.0, 3: 58.0, 4: 59.0, 5: 60.0})


def test_without_a_metric_nothing_is_held_out():
    assert cell_of(trained("one", {"meteor": 0.6, "rougeL": 0.5}, **BY_METEOR)).held_out is None


def test_the_held_out_preference_is_on_the_board_of_its_task_and_on_no_mean():
    single = a_task("single", (LIKED, FLUENT))
    both = trained("one", **BY_METEOR) + trained("one", {"liked": 0.9}, single, algorithm="ppo", reward="liked")
    other = trained("two", algorithm="ppo", reward="coverage")
    assert "held-out" not in markdown.render(rank(both, [TEXTS, single])).lower()
    first = page(rank([*both, *other], [TEXTS])).tables[0]
    place = [column.header for column in first.columns].index("held-out: coverage ↑")
    assert {cells[1]: cells[place].strip() for cells in first.rows} == {"one": "23.0 ± 1.6", "two": "–"}
    assert "held-out" not in markdown.render(rank(other, [TEXTS])).lower()


TASK_FILE = """
reward = "meteor"
families = {families}
data = {{ sources = [{{ kind = "local", files = {{ train = "a.jsonl", test = "b.jsonl" }} }}] }}
backbone = {{ family = "causal", model = "mini:causal" }}
metrics = [
    {{ name = "meteor", axis = "preference", range = [0.0, 1.0] }},
    {{ name = "rougeL", axis = "preference", range = [0.0, 1.0] }},
    {{ name = "mean_length", axis = "diversity" }},
]
"""


def test_families_change_no_task_and_a_wrong_one_is_told(tmp_path, refused):
    def task(families):
        (tmp_path / "mine.toml").write_text(TASK_FILE.format(families=families))
        return load_task(str(tmp_path / "mine.toml"))

    found = task([["meteor", "rougeL"]])
    assert found.families == (("meteor", "rougeL"),)
    assert replace(found, families=()).hash == found.hash
    pair = ["meteor", "rougeL"]
    for wrong in ([["meteor", "rougel"]], [["meteor", "mean_length"]], [pair, pair[::-1]], [["meteor"]]):
        with refused(ConfigError):
            task(wrong)


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (45.1, "between nearest 42.9 and supervised 67.6"),
        (42.94, "level with nearest"),
        (67.6, "level with supervised and twin"),
        (3.0, "below all, next null 7.0"),
        (99.0, "above all, next twin 67.6"),
    ],
)
def test_a_score_stands_between_rows(score, said):
    reached = {"null": 7.0, "nearest": 42.9, "supervised": 67.6, "twin": 67.6}
    board = rank([e for name, value in reached.items() for e in entries(STORIES, name, {1: value})], [STORIES])
    assert neighbours(board, STORIES, "preference", score, {}) == said


def test_a_score_stands_nowhere_on_another_board():
    liked = replace(STORIES, metrics=JOKES.metrics)
    board = rank(entries(STORIES, "null", {1: 7.0}, naturalness=None), [liked])
    limited = rank(entries(STORIES, "part", {1: 7.0}, limited=True), [STORIES])
    for other in (board, rank([], [STORIES]), limited):  # another version, and no row
        assert neighbours(other, STORIES, "preference", 5.0, {}) is None


def test_scores_stand_among_the_rows_that_ship_and_the_table_says_where():
    task = load_task("commongen")
    (place,) = places_of(task, 0.1, None, {}).values()
    assert place.startswith("below all, next ")
    assert places_of(replace(task, suite="own"), 0.1, 0.1, {}) == {}
    table = score_table([], 45.1, 30.0, {"preference": "level with nearest"}).splitlines()
    assert table[-2].split(maxsplit=2) == ["preference", "45.1", "level with nearest"]
    assert table[-1].split() == ["naturalness", "30.0"]

"""How a board is read: ranks by pairs, what a row was trained on, and where a score stands."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats
from support.factories import FLUENT, a_score, a_task, entries

from grue.cli.score import places_of, score_table
from grue.errors import ConfigError
from grue.leaderboard.around import where_it_stands
from grue.leaderboard.board import Board, Row
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.records import Entry, Status
from grue.render import as_csv, as_json, html, latex, markdown
from grue.render.tables import page
from grue.stats.paired import Contrast, judge_seeds
from grue.task_files import load_task
from grue.tasks import MetricSpec, Task

STORIES, JOKES = a_task("stories"), a_task("jokes")
STARTS = (10.0, 20.0, 30.0, 40.0, 50.0)  # what the weights of seed 1 to 5 are worth


def ranks(board: Board) -> dict[str, int | None]:
    return {row.system: row.rank for row in board.rows}


def row(board: Board, system: str) -> Row:
    return next(row for row in board.rows if row.system == system)


def began(system: str, gains: tuple[float, ...], start: str = "W", status: Status = "local") -> list[Entry]:
    """Runs that each gain a little on the weights that they began from; "W" are those that `supervised` made."""
    found = entries(
        STORIES, system, dict(zip(range(1, 6), map(sum, zip(STARTS, gains, strict=True)), strict=True)), status
    )
    return [
        with_system(e, weights=f"{system}-{seed}", start=f"{start}-{seed}") for seed, e in enumerate(found, start=1)
    ]


def with_system(entry: Entry, **changes: object) -> Entry:
    return replace(entry, result=replace(entry.result, system={**entry.result.system, **changes}))


def supervised(status: Status = "local") -> list[Entry]:
    found = entries(STORIES, "supervised", dict(zip(range(1, 6), STARTS, strict=True)), status)
    return [with_system(entry, weights=f"W-{seed}") for seed, entry in enumerate(found, start=1)]


# --- the test --------------------------------------------------------------------------------------------------------


def test_with_fixed_examples_the_test_is_welchs_or_the_paired_t_test() -> None:
    a, b = (41.0, 43.5, 40.2, 44.1, 42.0), (39.0, 40.5, 38.9, 43.0, 40.2)
    welch = stats.ttest_ind(a, b, equal_var=False)
    assert judge_seeds([Contrast(a, b)]).p == pytest.approx(welch.pvalue, rel=1e-9)
    ends = welch.confidence_interval(0.95)
    found = judge_seeds([Contrast(a, b)]).interval
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=1e-9)
    pairs = stats.ttest_rel(a, b)
    assert judge_seeds([Contrast(a, b, paired=True)]).p == pytest.approx(pairs.pvalue, rel=1e-9)
    unequal = stats.ttest_ind(a, b[:3], equal_var=False)
    assert judge_seeds([Contrast(a, b[:3])]).p == pytest.approx(unequal.pvalue, rel=1e-9)


def test_the_mean_over_tasks_adds_their_errors() -> None:
    # Both tasks: s² = 2.5, n = 5 a side, so each difference has the variance 1; the mean of two has (1 + 1) / 4, and
    # Satterthwaite's degrees of freedom are 2² / (4 · 0.5² / 4) = 16.
    five, more = (1.0, 2.0, 3.0, 4.0, 5.0), (3.0, 4.0, 5.0, 6.0, 7.0)
    found = judge_seeds([Contrast(more, five), Contrast(five, five)])
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
def test_the_ends_of_the_test(a: tuple[float, ...], b: tuple[float, ...], p: float) -> None:
    assert judge_seeds([Contrast(a, b)]).p == p


# --- ranks -----------------------------------------------------------------------------------------------------------


def test_a_rank_counts_the_systems_significantly_above_after_holm() -> None:
    # Seeds 1 to 5 apart by 1: s² = 2.5, so that a difference d has t = d with 8 degrees of freedom.
    def at(middle: float) -> Mapping[int, float]:
        return {seed: middle - 3 + seed for seed in range(1, 6)}

    def board(*middles: float) -> Board:
        return rank([e for m in middles for e in entries(STORIES, f"at {m:g}", at(m))], [STORIES])

    alone = 2 * stats.t.sf(2.4, 8)
    assert 0.05 / 3 < alone < 0.05
    assert ranks(board(50, 47.6)) == {"at 50": 1, "at 47.6": 2}
    # Of three pairs, 2.4 is the second smallest difference: p · 2 is above 5 %, and the first rank is shared.
    assert ranks(board(50, 47.6, 48.8)) == {"at 50": 1, "at 48.8": 1, "at 47.6": 1}
    assert ranks(board(50, 47.6, 20)) == {"at 50": 1, "at 47.6": 2, "at 20": 3}


GAINS = {"ppo": (2.0, 3.0, 2.0, 3.0, 2.0), "nlpo": (5.0, 6.0, 6.0, 5.0, 6.0)}


def test_systems_that_began_from_the_same_weights_are_pairs() -> None:
    board = rank([*supervised(), *began("ppo", GAINS["ppo"]), *began("nlpo", GAINS["nlpo"])], [STORIES])
    assert ranks(board) == {"nlpo": 1, "ppo": 2, "supervised": 3}


def test_pairs_need_weights_that_a_run_of_the_board_made() -> None:
    claimed = [*began("ppo", GAINS["ppo"]), *began("nlpo", GAINS["nlpo"])]
    assert ranks(rank(claimed, [STORIES])) == {"nlpo": 1, "ppo": 1}  # nothing on the board made W
    unchecked = rank([*supervised("reported"), *claimed], [STORIES])
    assert ranks(unchecked) == {"nlpo": 1, "ppo": 1, "supervised": None}
    elsewhere = rank([*supervised(), *began("ppo", GAINS["ppo"], "V"), *began("nlpo", GAINS["nlpo"], "V")], [STORIES])
    assert set(ranks(elsewhere).values()) == {1}


def test_what_a_run_began_from_is_nothing_that_it_made() -> None:
    """Results that leave out their own weights do not vouch for the start that they claim."""
    claimed = [*began("ppo", GAINS["ppo"]), *began("nlpo", GAINS["nlpo"])]
    board = rank([with_system(entry, weights="") for entry in claimed], [STORIES])
    assert ranks(board) == {"nlpo": 1, "ppo": 1}


def test_weights_of_another_seed_make_no_pairs() -> None:
    shifted = [
        replace(entry, result=replace(entry.result, seed=entry.result.seed % 5 + 1))
        for entry in began("ppo", GAINS["ppo"])
    ]
    assert ranks(rank([*supervised(), *shifted], [STORIES])) == {"ppo": 1, "supervised": 1}


def test_unequal_seeds_are_not_paired() -> None:
    more = [*began("ppo", GAINS["ppo"]), *entries(STORIES, "ppo", {6: 33.0})]
    assert ranks(rank([*supervised(), *more], [STORIES])) == {"ppo": 1, "supervised": 1}


def test_pairs_survive_the_boards_own_file(tmp_path: Path) -> None:
    board = rank([*supervised(), *began("ppo", GAINS["ppo"])], [STORIES])
    (tmp_path / "mini.json").write_text(as_json.render(board))
    again = rank([], [STORIES], shipped=read_board(tmp_path / "mini.json"))
    assert ranks(again) == ranks(board) == {"ppo": 1, "supervised": 2}
    assert again.rows == board.rows


# --- trained on ------------------------------------------------------------------------------------------------------

FOUND = MetricSpec("coverage", "preference", range=(0.0, 1.0))
SIMILAR = (MetricSpec("meteor", "preference", range=(0.0, 1.0)), MetricSpec("rougeL", "preference", range=(0.0, 1.0)))
TEXTS = a_task("texts", (*SIMILAR, FOUND, FLUENT), reward="meteor", families=(("meteor", "rougeL"),))
FIVE = range(1, 6)


def trained(name: str, values: Mapping[str, float], task: Task = TEXTS, **system: object) -> list[Entry]:
    """Five runs with these values of the preference metrics, plus a hundredth a seed."""
    return [
        with_system(entry, **system)
        for seed in FIVE
        for entry in entries(
            task,
            name,
            {seed: 50.0},
            scores=tuple(a_score(metric, value + seed / 100) for metric, value in values.items()),
        )
    ]


VALUES = {"meteor": 0.6, "rougeL": 0.5, "coverage": 0.2}


@pytest.mark.parametrize(
    ("system", "rewards", "held_out"),
    [
        # each metric's middle seed is 0.03 above its value
        ({"algorithm": "ppo", "reward": "meteor"}, ("meteor",), 23.0),
        ({"algorithm": "ppo", "reward": "0.5*rougeL - 0.1*mean_length"}, ("mean_length", "rougeL"), 23.0),
        ({"algorithm": "ppo", "reward": "coverage"}, ("coverage",), 58.0),
        ({"algorithm": "ppo", "reward": "coverage + meteor"}, ("coverage", "meteor"), None),
        ({"algorithm": "ppo", "reward": "mine:politeness"}, ("mine:politeness",), (63 + 53 + 23) / 3),
        ({"algorithm": "ppo", "reward": "no sum at all"}, ("no sum at all",), (63 + 53 + 23) / 3),
        ({"algorithm": "supervised", "reward": ""}, (), 23.0),  # what the task's reward would leave
        ({"algorithm": "supervised"}, (), 23.0),
        ({"algorithm": "supervised+ppo"}, ("meteor",), 23.0),  # not said: the task's, with a note
    ],
)
def test_the_held_out_preference_leaves_out_rewards_and_their_relatives(
    system: dict[str, object], rewards: tuple[str, ...], held_out: float | None
) -> None:
    board = rank(trained("one", VALUES, **system), [TEXTS])
    cell = row(board, "one").cells["texts"]
    assert cell.rewards == rewards
    assert (None if cell.held_out is None else cell.held_out.mean) == (held_out and pytest.approx(held_out))
    left = {23.0: ("coverage",), 58.0: ("meteor", "rougeL"), None: ()}
    assert cell.held_out_metrics == left.get(held_out, ("meteor", "rougeL", "coverage"))
    said = "texts: the reward is not stated, and taken to be the task's: one (seeds 1, 2, 3, 4, 5)."
    assert (said in board.notes) == (system == {"algorithm": "supervised+ppo"})


def test_what_was_picked_by_a_reward_was_raised_by_it() -> None:
    def picked(by: str) -> tuple[str, ...]:
        found = [
            replace(entry, result=replace(entry.result, generation={"best_of": {"n": 4, "pick_by": by}}))
            for entry in trained("one", VALUES, algorithm="supervised", reward="")
        ]
        return row(rank(found, [TEXTS]), "one").cells["texts"].rewards

    assert picked("rougeL") == ("rougeL",)
    assert picked("likelihood") == picked("consensus") == ()


def test_a_failed_run_says_nothing_of_its_reward() -> None:
    found = trained("one", VALUES, algorithm="ppo", reward="coverage")
    ended = replace(
        found[0].result, status="failed", scores=(), preference=None, system={"name": "one", "algorithm": "ppo"}
    )
    cell = row(rank([replace(found[0], result=ended), *found[1:]], [TEXTS]), "one").cells["texts"]
    assert cell.rewards == ("coverage",) and cell.held_out is not None


def test_a_failed_seed_counts_as_0_and_a_missing_metric_leaves_nothing() -> None:
    found = trained("one", VALUES, algorithm="ppo", reward="meteor")
    failed = replace(found[0], result=replace(found[0].result, status="failed", scores=(), preference=None))
    cell = row(rank([failed, *found[1:]], [TEXTS]), "one").cells["texts"]
    assert cell.held_out is not None
    assert cell.held_out.by_seed == pytest.approx({1: 0.0, 2: 22.0, 3: 23.0, 4: 24.0, 5: 25.0})
    lacking = trained("one", {"meteor": 0.6, "rougeL": 0.5}, algorithm="ppo", reward="meteor")
    assert row(rank(lacking, [TEXTS]), "one").cells["texts"].held_out is None


def test_the_held_out_preference_is_on_the_board_of_its_task_and_on_no_mean() -> None:
    single = a_task("single", (MetricSpec("liked", "preference", range=(0.0, 1.0)), FLUENT))
    both = trained("one", VALUES, algorithm="ppo", reward="meteor")
    both += trained("one", {"liked": 0.9}, single, algorithm="ppo", reward="liked")
    other = trained("two", VALUES, algorithm="ppo", reward="coverage")
    shown = markdown.render(rank(both, [TEXTS, single]))
    assert "held-out" not in shown.lower()
    first = page(rank([*both, *other], [TEXTS])).tables[0]
    place = [column.header for column in first.columns].index("held-out: coverage ↑")
    assert {cells[1]: cells[place].strip() for cells in first.rows} == {"one": "23.0 ± 1.6", "two": "–"}
    assert "held-out" not in markdown.render(rank(other, [TEXTS])).lower()


def test_every_format_marks_what_was_trained_on_and_names_the_test() -> None:
    found = trained("one", VALUES, algorithm="ppo", reward="meteor")
    found += trained("two", {"meteor": 0.4, "rougeL": 0.3, "coverage": 0.2}, algorithm="supervised", reward="")
    board = rank(found, [TEXTS])
    shown = page(board)
    metrics = next(table for table in shown.tables if table.title == "Metrics")
    place = [column.header for column in metrics.columns].index("meteor ↑")
    assert [cells[place] for cells in metrics.rows] == ["0.630 ± 0.016†", "0.430 ± 0.016 "]
    assert [column.header for column in shown.tables[0].columns][-3:] == [
        "preference ↑",
        "held-out: coverage ↑",
        "naturalness ↑",
    ]
    assert sum("paired where both began from the same weights" in line for line in shown.legend) == 1
    assert "0.630 ± 0.016†" in markdown.render(board)
    assert r"\textdagger{}" in latex.render(board)
    assert "paired where both began" in latex.render(board)
    text = html.render(board)
    assert text.count('class=trained title="trained on this metric"') == 1
    assert "paired where both began from the same weights" in text
    frame = as_csv.frame(board)
    marked = frame[frame["trained_on"]]
    assert set(marked["system"] + " " + marked["metric"]) == {"one meteor"}
    assert list(frame[(frame["system"] == "one") & (frame["metric"] == "held_out")]["value"]) == pytest.approx(
        [21.0, 22.0, 23.0, 24.0, 25.0]
    )
    assert set(frame["rank_test"]) == {"t over seeds, paired or Welch, Holm 5 %"}
    assert '"rank_test": "t over seeds, paired or Welch, Holm 5 %"' in as_json.render(board)


def test_on_the_papers_scale_nothing_is_held_out() -> None:
    liked_only = a_task("texts", (*SIMILAR, FOUND), families=TEXTS.families, reward="meteor")
    board = rank(trained("one", VALUES, liked_only, algorithm="ppo", reward="meteor"), [liked_only], scoring="paper")
    assert row(board, "one").cells["texts"].held_out is None


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


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ('[["meteor", "rougel"]]', "families: 'rougel' is no scored metric of the task. Did you mean 'rougeL'?"),
        ('[["meteor", "mean_length"]]', "families: 'mean_length' is no scored metric of the task."),
        ('[["meteor", "rougeL"], ["rougeL", "meteor"]]', "families: 'meteor' is listed twice"),
        ('[["meteor"]]', "families: a family has at least two metrics"),
    ],
)
def test_a_wrong_family_is_told(families: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TASK_FILE.format(families=families))
    with pytest.raises(ConfigError) as error:
        load_task(str(path))
    assert said in str(error.value)


def test_families_change_no_task(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TASK_FILE.format(families='[["meteor", "rougeL"]]'))
    task = load_task(str(path))
    assert task.families == (("meteor", "rougeL"),)
    assert replace(task, families=()).hash == task.hash


# --- where a score stands --------------------------------------------------------------------------------------------


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
def test_a_score_stands_between_rows(score: float, said: str) -> None:
    reached = {"null": 7.0, "nearest": 42.9, "supervised": 67.6, "twin": 67.6}
    board = rank([e for name, value in reached.items() for e in entries(STORIES, name, {1: value})], [STORIES])
    assert where_it_stands(board, STORIES, "preference", score, {}) == said


def test_the_table_of_scores_says_where_they_stand() -> None:
    table = score_table([], 45.1, 30.0, {"preference": "between nearest 42.9 and supervised 67.6"}).splitlines()
    assert table[-2].split(maxsplit=2) == ["preference", "45.1", "between nearest 42.9 and supervised 67.6"]
    assert table[-1].split() == ["naturalness", "30.0"]


def test_scores_stand_among_the_rows_that_ship() -> None:
    places = places_of(load_task("commongen"), 0.1, None, {})
    assert list(places) == ["preference"]
    assert places["preference"].startswith("below all, next ")
    assert places_of(replace(load_task("commongen"), suite="own"), 0.1, 0.1, {}) == {}


def test_a_score_stands_nowhere_on_another_board() -> None:
    board = rank(entries(STORIES, "null", {1: 7.0}, naturalness=None), [a_task("stories", metrics=STORIES.metrics[:1])])
    assert where_it_stands(board, STORIES, "preference", 5.0, {}) is None  # another version
    assert where_it_stands(rank([], [STORIES]), STORIES, "preference", 5.0, {}) is None
    limited = rank(entries(STORIES, "part", {1: 7.0}, limited=True), [STORIES])
    assert where_it_stands(limited, STORIES, "naturalness", 5.0, {}) is None

"""Whether rows that were trained with a reward asked it equally often, on a board and between two systems."""

from dataclasses import replace

import pytest
from support.boards import five, references
from support.factories import a_task, entries

from grue.leaderboard.budgets import differ, unlike_calls
from grue.leaderboard.made import whole_calls
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.records import About
from grue.render import as_json, markdown
from grue.render.html import render as html
from grue.render.web.words import family_of

STORIES, JOKES = a_task("stories"), a_task("jokes")
SAID = "Reward calls of a whole training run are "
OFF = "more than 10 % off the others' median: "
UNKNOWN = {"training": {}, "last": {}}


def rewarded(name, *calls, task=STORIES, status="rescored", about=None, **system):
    """A system of five seeds that was trained with a reward; the calls of each seed, or of all."""
    of_seed = dict(enumerate(calls * (5 // len(calls)), start=1))
    found = []
    for entry in entries(task, name, five(43.0), status):
        whole = of_seed[entry.result.seed]
        said = {"name": name, "algorithm": "ppo", "reward": "liked", "update": 8, "training": {"reward_calls": 128.0}}
        said |= {"last": {"update": 16, "training": {} if whole is None else {"reward_calls": whole}}} | system
        about_it = About(algorithm=about or said["algorithm"])
        found.append(replace(entry, result=replace(entry.result, system=said), about=about_it))
    return found


A, B, C = (rewarded(name, 2048) for name in "abc")
SUPERVISED = rewarded("supervised", 0.0, algorithm="supervised", reward="", training={"reward_calls": 0.0})
PICKED = [
    replace(entry, result=replace(entry.result, generation={"best_of": {"pick_by": "liked"}}))
    for entry in rewarded("best-of-8", None, algorithm="supervised", reward="", training={"episodes": 8e3}, last={})
]
ORACLE = references(entries(STORIES, "oracle", {0: 95.0}))
ALIKE = [entry for name in ("a", "b") for task in (STORIES, JOKES) for entry in rewarded(name, 1000, task=task)]
ODD = [*rewarded("odd", 500), *rewarded("odd", 1500, task=JOKES)]


def notes(*found, **options):
    board = rank([entry for one in found for entry in one], [STORIES, JOKES], **options)
    return [note.removeprefix(SAID) for note in board.notes if note.startswith(SAID)]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([A, B, rewarded("c", 2252)], "equal within 10 %: a, b, c."),
        ([A, B, rewarded("twice", 4096), rewarded("half", 1024)], f"{OFF}half (0.50 times), twice (2.00 times)."),
        # what the row says of its algorithm hides no budget: the results say ppo
        ([A, B, rewarded("hidden", 64, about="supervised")], f"{OFF}hidden (0.03 times)."),
        ([A, rewarded("a", 4096, status="local")], f"{OFF}a (local) (2.00 times), a (rescored) (0.50 times)."),
        ([ALIKE, ODD], f"{OFF}odd (0.50 times on stories and on 1 more)."),  # it makes up on another task
        ([A, B, rewarded("secret", None, **UNKNOWN)], "equal within 10 %: a, b; not known: secret."),
        ([A, rewarded("secret", None, **UNKNOWN)], "not known: secret."),
        ([A, rewarded("zero", 0.0)], "not known: zero."),  # a reward that was never asked
        ([A, rewarded("partly", 2048, None, None, None, None, training={})], "not known: partly."),
        ([A, SUPERVISED, PICKED, ORACLE], None),
        ([SUPERVISED, PICKED, ORACLE], None),
        ([A, rewarded("b", 4096, task=JOKES)], None),
        *(
            ([A, rewarded("odd", None, training={"reward_calls": no}, last={"training": {"reward_calls": no}})], "not known: odd.")
            for no in (-5, float("nan"), float("inf"), "many", True)
        ),
    ],
)  # fmt: skip
def test_a_board_says_whose_whole_runs_asked_the_reward_unequally_often(found, said):
    """All keep update 8 with 128 calls of their own; what counts is what the run could pick from."""
    assert notes(*found) == ([said] if said else [])


def test_a_rewarded_run_is_known_by_its_results():
    board = rank([*rewarded("silent", 2048, reward=""), *rewarded("quiet", 64, about="supervised")], [STORIES])
    assert {row.cells["stories"].rewards for row in board.rows} == {("liked",)}, "the task's where none is named"
    assert {family_of(row) for row in board.rows} == {"rl-backbone"}


def test_older_results_are_known_by_their_updates():
    """They state episodes until the kept update, those of the start included; one seed kept its start."""
    start = rewarded("supervised", None, algorithm="supervised", reward="", weights="s", training={"episodes": 8000.0})
    found = []
    for name, last in (("older", 16), ("longer", 32)):
        for entry in rewarded(name, None):
            update = 0 if entry.result.seed == 5 else 8
            system = {
                **{**entry.result.system, "weights": name, "start": "s", "update": update, "last": {"update": last}},
                "training": {"episodes": 8000.0 + 128 * update},
            }
            found.append(replace(entry, result=replace(entry.result, system=system)))
    assert notes(start, found, rewarded("new", 2048)) == [f"{OFF}longer (2.00 times)."]


def test_seeds_of_unlike_updates_tell_nothing_of_a_seed_that_kept_its_start():
    cell = rank(rewarded("a", None), [STORIES]).rows[0].cells["stories"]
    cell = replace(cell, updates={1: 8, 2: 8, 3: 0}, last_updates=dict.fromkeys((1, 2, 3), 16))
    assert whole_calls(cell, {1: 80.0, 2: 80.0, 3: 0.0}) == {1: 160.0, 2: 160.0, 3: 160.0}
    assert whole_calls(cell, {1: 80.0, 2: 96.0, 3: 0.0}) == {}


def test_a_shipped_board_keeps_the_budgets_and_says_the_note_anew(tmp_path):
    board = rank([*A, *B], [STORIES, JOKES])
    for text in (markdown.render(board), html(board)):
        assert SAID + "equal within 10 %" in text
    (tmp_path / "mini.json").write_text(as_json.render(board))
    shipped = read_board(tmp_path / "mini.json")
    cell = shipped.rows[0].cells["stories"]
    assert cell.whole == {"reward_calls": dict.fromkeys(range(1, 6), 2048.0)}
    assert cell.last_updates == dict.fromkeys(range(1, 6), 16)
    assert notes(rewarded("mine", 8192, status="local"), shipped=shipped) == [f"{OFF}mine (4.00 times)."]


def test_the_limit_is_a_tenth_above_the_smaller():
    assert not differ(1000, 1100) and differ(1000, 1101) and differ(1101, 1000) and differ(0, 1)


def test_two_systems_of_unlike_budgets_are_told(refused):
    more, unknown = rewarded("more", 4096), rewarded("unknown", None, **UNKNOWN)
    failed = [
        replace(one, result=replace(one.result, status="failed", scores=()))
        for one in entries(STORIES, "none", {1: 0.0})
    ]
    for other in (B, SUPERVISED, failed):
        assert list(unlike_calls("a", "other", {"stories": (A, other)})) == []
    for tasks in ({"stories": (more, A), "jokes": (A, B)}, {"stories": (A, unknown)}):
        (said,) = unlike_calls("one", "other", tasks)
        refused.message(said)

"""How results were made, and whether rows that were trained with a reward asked it equally often."""

from dataclasses import replace

import pytest
from support.boards import five, references, with_result, with_system
from support.factories import a_task, entries

from grue.leaderboard.budgets import differ, unlike_calls
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.records import About
from grue.render import as_json
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
        found.append(replace(with_result(entry, system=said), about=about_it))
    return found


A, B, C = (rewarded(name, 2048) for name in "abc")
SUPERVISED = rewarded("supervised", 0.0, algorithm="supervised", reward="", training={"reward_calls": 0.0})
PICKED = [
    with_result(entry, generation={"best_of": {"pick_by": "liked"}})
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
        ([A, B, rewarded("c", 2252)], "at most 10 % off the others' median: a, b, c."),
        ([A, B, rewarded("twice", 4096), rewarded("half", 1024)], f"{OFF}half (0.50 times), twice (2.00 times)."),
        # what the row says of its algorithm hides no budget: the results say ppo
        ([A, B, rewarded("hidden", 64, about="supervised")], f"{OFF}hidden (0.03 times)."),
        ([A, rewarded("a", 4096, status="local")], f"{OFF}a (local) (2.00 times), a (rescored) (0.50 times)."),
        ([ALIKE, ODD], f"{OFF}odd (0.50 times on stories and on 1 more)."),  # it makes up on another task
        ([A, B, rewarded("secret", None, **UNKNOWN)], "at most 10 % off the others' median: a, b; not known: secret."),
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


def test_a_shipped_board_keeps_the_budgets_and_says_the_note_anew(tmp_path):
    (tmp_path / "mini.json").write_text(as_json.render(rank([*A, *B], [STORIES, JOKES])))
    shipped = read_board(tmp_path / "mini.json")
    assert notes(rewarded("mine", 8192, status="local"), shipped=shipped) == [f"{OFF}mine (4.00 times)."]


def test_the_limit_is_a_tenth_above_the_smaller():
    assert not differ(1000, 1100) and differ(1000, 1101) and differ(1101, 1000) and differ(0, 1)


def test_two_systems_of_unlike_budgets_are_told(refused):
    more, unknown = rewarded("more", 4096), rewarded("unknown", None, **UNKNOWN)
    failed = [with_result(one, status="failed", scores=()) for one in entries(STORIES, "none", {1: 0.0})]
    for other in (B, SUPERVISED, failed):
        assert list(unlike_calls("a", "other", {"stories": (A, other)})) == []
    for tasks in ({"stories": (more, A), "jokes": (A, B)}, {"stories": (A, unknown)}):
        (said,) = unlike_calls("one", "other", tasks)
        refused.message(said)


def cell_of(*stated, grue=()):
    """The cell of a run for each table of what its result states of its system, or of the code."""
    found = entries(STORIES, "ours", dict.fromkeys(range(1, len(stated) + 1), 40.0))
    found = [with_system(entry, **system) for entry, system in zip(found, stated, strict=True)]
    found = [with_result(entry, grue=of) for entry, of in zip(found, grue, strict=bool(grue))] or found
    return rank(found, [STORIES]).rows[0].cells["stories"]


def test_training_is_read_by_cost_and_seed():
    cell = cell_of(
        {"training": {"tokens": 10, "seconds": 2.5}, "update": 0, "parameters": 5},
        {"training": {"tokens": 20.0}, "update": 16, "parameters": 7, "last": {"update": 16}},
        {},
    )
    assert cell.training == {"tokens": {1: 10.0, 2: 20.0}, "seconds": {1: 2.5}} and cell.whole == {}
    assert (cell.updates, cell.last_updates, cell.parameters) == ({1: 0, 2: 16}, {2: 16}, 7)


@pytest.mark.parametrize("value", [-1, True, "many", None, float("nan"), 10**400, [1]])
def test_what_is_no_number_from_0_on_is_not_stated(value):
    """What a cost may be is in test_claims.py: the check of submissions reads them by the same function."""
    last = {"update": value, "training": value}
    cell = cell_of({"training": {"tokens": value}, "update": value, "parameters": value, "last": last})
    assert (cell.training, cell.whole, cell.updates, cell.last_updates, cell.parameters) == ({}, {}, {}, {}, None)


def test_code_and_machines_are_named_as_they_are_spelt_and_nothing_else_is():
    made = {"version": "0.1.0", "commit": "09d6de52ad0c3c988a14ff23fa8cef356e354d07"}
    codes = (made | {"dirty": False}, made | {"dirty": True}, made | {"commit": "</script>"}, {"version": "<b>"})
    machines = ("Linux, NVIDIA H100 (cuda:0)", "<b>", ["Linux"], "Linux, a CPU (R)")
    cell = cell_of(*({"machine": machine, "algorithm": str(machine)} for machine in machines), grue=codes)
    assert cell.code == ("0.1.0", "0.1.0 (09d6de5)", "0.1.0 (09d6de5+)")
    assert (cell.machines, cell.algorithms) == ((machines[0], machines[3]), ())

"""What stands on a board without changing others: interquartile means, references, what cannot be checked."""

import random
from dataclasses import replace

import pytest
from support.boards import JOKES, STORIES, references, row, with_result
from support.factories import entries

from grue.leaderboard.rank import rank

TASKS = [STORIES, JOKES]


def scattered(system, centre, status="local"):
    """Five seeds on both tasks, spread by a generator of the system's own."""
    generator = random.Random(system)
    first, second = ({seed: centre + generator.gauss(0, 2) for seed in range(1, 6)} for _ in range(2))
    jokes = entries(JOKES, system, second, naturalness=None, status=status)
    return [*entries(STORIES, system, first, naturalness=60.0, status=status), *jokes]


def test_a_new_system_changes_no_number_but_ranks():
    def board(found):
        made = rank(found, TASKS, iqm=True)
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
        with_result(e, generation={"best_of": {"n": 8, "oracle": e.result.seed == 5}})
        for e in scattered("best-of-8", 80.0)
    ]
    lookups = [
        with_result(e, system={"name": name, "algorithm": name})
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

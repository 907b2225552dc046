"""How results were made, as far as they state it, and what a stranger may state."""

from dataclasses import replace

import pytest
from support.boards import with_system
from support.factories import a_result, a_task, entries

from grue.leaderboard.made import code_of, kept_updates, machines_of, parameters_of, reward_calls, training_of, whole_of
from grue.leaderboard.rank import rank

TASK = a_task("stories")


def made(seed, grue=None, **system):
    result = a_result(TASK, "ours", seed, 40.0)
    return replace(result, system={**result.system, **system}, grue=grue or result.grue)


def test_training_is_read_by_cost_and_seed():
    results = [
        made(1, training={"tokens": 10, "seconds": 2.5}, update=0, parameters=5),
        made(2, training={"tokens": 20.0}, update=16, parameters=7),
        made(3),
    ]
    assert training_of(results) == {"tokens": {1: 10.0, 2: 20.0}, "seconds": {1: 2.5}}
    assert (kept_updates(results), parameters_of(results)) == ({1: 0, 2: 16}, 7)


@pytest.mark.parametrize("value", [-1, True, "many", None, float("nan"), float("inf"), 10**400, [1], {"a": 1}])
def test_what_is_no_number_from_0_on_is_not_stated(value):
    results = [made(1, training={"tokens": value}, update=value, parameters=value), made(2, training=value)]
    assert training_of(results) == {} and kept_updates(results) == {} and parameters_of(results) is None


def test_half_a_text_is_not_stated_and_half_a_second_is():
    """The board and the check of submissions read a stated cost alike: what S080 says cannot be has no cell."""
    spent = {"tokens": 2.5, "reward_calls": 0.5, "seconds": 2.5}
    assert training_of([made(1, training=spent)]) == {"seconds": {1: 2.5}}
    assert whole_of([made(1, last={"update": 3, "training": spent})]) == {"seconds": {1: 2.5}}


def test_code_and_machines_are_named_as_they_are_spelt_and_nothing_else_is():
    commit = "09d6de52ad0c3c988a14ff23fa8cef356e354d07"
    results = [
        made(1, {"version": "0.1.0", "commit": commit, "dirty": False}, machine="Linux, a CPU (R)"),
        made(2, {"version": "0.1.0", "commit": commit, "dirty": True}, machine="<b>"),
        made(3, {"version": "0.1.0", "commit": "</script>"}),
        made(4, {"version": "<b>"}),
    ]
    results[0] = replace(results[0], determinism={"machine": "Linux, NVIDIA H100 (cuda:0)"})
    results[1] = replace(results[1], determinism={"machine": ["Linux"]})
    assert code_of(results) == ("0.1.0", "0.1.0 (09d6de5)", "0.1.0 (09d6de5+)")
    assert machines_of(results) == ("Linux, NVIDIA H100 (cuda:0)", "Linux, a CPU (R)")


def test_rewarded_texts_are_the_episodes_after_the_start_on_the_board():
    found = [
        with_system(entry, training={"episodes": episodes}, **{k: f"{v}{entry.result.seed}" for k, v in line.items()})
        for name, episodes, line in (
            ("supervised", 8000, {"weights": "s"}),
            ("ppo", 10048, {"weights": "p", "start": "s"}),
            ("alone", 512, {"weights": "a"}),
            ("elsewhere", 900, {"weights": "e", "start": "z"}),
        )
        for entry in entries(TASK, name, {1: 40.0, 2: 41.0})
    ]
    learned = {"algorithm": "ppo", "reward": "liked"}
    found = [e if e.result.system["name"] == "supervised" else with_system(e, **learned) for e in found]
    rows = rank(found, [TASK]).rows
    names = [row.system for row in rows]
    calls = {names[i]: by_seed for i, by_seed in reward_calls(rows, "stories").items()}
    assert calls == {"supervised": {1: 0, 2: 0}, "ppo": {1: 2048, 2: 2048}, "alone": {1: 512, 2: 512}}
    cells = [row.cells["stories"] for row in rows]
    stated = [replace(cell, training={**cell.training, "reward_calls": {1: 7.0}}) for cell in cells]
    rows = [replace(row, cells={"stories": cell}) for row, cell in zip(rows, stated, strict=True)]
    assert reward_calls(rows, "stories")[names.index("ppo")] == {1: 7.0, 2: 2048}, "what is stated goes first"

"""How results were made, as far as they state it, and what a stranger may state."""

from dataclasses import replace
from typing import Any

import pytest
from support.factories import a_result, a_task, entries

from grue.leaderboard.made import (
    code_of,
    kept_updates,
    machines_of,
    parameters_of,
    reward_calls,
    training_of,
    whole_of,
)
from grue.leaderboard.rank import rank
from grue.records import Entry, Result

TASK = a_task("stories")


def made(seed: int, grue: Any = None, **system: Any) -> Result:
    result = a_result(TASK, "ours", seed, 40.0)
    return replace(result, system={**result.system, **system}, grue=grue or result.grue)


def test_training_is_read_by_cost_and_seed() -> None:
    results = [made(1, training={"tokens": 10, "seconds": 2.5}), made(2, training={"tokens": 20.0}), made(3)]
    assert training_of(results) == {"tokens": {1: 10.0, 2: 20.0}, "seconds": {1: 2.5}}
    assert kept_updates([made(1, update=0), made(2, update=16), made(3)]) == {1: 0, 2: 16}
    assert parameters_of([made(1, parameters=5), made(2, parameters=7), made(3)]) == 7


@pytest.mark.parametrize("value", [-1, True, "many", None, float("nan"), float("inf"), 10**400, [1], {"a": 1}])
def test_what_is_no_number_from_0_on_is_not_stated(value: Any) -> None:
    results = [made(1, training={"tokens": value}, update=value, parameters=value), made(2, training=value)]
    assert training_of(results) == {} and kept_updates(results) == {} and parameters_of(results) is None


def test_half_a_text_is_not_stated_and_half_a_second_is() -> None:
    """The board and the check of submissions read a stated cost alike: what S080 says cannot be has no cell."""
    spent = {"tokens": 2.5, "reward_calls": 0.5, "seconds": 2.5}
    assert training_of([made(1, training=spent)]) == {"seconds": {1: 2.5}}
    assert whole_of([made(1, last={"update": 3, "training": spent})]) == {"seconds": {1: 2.5}}


def test_code_is_named_by_version_and_commit_alone() -> None:
    commit = "09d6de52ad0c3c988a14ff23fa8cef356e354d07"
    results = [
        made(1, {"version": "0.1.0", "commit": commit, "dirty": False}),
        made(2, {"version": "0.1.0", "commit": commit, "dirty": True}),
        made(3, {"version": "0.1.0", "commit": "</script>"}),
        made(4, {"version": "<b>"}),
    ]
    assert code_of(results) == ("0.1.0", "0.1.0 (09d6de5)", "0.1.0 (09d6de5+)")


def test_machines_are_those_that_trained_and_that_answered() -> None:
    results = [
        replace(made(1, machine="Linux, a CPU (R)"), determinism={"machine": "Linux, NVIDIA H100 (cuda:0)"}),
        replace(made(2, machine="<b>"), determinism={"machine": ["Linux"]}),
        made(3),
    ]
    assert machines_of(results) == ("Linux, NVIDIA H100 (cuda:0)", "Linux, a CPU (R)")


def test_rewarded_texts_are_the_episodes_after_the_start_on_the_board() -> None:
    def runs(name: str, episodes: float, line: dict[str, str], **system: Any) -> list[Entry]:
        found = []
        for entry in entries(TASK, name, {1: 40.0, 2: 41.0}):
            weights = {key: f"{value}{entry.result.seed}" for key, value in line.items()}
            added = {"training": {"episodes": episodes}, **weights, **system}
            found.append(replace(entry, result=replace(entry.result, system={**entry.result.system, **added})))
        return found

    board = rank(
        [
            *runs("supervised", 8000, {"weights": "s"}, algorithm="supervised"),
            *runs("ppo", 10048, {"weights": "p", "start": "s"}, algorithm="supervised+ppo", reward="liked"),
            *runs("alone", 512, {"weights": "a"}, algorithm="ppo", reward="liked"),
            *runs("elsewhere", 900, {"weights": "e", "start": "z"}, algorithm="supervised+ppo", reward="liked"),
        ],
        [TASK],
    )
    names = [row.system for row in board.rows]
    calls = {names[i]: by_seed for i, by_seed in reward_calls(board.rows, "stories").items()}
    (ppo,) = (row for row in board.rows if row.system == "ppo")
    cell = ppo.cells["stories"]
    cell = replace(cell, training={**cell.training, "reward_calls": {1: 7.0}})
    rows = [replace(row, cells={"stories": cell}) if row is ppo else row for row in board.rows]
    assert reward_calls(rows, "stories")[names.index("ppo")] == {1: 7.0, 2: 2048}, "what is stated goes first"
    assert calls == {"supervised": {1: 0, 2: 0}, "ppo": {1: 2048, 2: 2048}, "alone": {1: 512, 2: 512}}

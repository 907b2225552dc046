"""Whether rows that were trained with a reward asked it equally often, on a board and between two systems."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.factories import a_result, a_task, entries

from grue.leaderboard import published
from grue.leaderboard.budgets import differ, unlike_calls
from grue.leaderboard.made import whole_calls
from grue.leaderboard.rank import rank
from grue.records import About, Entry
from grue.render import as_json, markdown
from grue.render.html import render as html
from grue.render.web.words import family_of

STORIES, JOKES = a_task("stories"), a_task("jokes")
SAID = "Reward calls of a whole training run are "


def rewarded(
    name: str, *calls: float | None, task: Any = STORIES, status: Any = "rescored", **system: Any
) -> list[Entry]:
    """A system of five seeds that was trained with a reward; the calls of each seed, or of all."""
    of_seed = dict(enumerate(calls * (5 // len(calls)), start=1))
    found = []
    for entry in entries(task, name, {seed: 40.0 + seed for seed in range(1, 6)}, status):
        whole = of_seed[entry.result.seed]
        said = {"name": name, "algorithm": "ppo", "reward": "liked", "update": 8, "training": {"reward_calls": 128.0}}
        said |= {"last": {"update": 16, "training": {} if whole is None else {"reward_calls": whole}}} | system
        about = About(algorithm=str(said["algorithm"]))
        found.append(replace(entry, result=replace(entry.result, system=said), about=about))
    return found


def said(*found: list[Entry], tasks: Any = (STORIES,)) -> list[str]:
    notes = rank([entry for one in found for entry in one], list(tasks)).notes
    return [note.removeprefix(SAID) for note in notes if note.startswith(SAID)]


UNKNOWN: Mapping[str, Any] = {"training": {}, "last": {}}


def test_equal_budgets_are_said_to_be_equal() -> None:
    assert said(rewarded("a", 2048), rewarded("b", 2048), rewarded("c", 2252)) == ["equal within 10 %: a, b, c."]


def test_who_asked_more_or_less_than_the_others_is_named_with_the_ratio() -> None:
    rows = rewarded("a", 2000), rewarded("b", 2000), rewarded("twice", 4000), rewarded("half", 1000)
    assert said(*rows) == ["more than 10 % off the others' median: half (0.50 times), twice (2.00 times)."]


def test_the_whole_run_counts_and_not_the_update_that_was_kept() -> None:
    """All keep update 8 with 1,024 calls; one had twice as many updates to pick it from."""
    assert said(rewarded("a", 2048), rewarded("b", 2048), rewarded("picky", 4096)) == [
        "more than 10 % off the others' median: picky (2.00 times)."
    ]


def test_a_row_that_makes_up_on_another_task_is_named_for_both() -> None:
    tasks = (STORIES, JOKES)
    alike = [rewarded(name, 1000, task=task) for name in ("a", "b") for task in tasks]
    odd = [rewarded("odd", 500), rewarded("odd", 1500, task=JOKES)]
    assert said(*alike, *odd, tasks=tasks) == [
        "more than 10 % off the others' median: odd (0.50 times on stories and on 1 more)."
    ]


def test_what_a_row_says_of_its_algorithm_hides_no_budget() -> None:
    """The results say ppo, the row's own words say supervised."""
    hidden = [replace(entry, about=About(algorithm="supervised")) for entry in rewarded("hidden", 64)]
    rows = rewarded("a", 2048), rewarded("b", 2048), hidden
    assert said(*rows) == ["more than 10 % off the others' median: hidden (0.03 times)."]
    board = rank([entry for one in rows for entry in one], [STORIES])
    assert {row.system: family_of(row) for row in board.rows} == dict.fromkeys(("a", "b", "hidden"), "rl-backbone")


def test_a_rewarded_run_that_names_no_reward_counts_as_the_tasks() -> None:
    board = rank(rewarded("silent", 2048, reward=""), [STORIES])
    assert [row.cells["stories"].rewards for row in board.rows] == [("liked",)]


def test_what_is_not_known_is_named() -> None:
    secret = rewarded("secret", None, **UNKNOWN)
    assert said(rewarded("a", 2048), rewarded("b", 2048), secret) == ["equal within 10 %: a, b; not known: secret."]
    assert said(rewarded("a", 2048), secret) == ["not known: secret."]
    assert said(rewarded("a", 2048), rewarded("zero", 0.0)) == ["not known: zero."], "a reward that was never asked"
    partly = rewarded("partly", 2048, None, None, None, None, training={})
    assert said(rewarded("a", 2048), partly) == ["not known: partly."]


@pytest.mark.parametrize("value", [-5, float("nan"), float("inf"), "many", True])
def test_a_number_that_cannot_be_is_not_known(value: Any) -> None:
    odd = rewarded("odd", None, training={"reward_calls": value}, last={"training": {"reward_calls": value}})
    assert said(rewarded("a", 2048), odd) == ["not known: odd."]


def test_nothing_is_said_of_a_single_row_of_references_and_of_what_had_no_reward() -> None:
    supervised = rewarded("supervised", 0.0, algorithm="supervised", reward="", training={"reward_calls": 0.0})
    picks = {"algorithm": "supervised", "reward": "", "training": {"episodes": 8000.0}, "last": {}}
    picked = [
        replace(entry, result=replace(entry.result, generation={"best_of": {"pick_by": "liked"}}))
        for entry in rewarded("supervised+best-of-8", None, **picks)
    ]
    oracle = [replace(entry, about=About(deterministic=True)) for entry in entries(STORIES, "oracle", {0: 95.0})]
    assert said(rewarded("a", 2048), supervised, picked, oracle) == []
    assert said(supervised, picked, oracle) == []
    assert said(rewarded("a", 2048), rewarded("b", 4096, task=JOKES), tasks=(STORIES, JOKES)) == []


def test_a_row_that_calls_itself_supervised_is_still_counted() -> None:
    quiet = [replace(entry, about=About(algorithm="supervised")) for entry in rewarded("quiet", 4096)]
    assert said(rewarded("a", 2048), rewarded("b", 2048), quiet) == [
        "more than 10 % off the others' median: quiet (2.00 times)."
    ]


def test_twins_are_told_apart() -> None:
    assert said(rewarded("a", 2048), rewarded("a", 4096, status="local")) == [
        "more than 10 % off the others' median: a (local) (2.00 times), a (rescored) (0.50 times)."
    ]


def test_older_results_are_known_by_their_updates() -> None:
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
    assert said(start, found, rewarded("new", 2048)) == ["more than 10 % off the others' median: longer (2.00 times)."]


def test_seeds_of_unlike_updates_tell_nothing_of_a_seed_that_kept_its_start() -> None:
    cell = rank(rewarded("a", None), [STORIES]).rows[0].cells["stories"]
    cell = replace(cell, updates={1: 8, 2: 8, 3: 0}, last_updates=dict.fromkeys((1, 2, 3), 16))
    assert whole_calls(cell, {1: 80.0, 2: 80.0, 3: 0.0}) == {1: 160.0, 2: 160.0, 3: 160.0}
    assert whole_calls(cell, {1: 80.0, 2: 96.0, 3: 0.0}) == {}


def test_a_shipped_board_keeps_the_budgets_and_says_the_note_anew(tmp_path: Path) -> None:
    path = tmp_path / "mini.json"
    path.write_text(as_json.render(rank(rewarded("a", 2048) + rewarded("b", 2048), [STORIES])))
    shipped = published.read_board(path)
    assert shipped.rows[0].cells["stories"].whole == {"reward_calls": dict.fromkeys(range(1, 6), 2048.0)}
    assert shipped.rows[0].cells["stories"].last_updates == dict.fromkeys(range(1, 6), 16)
    notes = rank(rewarded("mine", 8192, status="local"), [STORIES], shipped=shipped).notes
    assert [note for note in notes if note.startswith(SAID)] == [
        f"{SAID}more than 10 % off the others' median: mine (4.00 times)."
    ]


def test_board_and_page_have_the_note() -> None:
    board = rank(rewarded("a", 2048) + rewarded("b", 4096), [STORIES])
    for text in (markdown.render(board), html(board)):
        assert "Reward calls of a whole training run are more than 10 %" in text


def test_the_limit_is_a_tenth_above_the_smaller() -> None:
    assert not differ(1000, 1100) and differ(1000, 1101) and differ(1101, 1000) and differ(0, 1)


def test_two_systems_of_unlike_budgets_are_told() -> None:
    ours, theirs, more = rewarded("ours", 2048), rewarded("theirs", 2048), rewarded("more", 4096)
    assert list(unlike_calls("ours", "theirs", {"stories": (ours, theirs)})) == []
    assert list(unlike_calls("more", "ours", {"stories": (more, ours), "jokes": (ours, theirs)})) == [
        "Reward calls of a whole training run of more and ours differ by more than 10 %: "
        "stories 4,096 and 2,048 (2.00 times)."
    ]
    unknown = rewarded("unknown", None, **UNKNOWN)
    assert list(unlike_calls("ours", "unknown", {"stories": (ours, unknown)})) == [
        "Reward calls of a whole training run are not stated by both systems on stories; the board works them out where "
        "it has the row that a run began from."
    ]
    supervised = rewarded("supervised", None, algorithm="supervised", reward="")
    failed = [Entry(a_result(STORIES, "none", 1, None, None, status="failed", scores=()), Path("none"), "local")]
    assert list(unlike_calls("ours", "supervised", {"stories": (ours, supervised)})) == []
    assert list(unlike_calls("ours", "none", {"stories": (ours, failed)})) == []

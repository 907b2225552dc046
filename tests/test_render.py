"""What is shown of a board, to the letter."""

import json
import random
from pathlib import Path

import pytest
from factories import LIKED, a_result, a_score, a_task, entries

from grue.leaderboard.board import Board
from grue.leaderboard.rank import rank
from grue.records import Entry
from grue.render import as_json, markdown
from grue.render.tables import Heading, Table, narrow, page
from grue.tasks import MetricSpec

STORIES = a_task("stories")
JOKES = a_task("jokes", metrics=(LIKED,))
HASHES = (JOKES.hash[:12], STORIES.hash[:12])


def results() -> list[Entry]:
    return [
        *entries(STORIES, "ppo", {1: 41.0, 2: 42.5, 3: 40.0, 4: 44.0, 5: 43.0}, status="rescored"),
        *entries(JOKES, "ppo", {1: 21.0, 2: 22.5, 3: 20.0, 4: 24.0, 5: 23.0}, status="rescored", naturalness=None),
        *entries(STORIES, "null", dict.fromkeys(range(5), 3.0), naturalness=100.0),
        *entries(JOKES, "null", dict.fromkeys(range(5), 5.0), naturalness=None),
        *entries(STORIES, "mine", {1: 41.0}),
        *entries(JOKES, "mine", {1: 3.5}, naturalness=None),
        *entries(STORIES, "half", {1: 10.0, 2: 90.0}),
        *entries(STORIES, "old", {1: 10.0}, task_hash="0"),
    ]


def one_result(name: str = "ppo", **changes: object) -> Board:
    return rank([Entry(a_result(STORIES, name, 1, 40.0, **changes), Path("r"), "local")], [STORIES])


def test_the_overview_of_a_suite() -> None:
    assert (
        markdown.render(rank(results(), [STORIES, JOKES]))
        == f"""\
# GRUE leaderboard: suite mini

| rank | system | status               | seeds | mean preference ↑ | mean naturalness ↑ | jokes preference ↑ | stories preference ↑ | stories naturalness ↑ |
| ---: | :----- | :------------------- | ----: | ----------------: | -----------------: | -----------------: | -------------------: | --------------------: |
|    1 | ppo    | rescored             |     5 |        32.1 ± 1.2 |               50.0 |         22.1 ± 1.6 |          42.1 ±  1.6 |            50.0 ± 0.0 |
|    2 | null   | local                |     5 |         4.0 ± 0.0 |              100.0 |          5.0 ± 0.0 |           3.0 ±  0.0 |           100.0 ± 0.0 |
|    – | mine   | local, too few seeds |     1 |        22.2 ±   – |               50.0 |          3.5 ±   – |          41.0 ±    – |            50.0 ±   – |
|    – | half   | local, only stories  |     2 |                 – |                  – |                  – |          50.0 ± 56.6 |            50.0 ± 0.0 |

- Preference and naturalness go from 0 to 100, higher is better. ± is half the width of the 95 % interval over seeds for the mean preference, and the standard deviation over seeds for a task. – is unknown.
- A rank is 1 + the number of systems whose interval lies wholly above: a shared rank is too close to call. It takes every task with 5 seeds; with 3 or more a system is preliminary.
- The mean naturalness leaves out jokes, which has no metric of it.
- Tasks: jokes version 1 ({HASHES[0]}), stories version 1 ({HASHES[1]}).

Notes:

- stories: old (seed 1) left out, made for another version of the task; evaluate again with `grue evaluate`.
"""
    )


def test_the_view_of_one_task() -> None:
    scores = (
        a_score("liked", 0.4),
        a_score("fluent", 123.456, "naturalness", "lower"),
        a_score("words", 12.5, "diversity"),
    )
    measured = [Entry(a_result(STORIES, "measured", 3, 40.0, scores=scores), Path("r"), "local")]
    board = rank(entries(STORIES, "ppo", {1: 30.0, 2: 50.0, 3: 40.0}) + measured, [STORIES])
    assert (
        markdown.render(board)
        == f"""\
# GRUE leaderboard: suite mini, task stories

| rank | system   | status               | seeds | preference ↑ | naturalness ↑ |       liked ↑ |    fluent ↓ |
| ---: | :------- | :------------------- | ----: | -----------: | ------------: | ------------: | ----------: |
|    – | ppo      | local, preliminary   |     3 |  40.0 ± 24.8 |    50.0 ± 0.0 | 0.400 ± 0.100 |  40.0 ± 0.0 |
|    – | measured | local, too few seeds |     1 |  40.0 ±    – |    50.0 ±   – | 0.400 ±     – | 123.5 ±   – |

## Diversity, outside the score

| rank | system   |     words |
| ---: | :------- | --------: |
|    – | ppo      |         – |
|    – | measured | 12.50 ± – |

- Preference and naturalness go from 0 to 100, higher is better. ± is half the width of the 95 % interval over seeds for the preference, and the standard deviation over seeds elsewhere. – is unknown.
- A rank is 1 + the number of systems whose interval lies wholly above: a shared rank is too close to call. It takes 5 seeds; with 3 or more a system is preliminary.
- Tasks: stories version 1 ({HASHES[1]}).
- Scaled to 0 to 100: liked from 0 to 1; fluent as 100 × 20 / value, at most 100.
"""
    )


def test_an_empty_board_says_what_to_run() -> None:
    assert (
        markdown.render(rank([], [STORIES]))
        == """\
# GRUE leaderboard: suite mini, task stories

- No results yet: run `grue train` and `grue evaluate`, then `grue leaderboard` again.
"""
    )


def test_an_empty_board_still_says_what_was_left_out() -> None:
    stale = entries(STORIES, "old", {1: 10.0}, task_hash="0")
    assert markdown.render(rank(stale, [STORIES])).endswith(
        "\nNotes:\n\n- stories: old (seed 1) left out, made for another version of the task; evaluate again with `grue evaluate`.\n"
    )


def test_names_cannot_write_markup_or_steer_a_terminal() -> None:
    name = "<img src=x>|[a](b)*&\n\x1b[31m\u202e"
    text = markdown.render(one_result(name))
    assert r"| \<img src=x\>\|\[a\](b)\*\&��\[31m� |" in text
    (table, *_) = page(one_result(name)).tables
    assert table.rows[0][1] == "<img src=x>|[a](b)*&��[31m�"


def test_a_task_without_naturalness_has_no_column_of_it() -> None:
    board = rank(entries(JOKES, "ppo", {1: 30.0}, naturalness=None), [JOKES])
    assert [column.header for column in page(board).tables[0].columns][4:] == ["preference ↑", "liked ↑"]
    assert not any("naturalness leaves out" in line for line in page(board).legend)


def test_values_below_zero_are_never_shown_as_minus_zero() -> None:
    scores = (a_score("liked", -0.0001), a_score("fluent", 20.0, "naturalness", "lower"))
    assert page(one_result(scores=scores)).tables[0].rows[0][-2] == "0.000 ± –"


def test_unequal_seed_counts_show_both_ends() -> None:
    ragged = [
        *entries(STORIES, "ppo", dict.fromkeys(range(7), 1.0)),
        *entries(JOKES, "ppo", {1: 2.0}, naturalness=None),
    ]
    assert page(rank(ragged, [STORIES, JOKES])).tables[0].rows[0][3] == "1–7"


def test_a_lower_is_better_range_is_shown_worst_first() -> None:
    task = a_task("edits", metrics=(MetricSpec("liked", "preference", range=(1.0, 0.0)),))
    assert (
        "Scaled to 0 to 100: liked from 1 to 0."
        in page(rank(entries(task, "a", {1: 1.0}, naturalness=None), [task])).legend
    )


def test_a_wide_table_is_cut_to_the_width_of_a_terminal() -> None:
    headings = tuple(Heading(f"column {n}") for n in range(6))
    wide = Table("Title", headings, (("1", "ppo", "a", "b", "c" * 30, "d"),))
    whole = 1 + 5 * (len("column 0") + 3) + (30 + 3)
    assert narrow(wide, whole) == [wide]
    first, second, third = narrow(wide, 45)
    assert (first.title, first.rows) == ("Title", (("1", "ppo", "a", "b"),))
    assert (second.title, second.rows) == ("", (("1", "ppo", "c" * 30),))  # too wide alone, and still shown
    assert third.rows == (("1", "ppo", "d"),)
    assert [column.header for column in third.columns] == ["column 0", "column 1", "column 5"]
    assert [len(part.columns) for part in narrow(wide, whole - 1)] == [5, 3]


def test_json_holds_the_board_in_full_precision() -> None:
    board = rank(results(), [STORIES, JOKES])
    data = json.loads(as_json.render(board))
    assert (data["schema"], data["suite"], data["level"]) == (2, "mini", 0.95)
    assert [task["hash"] for task in data["tasks"]] == [JOKES.hash, STORIES.hash]
    ppo, half = data["rows"][0], data["rows"][3]
    assert (ppo["system"], ppo["rank"], ppo["standing"], ppo["preference"]) == ("ppo", 1, "ranked", 32.1)
    assert sum(ppo["interval"].values()) == pytest.approx(64.2)
    assert ppo["cells"]["stories"]["preference"]["by_seed"] == {"1": 41.0, "2": 42.5, "3": 40.0, "4": 44.0, "5": 43.0}
    assert (half["system"], half["rank"], half["preference"], half["interval"]) == ("half", None, None, None)
    assert data["notes"] == list(board.notes)


def test_equal_input_gives_equal_bytes_in_whatever_order() -> None:
    shuffled = results()
    random.Random(1).shuffle(shuffled)
    for render in (markdown.render, as_json.render):
        assert render(rank(shuffled, [JOKES, STORIES])) == render(rank(results(), [STORIES, JOKES]))

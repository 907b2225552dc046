"""How a board becomes tables, sentences and numbers: what is in no golden file."""

import random

import pytest
from support.boards import JOKES, STORIES, five
from support.factories import entries
from support.late import late
from support.render_boards import EMPTY, SUITE, TASK

from grue.leaderboard.rank import rank
from grue.render import as_json, latex, markdown
from grue.render.layout import Heading, TextTable, narrow

as_csv = late("grue.render.as_csv")


def test_a_wide_table_is_cut_to_the_width_of_a_terminal():
    headings = tuple(Heading(f"column {n}") for n in range(6))
    row = ("1", "ppo", "a", "b", "c" * 30, "d")
    wide = TextTable("Title", headings, (row,), frozenset({(0, 1), (0, 4)}), ("note",))
    whole = 1 + 5 * (len("column 0") + 3) + (30 + 3)
    assert narrow(wide, whole) == [wide]
    first, second, third = narrow(wide, 45)
    assert (first.title, first.rows) == ("Title", (("1", "ppo", "a", "b"),))
    assert (second.title, second.rows) == ("", (("1", "ppo", "c" * 30),))  # too wide alone, and still shown
    assert ([column.header for column in third.columns], third.rows) == (
        ["column 0", "column 1", "column 5"],
        (("1", "ppo", "d"),),
    )
    assert [part.strong for part in (first, second, third)] == [{(0, 1)}, {(0, 1), (0, 2)}, {(0, 1)}]
    assert [part.lines for part in (first, second, third)] == [(), (), ("note",)]
    assert [len(part.columns) for part in narrow(wide, whole - 1)] == [5, 3]


@pytest.mark.parametrize("form", ["as_csv", "as_json", "latex", "markdown"])
def test_equal_input_gives_equal_bytes_in_whatever_order_and_nothing_trails(form):
    render = {"as_csv": as_csv, "as_json": as_json, "latex": latex, "markdown": markdown}[form].render
    found = entries(STORIES, "ppo", five(42.0), "rescored") + entries(STORIES, "mine", {1: 41.0})
    found += entries(JOKES, "ppo", five(22.0), "rescored", naturalness=None)
    whole = render(rank(found, [STORIES, JOKES]))
    random.Random(1).shuffle(found)
    assert render(rank(found, [JOKES, STORIES])) == whole
    for text in (whole, *map(render, (SUITE, TASK, EMPTY))):
        assert text.endswith("\n") and not text.endswith("\n\n") and "\r" not in text
        assert not [line for line in text.split("\n") if line.endswith(" ")]

"""How a board becomes tables, sentences and numbers, beyond the two boards of the golden files."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.boards import JOKES, STORIES, five
from support.factories import a_result, a_score, a_task, entries
from support.late import late
from support.render_boards import EMPTY, MINE, NLPO, NULL, PAPER, PPO, SUITE, TASK

from grue.leaderboard.rank import rank
from grue.records import Entry
from grue.render import as_json, html, latex, markdown
from grue.render.layout import Heading, TextTable, narrow
from grue.render.tables import page
from grue.render.text import fixed, in_line
from grue.submissions.reported import Figure, ReportedColumn, ReportedRow, ReportedTable
from grue.tasks import MetricSpec

as_csv = late("grue.render.as_csv")


def headers(table):
    return [heading.header for heading in table.columns]


def column(table, header):
    """The cells of a column, without what pads them."""
    return [row[headers(table).index(header)].strip() for row in table.rows]


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_rank_that_nobody_shares_has_no_mark():
    third = replace(NLPO, system="third", rank=3, task_ranks={"jokes": 3})
    first, *_, places, _ = page(replace(SUITE, rows=(NLPO, PPO, third, MINE, NULL))).tables
    assert column(first, "rank") == ["1=", "1=", "3", "–"]
    assert (column(places, "jokes"), column(places, "stories")) == (["1", "2", "3", "–"], ["1=", "1=", "–", "–"])


def test_references_of_ones_own_are_told_from_those_of_the_board():
    """Two rows of one name differ by their status; where all are local, or none is, there is no such column."""
    task = a_task("poems")
    known = {"system": {"name": "zero-shot", "algorithm": "zero-shot"}}
    own = [replace(one, result=replace(one.result, **known)) for one in entries(task, "", {0: 1.0})]
    given = [replace(one, status="rescored", result=replace(one.result, preference=2.0)) for one in own]
    references = page(rank([*own, *given], [task])).tables[0]
    cells = zip(
        column(references, "system"), column(references, "status"), column(references, "preference ↑"), strict=True
    )
    assert set(cells) == {("zero-shot", "local", "1.0"), ("zero-shot", "rescored", "2.0")}
    of_suite = page(rank([*own, *given], [task, a_task("tales")])).tables[-1]
    assert of_suite.title == "References" and set(column(of_suite, "status")) == {"local", "rescored"}
    for alike in (own, given):
        assert "status" not in headers(page(rank(alike, [task])).tables[0])


def test_a_board_of_references_alone_has_no_empty_tables():
    assert [table.title for table in page(replace(SUITE, rows=(NULL,))).tables] == ["References"]
    of_task = page(replace(TASK, rows=TASK.rows[-1:]))
    assert [table.title for table in of_task.tables] == ["References", "References, diversity"]


def test_nothing_stands_out_where_there_is_nothing_to_compare():
    content = page(replace(SUITE, rows=(NLPO, MINE, NULL)))
    assert all(table.strong == frozenset() for table in content.tables)
    assert not any(line.startswith("Bold") for line in content.legend)


def test_the_iqm_has_a_column_only_where_it_is_known():
    without = page(replace(SUITE, rows=tuple(replace(row, iqm=None) for row in SUITE.rows)))
    assert "IQM ↑" not in headers(without.tables[0]) and not any("IQM" in line for line in without.legend)
    one = page(replace(TASK, rows=tuple(replace(row, iqm=51.25) for row in TASK.rows)))
    assert column(one.tables[0], "IQM ↑") == ["51.2"] * 3 and any("IQM" in line for line in one.legend)
    assert ">IQM<" in html.render(SUITE) and "<td>51.5<td" in html.render(SUITE)


def test_without_intervals_the_spread_is_the_standard_deviation():
    def plain(row):
        cells = {name: replace(cell, interval=None) for name, cell in row.cells.items()}
        return replace(row, interval=None, naturalness_interval=None, cells=cells)

    content = page(replace(SUITE, rows=tuple(map(plain, SUITE.rows)), interval_kind="none"))
    first, preference, *_ = content.tables
    assert column(first, "preference ↑") == ["52.0", "50.0", "–"]
    assert column(preference, "stories") == ["62.0 ± 1.6", "64.0 ± 1.6", "70.0 ±   –"]
    assert "Rank by task" in [table.title for table in content.tables]
    assert content.legend[1] == "± is the standard deviation over seeds. – is unknown."


def test_the_legend_says_how_scores_and_intervals_were_made():
    legend = page(replace(SUITE, interval_kind="bootstrap", scoring="paper", level=0.9)).legend
    assert legend[0].endswith("on the scale of the paper's Figure 2, higher is better (scoring paper).")
    assert "the 90 % interval over seeds (bootstrap)" in legend[1]
    assert not any("Scaled" in line for line in page(replace(TASK, scoring="paper")).legend)
    lower = a_task("edits", metrics=(MetricSpec("liked", "preference", range=(1.0, 0.0)),))
    legend = page(rank(entries(lower, "a", {1: 1.0}, naturalness=None), [lower])).legend
    assert "Scaled to 0 to 100: liked from 1 to 0." in legend, "worst first"


def test_an_empty_board_says_what_to_run_and_what_was_left_out():
    def text(task, found=()):
        return markdown.render(rank(found, [task]))

    assert text(STORIES) == (
        "# GRUE leaderboard: suite mini, task stories\n\n- No results yet: run `grue train --suite mini` and "
        "`grue evaluate`, then `grue leaderboard` again.\n"
    )
    assert "run `grue train --task FILE.toml` and" in text(a_task("scenes", suite="own"))
    stale = text(STORIES, entries(STORIES, "old", {1: 10.0}, task_hash="0"))
    assert "\nNotes:\n\n- stories: old (seed 1) left out, made for another version of the task;" in stale


def test_a_task_without_naturalness_has_no_column_of_it():
    content = page(rank(entries(JOKES, "ppo", {1: 30.0}, naturalness=None), [JOKES]))
    first = ["rank", "system", "status", "seeds", "preference ↑"]
    assert list(map(headers, content.tables)) == [first, ["rank", "system", "liked ↑"]]
    assert not any("naturalness leaves out" in line for line in content.legend)


def test_unequal_seed_counts_show_both_ends():
    ragged = entries(STORIES, "ppo", dict.fromkeys(range(7), 1.0)) + entries(JOKES, "ppo", {1: 2.0}, naturalness=None)
    assert page(rank(ragged, [STORIES, JOKES])).tables[0].rows[0][3] == "1–7"


# --- numbers, and the width of a terminal ----------------------------------------------------------------------------


def test_decimals_stand_in_line():
    assert fixed([(1.25, 0.5), None, (-100.0, None), (0.0, 12.0)], 1) == [
        *("   1.2 ±  0.5", "–", "-100.0 ±    –", "   0.0 ± 12.0"),
    ]
    assert fixed([(1.0, None), (22.0, None)], 1) == [" 1.0", "22.0"], "without any spread"
    assert in_line([("0.5", None), ("12", None), ("3.25", None)]) == [" 0.5 ", "12   ", " 3.25"]
    assert in_line([]) == []


def test_values_below_zero_are_never_shown_as_minus_zero():
    scores = (a_score("liked", -0.0001), a_score("fluent", 20.0, "naturalness", "lower"))
    found = Entry(a_result(STORIES, "ppo", 1, 40.0, scores=scores), Path("r"), "local")
    assert page(rank([found], [STORIES])).tables[1].rows[0][2] == "0.000"


def test_a_wide_table_is_cut_to_the_width_of_a_terminal():
    headings = tuple(Heading(f"column {n}") for n in range(6))
    row = ("1", "ppo", "a", "b", "c" * 30, "d")
    wide = TextTable("Title", headings, (row,), frozenset({(0, 1), (0, 4)}), ("note",))
    whole = 1 + 5 * (len("column 0") + 3) + (30 + 3)
    assert narrow(wide, whole) == [wide]
    first, second, third = narrow(wide, 45)
    assert (first.title, first.rows) == ("Title", (("1", "ppo", "a", "b"),))
    assert (second.title, second.rows) == ("", (("1", "ppo", "c" * 30),))  # too wide alone, and still shown
    assert (headers(third), third.rows) == (["column 0", "column 1", "column 5"], (("1", "ppo", "d"),))
    assert [part.strong for part in (first, second, third)] == [{(0, 1)}, {(0, 1), (0, 2)}, {(0, 1)}]
    assert [part.lines for part in (first, second, third)] == [(), (), ("note",)]
    assert [len(part.columns) for part in narrow(wide, whole - 1)] == [5, 3]


# --- papers' figures -------------------------------------------------------------------------------------------------


def test_a_suite_without_rows_shows_the_first_table_of_quality_on_each_task():
    content = page(EMPTY)
    (table,) = content.reported
    assert table.title == "stories, as reported in Table 3"
    assert headers(table) == ["algorithm", "reward", "liked ↑", "edits ↓¹"]
    assert content.sources[-1] == "doe2020: Jane Doe, René Roe. Stories, told. ACL, 2020. https://example.org/doe2020"
    assert page(replace(TASK, tasks=SUITE.tasks[:1], rows=())).reported == ()


def test_one_footnote_serves_all_columns_that_it_is_about():
    columns = (
        *(ReportedColumn("a", "higher", "Same."), ReportedColumn("b", "higher", "Other.")),
        ReportedColumn("c", "none", "Same."),
    )
    row = ReportedRow("PPO", "", "", {"a": Figure(1), "b": Figure(2), "c": Figure(3)})
    printed = ReportedTable("stories", "Table 9", "test", 1, "", columns, (row,))
    (table,) = page(replace(TASK, reported=(replace(PAPER, tables=(printed,)),))).reported
    assert headers(table)[1:] == ["a ↑¹", "b ↑²", "c¹"]
    assert table.lines == ("doe2020, Table 9, split test, 1 seed.", "¹ Same.", "² Other.")


# --- bytes -----------------------------------------------------------------------------------------------------------


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

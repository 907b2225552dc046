"""How a board becomes tables, sentences and numbers."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.factories import LIKED, a_result, a_score, a_task, entries
from support.render_boards import EMPTY, JOKES, MINE, NLPO, NULL, PAPER, PPO, SUITE, TASK

from grue.leaderboard.board import Board
from grue.leaderboard.rank import rank
from grue.records import Entry
from grue.render import as_csv, as_json, html, latex, markdown
from grue.render.layout import Heading, TextTable, narrow
from grue.render.tables import page
from grue.render.text import fixed, in_line
from grue.submissions.reported import Figure, ReportedColumn, ReportedRow, ReportedTable
from grue.tasks import MetricSpec

RENDERERS = (markdown.render, as_json.render, as_csv.render, latex.render)


def results() -> list[Entry]:
    stories, jokes = a_task("stories"), a_task("jokes", metrics=(LIKED,))
    return [
        *entries(stories, "ppo", {1: 41.0, 2: 42.5, 3: 40.0, 4: 44.0, 5: 43.0}, status="rescored"),
        *entries(jokes, "ppo", {1: 21.0, 2: 22.5, 3: 20.0, 4: 24.0, 5: 23.0}, status="rescored", naturalness=None),
        *entries(stories, "null", dict.fromkeys(range(5), 3.0), naturalness=100.0),
        *entries(jokes, "null", dict.fromkeys(range(5), 5.0), naturalness=None),
        *entries(stories, "mine", {1: 41.0}),
        *entries(jokes, "mine", {1: 3.5}, naturalness=None),
    ]


def one_result(name: str = "ppo", **changes: object) -> Board:
    task = a_task("stories")
    return rank([Entry(a_result(task, name, 1, 40.0, **changes), Path("r"), "local")], [task])


def column(table: TextTable, header: str) -> list[str]:
    """The cells of a column, without what pads them."""
    place = [heading.header for heading in table.columns].index(header)
    return [row[place].strip() for row in table.rows]


def strong(table: TextTable, header: str) -> list[int]:
    place = [heading.header for heading in table.columns].index(header)
    return sorted(row for row, other in table.strong if other == place)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_rank_that_several_share_is_marked() -> None:
    third = replace(NLPO, system="third", rank=3, task_ranks={"jokes": 3})
    first, *_, places, _ = page(replace(SUITE, rows=(NLPO, PPO, third, MINE, NULL))).tables
    assert column(first, "rank") == ["1=", "1=", "3", "–"]
    assert (places.title, column(places, "jokes"), column(places, "stories")) == (
        "Rank by task",
        ["1", "2", "3", "–"],
        ["1=", "1=", "–", "–"],
    )


def test_references_stand_in_a_table_of_their_own() -> None:
    *systems, references = page(SUITE).tables
    assert not any("null" in row for table in systems for row in table.rows)
    assert references.title == "References"
    assert [tuple(map(str.strip, row)) for row in references.rows] == [
        ("null", "preference", "4.0", "3.0", "5.0"),
        ("null", "naturalness", "100.0", "–", "100.0"),
    ]


def test_references_of_ones_own_are_told_from_those_of_the_board() -> None:
    """Two rows of one name differ by their status; where all are local, or none is, there is no such column."""
    learned_nothing = {"system": {"name": "zero-shot", "algorithm": "zero-shot"}}
    task = a_task("poems")
    own = [replace(one, result=replace(one.result, **learned_nothing)) for one in entries(task, "", {0: 1.0})]
    given = [replace(one, status="rescored", result=replace(one.result, preference=2.0)) for one in own]
    references = page(rank([*own, *given], [task])).tables[0]
    assert (column(references, "system"), set(column(references, "status"))) == (
        ["zero-shot"] * 2,
        {"local", "rescored"},
    )
    assert [cell.strip() for cell in column(references, "preference ↑")] == [
        {"local": "1.0", "rescored": "2.0"}[status] for status in column(references, "status")
    ]
    of_suite = page(rank([*own, *given], [task, a_task("tales")])).tables[-1]
    assert of_suite.title == "References" and set(column(of_suite, "status")) == {"local", "rescored"}
    for alike in (own, given):
        alone = page(rank(alike, [task])).tables[0]
        assert "status" not in [heading.header for heading in alone.columns]


def test_a_board_of_references_alone_has_no_empty_tables() -> None:
    assert [table.title for table in page(replace(SUITE, rows=(NULL,))).tables] == ["References"]
    task = replace(TASK, rows=TASK.rows[-1:])
    assert [table.title for table in page(task).tables] == ["References", "References, diversity"]


def test_what_cannot_be_told_from_the_best_stands_out() -> None:
    first, preference, naturalness, *_ = page(SUITE).tables
    assert strong(first, "preference ↑") == [0, 1]  # 48.75–51.25 reaches 50.75
    assert strong(first, "naturalness ↑") == [0]  # 58–62 does not reach 78
    assert strong(preference, "jokes") == [0]  # 11–40 does not reach 40.04
    assert strong(preference, "stories") == [0, 1]
    assert strong(naturalness, "stories") == [0]
    assert strong(first, "system") == []


def test_of_a_metric_that_is_better_when_lower_the_lowest_stands_out() -> None:
    _, metrics, diversity, *_ = page(TASK).tables
    assert [heading.header for heading in metrics.columns[2:]] == ["liked ↑", "edits ↓", "fluent ↓"]
    assert strong(metrics, "edits ↓") == [0, 1]  # 40.5 and 40.0, both ± 1.58 over five seeds
    assert strong(metrics, "fluent ↓") == [1]  # 33.3 against 25.0
    assert diversity.strong == frozenset()


def test_nothing_stands_out_where_there_is_nothing_to_compare() -> None:
    content = page(replace(SUITE, rows=(NLPO, MINE, NULL)))
    assert all(table.strong == frozenset() for table in content.tables)
    assert not any(line.startswith("Bold") for line in content.legend)


def test_the_iqm_has_a_column_only_where_it_is_known() -> None:
    assert column(page(SUITE).tables[0], "IQM ↑") == ["51.5", "50.5", "–"]
    without = page(replace(SUITE, rows=tuple(replace(row, iqm=None) for row in SUITE.rows)))
    assert "IQM ↑" not in [heading.header for heading in without.tables[0].columns]
    assert not any("IQM" in line for line in without.legend)
    one = page(replace(TASK, rows=tuple(replace(row, iqm=51.25) for row in TASK.rows)))
    assert column(one.tables[0], "IQM ↑") == ["51.2"] * (len(one.tables[0].rows))
    assert any("IQM" in line for line in one.legend)
    assert ">IQM<" in html.render(SUITE) and "<td>51.5<td" in html.render(SUITE)


def test_without_intervals_the_spread_is_the_standard_deviation() -> None:
    rows = tuple(
        replace(
            row,
            interval=None,
            naturalness_interval=None,
            cells={name: replace(cell, interval=None) for name, cell in row.cells.items()},
        )
        for row in SUITE.rows
    )
    content = page(replace(SUITE, rows=rows, interval_kind="none"))
    first, preference, *_ = content.tables
    assert column(first, "preference ↑") == ["52.0", "50.0", "–"]
    assert column(preference, "stories") == ["62.0 ± 1.6", "64.0 ± 1.6", "70.0 ±   –"]
    assert "Rank by task" in [table.title for table in content.tables]
    assert content.legend[1] == "± is the standard deviation over seeds. – is unknown."


def test_the_legend_says_how_scores_and_intervals_were_made() -> None:
    legend = page(replace(SUITE, interval_kind="bootstrap", scoring="paper", level=0.9)).legend
    assert legend[0].endswith("on the scale of the paper's Figure 2, higher is better (scoring paper).")
    assert "the 90 % interval over seeds (bootstrap)" in legend[1]
    assert not any("Scaled" in line for line in page(replace(TASK, scoring="paper")).legend)


def test_an_empty_board_says_what_to_run() -> None:
    assert (
        markdown.render(rank([], [a_task("stories")]))
        == """\
# GRUE leaderboard: suite mini, task stories

- No results yet: run `grue train --suite mini` and `grue evaluate`, then `grue leaderboard` again.
"""
    )


def test_an_empty_board_of_a_task_of_ones_own_names_its_file() -> None:
    assert "run `grue train --task FILE.toml` and" in markdown.render(rank([], [a_task("scenes", suite="own")]))


def test_an_empty_board_still_says_what_was_left_out() -> None:
    task = a_task("stories")
    stale = entries(task, "old", {1: 10.0}, task_hash="0")
    assert markdown.render(rank(stale, [task])).endswith(
        "\nNotes:\n\n- stories: old (seed 1) left out, made for another version of the task; evaluate again with `grue evaluate --force`.\n"
    )


def test_a_task_without_naturalness_has_no_column_of_it() -> None:
    task = a_task("jokes", metrics=(LIKED,))
    content = page(rank(entries(task, "ppo", {1: 30.0}, naturalness=None), [task]))
    assert [heading.header for table in content.tables for heading in table.columns] == [
        *("rank", "system", "status", "seeds", "preference ↑"),
        *("rank", "system", "liked ↑"),
    ]
    assert not any("naturalness leaves out" in line for line in content.legend)


def test_unequal_seed_counts_show_both_ends() -> None:
    stories, jokes = a_task("stories"), a_task("jokes", metrics=(LIKED,))
    ragged = [
        *entries(stories, "ppo", dict.fromkeys(range(7), 1.0)),
        *entries(jokes, "ppo", {1: 2.0}, naturalness=None),
    ]
    assert page(rank(ragged, [stories, jokes])).tables[0].rows[0][3] == "1–7"


def test_a_lower_is_better_range_is_shown_worst_first() -> None:
    task = a_task("edits", metrics=(MetricSpec("liked", "preference", range=(1.0, 0.0)),))
    legend = page(rank(entries(task, "a", {1: 1.0}, naturalness=None), [task])).legend
    assert "Scaled to 0 to 100: liked from 1 to 0." in legend


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_decimals_stand_in_line() -> None:
    assert fixed([(1.25, 0.5), None, (-100.0, None), (0.0, 12.0)], 1) == [
        "   1.2 ±  0.5",
        "–",
        "-100.0 ±    –",
        "   0.0 ± 12.0",
    ]
    assert in_line([("0.5", None), ("12", None), ("3.25", None)]) == [" 0.5 ", "12   ", " 3.25"]
    assert in_line([]) == []


def test_a_column_without_any_spread_has_no_plus_minus() -> None:
    assert fixed([(1.0, None), (22.0, None)], 1) == [" 1.0", "22.0"]


def test_values_below_zero_are_never_shown_as_minus_zero() -> None:
    scores = (a_score("liked", -0.0001), a_score("fluent", 20.0, "naturalness", "lower"))
    assert page(one_result(scores=scores)).tables[1].rows[0][2] == "0.000"


# --- the width of a terminal -----------------------------------------------------------------------------------------


def test_a_wide_table_is_cut_to_the_width_of_a_terminal() -> None:
    headings = tuple(Heading(f"column {n}") for n in range(6))
    wide = TextTable(
        "Title", headings, (("1", "ppo", "a", "b", "c" * 30, "d"),), frozenset({(0, 1), (0, 4)}), ("note",)
    )
    whole = 1 + 5 * (len("column 0") + 3) + (30 + 3)
    assert narrow(wide, whole) == [wide]
    first, second, third = narrow(wide, 45)
    assert (first.title, first.rows) == ("Title", (("1", "ppo", "a", "b"),))
    assert (second.title, second.rows) == ("", (("1", "ppo", "c" * 30),))  # too wide alone, and still shown
    assert third.rows == (("1", "ppo", "d"),)
    assert [column.header for column in third.columns] == ["column 0", "column 1", "column 5"]
    assert [part.strong for part in (first, second, third)] == [{(0, 1)}, {(0, 1), (0, 2)}, {(0, 1)}]
    assert [part.lines for part in (first, second, third)] == [(), (), ("note",)]
    assert [len(part.columns) for part in narrow(wide, whole - 1)] == [5, 3]


# --- papers' figures -------------------------------------------------------------------------------------------------


def test_a_suite_with_rows_only_says_where_papers_figures_are() -> None:
    content = page(SUITE)
    assert content.reported == ()
    assert content.sources == (
        "2 tables of papers' figures, task by task: `grue leaderboard --suite mini --task stories`.",
    )


def test_a_suite_without_rows_shows_the_first_table_of_quality_on_each_task() -> None:
    content = page(EMPTY)
    (table,) = content.reported
    assert table.title == "stories, as reported in Table 3"
    assert [heading.header for heading in table.columns] == ["algorithm", "reward", "liked ↑", "edits ↓¹"]
    assert content.sources[-1] == "doe2020: Jane Doe, René Roe. Stories, told. ACL, 2020. https://example.org/doe2020"


def test_a_task_shows_all_that_papers_print_about_it() -> None:
    first, second = page(TASK).reported
    assert [heading.header for heading in first.columns][-1] == "mean_length"
    assert column(first, "algorithm") == ["Zero-Shot", "PPO, target KL 0.1"]
    assert column(first, "edits ↓¹") == ["51   ±    –", "40.5 ± 1.25"]
    assert column(first, "mean_length") == ["–", "12"]
    assert first.lines == ("doe2020, Table 3, split test, 5 seeds. Printed, not checked.", "¹ Counted by hand.")
    assert [heading.header for heading in second.columns] == ["algorithm", "words ↑"]
    assert page(replace(TASK, tasks=(JOKES,), rows=())).reported == ()


def test_one_footnote_serves_all_columns_that_it_is_about() -> None:
    columns = (
        ReportedColumn("a", "higher", "Same."),
        ReportedColumn("b", "higher", "Other."),
        ReportedColumn("c", "none", "Same."),
    )
    figures = {"a": Figure(1), "b": Figure(2), "c": Figure(3)}
    printed = ReportedTable("stories", "Table 9", "test", 1, "", columns, (ReportedRow("PPO", "", "", figures),))
    (table,) = page(replace(TASK, reported=(replace(PAPER, tables=(printed,)),))).reported
    assert [heading.header for heading in table.columns[1:]] == ["a ↑¹", "b ↑²", "c¹"]
    assert table.lines == ("doe2020, Table 9, split test, 1 seed.", "¹ Same.", "² Other.")


# --- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", RENDERERS)
def test_equal_input_gives_equal_bytes_in_whatever_order(render) -> None:
    stories, jokes = a_task("stories"), a_task("jokes", metrics=(LIKED,))
    shuffled = results()
    random.Random(1).shuffle(shuffled)
    assert render(rank(shuffled, [jokes, stories])) == render(rank(results(), [stories, jokes]))


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("board", [SUITE, TASK, EMPTY])
def test_lines_end_as_in_unix_and_nothing_trails(render, board: Board) -> None:
    text = render(board)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\r" not in text
    assert not [line for line in text.split("\n") if line.endswith(" ")]

"""The boards that ship: written, read back, and taken up into a new board as if their results were there."""

import json
from dataclasses import replace

import pytest
from support.boards import JOKES, STORIES, five, references
from support.factories import a_result, entries
from support.page_boards import marked_board, trained_board
from support.paths import ROOT

from grue.errors import DataError
from grue.leaderboard import published
from grue.leaderboard.rank import rank
from grue.records import About
from grue.render import as_json
from grue.submissions.reported import Figure, Publication, Reported, ReportedColumn, ReportedRow, ReportedTable

TASKS = [STORIES, JOKES]
FIRST = ReportedRow("ppo", "", "", {"liked": Figure(0.5, 0.1)})
PAPER = Reported(
    Publication("someone2020", "Someone", "A paper", "A venue", 2020, "https://example.org", "v1"),
    (
        ReportedTable("stories", "Table 1", "test", 5, "", (ReportedColumn("liked", "higher"),), (FIRST,)),
        ReportedTable("songs", "Table 2", "test", None, "", (), ()),
    ),
)


def submitted(system, centre, **changes):
    """The entries of five seeds on both tasks, the first of which were drawn again."""
    about = About("ppo", "mini:causal", 1_500_000, ("A. Author",), "CC0-1.0", link="https://example.org")
    found = entries(STORIES, system, five(centre, 1.1), "rescored", **changes)
    found += entries(JOKES, system, five(centre, 1.1), "rescored", naturalness=None, **changes)
    return [replace(entry, about=about, is_rerun=entry.result.seed == 1) for entry in found]


def local(system, centre):
    return [replace(entry, status="local", about=About(), is_rerun=False) for entry in submitted(system, centre)]


def all_submitted():
    """A whole system, one of which a run failed, a reference, and one on a single task."""
    first, *others = submitted("fails", 30.0)
    failed = a_result(STORIES, "fails", 1, None, None, status="failed", scores=())
    return [
        *submitted("ppo", 40.0),
        replace(first, result=failed),
        *others,
        *references([entry for entry in submitted("null", 5.0) if entry.result.seed == 1]),
        *submitted("half", 90.0)[:5],
    ]


ALL = all_submitted()
BOARD = rank(ALL, TASKS, reported=[PAPER])


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    path = tmp_path_factory.mktemp("shipped") / "mini.json"
    path.write_text(as_json.render(BOARD), encoding="utf-8")
    return published.read_board(path)


def test_a_board_comes_back_from_its_file_as_it_was(shipped, tmp_path):
    assert shipped == BOARD
    for board in (marked_board(), trained_board()):
        (tmp_path / "mini.json").write_text(as_json.render(board), encoding="utf-8")
        assert published.read_board(tmp_path / "mini.json") == board
    assert list(shipped.rows[0].cells["stories"].metrics["liked"].by_seed) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("tasks", [TASKS, [STORIES], [JOKES]])
def test_shipped_rows_stand_on_a_board_as_if_their_results_were_there(shipped, tasks):
    mine = local("mine", 41.0) + local("ppo", 80.0)
    assert rank(mine, tasks, iqm=True, shipped=shipped) == rank(ALL + mine, tasks, iqm=True)


def test_what_was_reached_on_another_version_of_a_task_is_left_out_with_a_note(shipped, refused):
    board = rank([], [replace(STORIES, version=2), JOKES], shipped=shipped)
    assert {r.system: (list(r.cells), r.standing, r.preference) for r in board.rows} == {
        "ppo": (["jokes"], "partial", None),
        "fails": (["jokes"], "partial", None),
        "null": (["jokes"], "reference", None),
    }
    (note,) = board.notes
    refused.message(note)


def test_notes_of_a_shipped_board_stay_true():
    lacking = entries(STORIES, "dumb", five(10.0), "rescored", errors=("fluent: no such program.",), naturalness=None)
    shipped = rank(ALL + lacking, TASKS)
    assert rank([], TASKS, shipped=shipped).notes == shipped.notes
    assert sorted(note.partition(" (")[0] for note in shipped.notes) == [
        "stories: fails",
        "stories: fluent could not be computed for dumb",
    ]
    assert rank([], [JOKES], shipped=shipped).notes == ()


def test_reported_figures_are_those_of_the_boards_tasks():
    assert [table.table for one in BOARD.reported for table in one.tables] == ["Table 1"]
    assert rank([], [JOKES], reported=[PAPER]).reported == ()


@pytest.mark.parametrize(
    "damage", [{"schema": 1}, {"suit": "mini"}, {"level": "high"}, "three"], ids=["schema", "key", "level", "seed"]
)
def test_a_file_that_is_no_board_says_why(tmp_path, refused, damage):
    text = as_json.render(BOARD)
    path = tmp_path / "mini.json"
    path.write_text(text.replace('"3":', '"three":') if damage == "three" else json.dumps(json.loads(text) | damage))
    with refused(DataError):
        published.read_board(path)


def test_a_suite_of_ones_own_ships_no_board_and_those_of_a_checkout_are_beside_the_package(tmp_path, monkeypatch):
    assert published.board_folder() == ROOT / "leaderboard"
    monkeypatch.setattr(published, "board_folder", lambda: tmp_path)
    assert published.shipped("own") is None
    (tmp_path / "mini.json").write_text(as_json.render(BOARD))
    assert published.shipped("mini") == BOARD

"""The boards that ship: written, read back, and taken up into a new board as if their results were there."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.factories import LIKED, a_result, a_task, entries
from support.paths import ROOT

from grue.errors import DataError
from grue.leaderboard import published
from grue.leaderboard.board import Board
from grue.leaderboard.rank import rank
from grue.records import About, Entry
from grue.render import as_json
from grue.submissions.reported import Figure, Publication, Reported, ReportedColumn, ReportedRow, ReportedTable

STORIES = a_task("stories")
JOKES = a_task("jokes", metrics=(LIKED,))
TASKS = [STORIES, JOKES]
PAPER = Reported(
    Publication("someone2020", "Someone", "A paper", "A venue", 2020, "https://example.org", "v1"),
    (
        ReportedTable("stories", "Table 1", "test", 5, "", (ReportedColumn("liked", "higher"),), (ReportedRow("ppo", "", "", {"liked": Figure(0.5, 0.1)}),)),
        ReportedTable("songs", "Table 2", "test", None, "", (), ()),
    ),
)  # fmt: skip


def submitted(system: str, centre: float, **changes: Any) -> list[Entry]:
    scores = {seed: centre + 1.1 * (seed - 3) for seed in range(1, 6)}
    found = entries(STORIES, system, scores, status="rescored", **changes)
    found += entries(JOKES, system, scores, status="rescored", naturalness=None, **changes)
    about = About("ppo", "mini:causal", 1_500_000, ("A. Author",), "CC0-1.0", link="https://example.org")
    return [replace(entry, about=about) for entry in found]


def local(system: str, centre: float) -> list[Entry]:
    return [replace(entry, status="local", about=About()) for entry in submitted(system, centre)]


def all_submitted() -> list[Entry]:
    failed = a_result(STORIES, "fails", 5, None, None, status="failed", scores=())
    fails = [entry for entry in submitted("fails", 30.0) if (entry.result.task, entry.result.seed) != ("stories", 5)]
    constant = [
        replace(e, about=About("null", deterministic=True)) for e in submitted("null", 5.0) if e.result.seed == 1
    ]
    half = [entry for entry in submitted("half", 90.0) if entry.result.task == "stories"]
    return [
        *submitted("ppo", 40.0),
        *fails,
        Entry(failed, Path("fails/5"), "rescored", fails[0].about),
        *constant,
        *half,
    ]


def written(board: Board, folder: Path) -> Board:
    """Return the board after a way through its file."""
    path = folder / "mini.json"
    path.write_text(as_json.render(board), encoding="utf-8")
    return published.read_board(path)


def test_a_board_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    board = rank(all_submitted(), TASKS, reported=[PAPER])
    assert written(board, tmp_path) == board
    seeds = written(board, tmp_path).rows[0].cells["stories"].metrics["liked"].by_seed
    assert list(seeds) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("options", [{}, {"interval_kind": "bootstrap"}, {"interval_kind": "none"}, {"iqm": True}])
@pytest.mark.parametrize("tasks", [TASKS, [STORIES], [JOKES]])
def test_shipped_rows_stand_on_a_board_as_if_their_results_were_there(
    tmp_path: Path, options: dict[str, Any], tasks: list[Any]
) -> None:
    shipped = written(rank(all_submitted(), TASKS), tmp_path)
    mine = local("mine", 41.0) + local("ppo", 80.0)
    together = rank(all_submitted() + mine, tasks, generator=np.random.default_rng(0), **options)
    assert rank(mine, tasks, generator=np.random.default_rng(0), shipped=shipped, **options) == together


def test_ranks_are_made_anew_over_all(tmp_path: Path) -> None:
    shipped = written(rank(submitted("ppo", 40.0), TASKS), tmp_path)
    board = rank(local("better", 90.0), TASKS, shipped=shipped)
    assert [(r.system, r.status, r.rank, r.task_ranks) for r in board.rows] == [
        ("better", "local", 1, {"jokes": 1, "stories": 1}),
        ("ppo", "rescored", 2, {"jokes": 2, "stories": 2}),
    ]
    assert [r.rank for r in shipped.rows] == [1]


def test_what_was_reached_on_another_version_of_a_task_is_left_out_with_a_note(tmp_path: Path) -> None:
    shipped = written(rank(all_submitted(), TASKS), tmp_path)
    changed = replace(STORIES, version=2)
    board = rank([], [changed, JOKES], shipped=shipped)
    assert {r.system: (list(r.cells), r.standing, r.preference) for r in board.rows} == {
        "ppo": (["jokes"], "partial", None),
        "fails": (["jokes"], "partial", None),
        "null": (["jokes"], "reference", None),
    }
    assert board.notes == (
        "stories: fails, half, null, ppo of the board that ships with grue left out, "
        "made for another version of the task.",
    )


def test_notes_of_a_shipped_board_stay_true(tmp_path: Path) -> None:
    scores = dict.fromkeys(range(1, 6), 10.0)
    lacking = entries(
        STORIES, "dumb", scores, status="rescored", errors=("fluent: no such program.",), naturalness=None
    )
    shipped = written(rank(all_submitted() + lacking, TASKS), tmp_path)
    note = "stories: fluent could not be computed for dumb (seeds 1, 2, 3, 4, 5); each result.json says why."
    failure = "stories: fails (seed 5) failed and counts as 0."
    assert rank([], TASKS, shipped=shipped).notes == shipped.notes
    assert sorted(shipped.notes) == sorted([note, failure])
    assert rank([], [JOKES], shipped=shipped).notes == ()


def test_reported_figures_are_those_of_the_boards_tasks() -> None:
    assert [t.table for one in rank([], TASKS, reported=[PAPER]).reported for t in one.tables] == ["Table 1"]
    assert rank([], [JOKES], reported=[PAPER]).reported == ()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"schema": 1}, "not a board of schema 6, which this version of grue reads: 1."),
        ({"suit": "mini"}, "unknown key 'suit'. Did you mean 'suite'? Known: schema, suite, "),
        ({"level": "high"}, "level: expected a number, found str 'high'."),
    ],
)
def test_a_file_that_is_no_board_says_why(tmp_path: Path, damage: dict[str, Any], message: str) -> None:
    path = tmp_path / "mini.json"
    path.write_text(json.dumps(json.loads(as_json.render(rank(submitted("ppo", 40.0), TASKS))) | damage))
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}: {message}')}"):
        published.read_board(path)


def test_a_seed_that_is_no_number_says_where(tmp_path: Path) -> None:
    path = tmp_path / "mini.json"
    path.write_text(as_json.render(rank(submitted("ppo", 40.0), TASKS)).replace('"3":', '"three":'))
    with pytest.raises(
        DataError, match=f"^{re.escape(f'{path}: ppo on jokes: a seed must be a whole number, not ')}'three'"
    ):
        published.read_board(path)


def test_a_suite_of_ones_own_ships_no_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "board_folder", lambda: tmp_path)
    assert published.shipped("own") is None
    board = rank(submitted("ppo", 40.0), TASKS)
    written(board, tmp_path)
    assert published.shipped("mini") == board


def test_the_boards_of_a_checkout_are_those_beside_the_package() -> None:
    assert published.board_folder() == ROOT / "leaderboard"

"""What a row's name does not say: presets and other backbones; and tasks on which what learned nothing is best."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from support.factories import LIKED, a_result, a_task

from grue import files
from grue.errors import DataError
from grue.leaderboard.compare import _other_backbones
from grue.leaderboard.entries import find_results, local_entry
from grue.leaderboard.published import read_board, shipped
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import FoundSystem
from grue.records import Entry
from grue.render import as_csv, as_json, html, latex, markdown
from grue.render.tables import page
from grue.render.text import named
from grue.tasks import Backbone

TASK = a_task(backbone=Backbone("causal", "mini:causal"))
OTHER = a_task("jokes", metrics=(LIKED,), backbone=Backbone("seq2seq", "mini:seq2seq"))


def entry(system, seed=1, preference=40.0, task=TASK, preset="", status="local", **said):
    result = a_result(task, system, seed, preference)
    result = replace(result, system={**result.system, **{"backbone": task.backbone.model} | said})
    return Entry(result, Path(f"runs/{system}/{seed}/{task.name}/{preference}"), status, preset=preset)


def names(*found):
    return [named(row) for row in rank(found, [TASK, OTHER]).rows]


@pytest.mark.parametrize(
    ("system", "backbone", "preset", "shown"),
    [
        ("ppo", "mini:causal", "", "ppo"),
        ("ppo", "mini:causal-s", "", "ppo (causal-s)"),
        ("ppo-causal-s", "mini:causal-s", "", "ppo-causal-s"),
        ("ppo-causal-s", "mini:causal", "", "ppo-causal-s"),
        ("ppo-causal-s", "mini:causal-m", "", "ppo-causal-s (causal-m)"),
        ("ppo", "/home/me/models/own/", "", "ppo (own)"),
        ("gpt2", "openai-community/gpt2", "", "gpt2"),
        ("nlpo", "mini:causal", "stable", "nlpo (stable)"),
        ("nlpo-stable", "mini:causal", "stable", "nlpo-stable"),
        ("unstable", "mini:causal", "stable", "unstable (stable)"),
        ("nlpo", "mini:causal-s", "paper", "nlpo (paper, causal-s)"),
        ("mine", "none", "", "mine"),
    ],
)
def test_a_row_shows_what_its_name_does_not_say(system, backbone, preset, shown):
    assert names(entry(system, backbone=backbone, preset=preset)) == [shown]


def test_the_backbone_of_each_task_is_its_usual_one():
    assert names(entry("ppo"), entry("ppo", task=OTHER)) == ["ppo"]
    assert names(entry("ppo"), entry("ppo", task=OTHER, backbone="mini:causal")) == ["ppo (causal)"]
    (row,) = rank([entry("ppo"), entry("ppo", task=OTHER)], [TASK, OTHER]).rows
    assert row.about.backbone == "mini:causal, mini:seq2seq"


def test_every_format_shows_them(tmp_path):
    board = rank([entry("ppo", backbone="org/big"), entry("nlpo", preset="stable")], [TASK])
    for text in (markdown.render(board), latex.render(board), html.render(board)):
        assert "ppo (big)" in text and "nlpo (stable)" in text and "In parentheses" in text
    lines = csv.DictReader(StringIO(as_csv.render(board)))
    assert {(line["system"], line["preset"], line["backbone"]) for line in lines} == {
        ("ppo", "", "org/big"),
        ("nlpo", "stable", ""),
    }
    path = tmp_path / "board.json"
    path.write_text(as_json.render(board))
    assert read_board(path) == board
    usual = rank([entry("ppo")], [TASK])
    assert '"backbones"' not in as_json.render(usual)
    assert "In parentheses" not in markdown.render(usual)


def test_runs_of_several_backbones_in_a_row_are_told():
    board = rank([entry("ppo"), entry("ppo", 2, backbone="mini:causal-s")], [TASK])
    assert [named(row) for row in board.rows] == ["ppo (causal-s)"]
    assert board.notes == (
        "stories: the row of ppo (seeds 1, 2) is of several backbones, mini:causal, mini:causal-s; train one of them "
        "again under a name of its own (--system).",
    )


def test_a_comparison_tells_of_other_backbones():
    def found(name, **said):
        return FoundSystem(
            name, "runs", False, {task.name: {1: entry(name, task=task, **said)} for task in (TASK, OTHER)}
        )

    assert list(_other_backbones(found("ppo"), found("a2c"), [TASK, OTHER])) == []
    assert list(_other_backbones(found("ppo"), found("null", backbone=""), [TASK, OTHER])) == []
    assert list(_other_backbones(found("ppo"), found("big", backbone="org/big"), [TASK])) == [
        "stories: ppo began from mini:causal and big from org/big; the difference is also one of the backbones."
    ]


def test_a_local_run_says_its_preset_in_its_configuration(tmp_path):
    path = tmp_path / "mini/stories/nlpo/seed-1/result.json"
    files.write_json(path, files.plain(entry("nlpo").result))
    assert local_entry(path).preset == ""
    config = path.with_name("config.toml")
    config.write_text(
        'algorithm = "supervised+nlpo"\n[config]\nmask_source = "periodic"\nmass_coefficient = 0.1\nkl_over = "support"\nratio_over = "support"\n'
    )
    assert local_entry(path).preset == "stable"
    config.write_text("algorithm = ")
    with pytest.raises(DataError, match="config.toml"):
        local_entry(path)
    assert [out.path for out in find_results(tmp_path)[1]] == [path]


def test_the_board_that_ships_says_which_nlpo_its_rows_are():
    board = shipped("mini")
    said = {row.system: {preset for cell in row.cells.values() for preset in cell.presets} for row in board.rows}
    assert {name for name, presets in said.items() if presets} == {"nlpo", "supervised+nlpo"}
    assert said["nlpo"] == said["supervised+nlpo"] == {"stable"}
    assert "| nlpo (stable)" in markdown.render(board)


# --- where learning nothing is best ----------------------------------------------------------------------------------


def board_of(jokes_null, **others):
    """Two systems on two tasks, the better at 60 and 30, and a constant at 10 and `jokes_null`."""
    found = []
    for seed in (1, 2, 3, 4, 5):
        for name, stories, jokes in (("ppo", 60.0, 30.0), ("a2c", 50.0, 20.0)):
            found += [entry(name, seed, stories + seed - 3), entry(name, seed, jokes + seed - 3, OTHER)]
    for name, value in {"null": jokes_null, **others}.items():
        said = {"algorithm": name}
        about = replace(found[0].about, deterministic=True)
        found += [
            replace(entry(name, 1, 10.0, **said), about=about),
            replace(entry(name, 1, value, OTHER, **said), about=about),
        ]
    return rank(found, [TASK, OTHER])


def test_a_task_is_marked_where_what_learned_nothing_is_above_every_trained_row():
    board = board_of(35.0, copy=34.0)
    assert {task.name: task.unlearned for task in board.tasks} == {"jokes": "null", "stories": ""}
    ppo = next(row for row in board.rows if row.system == "ppo")
    assert (ppo.preference, ppo.learned) == (45.0, 60.0)
    half = 2.776445 * (2.5 / 5) ** 0.5  # Student's t of four degrees of freedom, and seeds at 58 … 62
    assert (ppo.learned_interval.low, ppo.learned_interval.high) == pytest.approx((60 - half, 60 + half), abs=1e-4)
    means, preference, *_ = page(board).tables
    assert [heading.header for heading in means.columns[4:]] == ["preference ↑", "without ¶ ↑", "naturalness ↑"]
    assert [heading.header for heading in preference.columns[2:]] == ["jokes ¶", "stories"]
    sentence = "A system without learning is above every trained one, null on jokes: read this task as a difference from a start."
    assert f'¶ {sentence} "Without ¶" is the mean over the other tasks; it decides no rank.' in page(board).legend
    for text in (markdown.render(board), html.render(board)):
        assert sentence in text
    assert r"jokes \textparagraph{}" in latex.render(board)


@pytest.mark.parametrize("board", [board_of(29.9), board_of(5.0, oracle=90.0)])
def test_no_task_is_marked_where_a_trained_row_is_best_or_only_the_references_are_above(board):
    assert {task.unlearned for task in board.tasks} == {""}
    assert {row.learned for row in board.rows} == {None}
    assert "¶" not in markdown.render(board) + html.render(board)


def test_ranks_are_those_of_the_full_mean():
    marked, plain = board_of(35.0), board_of(5.0)
    assert [(r.system, r.rank, r.task_ranks) for r in marked.rows] == [
        (r.system, r.rank, r.task_ranks) for r in plain.rows
    ]


def test_a_part_of_the_examples_counts_on_neither_side():
    found = [entry("ppo", 1, 30.0), entry("null", 1, 35.0, algorithm="null")]
    limited = replace(entry("big", 1, 90.0), result=replace(entry("big", 1, 90.0).result, limited=True))
    about = replace(found[1].about, deterministic=True)
    assert rank([found[0], replace(found[1], about=about), limited], [TASK]).tasks[0].unlearned == "null"

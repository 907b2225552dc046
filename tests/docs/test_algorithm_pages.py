"""tools/algorithms_page.py: a page for every algorithm there is, with what was written by hand kept."""

import json
import sys
from types import ModuleType

import pytest
from support import tiny
from support.paths import ROOT

from grue.algorithms import reinforce
from grue.runs.algorithms import ALGORITHMS
from grue.runs.figures import figures_of

sys.path.append(str(ROOT / "tools"))

import algorithms_page

DOCSTRING = """A method of tomorrow: its objective is x_1 − y_2.

What differs from the paper: nothing.

B = responses of an update, T = response time.
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with an empty index, in place of docs/reference."""
    monkeypatch.setattr(algorithms_page, "INDEX", tmp_path / "algorithms.md")
    monkeypatch.setattr(algorithms_page, "PAGES", tmp_path / "algorithms")
    (tmp_path / "algorithms.md").write_text(algorithms_page.BLANK.format(name="Algorithms"))
    return tmp_path


@pytest.fixture
def tomorrow(monkeypatch):
    """An algorithm that nobody told the tool of."""
    module = ModuleType("grue.algorithms.tomorrow", DOCSTRING)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(ALGORITHMS._things, "tomorrow", reinforce.ALGORITHM)
    monkeypatch.setattr(algorithms_page, "BUILT_IN", (*tiny.ALGORITHMS, "tomorrow"))


def write(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["algorithms_page.py", *arguments])
    algorithms_page.main()


def test_a_new_algorithm_gets_a_page_and_a_row(folder, tomorrow, monkeypatch):
    write(monkeypatch)
    page = (folder / "algorithms" / "tomorrow.md").read_text()
    assert page.startswith("# tomorrow\n")
    assert "its objective is x_1 − y_2.\n\nWhat differs from the paper: nothing.\n\nCode: " in page
    assert "T = response time" not in page
    assert "\ngrue train --task commongen --algo supervised+tomorrow\n" in page and "data=FILE" not in page
    assert "The board has no row yet" in page
    assert "| [`tomorrow`](algorithms/tomorrow.md) |" in (folder / "algorithms.md").read_text()
    write(monkeypatch, "--check")


def test_what_was_written_by_hand_stays(folder, monkeypatch):
    write(monkeypatch)
    page = folder / "algorithms" / "ppo.md"
    page.write_text(page.read_text().replace("clip", "snip") + "\n## Details\n\n- By hand.\n")
    with pytest.raises(SystemExit, match=r"ppo.md is stale; run `python tools/algorithms_page.py`"):
        write(monkeypatch, "--check")
    assert "snip" in page.read_text()  # a check writes nothing
    write(monkeypatch)
    assert page.read_text().endswith("\n## Details\n\n- By hand.\n") and "snip" not in page.read_text()


def test_a_page_that_is_missing_or_of_no_algorithm_is_told(folder, monkeypatch):
    write(monkeypatch)
    page = folder / "algorithms" / "ppo.md"
    page.rename(page.with_name("pop.md"))
    with pytest.raises(SystemExit, match=r"ppo.md is missing; run"):
        write(monkeypatch, "--check")
    assert not page.exists()
    page.write_text((page.with_name("pop.md")).read_text())
    with pytest.raises(SystemExit, match=r"pop.md is of no algorithm; remove it"):
        write(monkeypatch, "--check")


def test_a_page_has_the_rows_of_the_board_and_every_figure(folder, monkeypatch):
    write(monkeypatch)
    board = json.loads((ROOT / "leaderboard" / "mini.json").read_text())
    (row,) = [row for row in board["rows"] if row["system"] == "supervised+grpo"]
    page = (folder / "algorithms" / "grpo.md").read_text()
    for task, cell in row["cells"].items():
        assert f"| `{task}` | {cell['preference']['mean']:.1f} ± " in page
        assert f" | {cell['naturalness']['mean']:.1f} ± " in page
    index = (folder / "algorithms.md").read_text()
    assert [name for name in figures_of("grpo") if f"| `{name}` | " not in page + index] == []


def test_a_row_of_one_seed_or_without_an_axis_has_no_interval():
    cell = {"seeds": [1], "preference": {"mean": 40.0, "by_seed": {"1": 40.0}}, "naturalness": None}
    row = {"system": "supervised+ppo", "preference": 40.0, "interval": None, "cells": {"imdb": cell}}
    board = {"level": 0.95, "rows": [{**row, "naturalness": None, "naturalness_interval": None}]}
    told = next(algorithms_page.results("ppo", board))
    assert told.splitlines()[2:] == ["| mean | 40.0 | – |", "| `imdb` | 40.0 | – |"]


def test_what_the_index_says_that_algorithms_need(folder, monkeypatch):
    write(monkeypatch)
    rows = [
        line.split(" | ") for line in (folder / "algorithms.md").read_text().splitlines() if "](algorithms/" in line
    ]
    told = {row[0].split("`")[1]: row[2:7] for row in rows}
    assert told["supervised"] == ["–", "–", "–", "–", "–"]
    assert told["ppo"] == ["yes", "yes", "yes", "any", "–"]
    assert told["rloo"] == ["yes", "–", "yes", "2 or more", "–"]
    assert told["dpo"] == ["yes", "–", "yes", "2 or more", "yes"]
    assert told["pro"] == ["yes", "–", "–", "2 or more", "yes"]
    assert told["alol"] == ["yes", "–", "yes", "any", "yes"]

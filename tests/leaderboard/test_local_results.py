"""Local results that are broken: the board shows the others, and what asks for a broken one says so."""

import json
import re
import shutil

import pytest
from support.commands import grue
from support.factories import a_result
from support.paths import ROOT

from grue import files
from grue.leaderboard.entries import find_submitted
from grue.leaderboard.systems import find_systems
from grue.task_files import load_task


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Runs: two whole ones, another system's, a cut result, an empty one, one without preference, and a copy."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "submissions").mkdir()
    imdb = load_task("imdb")

    def write(place, system, preference=40.0):
        path = folder / "runs/mini/imdb" / place / "result.json"
        files.write_json(path, a_result(imdb, system, int(place[-1]) if place[-1].isdigit() else 1, preference))
        return path

    for place, system in (("whole/seed-1", "whole"), ("whole/seed-2", "whole"), ("other/seed-1", "other")):
        write(place, system)
    cut = write("cut/seed-1", "cut")
    cut.write_text(cut.read_text()[:100])
    write("empty/seed-1", "empty").write_text("")
    write("unscored/seed-1", "unscored", None)
    write("whole/seed-1-copy", "whole", 99.0)
    return folder


def places(folder):
    return "--runs", folder / "runs", "--submissions", folder / "submissions"


def test_the_board_leaves_out_what_is_broken_and_says_so_and_so_does_its_picture(broken):
    asked = ("--task", "imdb", *places(broken))
    board = json.loads(grue("leaderboard", "--format", "json", *asked).stdout)
    local = {row["system"]: row["preference"] for row in board["rows"] if row["status"] == "local"}
    assert local == {"whole": 40.0, "other": 40.0}
    out = [note for note in board["notes"] if note.startswith("Left out: ")]
    cures = dict.fromkeys(("cut/seed-1", "empty/seed-1", "unscored/seed-1"), "remove the file.")
    for name, cure in (cures | {"whole/seed-1-copy": "or move it elsewhere."}).items():
        assert sum(f"{name}/result.json" in note and note.endswith(cure) for note in out) == 1
    drawn = grue("plot", "tradeoff", "-o", broken / "picture.svg", *asked).stderr.splitlines()
    assert [line for line in drawn if line.startswith("Left out: ")] == out and len(out) == 4


def test_rows_whose_data_is_not_here_cannot_be_compared_by_example(tmp_path, refused, monkeypatch):
    monkeypatch.setenv("GRUE_DATA", str(tmp_path / "mirror"))
    rows = ("supervised+ppo", "supervised+grpo", "--suite", "small", "--submissions", ROOT / "submissions")
    refused.command("compare", *rows, "--offline", "--runs", tmp_path, code=3)


def test_what_asks_for_a_broken_result_is_refused_and_nothing_else(broken, refused, tmp_path):
    for system in ("cut", "whole"):
        refused.command("compare", system, "other", *places(broken), code=3)
    assert find_systems(["other"], "mini", broken / "submissions", broken / "runs")[0].origin == "runs"
    packed = "submit", "pack", broken / "runs/mini/imdb/cut", "--licence", "CC-BY-4.0", "-o", tmp_path / "packed"
    refused.command(*packed, code=3)


def test_a_submission_that_cannot_be_read_takes_no_board_down_and_is_not_published(tmp_path, refused):
    for system in ("null", "copy"):
        shutil.copytree(ROOT / "submissions/mini" / system, tmp_path / "submissions/mini" / system)
    bad = tmp_path / "submissions/mini/copy/imdb/seed-1.result.json"
    bad.write_text(re.sub(r'"value": [\d.]+', '"value": 1e308', bad.read_text()))
    found, (out,) = find_submitted(tmp_path / "submissions", "mini")
    assert {entry.result.system["name"] for entry in found} == {"null"}
    refused.message(out.note)
    refused.command("compare", "copy", "null", *places(tmp_path), code=3)
    refused.command("leaderboard", "--publish", tmp_path / "out", "--submissions", tmp_path / "submissions", code=3)

"""`grue view`: the page of the board with local rows, or a comparison's report, and its path."""

import shutil
import webbrowser

import pytest
from support.commands import grue
from support.paths import ROOT


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs/mini/imdb/supervised/seed-1"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "submissions/mini/supervised/imdb/seed-1.result.json", folder / "result.json")
    return tmp_path / "runs"


def test_the_board_opens_with_local_rows_or_a_report_instead(runs, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    assert grue("view").stdout == "runs/mini/board.html\n"
    assert opened == [(runs / "mini/board.html").as_uri()]
    assert "supervised" in (runs / "mini/board.html").read_text(encoding="utf-8")
    grue("view", "--no-open")
    assert len(opened) == 1
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert "no browser here" in grue("view").stderr
    (runs / "report.html").touch()
    assert grue("view", runs, "--no-open").stdout == f"{runs}/report.html\n"


def test_a_task_of_ones_own_opens_by_its_file_and_tells_of_results_left_out(runs):
    lines = ('reward = "rougeL"', "[data]", 'sources = [{ kind = "local", files = { test = "test.jsonl" } }]')
    (runs.parent / "jokes.toml").write_text(
        "\n".join((*lines, "[backbone]", 'family = "causal"', 'model = "mini:causal"'))
    )
    result = runs / "own/jokes/ours/seed-1/result.json"
    result.parent.mkdir(parents=True)
    result.write_text("{")
    assert grue("view", "--task", "jokes.toml", "--no-open").stdout == "runs/own/jokes/board.html\n"
    assert "jokes/ours/seed-1/result.json" in (runs / "own/jokes/board.html").read_text(encoding="utf-8")


def test_what_cannot_be_shown_is_refused(runs, refused):
    (runs.parent / "empty").mkdir()
    refused.command("view", "empty", code=2)
    shutil.copytree(runs / "mini", runs / "grue")
    refused.command("view", code=2)
    refused.command("frontier", "--checkpoint", "x", code=2)

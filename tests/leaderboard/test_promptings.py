"""Rows of other prompts and of endpoints: marked in every format, and mixed with no others."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.factories import a_result, a_task

from grue.errors import ConfigError
from grue.leaderboard.compare import _asked_differently
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import _system
from grue.records import Entry
from grue.render import as_csv, as_json, html, latex, markdown
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.refusals import refusals
from grue.task_files import load_task
from grue.tasks import Chat, Prompt

TASK = a_task(prompt=Prompt(8, "left", Chat(1, "{prompt}")))
ASKED = {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": TASK.chat_hash, "shots": []}}}
SERVED = {"algorithm": "endpoint", "endpoint": {"url": "http://localhost/v1"}}


def entry(system, seed, preference, task=TASK, by=None, **changes):
    result = a_result(task, system, seed, preference, **changes)
    if by is not None:
        result = replace(result, system={**result.system, **by})
    return Entry(result, Path(f"runs/{system}/{seed}/{preference}"), "local")


def board():
    found = [entry("m", seed, 40.0 + seed) for seed in (1, 2)]
    found += [entry("m", seed, 60.0 + seed, **ASKED) for seed in (1, 2)]  # of the same name
    return rank([*found, entry("served", 1, 70.0, by=SERVED, **ASKED), entry("done", 1, 30.0, by=SERVED)], [TASK])


def test_other_promptings_are_rows_of_their_own():
    rows = [(row.system, row.prompting, row.by_endpoint, len(row.cells["stories"].seeds)) for row in board().rows]
    assert sorted(rows) == [
        ("done", "plain", True, 1),
        ("m", "chat", False, 2),
        ("m", "plain", False, 2),
        ("served", "chat", True, 1),
    ]


def test_every_format_marks_them(tmp_path):
    text = markdown.render(board())
    for name in ("| m ‡ ", "| m   ", "| served ‡§ ", "| done § "):
        assert name.rstrip() in text, name
    assert "‡ was asked by the tasks' chat prompts, the other systems by the plain prompts of training." in text
    assert "§ was answered by a server: its weights and its training are unknown here" in text
    assert {line.split(",")[4] for line in as_csv.render(board()).splitlines()[1:]} == {
        "m",
        "m ‡",
        "served ‡§",
        "done §",
    }
    assert r"\textdaggerdbl{}\textsection{}" in latex.render(board())
    page = html.render(board())
    assert "m ‡" in page and "chat prompt · by an endpoint" in page
    (tmp_path / "board.json").write_text(as_json.render(board()), encoding="utf-8")
    assert read_board(tmp_path / "board.json").rows == board().rows


def test_a_board_without_them_has_the_bytes_it_had():
    plain = rank([entry("m", 1, 40.0)], [TASK])
    assert "prompting" not in as_json.render(plain) and "by_endpoint" not in as_json.render(plain)
    assert "‡" not in markdown.render(plain) and "§" not in markdown.render(plain)


def test_answers_to_another_chat_prompt_are_left_out():
    other = {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": "0" * 64}}}
    odd = {"generation": {"prompting": 7}}
    found = rank([entry("m", 1, 40.0), entry("old", 1, 50.0, **other), entry("odd", 1, 50.0, **odd)], [TASK])
    assert [row.system for row in found.rows] == ["m"]
    (note,) = [note for note in found.notes if "left out" in note]
    assert (
        note
        == "stories: odd (seed 1); old (seed 1) left out, made by another chat prompt than the task's; evaluate again with `grue evaluate --force`."
    )
    assert rank([entry("m", 1, 40.0, task=a_task(), **ASKED)], [a_task()]).rows == ()  # the task has none


def test_a_name_for_two_promptings_is_refused_where_one_system_is_asked_for():
    task = load_task("imdb")
    plain, chat = entry("m", 1, 40.0, task), entry("m", 2, 40.0, task, **ASKED)
    with pytest.raises(ConfigError, match="m: some of its results .* are of plain prompts and others of chat prompts"):
        _system([plain, chat], "runs", [task.name])
    with pytest.raises(ConfigError, match="several systems under one name"):
        _system([plain, entry("m", 2, 40.0, task, by=SERVED)], "runs", [task.name])
    found = [
        _system([one], "runs", [task.name])
        for one in (plain, replace(chat, result=replace(chat.result, system={"name": "n"})))
    ]
    assert list(_asked_differently(*found)) == [
        "m by plain prompts and n by chat prompts: the difference is also one of the prompts."
    ]
    assert list(_asked_differently(found[0], found[0])) == []


def test_runs_of_two_promptings_are_not_packed_together():
    task = load_task("imdb")
    asked = {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": task.chat_hash, "shots": []}}}
    old = {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": "0" * 64}}}
    runs = [
        PackedRun(entry("m", seed, 40.0, task, **how).result, (), f"run {seed}") for seed, how in ((1, {}), (2, asked))
    ]
    told = refusals(runs)
    assert (
        "These are runs of chat prompts and plain prompts, which are systems of their own; pack each by itself." in told
    )
    told = refusals([PackedRun(entry("m", 1, 40.0, task, **old).result, (), "run 1")])
    assert any("was asked by version 1 (000000000000) of the chat prompt; it is now version 1" in line for line in told)
    assert refusals([runs[1]]) == []

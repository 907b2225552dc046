"""Rows of other prompts and of endpoints: marked in every format, and mixed with no others."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.factories import a_result, a_task
from support.late import late

from grue.errors import ConfigError
from grue.leaderboard.compare import _asked_differently
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import _system
from grue.records import Entry
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.refusals import refusals
from grue.task_files import load_task
from grue.tasks import Chat, Prompt

as_csv = late("grue.render.as_csv")
TASK = a_task("imdb", prompt=Prompt(8, "left", Chat(1, "{prompt}")))
SERVED = {"algorithm": "endpoint", "endpoint": {"url": "http://localhost/v1"}}


def asked(chat_hash, **more):
    return {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": chat_hash, **more}}}


ASKED, OLD = asked(TASK.chat_hash, shots=[]), asked("0" * 64)


def entry(system, seed, preference, by=None, task=TASK, **changes):
    result = a_result(task, system, seed, preference, **changes)
    result = replace(result, system={**result.system, **(by or {})})
    return Entry(result, Path(f"runs/{system}/{seed}/{preference}"), "local")


@pytest.fixture(scope="module")
def board():
    found = [entry("m", seed, 40.0 + seed) for seed in (1, 2)]
    found += [entry("m", seed, 60.0 + seed, **ASKED) for seed in (1, 2)]  # of the same name
    return rank([*found, entry("served", 1, 70.0, SERVED, **ASKED), entry("done", 1, 30.0, SERVED)], [TASK])


def test_other_promptings_are_rows_of_their_own(board):
    rows = [(row.system, row.prompting, row.by_endpoint, len(row.cells["imdb"].seeds)) for row in board.rows]
    assert sorted(rows) == [
        ("done", "plain", True, 1),
        ("m", "chat", False, 2),
        ("m", "plain", False, 2),
        ("served", "chat", True, 1),
    ]


def test_answers_to_another_chat_prompt_are_left_out(refused):
    odd = {"generation": {"prompting": 7}}
    found = rank([entry("m", 1, 40.0), entry("old", 1, 50.0, **OLD), entry("odd", 1, 50.0, **odd)], [TASK])
    assert [row.system for row in found.rows] == ["m"]
    (note,) = [note for note in found.notes if "left out" in note]
    refused.message(note)
    without = a_task()
    assert rank([entry("m", 1, 40.0, task=without, **ASKED)], [without]).rows == ()  # the task has none


def test_a_name_for_two_promptings_is_refused_where_one_system_is_asked_for(refused):
    plain, chat = entry("m", 1, 40.0), entry("m", 2, 40.0, **ASKED)
    for other in (chat, entry("m", 2, 40.0, SERVED)):
        with refused(ConfigError):
            _system([plain, other], "runs", [TASK.name])
    one, other = (_system([each], "runs", [TASK.name]) for each in (plain, entry("n", 2, 40.0, **ASKED)))
    (said,) = _asked_differently(one, other)
    assert said == "m by plain prompts and n by chat prompts: the difference is also one of the prompts."
    assert list(_asked_differently(one, one)) == []


def test_runs_of_two_promptings_are_not_packed_together(refused):
    task = load_task("imdb")
    now = asked(task.chat_hash, shots=[])
    plain, chat, old = (
        PackedRun(entry("m", seed, 40.0, task=task, **how).result, (), f"run {seed}")
        for seed, how in ((1, {}), (2, now), (3, OLD))
    )
    assert refusals([chat]) == []
    for runs in ([plain, chat], [old]):
        (said,) = [line for line in refusals(runs) if "chat prompt" in line]
        refused.message(said)

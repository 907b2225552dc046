"""What a row's name does not say: presets, backbones, prompts; and tasks on which what learned nothing is best."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.boards import references, row, with_result
from support.factories import LIKED, a_result, a_task

from grue import files
from grue.errors import ConfigError, DataError
from grue.leaderboard.compare import _asked_differently, _other_backbones
from grue.leaderboard.entries import find_results, local_entry
from grue.leaderboard.published import shipped
from grue.leaderboard.rank import rank
from grue.leaderboard.systems import FoundSystem, _system
from grue.records import Entry
from grue.render import html, latex, markdown
from grue.render.tables import page
from grue.render.text import named
from grue.tasks import Backbone, Chat, Prompt

TASK = a_task(backbone=Backbone("causal", "mini:causal"))
OTHER = a_task("jokes", metrics=(LIKED,), backbone=Backbone("seq2seq", "mini:seq2seq"))


def entry(system, seed=1, preference=40.0, task=TASK, preset="", made=None, **said):
    result = a_result(task, system, seed, preference, **(made or {}))
    result = replace(result, system={**result.system, **{"backbone": task.backbone.model} | said})
    return Entry(
        result, Path(f"runs/{task.name}/{preference}/{system}/seed-{seed}/result.json"), "local", preset=preset
    )


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
    assert names(entry("ppo"), entry("ppo", task=OTHER, backbone="mini:causal")) == ["ppo (causal)"]
    (row,) = rank([entry("ppo"), entry("ppo", task=OTHER)], [TASK, OTHER]).rows
    assert (named(row), row.about.backbone) == ("ppo", "mini:causal, mini:seq2seq")


def test_runs_of_several_backbones_in_a_row_are_told(refused):
    board = rank([entry("ppo"), entry("ppo", 2, backbone="mini:causal-s")], [TASK])
    assert [named(row) for row in board.rows] == ["ppo (causal-s)"]
    (note,) = board.notes
    refused.message(note)


def test_a_comparison_tells_of_other_backbones():
    def found(name, **said):
        cells = {task.name: {1: entry(name, task=task, **said)} for task in (TASK, OTHER)}
        return FoundSystem(name, "runs", False, cells)

    ppo = found("ppo")
    assert [*_other_backbones(ppo, found("a2c"), [TASK, OTHER])] == []
    assert [*_other_backbones(ppo, found("null", backbone=""), [TASK, OTHER])] == []
    (said,) = _other_backbones(ppo, found("big", backbone="org/big"), [TASK])
    assert said.startswith("stories: ppo began from mini:causal and big from org/big;")


def test_a_local_run_says_its_preset_in_its_configuration(tmp_path):
    path = tmp_path / "mini/stories/nlpo/seed-1/result.json"
    files.write_json(path, files.plain(entry("nlpo").result))
    assert local_entry(path).preset == ""
    stable = {"mask_source": "periodic", "mass_coefficient": 0.1, "kl_over": "support", "ratio_over": "support"}
    config = path.with_name("config.toml")
    files.write_toml(config, {"algorithm": "supervised+nlpo", "config": stable})
    assert local_entry(path).preset == "stable"
    config.write_text("algorithm = ")
    with pytest.raises(DataError, match=r"config\.toml"):
        local_entry(path)
    assert [out.path for out in find_results(tmp_path)[1]] == [path]


def test_the_board_that_ships_says_which_nlpo_its_rows_are():
    said = {row.system: {p for cell in row.cells.values() for p in cell.presets} for row in shipped("mini").rows}
    assert {name: presets for name, presets in said.items() if "nlpo" in name} == {
        "supervised+nlpo_stable": {"stable"},
        "supervised+nlpo_paper": {"paper"},
    }


CHAT = a_task("imdb", prompt=Prompt(8, "left", Chat(1, "{prompt}")))
SERVED = {"algorithm": "endpoint", "endpoint": {"url": "http://localhost/v1"}}


def asked(chat_hash, **more):
    return {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": chat_hash, **more}}}


ASKED, OLD = asked(CHAT.chat_hash, shots=[]), asked("0" * 64)


def test_other_promptings_are_rows_of_their_own():
    found = [entry("m", seed, task=CHAT, made=made) for seed in (1, 2) for made in ({}, ASKED)]  # of the same name
    found += [entry("served", task=CHAT, made=ASKED, **SERVED), entry("done", task=CHAT, **SERVED)]
    rows = [(row.system, row.prompting, row.by_endpoint, row.cells["imdb"].seeds) for row in rank(found, [CHAT]).rows]
    plain, chat = ("m", "plain", False, (1, 2)), ("m", "chat", False, (1, 2))
    assert sorted(rows) == [("done", "plain", True, (1,)), chat, plain, ("served", "chat", True, (1,))]


def test_answers_to_another_chat_prompt_are_left_out(refused):
    odd = entry("odd", task=CHAT, made={"generation": {"prompting": 7}})
    found = rank([entry("m", task=CHAT), entry("old", task=CHAT, made=OLD), odd], [CHAT])
    assert [row.system for row in found.rows] == ["m"]
    (note,) = [note for note in found.notes if "left out" in note]
    refused.message(note)
    assert rank([entry("m", made=ASKED)], [TASK]).rows == ()  # the task has none


def test_a_name_for_two_promptings_is_refused_where_one_system_is_asked_for(refused):
    plain = entry("m", task=CHAT)
    for other in (entry("m", 2, task=CHAT, made=ASKED), entry("m", 2, task=CHAT, **SERVED)):
        with refused(ConfigError):
            _system([plain, other], "runs", [CHAT.name])
    one, other = (_system([each], "runs", [CHAT.name]) for each in (plain, entry("n", task=CHAT, made=ASKED)))
    (said,) = _asked_differently(one, other)
    assert said == "m by plain prompts and n by chat prompts: the difference is also one of the prompts."
    assert list(_asked_differently(one, one)) == []


def board_of(**without):
    """Two systems on two tasks, the better at 60 and 30, and some that learn nothing: 10, and what they have on jokes."""
    found = []
    for name, stories, jokes in (("ppo", 60.0, 30.0), ("a2c", 50.0, 20.0)):
        for seed in (1, 2, 3, 4, 5):
            found += [entry(name, seed, stories + seed - 3), entry(name, seed, jokes + seed - 3, OTHER)]
    for name, value in without.items():
        fixed = entry(name, 1, 10.0, algorithm=name), entry(name, 1, value, OTHER, algorithm=name)
        found += references(fixed)
    return rank(found, [TASK, OTHER])


def test_a_task_is_marked_where_what_learned_nothing_is_above_every_trained_row():
    board = board_of(null=35.0, copy=34.0)
    assert {task.name: task.unlearned for task in board.tasks} == {"jokes": "null", "stories": ""}
    ppo = row(board, "ppo")
    assert (ppo.preference, ppo.learned) == (45.0, 60.0)
    half = 2.776445 * (2.5 / 5) ** 0.5  # Student's t of four degrees of freedom, and seeds at 58 … 62
    assert (ppo.learned_interval.low, ppo.learned_interval.high) == pytest.approx((60 - half, 60 + half), abs=1e-4)
    means, preference, *_ = page(board).tables
    assert [heading.header for heading in means.columns[4:]] == ["preference ↑", "without ¶ ↑", "naturalness ↑"]
    assert [heading.header for heading in preference.columns[2:]] == ["jokes ¶", "stories"]
    sentence = (
        "A system without learning is above every trained one, null on jokes: read this task as gains over a start."
    )
    assert f'¶ {sentence} "Without ¶" is the mean over the other tasks; it decides no rank.' in page(board).legend
    assert sentence in markdown.render(board) and sentence in html.render(board)
    assert r"jokes \textparagraph{}" in latex.render(board)
    plain = board_of(null=5.0, copy=5.0)
    for one, other in zip(board.rows, plain.rows, strict=True):
        assert (one.system, one.rank, one.task_ranks) == (other.system, other.rank, other.task_ranks)


@pytest.mark.parametrize("without", [{"null": 29.9}, {"null": 5.0, "oracle": 90.0}])
def test_no_task_is_marked_where_a_trained_row_is_best_or_only_the_references_are_above(without):
    board = board_of(**without)
    assert {task.unlearned for task in board.tasks} == {""}
    assert {row.learned for row in board.rows} == {None}
    assert "¶" not in markdown.render(board) + html.render(board)


def test_a_part_of_the_examples_counts_on_neither_side():
    limited = with_result(entry("big", 1, 90.0), limited=True)
    null = references([entry("null", 1, 35.0, algorithm="null")])
    assert rank([entry("ppo", 1, 30.0), *null, limited], [TASK]).tasks[0].unlearned == "null"

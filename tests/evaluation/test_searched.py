"""Answers that are searched beside the samples that count: written, scored, resumed, added later, shown and never ranked."""

import json

import pytest
from support.commands import grue, printed_json

from grue.evaluation.predictions import read_predictions

WHERE = "runs/own/words/zero-shot/seed-1"
ASKED = ("evaluate", "--baseline", "zero-shot", "--batch-size", 2, "--task")


SAMPLED = {"max_new_tokens": 6, "do_sample": True}
SEARCH = {"max_new_tokens": 7, "num_beams": 2}


@pytest.fixture
def task(own):
    """A task that is scored by two samples a prompt, with beams beside."""
    return own(rollout=SAMPLED, decoding={**SAMPLED, "samples": 2}, search=SEARCH)


def test_searched_answers_are_those_of_a_task_that_decodes_so(own, task, tmp_path):
    found = printed_json(*ASKED, task)[0]
    searched = found["searched"]
    answers = (tmp_path / WHERE / "searched.jsonl").read_bytes()
    alone = printed_json(*ASKED, own(rollout=SAMPLED, decoding=SEARCH), "--force")[0]
    assert answers == (tmp_path / WHERE / "predictions.jsonl").read_bytes()
    assert searched["preference"] == alone["preference"] and searched["naturalness"] is None
    assert searched["scores"] == {score["metric"]: score["value"] for score in alone["scores"]}
    assert searched["counts"] == alone["counts"] and searched["predictions"] == alone["hashes"]["predictions"]
    assert searched["generation"] == alone["generation"] and searched["generation"]["num_beams"] == 2
    assert "searched" not in alone and not (tmp_path / WHERE / "searched.jsonl").exists()
    sampled = own(rollout=SAMPLED, decoding={**SAMPLED, "samples": 2})
    without = printed_json(*ASKED, sampled, "--force")[0]
    assert (without["scores"], without["preference"]) == (found["scores"], found["preference"])


def test_searched_answers_are_left_out_and_added(task, tmp_path):
    plain = printed_json(*ASKED, task, "--no-search")[0]
    place = tmp_path / WHERE
    assert "searched" not in plain and not (place / "searched.jsonl").exists()
    drawn = (place / "predictions.jsonl").read_bytes()
    more = printed_json(*ASKED, task)[0]
    assert {key: value for key, value in more.items() if key != "searched"} == plain
    assert (place / "predictions.jsonl").read_bytes() == drawn and more["searched"]["counts"]["scored"] == 5
    assert printed_json(*ASKED, task, "--no-search")[0] == more  # what is there stays


def test_a_search_is_gone_on_with_after_a_kill_refused_after_a_change_and_made_again_after_a_loss(
    task, tmp_path, cut_off, refused
):
    whole, path = printed_json(*ASKED, task)[0], tmp_path / WHERE / "searched.jsonl"
    answers = cut_off(path.parent, 3, path.name)
    again = printed_json(*ASKED, task)[0]
    assert again["searched"] == whole["searched"] and again["scores"] == whole["scores"]
    assert path.read_bytes() == answers
    path.write_bytes(answers.replace(b'"text":"', b'"text":"not ', 1))
    refused.command(*map(str, (*ASKED, task)), code=3)
    path.unlink()
    assert "searched.jsonl: is missing; answering again." in grue(*ASKED, task).stderr
    assert path.read_bytes() == answers and printed_json(*ASKED, task)[0]["searched"] == whole["searched"]


def test_it_is_shown_beside_the_score_of_what_has_beams(task):
    preference = printed_json(*ASKED, task)[0]["searched"]["preference"]
    assert f"searched, 2 beams, outside the score: preference {preference:.1f}" in grue(*ASKED, task).stdout
    printed_json(*ASKED, task, "--seed", 2)
    assert "searched" not in printed_json(*ASKED, task, "--best-of", 2)[0]
    printed_json("evaluate", "--baseline", "null", "--task", task)
    board = json.loads(grue("leaderboard", "--task", task, "--format", "json").stdout)
    cells = {row["system"]: row["cells"]["words"] for row in board["rows"]}
    assert set(cells["zero-shot"]["searched"]["by_seed"]) == {"1", "2"} and "searched" not in cells["null"]
    assert len(read_predictions(task.parent / WHERE / "searched.jsonl")[0].draws) == 1
    shown = grue("leaderboard", "--task", task).stdout
    assert "Searched answers are decoded by beam search" in shown

"""Answers that are searched beside the samples that count: written, scored, resumed, added later, shown and never ranked."""

import json

import pytest
from support.commands import grue, printed_json

from grue import files
from grue.evaluation.predictions import read_predictions

WORDS = "runs sits walks goes reads".split()
WHERE = "runs/own/words/zero-shot/seed-1"
ASKED = ("evaluate", "--baseline", "zero-shot", "--batch-size", 2, "--task")


def write_task(folder, **tables):
    table = {
        "reward": "rouge1",
        "metrics": [{"name": "rouge1", "axis": "preference", "range": [0, 1]}],
        "data": {"sources": [{"kind": "local", "files": dict.fromkeys(("train", "validation", "test"), "rows.jsonl")}]},
        "backbone": {"family": "causal", "model": "mini:causal"},
    }
    files.write_toml(folder / "words.toml", table | tables)
    return folder / "words.toml"


SAMPLED = {"max_new_tokens": 6, "do_sample": True}
SEARCH = {"max_new_tokens": 7, "num_beams": 2}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A task that is scored by two samples a prompt, with beams beside; its folder is the working one."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"r{n}", "prompt": f"a man {word}", "reference": f"{word} home"} for n, word in enumerate(WORDS)]
    files.write_jsonl(tmp_path / "rows.jsonl", rows)
    return write_task(tmp_path, rollout=SAMPLED, decoding={**SAMPLED, "samples": 2}, search=SEARCH)


def test_searched_answers_are_those_of_a_task_that_decodes_so(own, tmp_path):
    found = printed_json(*ASKED, own)[0]
    searched = found["searched"]
    answers = (tmp_path / WHERE / "searched.jsonl").read_bytes()
    alone = printed_json(*ASKED, write_task(tmp_path, rollout=SAMPLED, decoding=SEARCH), "--force")[0]
    assert answers == (tmp_path / WHERE / "predictions.jsonl").read_bytes()
    assert searched["preference"] == alone["preference"] and searched["naturalness"] is None
    assert searched["scores"] == {score["metric"]: score["value"] for score in alone["scores"]}
    assert searched["counts"] == alone["counts"] and searched["predictions"] == alone["hashes"]["predictions"]
    assert searched["generation"] == alone["generation"] and searched["generation"]["num_beams"] == 2
    assert "searched" not in alone and not (tmp_path / WHERE / "searched.jsonl").exists()
    sampled = write_task(tmp_path, rollout=SAMPLED, decoding={**SAMPLED, "samples": 2})
    without = printed_json(*ASKED, sampled, "--force")[0]
    assert (without["scores"], without["preference"]) == (found["scores"], found["preference"])


def test_what_has_no_beams_is_not_searched(own):
    for options in (("--baseline", "null"), ("--baseline", "zero-shot", "--best-of", 2)):
        assert "searched" not in printed_json("evaluate", *options, "--task", own)[0]


def test_searched_answers_are_left_out_and_added(own, tmp_path):
    plain = printed_json(*ASKED, own, "--no-search")[0]
    place = tmp_path / WHERE
    assert "searched" not in plain and not (place / "searched.jsonl").exists()
    drawn = (place / "predictions.jsonl").read_bytes()
    more = printed_json(*ASKED, own)[0]
    assert {key: value for key, value in more.items() if key != "searched"} == plain
    assert (place / "predictions.jsonl").read_bytes() == drawn and more["searched"]["counts"]["scored"] == 5
    assert printed_json(*ASKED, own, "--no-search")[0] == more  # what is there stays


def test_a_search_that_was_cut_off_is_gone_on_with(own, tmp_path):
    whole = printed_json(*ASKED, own)[0]
    place = tmp_path / WHERE
    answers = (place / "searched.jsonl").read_bytes()
    claim = {key: value for key, value in files.read_json(place / "evaluation.json").items() if key != "sha256"}
    (place / "evaluation.json").write_text(json.dumps(claim))
    (place / "result.json").unlink()
    (place / "searched.jsonl").write_bytes(answers[: len(answers) // 2])
    again = printed_json(*ASKED, own)[0]
    assert again["searched"] == whole["searched"] and again["scores"] == whole["scores"]
    assert (place / "searched.jsonl").read_bytes() == answers


def test_searched_answers_that_were_changed_are_refused_and_missing_ones_made_again(own, tmp_path, refused):
    whole = printed_json(*ASKED, own)[0]
    path = tmp_path / WHERE / "searched.jsonl"
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b'"text":"', b'"text":"not ', 1))
    refused.command(*map(str, (*ASKED, own)), code=3)
    path.unlink()
    warned = grue(*ASKED, own)
    assert "searched.jsonl: is missing; answering again." in warned.stderr
    assert path.read_bytes() == kept and printed_json(*ASKED, own)[0]["searched"] == whole["searched"]


def test_it_is_shown_beside_the_score(own):
    line = (
        f"searched, 2 beams, outside the score: preference {printed_json(*ASKED, own)[0]['searched']['preference']:.1f}"
    )
    assert line in grue(*ASKED, own).stdout
    printed_json(*ASKED, own, "--seed", 2)
    printed_json("evaluate", "--baseline", "null", "--task", own)
    board = json.loads(grue("leaderboard", "--task", own, "--format", "json").stdout)
    cells = {row["system"]: row["cells"]["words"] for row in board["rows"]}
    assert set(cells["zero-shot"]["searched"]["by_seed"]) == {"1", "2"} and "searched" not in cells["null"]
    assert len(read_predictions(own.parent / WHERE / "searched.jsonl")[0].draws) == 1
    shown = grue("leaderboard", "--task", own).stdout
    assert "Searched answers are decoded by beam search" in shown

"""Runs that learn from a file: they record the file's reward, and a file that cannot be learned from claims no folder."""

import json
from dataclasses import replace

import pytest
from support import tiny

from grue import files
from grue.cli.train import describe
from grue.data.pairs import PairsHeader
from grue.data.scored_lines import RewardedLine, ScoredHeader, ScoredResponse, as_records
from grue.errors import ConfigError, DataError
from grue.evaluation.systems import _reward_of
from grue.lm.checkpoint import read_manifest
from grue.runs import train as training
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest

TASK = tiny.task("causal")
MADE = ScoredHeader(
    grue="scored responses", schema=1, suite="tests", task="tiny", task_hash=TASK.hash, split="train", reward="bleu",
    checkpoint="sha", system="ppo", seed=1, samples=2, generation=TASK.rollout, prompts=1, responses=2,
    generated_tokens=9, reward_calls=2, seconds=1.5,
)  # fmt: skip
PEOPLE = PairsHeader(
    grue="preference pairs", schema=1, suite="tests", task="tiny", task_hash=TASK.hash, split="train", made="study",
    reward="", noise="people", seed=1, sources={}, shares={}, judgements=1, prompts=1, pairs=1, ties=0, dropped_ties=0,
    contradictions=0, generated_tokens=None, reward_calls=0, seconds=None,
)  # fmt: skip
LINE = RewardedLine((ScoredResponse("a dog", 1.0), ScoredResponse("red", 0.0)), id="e1")


@pytest.fixture(autouse=True)
def the_backbone_is_there(monkeypatch):
    """The tasks here name a model that nobody has; what refuses one is tested with the commands."""
    monkeypatch.setattr("grue.runs.plan.check_backbone", lambda plan: None)


def write(path, made=None, line=LINE):
    records = as_records(made or MADE, [line])
    path.write_text("".join(json.dumps(one) + "\n" for one in list(records)[0 if made else 1 :]))
    return str(path)


def planned(folder, algorithm="dpo", **settings):
    return stages_of(RunRequest(task=TASK, algorithm=algorithm, runs=folder, settings=settings))[-1]


def test_the_reward_of_a_run_is_that_of_the_file_it_learned_from(tmp_path):
    record = planned(tmp_path, data=write(tmp_path / "made", MADE)).record()
    assert (record["reward"], record["validation_reward"]) == ("bleu", "rouge1")
    judged = tmp_path / "pairs"
    lines = [files.plain(PEOPLE), {"id": "e1", "chosen": "a dog", "rejected": "red"}]
    judged.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert planned(tmp_path, data=str(judged)).record()["reward"] == "people"
    assert planned(tmp_path, data=write(tmp_path / "own")).record()["reward"] == ""
    plain = planned(tmp_path).record()
    assert plain["reward"] == "rouge1" and "validation_reward" not in plain


def test_a_plan_tells_what_is_learned_from(tmp_path):
    for name, made, told in (("made", MADE, "reward = bleu\n"), ("own", None, "reward = unknown: that of a file\n")):
        assert told in describe(planned(tmp_path, data=write(tmp_path / name, made)))
    assert "reward = rouge1\n" in describe(planned(tmp_path))


def test_the_models_of_a_file_are_recorded_as_far_as_they_are_known(tmp_path):
    made = replace(MADE, reward="model:gone", reward_models={"model:gone": "ab" * 32})
    record = planned(tmp_path, data=write(tmp_path / "made", made)).record()
    assert record["reward"] == "model:gone"
    assert record["reward_models"] == [{"name": "model:gone", "sha256": "ab" * 32}]


@pytest.mark.parametrize(("made", "reward"), [(MADE, "bleu"), (None, None)])
def test_a_result_names_the_files_reward_or_none(made, reward, tmp_path):
    path = write(tmp_path / "data", made)
    run = tiny.run("causal", "dpo", tmp_path / "run", data=path, updates=1, samples_per_prompt=2)
    files.write_toml(tmp_path / "run" / "config.toml", run.record)
    tiny.train(run)
    folder = tmp_path / "run" / "checkpoint"
    assert _reward_of(folder, read_manifest(folder)) == reward


def test_leftover_lunch_takes_no_rewards_of_another_reward(tmp_path):
    path = write(tmp_path / "made", MADE)
    with pytest.raises(ConfigError, match="rewarded with 'bleu', and this run's V_0 would be fitted to 'rouge1'"):
        planned(tmp_path, "alol", data=path)
    assert planned(tmp_path, "alol", data=path, variant="r_lol").record()["reward"] == "bleu"  # without V_0
    same = write(tmp_path / "same", replace(MADE, reward="rouge1"))
    assert planned(tmp_path, "alol", data=same).record()["reward"] == "rouge1"


def test_a_file_that_is_not_there_is_missed_by_the_plan(tmp_path):
    with pytest.raises(DataError, match="gone.jsonl: no such file"):
        planned(tmp_path, data=str(tmp_path / "gone.jsonl"))


def test_a_file_that_cannot_be_learned_from_claims_no_folder(tmp_path, monkeypatch):
    path = tmp_path / "foreign"
    path.write_text(json.dumps({"id": "x7", "chosen": "a dog", "rejected": "red"}) + "\n")
    plan = planned(tmp_path / "runs", data=str(path))
    monkeypatch.setattr(training, "load_examples", lambda *given: type("Found", (), {"examples": tiny.examples()}))
    with pytest.raises(DataError, match="'x7' is of no training example"):
        training.train(plan, tiny.Watcher())
    assert not plan.folder.exists()

"""Runs that learn from a file: they record the file's reward, and a file that cannot be learned from claims no folder."""

import json
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
from support.late import late

from grue import files
from grue.cli.train import describe
from grue.data.pairs import PairsHeader
from grue.data.scored_lines import RewardedLine, ScoredHeader, ScoredResponse, as_records
from grue.errors import ConfigError, DataError
from grue.lm.checkpoint import read_manifest
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest

tiny, systems, training = late("support.tiny"), late("grue.evaluation.systems"), late("grue.runs.train")


@cache
def task():
    return tiny.task("causal")


def rewarded(**changes):
    """The header of scored responses, as `grue generate` writes it."""
    task_ = task()
    return replace(
        ScoredHeader(
            grue="scored responses", schema=1, suite="tests", task="tiny", task_hash=task_.hash, split="train",
            reward="bleu", checkpoint="sha", system="ppo", seed=1, samples=2, generation=task_.rollout, prompts=1,
            responses=2, generated_tokens=9, reward_calls=2, seconds=1.5,
        ),
        **changes,
    )  # fmt: skip


def judged():
    """The header of preference pairs of people."""
    return PairsHeader(
        grue="preference pairs", schema=1, suite="tests", task="tiny", task_hash=task().hash, split="train",
        made="study", reward="", noise="people", seed=1, sources={}, shares={}, judgements=1, prompts=1, pairs=1,
        ties=0, dropped_ties=0, contradictions=0, generated_tokens=None, reward_calls=0, seconds=None,
    )  # fmt: skip


LINE = RewardedLine((ScoredResponse("a dog", 1.0), ScoredResponse("red", 0.0)), id="e1")


@pytest.fixture(autouse=True)
def the_backbone_is_there(monkeypatch):
    """The tasks here name a model that nobody has; what refuses one is tested with the commands."""
    monkeypatch.setattr("grue.runs.plan.check_backbone", lambda plan: None)


def write(path, made=None):
    """A file of scored responses, with a header or without."""
    records = list(as_records(made or rewarded(), [LINE]))[0 if made else 1 :]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return str(path)


def planned(folder, algorithm="dpo", **settings):
    return stages_of(RunRequest(task=task(), algorithm=algorithm, runs=folder, settings=settings))[-1]


def test_the_reward_of_a_run_is_that_of_the_file_it_learned_from(tmp_path):
    made = planned(tmp_path, data=write(tmp_path / "made", rewarded()))
    assert (made.record()["reward"], made.record()["validation_reward"]) == ("bleu", "rouge1")
    assert "reward = bleu\n" in describe(made)
    lines = [files.plain(judged()), {"id": "e1", "chosen": "a dog", "rejected": "red"}]
    (tmp_path / "pairs").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert planned(tmp_path, data=str(tmp_path / "pairs")).record()["reward"] == "people"
    own = planned(tmp_path, data=write(tmp_path / "own"))
    assert own.record()["reward"] == "" and "reward = unknown: that of a file\n" in describe(own)
    plain = planned(tmp_path)
    assert plain.record()["reward"] == "rouge1" and "validation_reward" not in plain.record()
    assert "reward = rouge1\n" in describe(plain)
    gone = rewarded(reward="model:gone", reward_models={"model:gone": "ab" * 32})
    record = planned(tmp_path, data=write(tmp_path / "gone", gone)).record()
    assert record["reward"] == "model:gone"
    assert record["reward_models"] == [{"name": "model:gone", "sha256": "ab" * 32}], "as far as they are known"


@pytest.mark.parametrize("reward", ["bleu", None])
def test_a_result_names_the_files_reward_or_none(reward, tmp_path):
    path = write(tmp_path / "data", rewarded() if reward else None)
    run = tiny.run("causal", "dpo", tmp_path / "run", data=path, updates=1, samples_per_prompt=2)
    files.write_toml(tmp_path / "run" / "config.toml", run.record)
    tiny.train(run)
    folder = tmp_path / "run" / "checkpoint"
    assert systems._trained_on(folder, read_manifest(folder)).get("reward") == reward


def test_leftover_lunch_takes_no_rewards_of_another_reward(tmp_path, refused):
    path = write(tmp_path / "made", rewarded())
    with refused(ConfigError):
        planned(tmp_path, "alol", data=path)
    assert planned(tmp_path, "alol", data=path, variant="r_lol").record()["reward"] == "bleu"  # without V_0
    same = write(tmp_path / "same", rewarded(reward="rouge1"))
    assert planned(tmp_path, "alol", data=same).record()["reward"] == "rouge1"


def test_a_file_that_cannot_be_learned_from_claims_no_folder(tmp_path, monkeypatch, refused):
    path = tmp_path / "foreign"
    with refused(DataError):
        planned(tmp_path, data=str(path))
    path.write_text(json.dumps({"id": "x7", "chosen": "a dog", "rejected": "red"}) + "\n")
    plan = planned(tmp_path / "runs", data=str(path))
    monkeypatch.setattr(training, "load_examples", lambda *given: SimpleNamespace(examples=tiny.examples()))
    with refused(DataError):
        training.train(plan, tiny.Watcher())
    assert not plan.folder.exists()

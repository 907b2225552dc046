"""Checkpoints and states: whole or not there, and never mistaken for another's."""

import errno
import os

import pytest
import tiny
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from grue.errors import DataError
from grue.training import checkpoint
from grue.training.run import ALGORITHMS

MANIFEST = {
    "suite": "tests",
    "task": "tiny",
    "task_hash": "0",
    "system": "ppo",
    "algorithm": "ppo",
    "backbone": "tiny",
    "seed": 1,
    "update": 3,
    "config_sha256": "0",
    "validation": {"reward": 0.5},
    "training": {"tokens": 10.0},
}


def save(folder, family="causal", seed=0):
    model = tiny.model(family, seed)
    checkpoint.save_checkpoint(folder, model, tiny.tokenizer(family), MANIFEST)
    return model


@pytest.mark.parametrize(("family", "auto"), [("causal", AutoModelForCausalLM), ("seq2seq", AutoModelForSeq2SeqLM)])
def test_transformers_alone_loads_a_checkpoint(family, auto, tmp_path):
    model = save(tmp_path / "checkpoint", family)
    loaded = auto.from_pretrained(tmp_path / "checkpoint")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    assert torch.equal(tiny.weights(loaded), tiny.weights(model))
    assert tokenizer("the dog")["input_ids"] == tiny.tokenizer(family)("the dog")["input_ids"]
    assert checkpoint.read_manifest(tmp_path / "checkpoint").update == 3


def test_a_new_checkpoint_replaces_the_old_and_leaves_nothing_beside_it(tmp_path):
    save(tmp_path / "checkpoint", seed=0)
    newer = save(tmp_path / "checkpoint", seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    assert torch.equal(tiny.weights(loaded), tiny.weights(newer))


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_a_full_disk_leaves_the_checkpoint_before(failing, tmp_path, monkeypatch):
    before = save(tmp_path / "checkpoint", seed=0)

    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if failing == "write":
            patch.setattr("transformers.PreTrainedModel.save_pretrained", full)
        else:
            patch.setattr(os, "replace", full)
        with pytest.raises(DataError, match=r"cannot be written: .*No space left on device.*untouched"):
            save(tmp_path / "checkpoint", seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    checkpoint.read_manifest(tmp_path / "checkpoint")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    assert torch.equal(tiny.weights(loaded), tiny.weights(before))


def test_a_crash_between_the_two_renames_loses_nothing(tmp_path):
    save(tmp_path / "checkpoint")
    os.replace(tmp_path / "checkpoint", tmp_path / ".checkpoint.previous")
    assert checkpoint.read_manifest(tmp_path / "checkpoint").task == "tiny"


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no such checkpoint folder; `grue train` makes one"):
        checkpoint.read_manifest(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no checkpoint of grue: it has no grue.json"):
        checkpoint.read_manifest(tmp_path)


def test_a_damaged_checkpoint_is_noticed(tmp_path):
    save(tmp_path / "checkpoint")
    weights = tmp_path / "checkpoint" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"damaged: model.safetensors is not the file that was saved"):
        checkpoint.read_manifest(tmp_path / "checkpoint")
    weights.unlink()
    with pytest.raises(DataError, match=r"damaged: model.safetensors is missing"):
        checkpoint.read_manifest(tmp_path / "checkpoint")


def test_a_checkpoint_of_another_task_is_refused(tmp_path):
    save(tmp_path / "checkpoint")
    manifest = checkpoint.read_manifest(tmp_path / "checkpoint")
    checkpoint.check_task(manifest, tmp_path, tiny.task("causal"))
    from grue.tasks import load_task

    with pytest.raises(DataError, match="trained on tests/tiny, not on mini/imdb; use --suite tests --task tiny"):
        checkpoint.check_task(manifest, tmp_path, load_task("imdb"))


def test_a_full_disk_while_saving_the_state_keeps_the_state_before(tmp_path, monkeypatch):
    path = tmp_path / "state.pt"
    checkpoint.save_state(path, {"done": 1})

    def full(content, target):
        target.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(DataError, match=r"No space left on device. The state before is untouched"):
            checkpoint.save_state(path, {"done": 2})
    assert [p.name for p in tmp_path.iterdir()] == ["state.pt"]
    assert checkpoint.load_state(path) == {"done": 1}


def test_a_damaged_state_is_refused(tmp_path):
    path = tmp_path / "state.pt"
    checkpoint.save_state(path, {"done": 1})
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"damaged .*; remove the run's folder to start again"):
        checkpoint.load_state(path)


def test_the_best_checkpoint_is_kept_not_the_last(tmp_path):
    """A reward that training can only make worse: the initial policy stays the best."""
    run = tiny.run("causal", "ppo", tmp_path, reward=lambda examples, texts: [0.0 for _ in texts], updates=4)
    values = iter([0.5, 0.9, 0.1])

    import grue.training.run as module

    original = module.validate
    module.validate = lambda run_: {"reward": 0.0, "preference": next(values)}
    try:
        ALGORITHMS["ppo"](run, run.plan.config)
    finally:
        module.validate = original
    assert [(done, best) for done, _, best in run.observer.validations] == [(0, True), (2, True), (4, False)]
    assert checkpoint.read_manifest(tmp_path / "checkpoint").update == 2

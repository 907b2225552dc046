"""Checkpoints: whole or not there, never mistaken for another's, and of use to transformers alone."""

import dataclasses
import errno
import json
import os
import resource

import pytest
from support.late import lates

from grue.errors import DataError
from grue.lm import checkpoint
from grue.tasks import Backbone

torch, safetensors, adapters = lates("torch safetensors grue.lm.adapters")
tiny, saved, golden = lates("tiny saved golden", "support.")

FAMILIES = ("causal", "seq2seq")


def same(loaded, model):
    return torch.equal(tiny.weights(loaded), tiny.weights(model))


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_alone_loads_a_checkpoint_and_tied_embeddings_stay_tied(family, tmp_path):
    folder = tmp_path / "checkpoint"
    model = saved.save(folder, family)
    loaded, tokenizer = saved.load(folder, family)
    assert same(loaded, model)
    assert tokenizer("the dog")["input_ids"] == tiny.tokenizer(family)("the dog")["input_ids"]
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    with safetensors.safe_open(folder / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118  # not a dictionary
    assert (folder / "README.md").read_text() == "# A card\n"
    (folder / "README.md").write_text("# My model\n")
    assert checkpoint.read_manifest(folder).update == 3, "a card may be edited"


def test_neither_what_was_encoded_nor_being_offline_leaves_a_trace_in_the_saved_tokenizer(tmp_path):
    """The weights' hash would depend on it."""
    found = set()
    for length, offline in ((2, False), (5, False), (5, True)):
        tokenizer, folder = tiny.tokenizer("causal"), tmp_path / f"{length}-{offline}"
        tokenizer.init_kwargs["local_files_only"] = offline
        tokenizer(["the dog", "a"], truncation=True, max_length=length, padding=True)
        checkpoint.save_checkpoint(folder, tiny.model("causal"), tokenizer, saved.MANIFEST, saved.SAMPLED, "")
        content = json.loads((folder / "tokenizer.json").read_text())
        assert content["truncation"] is content["padding"] is None
        found.add(checkpoint.read_manifest(folder).weights)
    assert len(found) == 1


def only_there(folder, model):
    assert [path.name for path in folder.iterdir()] == ["checkpoint"]
    checkpoint.read_manifest(folder / "checkpoint")
    assert same(saved.load(folder / "checkpoint")[0], model)


@pytest.mark.parametrize("failing", ["write", "first rename", "second rename"])
def test_a_full_disk_leaves_the_checkpoint_before(failing, tmp_path, monkeypatch, refused):
    before, replace = saved.save(tmp_path / "checkpoint", seed=0), os.replace

    def full(*given, **named):
        at = {"first rename": "/checkpoint", "second rename": ".checkpoint.new"}.get(failing, "")
        if str(given[0]).endswith(at):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(*given)

    with monkeypatch.context() as patch, refused(DataError):
        patch.setattr("transformers.PreTrainedModel.save_pretrained" if failing == "write" else "os.replace", full)
        saved.save(tmp_path / "checkpoint", seed=1)
    only_there(tmp_path, before)


def test_a_file_that_may_not_grow_is_told_of_plainly(tmp_path):
    """A real refusal of the system, which safetensors tells of by an error of its own."""
    before = saved.save(tmp_path / "checkpoint", seed=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"the checkpoint cannot be written: .*File too large.*untouched"):
            saved.save(tmp_path / "checkpoint", seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    only_there(tmp_path, before)


def test_whoever_reads_between_the_two_renames_puts_the_checkpoint_back_and_does_no_harm(tmp_path, monkeypatch):
    before, folder = saved.save(tmp_path / "checkpoint", seed=0), tmp_path / "checkpoint"
    os.replace(folder, tmp_path / ".checkpoint.previous")  # as a crash leaves it
    assert checkpoint.read_manifest(folder).task == "tiny"
    only_there(tmp_path, before)
    replace, read = os.replace, []

    def read_before_the_second(source, target):
        if str(source).endswith(".checkpoint.new") and not read:
            read.append(checkpoint.read_manifest(folder))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", read_before_the_second)
        newer = saved.save(folder, seed=1)
    assert read[0].task == "tiny"
    only_there(tmp_path, newer)


def test_what_is_no_whole_checkpoint_is_refused(tmp_path, refused):
    folder = tmp_path / "checkpoint"
    weights = folder / "model.safetensors"
    with refused(DataError):
        checkpoint.read_manifest(folder)
    folder.mkdir()
    with refused(DataError):
        checkpoint.read_manifest(folder)
    saved.save(folder)
    weights.write_bytes(weights.read_bytes()[:-9])
    with refused(DataError):
        checkpoint.read_manifest(folder)
    weights.unlink()
    with refused(DataError):
        checkpoint.read_manifest(folder)


def test_a_manifest_that_cannot_be_is_refused(tmp_path, refused):
    saved.save(tmp_path / "checkpoint")
    path = tmp_path / "checkpoint" / "grue.json"
    whole = path.read_text()
    for old, new in (
        ("{", ""),
        ('"seed"', '"seeds"'),
        ('"seed": 1', '"seed": "one"'),
        ('"schema": 1', '"schema": 2'),
    ):
        path.write_text(whole.replace(old, new, 1))
        with refused(DataError):
            checkpoint.read_manifest(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("command", "facts", "damaged"),
    [
        (["--task", "commongen"], {}, None),
        (["--task", "commongen"], {"task": "commongen"}, None),
        (["--task", "commongen"], {"task": "commongen", "backbone": "mini:seq2seq"}, None),
        (["--task", "imdb", "--backbone", "gpt2"], {}, None),
        (["--task", "imdb"], {"backbone": "gpt2"}, None),
        (["--task", "imdb"], {}, "model.safetensors"),
        (["--task", "imdb"], {}, "grue.json"),
    ],
)
def test_a_start_that_cannot_be_is_refused_before_anything_is_loaded(command, facts, damaged, tmp_path, refused):
    folder, runs = tmp_path / "start", tmp_path / "runs"
    told = {"suite": "mini", "task": "imdb", "backbone": "mini:causal", **facts}
    manifest = dataclasses.replace(saved.MANIFEST, **told)
    checkpoint.save_checkpoint(folder, tiny.model("causal"), tiny.tokenizer("causal"), manifest, saved.SAMPLED, "")
    if damaged == "grue.json":
        (folder / damaged).unlink()
    elif damaged:
        (folder / damaged).write_bytes((folder / damaged).read_bytes() + b" ")
    refused.command("train", *command, "--algo", "ppo", "--init", folder, "--runs", runs, code=3)
    assert not runs.exists()


def test_a_checkpoint_is_of_its_task_family_and_backbone(tmp_path, refused):
    saved.save(folder := tmp_path / "checkpoint", "seq2seq")
    manifest = checkpoint.read_manifest(folder)
    checkpoint.check_task(manifest, folder, tiny.task("causal"))
    checkpoint.check_start(manifest, folder, Backbone("seq2seq", "tiny"))
    with refused(DataError):
        checkpoint.check_start(manifest, folder, Backbone("causal", "tiny"))


def test_a_checkpoint_with_a_larger_vocabulary_than_its_model_is_refused(tmp_path, refused):
    """Someone put another tokenizer in and signed it."""
    from grue.lm.load import load_language_model

    words = tiny.tokenizer("causal")
    words.add_tokens([f"new{i}" for i in range(9)])
    folder = tmp_path / "checkpoint"
    checkpoint.save_checkpoint(folder, tiny.model("causal"), words, saved.MANIFEST, saved.SAMPLED, "")
    with refused(DataError):
        load_language_model("causal", str(folder))


def test_a_run_keeps_its_best_model_and_its_last():
    run = golden.trace("causal", "ppo")
    final, best = (checkpoint.read_manifest(run.folder / name) for name in ("final", "checkpoint"))
    assert (final.kept, final.update, best.kept) == ("final", 4, "best")
    assert final.validation == run.validations[-1][1]
    loaded, _ = saved.load(run.folder / "final")
    assert torch.equal(tiny.weights(loaded), run.weights) and not same(loaded, tiny.model("causal"))
    for name in ("checkpoint", "final"):
        assert (run.folder / name / "README.md").read_text().startswith("---\nlanguage: ")


def test_the_models_of_an_adapted_run_need_no_adapter(tmp_path):
    pytest.importorskip("peft")
    settings = {"lora_rank": 2, "lora_alpha": 4.0, "learning_rate": 1e-2, "updates": 1}
    run = tiny.run("causal", "ppo", tmp_path, **settings)
    adapters.adapt(run.trainer.policy, run.plan.config)
    tiny.train(run)
    loaded, _ = saved.load(tmp_path / "final")
    assert same(loaded, adapters.merged(run.trainer.policy)) and not same(loaded, tiny.model("causal"))
    assert not list((tmp_path / "final").glob("adapter*"))

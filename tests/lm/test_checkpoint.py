"""Checkpoints: whole or not there, never mistaken for another's, and of use to transformers alone."""

import dataclasses
import errno
import json
import os
import resource

import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from support import tiny
from support.saved import AUTO, MANIFEST, SAMPLED, load, save
from transformers import AutoModelForCausalLM

from grue.cli.main import main
from grue.errors import DataError
from grue.lm import adapters, checkpoint
from grue.lm.load import load_language_model
from grue.task_files import load_task
from grue.tasks import Backbone


@pytest.mark.parametrize("family", AUTO)
def test_transformers_alone_loads_a_checkpoint(family, tmp_path):
    model = save(tmp_path / "checkpoint", family)
    loaded, tokenizer = load(tmp_path / "checkpoint", family)
    assert torch.equal(tiny.weights(loaded), tiny.weights(model))
    assert tokenizer("the dog")["input_ids"] == tiny.tokenizer(family)("the dog")["input_ids"]
    assert checkpoint.read_manifest(tmp_path / "checkpoint").update == 3
    assert (tmp_path / "checkpoint" / "README.md").read_text() == "# A card\n"


@pytest.mark.parametrize("family", AUTO)
def test_tied_embeddings_stay_tied(family, tmp_path):
    """Saved once, loaded as one tensor."""
    save(tmp_path / "checkpoint", family)
    with safe_open(tmp_path / "checkpoint" / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118  # not a dictionary
    loaded, _ = load(tmp_path / "checkpoint", family)
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight


@pytest.mark.parametrize("family", AUTO)
def test_an_adapted_model_is_saved_merged(family, tmp_path):
    pytest.importorskip("peft")
    model = tiny.model(family)
    adapters.add_lora(model, rank=2, alpha=4.0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    save(tmp_path / "checkpoint", family, model=adapters.merged(model))
    loaded, tokenizer = load(tmp_path / "checkpoint", family)
    batch = tokenizer(["the dog sees"], return_tensors="pt")
    if family == "seq2seq":
        batch["decoder_input_ids"] = torch.tensor([[0, 3, 4]])
    with torch.no_grad():
        adapted, read, plain = model(**batch).logits, loaded(**batch).logits, tiny.model(family)(**batch).logits
    assert torch.allclose(read, adapted, atol=1e-4)
    assert not torch.allclose(read, plain, atol=1e-2)
    assert type(loaded) is type(tiny.model(family))
    assert not list((tmp_path / "checkpoint").glob("adapter*"))


def test_what_was_last_encoded_leaves_no_trace_in_the_saved_tokenizer(tmp_path):
    tokenizer = tiny.tokenizer("causal")
    for length in (2, 5):
        tokenizer(["the dog", "a"], truncation=True, max_length=length, padding=True)
        folder = tmp_path / str(length)
        checkpoint.save_checkpoint(folder, tiny.model("causal"), tokenizer, MANIFEST, SAMPLED, "")
        content = json.loads((folder / "tokenizer.json").read_text())
        assert content["truncation"] is content["padding"] is None


# --- replacing -------------------------------------------------------------------------------------------------------


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


def test_a_full_disk_at_the_second_rename_puts_the_checkpoint_back(tmp_path, monkeypatch):
    before = save(tmp_path / "checkpoint", seed=0)
    replace = os.replace

    def second_fails(source, target):
        if str(source).endswith(".checkpoint.new"):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", second_fails)
        with pytest.raises(DataError, match="No space left on device"):
            save(tmp_path / "checkpoint", seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert torch.equal(tiny.weights(load(tmp_path / "checkpoint")[0]), tiny.weights(before))


def test_a_file_that_may_not_grow_is_told_of_plainly(tmp_path):
    """A real refusal of the system, which safetensors tells of by an error of its own."""
    before = save(tmp_path / "checkpoint", seed=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"the checkpoint cannot be written: .*File too large.*untouched"):
            save(tmp_path / "checkpoint", seed=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert torch.equal(tiny.weights(load(tmp_path / "checkpoint")[0]), tiny.weights(before))


def test_a_crash_between_the_two_renames_loses_nothing(tmp_path):
    before = save(tmp_path / "checkpoint")
    os.replace(tmp_path / "checkpoint", tmp_path / ".checkpoint.previous")
    assert checkpoint.read_manifest(tmp_path / "checkpoint").task == "tiny"
    assert torch.equal(tiny.weights(load(tmp_path / "checkpoint")[0]), tiny.weights(before))


def test_someone_who_reads_between_the_two_renames_does_no_harm(tmp_path, monkeypatch):
    """A reader puts the old checkpoint back, just when the new one is about to take its place."""
    save(tmp_path / "checkpoint", seed=0)
    replace, read = os.replace, []

    def read_before_the_second(source, target):
        if str(source).endswith(".checkpoint.new") and not read:
            read.append(checkpoint.read_manifest(tmp_path / "checkpoint"))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", read_before_the_second)
        newer = save(tmp_path / "checkpoint", seed=1)
    assert read[0].task == "tiny"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert torch.equal(tiny.weights(load(tmp_path / "checkpoint")[0]), tiny.weights(newer))


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such checkpoint folder; `grue train` writes one"):
        checkpoint.read_manifest(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"not a checkpoint of grue: it has no grue.json"):
        checkpoint.read_manifest(tmp_path)


def test_a_damaged_checkpoint_is_noticed(tmp_path):
    save(tmp_path / "checkpoint")
    weights = tmp_path / "checkpoint" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"damaged: model.safetensors differs from the saved file"):
        checkpoint.read_manifest(tmp_path / "checkpoint")
    weights.unlink()
    with pytest.raises(DataError, match=r"damaged: model.safetensors is missing"):
        checkpoint.read_manifest(tmp_path / "checkpoint")


def test_a_card_may_be_edited(tmp_path):
    save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "README.md").write_text("# My model\n")
    assert checkpoint.read_manifest(tmp_path / "checkpoint").task == "tiny"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{", "", "grue.json: not valid JSON"),
        ('"seed"', '"seeds"', "grue.json: unknown key 'seeds'. Did you mean 'seed'?"),
        ('"seed": 1', '"seed": "one"', "grue.json: seed: expected a whole number, found str 'one'"),
        ('"schema": 1', '"schema": 2', "grue.json: schema: this version of grue reads 1, found 2; upgrade grue"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(old, new, message, tmp_path):
    save(tmp_path / "checkpoint")
    path = tmp_path / "checkpoint" / "grue.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        checkpoint.read_manifest(tmp_path / "checkpoint")
    assert message in str(caught.value)


def test_a_checkpoint_of_another_task_is_refused(tmp_path):
    save(tmp_path / "checkpoint")
    manifest = checkpoint.read_manifest(tmp_path / "checkpoint")
    checkpoint.check_task(manifest, tmp_path / "checkpoint", tiny.task("causal"))
    with pytest.raises(DataError, match="trained on tests/tiny, not on mini/imdb; use --suite tests --task tiny"):
        checkpoint.check_task(manifest, tmp_path / "checkpoint", load_task("imdb"))


@pytest.mark.parametrize(("family", "other"), [("causal", "seq2seq"), ("seq2seq", "causal")])
def test_a_checkpoint_of_the_other_family_is_refused(family, other, tmp_path):
    save(tmp_path / "checkpoint", family)
    manifest = checkpoint.read_manifest(tmp_path / "checkpoint")
    with pytest.raises(DataError, match=f"its model is {family}, and tests/tiny is for {other} models; use another"):
        checkpoint.check_task(manifest, tmp_path / "checkpoint", tiny.task(other))


def test_a_checkpoint_of_another_backbone_is_refused(tmp_path):
    save(tmp_path / "checkpoint")
    manifest = checkpoint.read_manifest(tmp_path / "checkpoint")
    checkpoint.check_start(manifest, tmp_path / "checkpoint", Backbone("causal", "tiny"))
    with pytest.raises(
        DataError, match="trained from tiny, and this run starts from gpt2; add --backbone tiny, or use"
    ):
        checkpoint.check_start(manifest, tmp_path / "checkpoint", Backbone("causal", "gpt2"))


def test_a_checkpoint_with_a_larger_vocabulary_than_its_model_is_refused(tmp_path):
    """Someone put another tokenizer in and signed it."""
    words = tiny.tokenizer("causal")
    words.add_tokens([f"new{i}" for i in range(9)])
    checkpoint.save_checkpoint(tmp_path / "checkpoint", tiny.model("causal"), words, MANIFEST, SAMPLED, "")
    with pytest.raises(DataError, match="its tokenizer knows 32 tokens and its model 23; save the tokenizer"):
        load_language_model("causal", str(tmp_path / "checkpoint"))


@pytest.mark.parametrize(
    ("command", "facts", "message"),
    [
        (["--task", "commongen"], {}, "trained on mini/imdb, not on mini/commongen; use --suite mini --task imdb, or"),
        (
            ["--task", "commongen"],
            {"task": "commongen"},
            "its model is causal, and mini/commongen is for seq2seq models",
        ),
        (
            ["--task", "imdb", "--backbone", "gpt2"],
            {},
            "trained from mini:causal, and this run starts from gpt2; add --back",
        ),
        (
            ["--task", "imdb"],
            {"backbone": "gpt2"},
            "trained from gpt2, and this run starts from mini:causal; add --backbone",
        ),
        (
            ["--task", "imdb"],
            "model.safetensors",
            "damaged: model.safetensors differs from the saved file. Train again",
        ),
        (
            ["--task", "imdb"],
            "tokenizer.json",
            "damaged: tokenizer.json differs from the saved file. Train again, or",
        ),
        (
            ["--task", "imdb"],
            "grue.json",
            "not a checkpoint of grue: it has no grue.json. Give the `checkpoint` folder of a",
        ),
    ],
)
def test_a_start_that_cannot_be_is_refused_before_anything_is_loaded(command, facts, message, tmp_path):
    folder = tmp_path / "start"
    told = {"suite": "mini", "task": "imdb", "backbone": "mini:causal"} | (facts if isinstance(facts, dict) else {})
    manifest = dataclasses.replace(MANIFEST, **told)
    checkpoint.save_checkpoint(folder, tiny.model("causal"), tiny.tokenizer("causal"), manifest, SAMPLED, "")
    if facts == "grue.json":
        (folder / "grue.json").unlink()
    elif isinstance(facts, str):
        (folder / facts).write_bytes((folder / facts).read_bytes() + b" ")
    runs = tmp_path / "runs"
    done = CliRunner().invoke(main, ["train", *command, "--algo", "ppo", "--init", str(folder), "--runs", str(runs)])
    assert done.exit_code == 3, done.output
    assert f"Error: {folder}: {message}" in done.stderr
    assert not runs.exists()


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", AUTO)
def test_a_run_keeps_its_last_model_too(family, tmp_path):
    run = tiny.train(tiny.run(family, "ppo", tmp_path, reward=lambda examples, texts: [0.5 for _ in texts], updates=3))
    final = checkpoint.read_manifest(tmp_path / "final")
    assert (final.kept, final.update) == ("final", 3)
    assert final.validation == run.figures
    loaded, _ = load(tmp_path / "final", family)
    assert torch.equal(tiny.weights(loaded), tiny.weights(run.trainer.policy))
    assert not torch.equal(tiny.weights(loaded), tiny.weights(tiny.model(family)))
    best = checkpoint.read_manifest(tmp_path / "checkpoint")
    assert best.kept == "best"
    for folder in ("checkpoint", "final"):
        assert (tmp_path / folder / "README.md").read_text().startswith("---\nlanguage: ")


def test_the_models_of_an_adapted_run_need_no_adapter(tmp_path):
    pytest.importorskip("peft")
    run = tiny.run("causal", "ppo", tmp_path, lora_rank=2, lora_alpha=4.0, learning_rate=1e-2)
    adapters.adapt(run.trainer.policy, run.plan.config)
    tiny.train(run)
    loaded, _ = load(tmp_path / "final")
    assert torch.equal(tiny.weights(loaded), tiny.weights(adapters.merged(run.trainer.policy)))
    assert not torch.equal(tiny.weights(loaded), tiny.weights(tiny.model("causal")))


def test_the_best_checkpoint_is_kept_not_the_last(tmp_path):
    """A reward that training can only make worse: the initial policy stays the best."""
    run = tiny.run("causal", "ppo", tmp_path, reward=lambda examples, texts: [0.0 for _ in texts], updates=4)
    values = iter([0.5, 0.9, 0.1])

    import grue.runs.train as module

    original = module.validate
    module.validate = lambda *given: {"reward": 0.0, "preference": next(values)}
    try:
        tiny.train(run)
    finally:
        module.validate = original
    assert [(done, best) for done, _, best in run.observer.validations] == [(0, True), (2, True), (4, False)]
    assert checkpoint.read_manifest(tmp_path / "checkpoint").update == 2


def test_a_checkpoint_does_not_tell_whether_it_was_made_offline(tmp_path):
    """Transformers notes that in tokenizer_config.json, and the weights' hash would depend on it."""
    model = tiny.model("causal")
    hashes = []
    for offline in (False, True):
        tokenizer = tiny.tokenizer("causal")
        tokenizer.init_kwargs["local_files_only"] = offline
        checkpoint.save_checkpoint(tmp_path / str(offline), model, tokenizer, MANIFEST, SAMPLED, "# A card\n")
        hashes.append(checkpoint.read_manifest(tmp_path / str(offline)).weights)
    assert hashes[0] == hashes[1]

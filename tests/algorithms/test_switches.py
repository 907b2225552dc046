"""What changes memory, precision or the trained part of a model, under every algorithm and both families."""

import pytest
import torch
from support import tiny
from support.tiny import ALGORITHMS

from grue.lm.adapters import adapt

FAMILIES = ["causal", "seq2seq"]
SIZES = {"rollouts": 8, "minibatch_size": 8, "updates": 2, "validate_every": 2}
MORE = {"rloo": {"samples_per_prompt": 2}, "grpo": {"samples_per_prompt": 2}, "supervised": {"epochs": 2}}


def length(examples, texts):
    """A reward that differs from text to text."""
    return [len(text) / 40 for text in texts]


def train(family, algorithm, folder, **switches):
    """Two updates of a tiny model that was made ready as a run makes it ready."""
    sizes = {} if algorithm == "supervised" else dict(SIZES)
    if algorithm == "trpo":
        sizes |= {"cg_steps": 3, "critic_epochs": 1}
    task = tiny.task(family, top_k=9)
    run = tiny.run(
        family, algorithm, folder, task_=task, reward=length, **{**sizes, **MORE.get(algorithm, {}), **switches}
    )
    adapt(run.trainer.policy, run.plan.config)
    tiny.train(run)
    return run


def named(run):
    return {name: value.detach().clone() for name, value in run.trainer.policy.named_parameters()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "switch", [{"gradient_checkpointing": True}, {"log_prob_chunk": 5}], ids=lambda s: next(iter(s))
)
def test_what_saves_memory_changes_nothing_else(family, algorithm, switch, tmp_path):
    plain = train(family, algorithm, tmp_path / "plain")
    saving = train(family, algorithm, tmp_path / "saving", **switch)
    assert plain.observer.lines[0]["policy/grad_norm"] > 0
    for before, after in zip(plain.observer.lines, saving.observer.lines, strict=True):
        for key in ("loss/total", "loss/policy", "objective/reward", "policy/grad_norm"):
            if key in before:
                assert after[key] == pytest.approx(before[key], rel=2e-3, abs=1e-5), key


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "supervised"])
def test_adapters_learn_and_nothing_else_does(family, algorithm, tmp_path):
    run = train(family, algorithm, tmp_path, lora_rank=2, updates=3)
    before = dict(tiny.model(family).named_parameters())
    moved = 0
    for name, value in named(run).items():
        if "lora" in name:
            moved += int(name.endswith("lora_B.default.weight") and bool(value.abs().sum() > 0))
        else:
            assert torch.equal(value, before[name.replace(".base_layer", "")]), name
    assert moved > 0
    lines = run.observer.lines
    assert lines[0]["objective/kl"] == pytest.approx(0.0, abs=1e-6)
    assert lines[-1]["objective/kl"] != 0.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_frozen_encoder_stays_and_the_decoder_learns(algorithm, tmp_path):
    run = train("seq2seq", algorithm, tmp_path, freeze_encoder=True)
    before = dict(tiny.model("seq2seq").named_parameters())
    changed = {name for name, value in named(run).items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith("decoder.") for name in changed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_half_precision_keeps_whole_weights(family, algorithm, tmp_path):
    run = train(family, algorithm, tmp_path, precision="bfloat16")
    assert {value.dtype for value in named(run).values()} == {torch.float32}
    assert not torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model(family)))
    assert all(
        torch.isfinite(torch.tensor(line["loss/policy" if algorithm != "supervised" else "loss/total"]))
        for line in run.observer.lines
    )

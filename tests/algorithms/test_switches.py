"""What changes memory, precision or the trained part of a model, under every algorithm and both families."""

import functools
import math

import pytest
import torch
from support import tiny
from support.tiny import ALGORITHMS

from grue.lm.adapters import adapt

CASES = [*(("causal", name) for name in ALGORITHMS), *(("seq2seq", name) for name in ("supervised", "ppo", "trpo"))]
SIZES = {"rollouts": 8, "minibatch_size": 8}
MORE = {
    "rloo": {"samples_per_prompt": 2},
    "grpo": {"samples_per_prompt": 2},
    "trpo": {"cg_steps": 3, "critic_epochs": 1},
    **{name: {"samples_per_prompt": 4} for name in ("copg", "dpo", "pro", "rft", "tpo")},
    "alol": {"samples_per_prompt": 4, "value_prompts": 12},
}
WHOLE = ("alol", "copg", "dpo", "pro", "rft", "tpo")  # learn from whole responses: their loss is one, their KL unknown


def length(examples, texts):
    """A reward that differs from text to text."""
    return [len(text) / 40 for text in texts]


def train(family, algorithm, folder, updates=2, **switches):
    """A few updates of a tiny model that was made ready as a run makes it ready."""
    sizes = {"epochs": updates} if algorithm == "supervised" else {"updates": updates, **SIZES}
    settings = {"validate_every": updates, "save_every": updates, **sizes, **MORE.get(algorithm, {}), **switches}
    run = tiny.run(family, algorithm, folder, task_=tiny.task(family, top_k=9), reward=length, **settings)
    adapt(run.trainer.policy, run.plan.config)
    tiny.train(run)
    return run


def named(run):
    return {name: value.detach().clone() for name, value in run.trainer.policy.named_parameters()}


@pytest.fixture(scope="module")
def plain_lines(tmp_path_factory):
    """The log of a case that nothing is switched on for, trained once for all switches."""
    return functools.cache(lambda *case: train(*case, tmp_path_factory.mktemp("plain")).observer.lines)


@pytest.mark.parametrize(("family", "algorithm"), CASES)
@pytest.mark.parametrize(
    "switch", [{"gradient_checkpointing": True}, {"log_prob_chunk": 5}], ids=lambda s: next(iter(s))
)
def test_what_saves_memory_changes_nothing_else(family, algorithm, switch, plain_lines, tmp_path):
    plain = plain_lines(family, algorithm)
    saving = train(family, algorithm, tmp_path, **switch)
    assert plain[0]["policy/grad_norm"] > 0
    for before, after in zip(plain, saving.observer.lines, strict=True):
        for key in ("loss/total", "loss/policy", "objective/reward", "policy/grad_norm"):
            if key in before:
                assert after[key] == pytest.approx(before[key], rel=2e-3, abs=1e-5), key


@pytest.mark.parametrize(("family", "algorithm"), [case for case in CASES if "supervised" not in case])
def test_adapters_learn_and_nothing_else_does(family, algorithm, tmp_path):
    run = train(family, algorithm, tmp_path, lora_rank=2)
    before = dict(tiny.model(family).named_parameters())
    moved = 0
    for name, value in named(run).items():
        if "lora" in name:
            moved += int(name.endswith("lora_B.default.weight") and bool(value.abs().sum() > 0))
        else:
            assert torch.equal(value, before[name.replace(".base_layer", "")]), name
    assert moved > 0
    (_, first, _), *_, (_, last, _) = run.observer.validations
    assert first["kl"] == pytest.approx(0.0, abs=1e-6)
    assert last["kl"] != 0.0
    if algorithm not in (*WHOLE, "es"):
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


@pytest.mark.parametrize(("family", "algorithm"), CASES)
def test_half_precision_keeps_whole_weights(family, algorithm, tmp_path):
    run = train(family, algorithm, tmp_path, updates=1, precision="bfloat16")
    assert {value.dtype for value in named(run).values()} == {torch.float32}
    assert not torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model(family)))
    whole = dict.fromkeys(("supervised", *WHOLE), "loss/total")
    figure = {"es": "policy/grad_norm", **whole}.get(algorithm, "loss/policy")
    assert all(math.isfinite(line[figure]) for line in run.observer.lines)

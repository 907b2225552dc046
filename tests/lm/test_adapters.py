"""Low-rank adapters, checkpointing and silence: what a run's settings do to a model of any family."""

import builtins
import copy

import pytest
import torch
from support import model_families, tiny, tiny_models
from torch import nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from grue.errors import ConfigError, Unavailable
from grue.lm.adapters import (
    adapt,
    adapter_off,
    add_lora,
    enable_checkpointing,
    merged,
    recomputing,
    silence_dropout,
)
from grue.lm.critic import Critic
from grue.lm.forward import encode, forward, next_logits
from grue.lm.model import assert_no_dropout, freeze
from grue.lm.sampling import sample_responses
from grue.lm.settings import ModelSettings

ALL = tiny_models.ALL
WITH_DROPOUT = ("gpt2", "opt", "t5", "mt5", "bart")


def logits(model, prompts, responses):
    with torch.no_grad():
        return forward(model, prompts, responses)[0]


def gradients(model, prompts, responses):
    model.zero_grad()
    out, _ = forward(model, prompts, responses)
    out[responses.mask].logsumexp(-1).square().sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def learning(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def learn(model, prompts, responses, steps=2):
    """A few steps that make token 3 rarer."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        forward(model, prompts, responses)[0][responses.mask].log_softmax(-1)[:, 3].mean().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", ALL)
def test_an_adapter_starts_as_nothing_and_alone_learns(kind):
    model, prompts, responses = tiny_models.batch(kind)
    before, weights = logits(model, prompts, responses), tiny.weights(model)
    add_lora(model, rank=4, alpha=8.0)
    assert torch.allclose(logits(model, prompts, responses), before, atol=1e-6)
    assert learning(model) and all("lora_" in name for name in learning(model))
    adapted = [module for module in model.modules() if hasattr(module, "lora_A")]
    expected = [m for m in tiny_models.model(kind).modules() if isinstance(m, nn.Linear | Conv1D)]
    assert len(adapted) == len(expected) - 1, "all weight matrices but the language head's"
    assert not hasattr(model.get_output_embeddings(), "lora_A")
    learn(model, prompts, responses)
    assert not torch.allclose(logits(model, prompts, responses), before, atol=1e-2)
    base = [parameter for name, parameter in model.named_parameters() if "lora_" not in name]
    assert torch.equal(torch.cat([parameter.detach().flatten() for parameter in base]), weights)


def test_an_adapter_is_the_product_of_two_thin_matrices():
    model = tiny_models.model("llama")
    add_lora(model, rank=2, alpha=6.0)
    layer = model.model.layers[0].mlp.up_proj
    a, b = (parameters["default"].weight for parameters in (layer.lora_A, layer.lora_B))
    assert a.shape == (2, 32) and b.shape == (48, 2)
    nn.init.normal_(b)
    x = torch.randn(3, 32)
    assert torch.allclose(layer(x), x @ (layer.weight + 6.0 / 2 * b @ a).T, atol=1e-4)


def test_adapters_are_drawn_with_their_seed_and_leave_the_global_generator_alone():
    def drawn(seed):
        model = tiny_models.model("gpt2")
        torch.manual_seed(5 + seed)
        state = torch.random.get_rng_state()
        add_lora(model, 4, 8.0, seed=seed % 2)
        assert torch.equal(torch.random.get_rng_state(), state)
        return tiny.weights(model)

    assert torch.equal(drawn(0), drawn(2))
    assert not torch.equal(drawn(0), drawn(1))


@pytest.mark.parametrize("kind", ALL)
def test_the_reference_is_the_model_with_its_adapter_off(kind):
    model, prompts, responses = tiny_models.batch(kind)
    before = logits(model, prompts, responses)
    add_lora(model, 4, 8.0)
    learn(model, prompts, responses)
    after, learns = logits(model, prompts, responses), learning(model)
    with adapter_off(model):
        assert torch.allclose(logits(model, prompts, responses), before, atol=1e-5)
    assert torch.equal(logits(model, prompts, responses), after)
    assert learning(model) == learns
    frozen = freeze(model)
    with pytest.raises(RuntimeError, match="stop"), adapter_off(frozen):
        raise RuntimeError("stop")
    assert learning(frozen) == set() and torch.allclose(logits(frozen, prompts, responses), after, atol=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_a_merged_copy_is_a_plain_model_for_transformers_alone(kind, tmp_path):
    model, prompts, responses = tiny_models.batch(kind)
    names = set(model.state_dict())
    add_lora(model, 4, 8.0)
    learn(model, prompts, responses)
    after = logits(model, prompts, responses)
    plain = merged(model)
    assert set(plain.state_dict()) == names and type(plain) is type(tiny_models.model(kind))
    plain.save_pretrained(tmp_path)
    auto = AutoModelForCausalLM if kind in tiny_models.CAUSAL else AutoModelForSeq2SeqLM
    loaded = auto.from_pretrained(tmp_path).eval()
    for found in (plain, loaded):
        assert torch.allclose(logits(found, prompts, responses), after, atol=1e-4)
    assert torch.equal(logits(model, prompts, responses), after), "the adapted model goes on as it was"
    assert len(learning(plain)) == len(list(plain.parameters()))


def test_a_model_without_adapters_is_merged_already():
    model = tiny_models.model("t5")
    assert merged(model) is model


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_copies_have_adapters_of_their_own(kind):
    model, prompts, responses = tiny_models.batch(kind)
    add_lora(model, 4, 8.0)
    critic, mask = Critic(model, shared=False), freeze(model)
    before = logits(model, prompts, responses)
    assert learning(critic.trunk) == learning(model) and learning(mask) == set()
    learn(critic.trunk, prompts, responses)
    assert torch.equal(logits(model, prompts, responses), before)
    assert torch.equal(logits(mask, prompts, responses), before)
    assert not torch.allclose(logits(critic.trunk, prompts, responses), before, atol=1e-3)
    learn(model, prompts, responses)
    assert torch.equal(logits(mask, prompts, responses), before)
    assert mask.load_state_dict(model.state_dict())
    assert torch.equal(logits(mask, prompts, responses), logits(model, prompts, responses))


@pytest.mark.parametrize("kind", ["qwen2_moe", "mixtral"])
def test_adapters_of_a_mixture_of_experts_are_merged_and_saved(kind, tmp_path):
    model = model_families.model(kind)
    model, prompts, responses = tiny_models.batch("gpt2", model)
    add_lora(model, 4, 8.0)
    learn(model, prompts, responses)
    merged(model).save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.allclose(logits(loaded, prompts, responses), logits(model, prompts, responses), atol=1e-4)


@pytest.mark.parametrize("kind", ["qwen3_next", "deepseek_v3"])
def test_experts_whose_adapters_cannot_be_merged_are_refused(kind):
    model = model_families.model(kind)
    with pytest.raises(ConfigError) as refused:
        add_lora(model, 4, 8.0)
    assert str(refused.value) == (
        f"lora_rank: peft adapts other weights of {type(model).__name__} than its linear layers, in a form that cannot "
        "be merged; set lora_rank = 0."
    )


def test_without_peft_the_message_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **settings):
        if name.split(".")[0] == "peft":
            raise ImportError(name)
        return real(name, *rest, **settings)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Unavailable, match=r"lora_rank is 4, but peft is not installed: pip install 'grue\[lora\]'"):
        add_lora(tiny_models.model("gpt2"), 4, 8.0)
    assert merged(model := tiny_models.model("gpt2")) is model


# --- dropout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_silenced_training_mode_is_evaluation_mode_bit_for_bit(kind):
    model, prompts, responses = tiny_models.batch(kind)
    quiet = logits(model, prompts, responses)
    model.train()
    if kind in WITH_DROPOUT:
        assert not torch.equal(logits(model, prompts, responses), quiet), "there was something to silence"
        with pytest.raises(AssertionError, match="dropout is active in"):
            assert_no_dropout(model)
    silence_dropout(model)
    assert_no_dropout(model)
    assert torch.equal(logits(model, prompts, responses), quiet)
    assert not [k for k, v in model.config.to_dict().items() if "drop" in k and isinstance(v, float) and v > 0]


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "activation_dropout", "decoder_layerdrop"])
def test_a_rate_that_only_a_function_is_given_counts_as_dropout(rate):
    rates = dict.fromkeys(["dropout", "attention_dropout", "activation_dropout", "decoder_layerdrop"], 0.0)
    config = tiny_models.model("bart").config
    for key, value in {**rates, rate: 0.5}.items():
        setattr(config, key, value)
    model = type(tiny_models.model("bart"))(config).eval()
    assert_no_dropout(model)  # in evaluation mode none acts
    with pytest.raises(AssertionError, match="dropout is active"):
        assert_no_dropout(model.train())


# --- checkpointing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("kind", ALL)
def test_checkpointing_changes_no_gradient(kind, lora):
    model, prompts, responses = tiny_models.batch(kind)
    silence_dropout(model)
    if lora:
        add_lora(model, 4, 8.0)
    expected = gradients(model, prompts, responses)
    recomputed = copy.deepcopy(model)
    enable_checkpointing(recomputed)
    passes = []
    layer = next(
        module for module in recomputed.modules() if isinstance(module, nn.LayerNorm) or "Norm" in repr(type(module))
    )
    layer.register_forward_hook(lambda *given: passes.append(1))
    with recomputing(recomputed):
        found = gradients(recomputed, prompts, responses)
    assert len(passes) == 2, "forward, and again in the backward pass"
    assert not recomputed.training
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-5, atol=1e-5 * float(gradient.abs().max() + 1))


def test_models_without_checkpointing_are_left_alone():
    model = tiny_models.model("gpt2")
    with recomputing(model, None):
        assert not model.training


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_sampling_goes_on_as_before_outside_of_recomputing(kind):
    model, prompts, _ = tiny_models.batch(kind)
    settings = tiny.task(tiny_models.family(kind)).rollout
    uniforms = torch.rand(3, 8, generator=torch.Generator().manual_seed(0))
    before = sample_responses(model, prompts, settings, uniforms, eos=1).responses.ids
    enable_checkpointing(model)
    assert torch.equal(sample_responses(model, prompts, settings, uniforms, eos=1).responses.ids, before)
    with recomputing(model), pytest.raises(AssertionError, match="evaluation mode to decode step by step"):
        next_logits(model, prompts)


def test_checkpointing_does_not_wake_a_frozen_encoder():
    model, prompts, responses = tiny_models.batch("t5")
    adapt(model, ModelSettings(freeze_encoder=True, gradient_checkpointing=True))
    with recomputing(model):
        assert not encode(model, prompts).requires_grad
        assert not any(name.startswith("encoder.") for name in gradients(model, prompts, responses))


def test_a_model_that_cannot_recompute_is_refused():
    model = tiny_models.model("gpt2")
    model.supports_gradient_checkpointing = False
    with pytest.raises(
        ConfigError, match="gradient_checkpointing: GPT2LMHeadModel does not support .*; set it to false"
    ):
        enable_checkpointing(model)


# --- all of it -------------------------------------------------------------------------------------------------------


def test_settings_make_a_policy_of_a_model():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=tiny_models.SIZE, n_layer=1, n_embd=16, n_head=2)).eval()
    adapt(model, ModelSettings(lora_rank=2, gradient_checkpointing=True, log_prob_chunk=4))
    assert_no_dropout(model.train())
    assert all("lora_" in name for name in learning(model))
    plain = tiny_models.model("gpt2")
    adapt(plain, ModelSettings())
    assert torch.equal(tiny.weights(plain), tiny.weights(tiny_models.model("gpt2")))
    assert len(learning(plain)) == len(list(plain.parameters()))


def test_fused_activations_are_the_same_function():
    """The formula of GPT-2's GELU, written out, at points far and near."""
    import math

    from transformers.activations import NewGELUActivation

    from grue.lm.adapters import fuse_activations

    module = torch.nn.Sequential(torch.nn.Sequential(NewGELUActivation()))
    fuse_activations(module)
    assert not any(isinstance(one, NewGELUActivation) for one in module.modules())
    for x in (-30.0, -3.0, -0.7, 0.0, 1e-4, 0.5, 2.0, 25.0):
        wanted = 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
        assert float(module(torch.tensor([x]))) == pytest.approx(wanted, abs=1e-6)

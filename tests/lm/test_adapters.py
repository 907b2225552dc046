"""Low-rank adapters, checkpointing and silence: what a run's settings do to a model of any family."""

import builtins
import copy
import math

import pytest
from support import model_families, tiny_models
from support.late import lates

from grue.errors import ConfigError, Unavailable
from grue.lm.settings import ModelSettings

torch, hf, tiny = lates("torch transformers support.tiny")
adapters, lm, forwarding, sampling, critics = lates("adapters model forward sampling critic", "grue.lm.")

ALL = ("gpt2", "opt", "llama", "t5", "bart")
WITH_DROPOUT = ("gpt2", "opt", "t5", "bart")


def logits(model, prompts, responses):
    with torch.no_grad():
        return forwarding.forward(model, prompts, responses)[0]


def gradients(model, prompts, responses):
    out, _ = forwarding.forward(model, prompts, responses)
    return tiny_models.gradients(model, out[responses.mask].logsumexp(-1).square().sum())


def learning(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def learn(model, prompts, responses, steps=2):
    """A few steps that make token 3 rarer."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        out, _ = forwarding.forward(model, prompts, responses)
        out[responses.mask].log_softmax(-1)[:, 3].mean().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", ALL)
def test_an_adapter_begins_as_nothing_learns_alone_and_the_reference_is_the_model_with_it_off(kind):
    model, *batch = tiny_models.batch(kind)
    before, weights = logits(model, *batch), tiny.weights(model)
    adapters.add_lora(model, rank=4, alpha=8.0)
    assert torch.allclose(logits(model, *batch), before, atol=1e-6)
    assert learning(model) and all("lora_" in name for name in learning(model))
    adapted = [module for module in model.modules() if hasattr(module, "lora_A")]
    matrices = (torch.nn.Linear, hf.pytorch_utils.Conv1D)
    expected = [module for module in tiny_models.model(kind).modules() if isinstance(module, matrices)]
    assert len(adapted) == len(expected) - 1, "all weight matrices but the language head's"
    assert not hasattr(model.get_output_embeddings(), "lora_A")
    learn(model, *batch)
    after, learns = logits(model, *batch), learning(model)
    assert not torch.allclose(after, before, atol=1e-2)
    base = [parameter.detach() for name, parameter in model.named_parameters() if "lora_" not in name]
    assert torch.equal(torch.cat([parameter.flatten() for parameter in base]), weights)
    with adapters.adapter_off(model):
        assert torch.allclose(logits(model, *batch), before, atol=1e-5)
    assert torch.equal(logits(model, *batch), after) and learning(model) == learns
    frozen = lm.freeze(model)
    with pytest.raises(RuntimeError, match="stop"), adapters.adapter_off(frozen):
        raise RuntimeError("stop")
    assert learning(frozen) == set() and torch.allclose(logits(frozen, *batch), after, atol=1e-5)


@pytest.mark.parametrize("kind", [*ALL, "qwen2_moe", "mixtral"])
def test_a_merged_copy_is_a_plain_model_for_transformers_alone(kind, tmp_path):
    model, *batch = model_families.batch(kind)
    names, sort = set(model.state_dict()), type(model)
    adapters.add_lora(model, 4, 8.0)
    learn(model, *batch)
    after = logits(model, *batch)
    plain = adapters.merged(model)
    assert set(plain.state_dict()) == names and type(plain) is sort
    plain.save_pretrained(tmp_path)
    auto = hf.AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else hf.AutoModelForCausalLM
    for found in (plain, auto.from_pretrained(tmp_path).eval()):
        assert torch.allclose(logits(found, *batch), after, atol=1e-4)
    assert torch.equal(logits(model, *batch), after), "the adapted model goes on as it was"
    assert len(learning(plain)) == len(list(plain.parameters()))


def test_an_adapter_is_the_product_of_two_thin_matrices():
    model = tiny_models.model("llama")
    adapters.add_lora(model, rank=2, alpha=6.0)
    layer = model.model.layers[0].mlp.up_proj
    a, b = (parameters["default"].weight for parameters in (layer.lora_A, layer.lora_B))
    assert a.shape == (2, 32) and b.shape == (48, 2)
    torch.nn.init.normal_(b)
    x = torch.randn(3, 32)
    assert torch.allclose(layer(x), x @ (layer.weight + 6.0 / 2 * b @ a).T, atol=1e-4)


def test_adapters_are_drawn_with_their_seed_and_leave_the_global_generator_alone():
    def drawn(seed):
        model = tiny_models.model("gpt2")
        torch.manual_seed(5 + seed)
        state = torch.random.get_rng_state()
        adapters.add_lora(model, 4, 8.0, seed=seed % 2)
        assert torch.equal(torch.random.get_rng_state(), state)
        return tiny.weights(model)

    assert torch.equal(drawn(0), drawn(2))
    assert not torch.equal(drawn(0), drawn(1))


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_copies_have_adapters_of_their_own(kind):
    model, *batch = tiny_models.batch(kind)
    adapters.add_lora(model, 4, 8.0)
    critic, mask = critics.Critic(model, shared=False), lm.freeze(model)
    before = logits(model, *batch)
    assert learning(critic.trunk) == learning(model) and learning(mask) == set()
    learn(critic.trunk, *batch)
    assert torch.equal(logits(model, *batch), before) and torch.equal(logits(mask, *batch), before)
    assert not torch.allclose(logits(critic.trunk, *batch), before, atol=1e-3)
    learn(model, *batch)
    assert torch.equal(logits(mask, *batch), before)
    assert mask.load_state_dict(model.state_dict())
    assert torch.equal(logits(mask, *batch), logits(model, *batch))


@pytest.mark.parametrize("kind", ["qwen3_next", "deepseek_v3"])
def test_experts_whose_adapters_cannot_be_merged_are_refused(kind, refused):
    with refused(ConfigError):
        adapters.add_lora(model_families.model(kind), 4, 8.0)


def test_without_peft_the_message_says_what_to_install(monkeypatch, refused):
    real = builtins.__import__

    def without(name, *rest, **settings):
        if name.split(".")[0] == "peft":
            raise ImportError(name)
        return real(name, *rest, **settings)

    model = tiny_models.model("gpt2")
    monkeypatch.setattr(builtins, "__import__", without)
    with refused(Unavailable):
        adapters.add_lora(model, 4, 8.0)
    assert adapters.merged(model) is model, "a model without adapters is merged already"


@pytest.mark.parametrize("kind", ALL)
def test_silenced_training_mode_is_evaluation_mode_bit_for_bit(kind):
    model, *batch = tiny_models.batch(kind)
    quiet = logits(model, *batch)
    model.train()
    if kind in WITH_DROPOUT:
        assert not torch.equal(logits(model, *batch), quiet), "there was something to silence"
        with pytest.raises(AssertionError, match="dropout is active in"):
            lm.assert_no_dropout(model)
    adapters.silence_dropout(model)
    lm.assert_no_dropout(model)
    assert torch.equal(logits(model, *batch), quiet)
    assert not [k for k, v in model.config.to_dict().items() if "drop" in k and isinstance(v, float) and v > 0]


def test_a_rate_that_only_a_function_is_given_counts_as_dropout():
    rates = dict.fromkeys(["dropout", "attention_dropout", "activation_dropout", "decoder_layerdrop"], 0.0)
    plain = tiny_models.model("bart")
    for rate in rates:
        config = copy.deepcopy(plain.config)
        for key, value in {**rates, rate: 0.5}.items():
            setattr(config, key, value)
        model = type(plain)(config).eval()
        lm.assert_no_dropout(model)  # in evaluation mode none acts
        with pytest.raises(AssertionError, match="dropout is active"):
            lm.assert_no_dropout(model.train())


@pytest.mark.parametrize(("kind", "lora"), [*((kind, False) for kind in ALL), ("gpt2", True), ("t5", True)])
def test_checkpointing_changes_no_gradient(kind, lora):
    model, *batch = tiny_models.batch(kind)
    adapters.silence_dropout(model)
    if lora:
        adapters.add_lora(model, 4, 8.0)
    expected = gradients(model, *batch)
    recomputed, passes = copy.deepcopy(model), []
    adapters.enable_checkpointing(recomputed)
    layer = next(module for module in recomputed.modules() if "Norm" in type(module).__name__)
    layer.register_forward_hook(lambda *given: passes.append(1))
    with adapters.recomputing(recomputed):
        found = gradients(recomputed, *batch)
    assert len(passes) == 2, "forward, and again in the backward pass"
    assert not recomputed.training
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-5, atol=1e-5 * float(gradient.abs().max() + 1))


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_sampling_goes_on_as_before_outside_of_recomputing(kind):
    model, prompts, _ = tiny_models.batch(kind)
    settings = tiny.task(tiny_models.family(kind)).rollout
    uniforms = torch.rand(3, 8, generator=torch.Generator().manual_seed(0))
    before = sampling.sample_responses(model, prompts, settings, uniforms, eos=1).responses.ids
    with adapters.recomputing(model, None):
        assert not model.training, "a model without checkpointing is left alone"
    adapters.enable_checkpointing(model)
    assert torch.equal(sampling.sample_responses(model, prompts, settings, uniforms, eos=1).responses.ids, before)
    with (
        adapters.recomputing(model),
        pytest.raises(AssertionError, match="decoding step by step needs evaluation mode"),
    ):
        forwarding.Steps(model, prompts)


def test_checkpointing_does_not_wake_a_frozen_encoder():
    model, prompts, responses = tiny_models.batch("t5")
    adapters.adapt(model, ModelSettings(freeze_encoder=True, gradient_checkpointing=True))
    with adapters.recomputing(model):
        assert not forwarding.encode(model, prompts).requires_grad
        assert not any(name.startswith("encoder.") for name in gradients(model, prompts, responses))


def test_a_model_that_cannot_recompute_is_refused():
    model = tiny_models.model("gpt2")
    model.supports_gradient_checkpointing = False
    with pytest.raises(ConfigError, match="gradient_checkpointing: GPT2LMHeadModel does not support .*; set it to fal"):
        adapters.enable_checkpointing(model)


def test_settings_make_a_policy_of_a_model():
    model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=tiny_models.SIZE, n_layer=1, n_embd=16, n_head=2)).eval()
    adapters.adapt(model, ModelSettings(lora_rank=2, gradient_checkpointing=True, log_prob_chunk=4))
    lm.assert_no_dropout(model.train())
    assert all("lora_" in name for name in learning(model))
    plain = tiny_models.model("gpt2")
    adapters.adapt(plain, ModelSettings())
    assert torch.equal(tiny.weights(plain), tiny.weights(tiny_models.model("gpt2")))
    assert len(learning(plain)) == len(list(plain.parameters()))


def test_fused_activations_are_the_same_function():
    """The formula of GPT-2's GELU, written out, at points far and near."""
    gelu = hf.activations.NewGELUActivation
    module = torch.nn.Sequential(torch.nn.Sequential(gelu()))
    adapters.fuse_activations(module)
    assert not any(isinstance(one, gelu) for one in module.modules())
    for x in (-30.0, -3.0, -0.7, 0.0, 1e-4, 0.5, 2.0, 25.0):
        wanted = 0.5 * x * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
        assert float(module(torch.tensor([x]))) == pytest.approx(wanted, abs=1e-6)

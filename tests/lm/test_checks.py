"""What is refused before training: texts too long for the positions, and models that cannot be a policy."""

import dataclasses

import pytest
import torch
from support import model_families, tiny, tiny_models
from transformers import BertConfig, BertLMHeadModel, GPT2LMHeadModel, GPT2Model, PreTrainedTokenizerFast

from grue.errors import ConfigError, DataError
from grue.lm import checks
from grue.lm.checks import check_lengths, check_model
from grue.lm.forward import forward
from grue.lm.tokens import Tokens

CAUSAL = tiny_models.CAUSAL
CHOOSE = "choose a causal model with a key-value cache (GPT-2, OPT, Llama, …) or an encoder-decoder (T5, BART, …)."
NO_CACHE = "decoding step by step with a cache fails (AttributeError: '{}' object has no attribute 'past_key_values')"


def task_of(kind, prompt, response):
    task = tiny.task(tiny_models.family(kind), max_new_tokens=response)
    return dataclasses.replace(task, prompt=dataclasses.replace(task.prompt, max_tokens=prompt))


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama", "bart"])
def test_what_fits_into_the_positions_runs_and_what_does_not_is_refused(kind):
    model, room = tiny_models.model(kind), tiny_models.POSITIONS
    prompt, response = (room - 8, 8) if kind in CAUSAL else (room, room)
    check_lengths(model, task_of(kind, prompt, response))
    full = Tokens(torch.full((1, prompt), 5), torch.ones(1, prompt, dtype=torch.bool))
    said = Tokens(torch.full((1, response), 6), torch.ones(1, response, dtype=torch.bool))
    with torch.no_grad():
        assert forward(model, full, said)[0].isfinite().all()
    with pytest.raises(ConfigError, match="shorten prompt.max_tokens or max_new_tokens"):
        check_lengths(model, task_of(kind, prompt + 1, response))
    with pytest.raises(ConfigError, match=f"has {room} positions"):
        check_lengths(model, task_of(kind, prompt, response + 1))


def test_the_message_says_which_part_is_too_long():
    model = tiny_models.model("bart")
    with pytest.raises(ConfigError, match="tests/tiny: prompt takes 41 tokens, the BartForCond.* has 40 positions"):
        check_lengths(model, task_of("bart", 41, 8))
    with pytest.raises(ConfigError, match="response takes 41 tokens"):
        check_lengths(model, task_of("bart", 8, 41))


@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_relative_positions_have_no_limit(kind):
    check_lengths(tiny_models.model(kind), task_of(kind, 4000, 4000))


@pytest.mark.parametrize(
    ("kind", "prompt", "response"), [("t5gemma", 40, 41), ("encoder_decoder", 41, 40), ("led", 41, 40)]
)
def test_each_side_of_an_encoder_decoder_has_its_own_positions(kind, prompt, response):
    model, task = model_families.model(kind), tiny.task("seq2seq", max_new_tokens=response)
    task = dataclasses.replace(task, prompt=dataclasses.replace(task.prompt, max_tokens=prompt))
    part = "prompt" if prompt > 40 else "response"
    with pytest.raises(ConfigError) as refused:
        check_lengths(model, task)
    assert str(refused.value) == (
        f"tests/tiny: {part} takes 41 tokens, the {type(model).__name__} has 40 positions; shorten prompt.max_tokens or "
        "max_new_tokens, or choose another backbone."
    )


# --- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("mamba", NO_CACHE.format("MambaCausalLMOutput")),
        ("mamba2", NO_CACHE.format("Mamba2CausalLMOutput")),
        ("recurrent_gemma", NO_CACHE.format("CausalLMOutput")),
        ("rwkv", "padding changes its logits"),
        ("xlnet", NO_CACHE.format("XLNetLMHeadModelOutput")),
        ("electra", "its states are 32 wide, and its language head reads 16"),
        (
            "fsmt",
            "a pass without the language head, as a critic makes it, fails (AttributeError: 'FSMTDecoder' object has no "
            "attribute 'base_model')",
        ),
        (
            "switch",
            "a forward pass over a padded batch fails (AttributeError: 'BaseModelOutput' object has no attribute "
            "'router_logits')",
        ),
        (
            "encoder_decoder of two widths",
            "a pass without the language head, as a critic makes it, fails (RuntimeError: mat1 and mat2 shapes cannot be "
            "multiplied (6x48 and 32x32))",
        ),
    ],
)
def test_a_family_that_cannot_be_trained_is_refused_before_training(kind, why):
    model = model_families.model(kind)
    name = type(model).__name__
    with pytest.raises(ConfigError) as refused:
        check_model(model, tiny.tokenizer("seq2seq" if model.config.is_encoder_decoder else "causal"))
    assert str(refused.value) == f"the {name}: {why}, so {name} cannot be trained here; {CHOOSE}"


def test_a_tokenizer_without_an_end_token_is_refused():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny.tokenizer("causal")._tokenizer, unk_token="<unk>", pad_token="<pad>"
    )
    with pytest.raises(ConfigError, match="the GPT2LMHeadModel: the tokenizer has no end-of-text token; set `eos_tok"):
        check_model(tiny_models.model("gpt2"), tokenizer)


def test_a_model_without_a_head_is_refused():
    bare = GPT2Model(tiny_models.model("gpt2").config)
    with pytest.raises(
        ConfigError, match="GPT2Model has no language head, so it cannot generate; load it with AutoModel"
    ):
        check_model(bare, tiny.tokenizer("causal"))


def test_a_tokenizer_of_another_model_is_refused():
    with pytest.raises(ConfigError, match="has 23 tokens and its head 20; use the tokenizer it was trained with"):
        check_model(tiny_models.model("gpt2", size=20), tiny.tokenizer("causal"))


def test_a_model_that_attends_to_later_tokens_is_refused():
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    bert = BertLMHeadModel(BertConfig(vocab_size=tiny_models.SIZE, initializer_range=0.5, **shape)).eval()
    with pytest.raises(
        ConfigError, match="a later token changes its logits, so BertLMHeadModel cannot be trained here"
    ):
        check_model(bert, tiny.tokenizer("causal"))


def test_a_model_that_ignores_its_cache_is_refused():
    class Forgetful(GPT2LMHeadModel):
        def forward(self, *given, past_key_values=None, attention_mask=None, input_ids=None, **settings):
            mask = attention_mask[:, -input_ids.shape[1] :]
            return super().forward(input_ids=input_ids, attention_mask=mask, **settings)

    model = Forgetful(tiny_models.model("gpt2").config).eval()
    model.load_state_dict(tiny_models.model("gpt2").state_dict())
    with pytest.raises(ConfigError, match="its cache changes its logits, so Forgetful cannot be trained here; choose"):
        check_model(model, tiny.tokenizer("causal"))


def test_a_trunk_with_other_states_is_refused(monkeypatch):
    monkeypatch.setattr(checks, "trunk_states", lambda *given: forward(*given, states=True)[1] + 1)
    with pytest.raises(ConfigError, match="its states change without the language head, so GPT2LMHeadModel cannot"):
        check_model(tiny_models.model("gpt2"), tiny.tokenizer("causal"))


@pytest.mark.parametrize(
    "error",
    [
        DataError("ours"),
        MemoryError("the machine's"),
        torch.cuda.OutOfMemoryError("the GPU's"),
        KeyboardInterrupt("the user's"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_says_nothing_about_the_model_is_no_refusal(error, monkeypatch):
    def fail(*given, **settings):
        raise error

    model = tiny_models.model("gpt2")
    monkeypatch.setattr(model, "forward", fail)
    with pytest.raises(type(error)) as raised:
        check_model(model, tiny.tokenizer("causal"))
    assert raised.value is error


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "t5",
            "the T5ForConditionalGeneration: set `decoder_start_token_id` in its config.json (0 for T5, 2 for BART).",
        ),
        (
            "t5gemma",
            "the T5GemmaForConditionalGeneration: set `bos_token_id` in the decoder's part of its config.json (2 for "
            "T5Gemma).",
        ),
    ],
)
def test_a_decoder_without_a_start_token_is_refused(kind, message):
    model = (tiny_models if kind == "t5" else model_families).model(kind)
    if kind == "t5":
        model.config.decoder_start_token_id = None
    else:
        model.config.decoder.bos_token_id = None
    with pytest.raises(ConfigError) as refused:
        check_model(model, tiny.tokenizer("seq2seq"))
    assert str(refused.value) == message

"""What is refused before training: texts too long for the positions, and models that cannot be a policy."""

import dataclasses

import pytest
from support import model_families, tiny_models
from support.late import lates

from grue.errors import ConfigError, DataError

torch, hf, tiny = lates("torch transformers support.tiny")
checks, tokens, forwarding = lates("checks tokens forward", "grue.lm.")


def task_of(family, prompt, response):
    task = tiny.task(family, max_new_tokens=response)
    return dataclasses.replace(task, prompt=dataclasses.replace(task.prompt, max_tokens=prompt))


@pytest.mark.parametrize("kind", ["gpt2", "opt", "llama", "bart", "t5gemma", "encoder_decoder", "led"])
def test_what_fits_into_the_positions_runs_and_what_does_not_is_refused(kind, refused):
    """Each side of an encoder-decoder has positions of its own."""
    (model, *_), room = model_families.batch(kind), tiny_models.POSITIONS
    family = "seq2seq" if model.config.is_encoder_decoder else "causal"
    prompt, response = (room - 8, 8) if family == "causal" else (room, room)
    checks.check_lengths(model, task_of(family, prompt, response))
    full = tokens.Tokens(torch.full((1, prompt), 5), torch.ones(1, prompt, dtype=torch.bool))
    said = tokens.Tokens(torch.full((1, response), 6), torch.ones(1, response, dtype=torch.bool))
    with torch.no_grad():
        assert forwarding.forward(model, full, said)[0].isfinite().all()
    with refused(ConfigError):
        checks.check_lengths(model, task_of(family, prompt + 1, response))
    with refused(ConfigError):
        checks.check_lengths(model, task_of(family, prompt, response + 1))


@pytest.mark.parametrize("kind", ["t5", "mt5"])
def test_relative_positions_have_no_limit(kind):
    checks.check_lengths(tiny_models.model(kind), task_of("seq2seq", 4000, 4000))


@pytest.mark.parametrize("kind", model_families.REFUSED)
def test_a_family_that_cannot_be_trained_is_refused_before_training(kind, refused):
    model = model_families.model(kind)
    with refused(ConfigError):
        checks.check_model(model, tiny.tokenizer("seq2seq" if model.config.is_encoder_decoder else "causal"))


def test_models_that_lack_something_are_refused(refused):
    t5, t5gemma = tiny_models.model("t5"), model_families.model("t5gemma")
    t5.config.decoder_start_token_id = t5gemma.config.decoder.bos_token_id = None
    for one, words in (
        (hf.GPT2Model(tiny_models.model("gpt2").config), tiny.tokenizer("causal")),
        (t5, tiny.tokenizer("seq2seq")),
        (t5gemma, tiny.tokenizer("seq2seq")),
    ):
        with refused(ConfigError):
            checks.check_model(one, words)


def test_models_that_compute_something_else_are_refused(refused, monkeypatch):
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    bert = hf.BertLMHeadModel(hf.BertConfig(vocab_size=tiny_models.SIZE, initializer_range=0.5, **shape)).eval()

    class Forgetful(hf.GPT2LMHeadModel):
        def forward(self, *given, past_key_values=None, attention_mask=None, input_ids=None, **settings):
            mask = attention_mask[:, -input_ids.shape[1] :]
            return super().forward(input_ids=input_ids, attention_mask=mask, **settings)

    forgetful = tiny_models.model("gpt2")
    forgetful.__class__ = Forgetful
    for model in (bert, forgetful):  # one attends to later tokens, one ignores its cache
        with refused(ConfigError):
            checks.check_model(model, tiny.tokenizer("causal"))
    monkeypatch.setattr(checks, "trunk_states", lambda *given: forwarding.forward(*given, states=True)[1] + 1)
    with refused(ConfigError):
        checks.check_model(tiny_models.model("gpt2"), tiny.tokenizer("causal"))


def test_what_says_nothing_about_the_model_is_no_refusal(monkeypatch):
    for error in (
        DataError("ours"),
        MemoryError("the machine's"),
        torch.cuda.OutOfMemoryError("the GPU's"),
        KeyboardInterrupt("the user's"),
    ):

        def fail(*given, error=error, **settings):
            raise error

        model = tiny_models.model("gpt2")
        monkeypatch.setattr(model, "forward", fail)
        with pytest.raises(type(error)) as raised:
            checks.check_model(model, tiny.tokenizer("causal"))
        assert raised.value is error


def test_a_card_without_bfloat16_is_refused_where_it_is_asked_for(monkeypatch, refused):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with refused(ConfigError):
        checks.check_precision("bfloat16", torch.device("cuda"))
    checks.check_precision("float32", torch.device("cuda"))
    checks.check_precision("bfloat16", torch.device("cpu"))

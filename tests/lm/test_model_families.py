"""What holds for every family of models that can be trained, against plain calls of one row."""

import json
from pathlib import Path

import pytest
import torch
from support import model_families, oracles, tiny, tiny_models
from support.saved import MANIFEST
from transformers import AutoModelForSeq2SeqLM

from grue.errors import ConfigError, DataError
from grue.evaluation.predict import predict
from grue.lm import checkpoint
from grue.lm.checks import check_model
from grue.lm.forward import encode, forward, next_logits, trunk_states
from grue.lm.load import load_language_model
from grue.lm.model import choose_attention, freeze_encoder, vocabulary_size
from grue.lm.sampling import sample_responses
from grue.lm.tokens import Tokens, decode_responses
from grue.tasks import Generation

ALL, CAUSAL, SEQ2SEQ = tiny_models.ALL, tiny_models.CAUSAL, tiny_models.SEQ2SEQ
OTHERS = tuple(model_families.SUPPORTED)
START = {"t5": 0, "mt5": 0, "t5gemma": 2}  # the other decoders start with 1


def batch(kind):
    if kind in ALL:
        return tiny_models.batch(kind)
    return tiny_models.batch("gpt2" if kind in model_families.CAUSAL else "bart", model_families.model(kind))


def real_tokens(tokens, row):
    return tokens.ids[row][tokens.mask[row]].tolist()


def one_row(kind, model, asked, said, **settings):
    """The model called as its documentation says, on one row without padding: logits and last states of `said`."""
    if not model.config.is_encoder_decoder:
        out = model(input_ids=torch.tensor([asked + said]), output_hidden_states=True)
        here = slice(len(asked) - 1, -1)
        return out.logits[0, here], out.hidden_states[-1][0, here]
    decoder = torch.tensor([[START.get(kind, 1), *said[:-1]]])
    out = model(input_ids=torch.tensor([asked]), decoder_input_ids=decoder, output_hidden_states=True)
    return out.logits[0], out.decoder_hidden_states[-1][0]


@pytest.mark.parametrize("kind", ALL + OTHERS)
def test_a_padded_batch_gives_logits_and_states_of_each_row_alone(kind):
    model, prompts, responses = batch(kind)
    check_model(model, tiny.tokenizer("seq2seq" if model.config.is_encoder_decoder else "causal"))
    assert not prompts.mask.all() and not responses.mask.all()
    with torch.no_grad():
        logits, states = forward(model, prompts, responses, states=True)
        trunk = trunk_states(model, prompts, responses)
        assert logits.std() > 0.1
        for row in range(3):
            said = real_tokens(responses, row)
            expected_logits, expected_states = one_row(kind, model, real_tokens(prompts, row), said)
            assert torch.allclose(logits[row, : len(said)], expected_logits, atol=1e-5)
            assert torch.allclose(states[row, : len(said)], expected_states, atol=1e-5)
            assert torch.allclose(trunk[row, : len(said)], expected_states, atol=1e-5)


@pytest.mark.parametrize("kind", ALL + OTHERS)
def test_stepping_with_a_cache_gives_the_logits_of_the_whole(kind):
    model, prompts, responses = batch(kind)
    with torch.no_grad():
        whole, states = forward(model, prompts, responses, states=True)
        step, drawn = next_logits(model, prompts, states=True), None
        for t in range(responses.ids.shape[1]):
            rows, (logits, state) = responses.mask[:, t], step(drawn)
            assert torch.allclose(logits[rows], whole[rows, t], atol=1e-5)
            assert torch.allclose(state[rows], states[rows, t], atol=1e-5)
            drawn = responses.ids[:, t]


@pytest.mark.parametrize("sampler", [{"temperature": 0.7}, {"top_k": 9, "min_new_tokens": 3, "temperature": 3.0}])
@pytest.mark.parametrize("kind", ["gpt2", "t5", "llama", "bart", "opt", "qwen2"])
def test_the_sampler_keeps_what_the_model_says_of_each_row_alone(kind, sampler):
    model, prompts, _ = batch(kind)
    settings = Generation(max_new_tokens=8, do_sample=True, **sampler)
    chance = torch.rand(3, 8, generator=torch.Generator().manual_seed(1))
    found = sample_responses(model, prompts, settings, chance, eos=1, keep="states")
    kept, size = found.said, vocabulary_size(model)
    opened = found.open_vocabulary(torch.arange(3), found.responses.ids.shape[1], size)
    assert (opened is None) == ("top_k" not in sampler)
    for row in range(3):
        said = real_tokens(found.responses, row)
        with torch.no_grad():
            logits, states = one_row(kind, model, real_tokens(prompts, row), said)
        assert torch.allclose(kept.states[row, : len(said)], states, atol=1e-5)
        for t, token in enumerate(said):
            now = (logits[t] / settings.temperature).tolist()
            allowed = range(size) if opened is None else opened[row, t].nonzero().flatten().tolist()
            expected = (
                oracles.token_log_prob(now, token),
                oracles.token_log_prob(now, token, allowed),
                oracles.entropy(oracles.softmax([now[v] for v in allowed])),
            )
            values = (kept.plain, kept.restricted, kept.entropy)
            assert [float(one[row, t]) for one in values] == pytest.approx(expected, abs=1e-5)
        assert all((one[row, len(said) :] == 0).all() for one in (kept.plain, kept.restricted, kept.entropy))


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_states_are_those_that_the_logits_come_from(kind):
    model, prompts, responses = tiny_models.batch(kind)
    with torch.no_grad():
        logits, states = forward(model, prompts, responses, states=True)
    scale = model.config.d_model**-0.5 if kind == "t5" else 1.0
    assert torch.allclose(model.get_output_embeddings()(states * scale), logits, atol=1e-5)


def test_mistrals_window_slides():
    # A layer sees four tokens, itself among them, so two layers reach six back: the first of nine must not matter.
    model = tiny_models.model("mistral")
    mask = torch.ones(2, 9, dtype=torch.bool)
    ids = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10, 11], [12, 4, 5, 6, 7, 8, 9, 10, 11]])
    with torch.no_grad():
        logits, _ = forward(model, Tokens(ids, mask), Tokens(ids[:, :1] * 0 + 5, mask[:, :1]))
    assert torch.allclose(logits[0], logits[1], atol=1e-6)


@pytest.mark.parametrize("kind", SEQ2SEQ)
def test_an_encoder_run_once_serves_everything(kind):
    model, prompts, responses = tiny_models.batch(kind)
    freeze_encoder(model)
    encoded = encode(model, prompts)
    assert not encoded.requires_grad

    def gradients(given):
        model.zero_grad()
        logits, _ = forward(model, prompts, responses, encoded=given)
        (logits.log_softmax(-1)[..., 3] * responses.mask).sum().backward()
        return logits, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    (logits, plain), (again, reused) = gradients(None), gradients(encoded)
    assert torch.allclose(logits, again, atol=1e-6)
    assert plain.keys() == reused.keys() and not any("encoder." in name for name in plain)
    assert all(torch.allclose(plain[name], reused[name], atol=1e-5) for name in plain)
    with torch.no_grad():
        states = trunk_states(model, prompts, responses)
        assert torch.allclose(trunk_states(model, prompts, responses, encoded), states, atol=1e-6)
        assert torch.allclose(next_logits(model, prompts, encoded=encoded)(None)[0], logits[:, 0], atol=1e-5)
        rows = torch.tensor([0, 2])  # their prompts are shorter than the longest, which is padding in `encoded`
        part, said = prompts.rows(rows), responses.rows(rows)
        assert part.ids.shape[1] < prompts.ids.shape[1]
        some, _ = forward(model, part, said, encoded=encoded[rows])
        assert torch.allclose(some[said.mask], logits[rows][:, : said.ids.shape[1]][said.mask], atol=1e-5)


@pytest.mark.parametrize(("kind", "changed"), [("t5", True), ("mt5", True), ("bart", False), ("gpt2", False)])
def test_attention_step_by_step_computes_the_same(kind, changed):
    model, prompts, responses = batch(kind)
    before, (logits, _) = model.config._attn_implementation, forward(model, prompts, responses)
    choose_attention(model)
    assert before == "sdpa" and (model.config._attn_implementation == "eager") == changed
    assert torch.allclose(forward(model, prompts, responses)[0], logits, atol=1e-5)


def test_a_causal_model_has_no_encoder_to_freeze():
    with pytest.raises(ConfigError, match="freeze_encoder: .*has no encoder; set it to false"):
        freeze_encoder(tiny_models.model("llama"))


# --- sizes and folders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bart"])
def test_a_head_may_be_larger_than_its_tokenizer(kind):
    size = tiny_models.SIZE + 9
    model, tokenizer = tiny_models.model(kind, size=size), tiny.tokenizer(tiny_models.family(kind))
    assert vocabulary_size(model) == size > len(tokenizer)
    check_model(model, tokenizer)
    _, prompts, _ = tiny_models.batch(kind, model)
    settings = Generation(max_new_tokens=30, do_sample=True, temperature=5.0)
    uniforms = torch.rand(3, 30, generator=torch.Generator().manual_seed(0))
    rollout = sample_responses(model, prompts, settings, uniforms, eos=1)
    assert (rollout.responses.ids >= len(tokenizer)).any(), "the sampler knows nothing of tokenizers"
    known = [[i for i in real_tokens(rollout.responses, row) if i < len(tokenizer)] for row in range(3)]
    expected = [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in known]
    assert decode_responses(tokenizer, rollout.responses, rollout.truncated) == expected


def saved(kind, folder):
    tiny_models.model(kind).save_pretrained(folder)
    tiny.tokenizer(tiny_models.family(kind)).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_an_encoder_decoder_is_no_causal_model(kind, tmp_path):
    with pytest.raises(DataError, match=f"cannot be loaded as a causal language model: it is an enc.* .{kind}.*"):
        load_language_model("causal", saved(kind, tmp_path))


def test_a_configuration_may_leave_its_family_to_its_class(tmp_path):
    path = Path(saved("t5", tmp_path), "config.json")
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != "is_encoder_decoder"}
    path.write_text(json.dumps(kept))
    assert load_language_model("seq2seq", str(tmp_path))[0].config.is_encoder_decoder


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_causal_model_is_no_encoder_decoder(kind, tmp_path):
    with pytest.raises(DataError, match=f'as an encoder-decoder .*: it is a causal model .{kind}.* "causal"'):
        load_language_model("seq2seq", saved(kind, tmp_path))


def test_a_folder_whose_head_is_missing_is_refused(tmp_path):
    tiny_models.model("llama").base_model.save_pretrained(tmp_path)
    tiny.tokenizer("causal").save_pretrained(tmp_path)
    with pytest.raises(DataError, match="is not a causal language model: weights are missing .*lm_head"):
        load_language_model("causal", str(tmp_path))


@pytest.mark.filterwarnings("ignore:.*are not applied. no_repeat_ngram_size")
def test_a_checkpoint_does_not_decide_how_it_is_decoded(tmp_path):
    model = tiny_models.model("bart")
    model.generation_config.update(forced_eos_token_id=1, no_repeat_ngram_size=1, min_length=9)
    model.save_pretrained(tmp_path)
    tiny.tokenizer("seq2seq").save_pretrained(tmp_path)
    loaded, tokenizer = load_language_model("seq2seq", str(tmp_path))
    examples, task = tiny.examples(3), tiny.task("seq2seq")
    found = predict(loaded, tokenizer, task, examples, Generation(max_new_tokens=6), 1)
    for example, prediction in zip(examples, found, strict=True):
        asked, said = tokenizer(example.prompt)["input_ids"], []
        while len(said) < 6 and 1 not in said:
            with torch.no_grad():
                logits, _ = one_row("bart", model, asked, [*said, 0])
            said.append(int(logits[-1].argmax()))
        assert prediction.text == tokenizer.decode(said, skip_special_tokens=True).strip()
        assert prediction.truncated == (1 not in said)


def test_t5gemma_starts_with_its_decoder_s_first_token_after_saving_and_loading_too(tmp_path):
    model, task, tokenizer = model_families.model("t5gemma"), tiny.task("seq2seq"), tiny.tokenizer("seq2seq")
    settings = Generation(max_new_tokens=5)
    checkpoint.save_checkpoint(tmp_path / "kept", model, tokenizer, MANIFEST, settings, "")
    loaded, tokenizer = load_language_model("seq2seq", str(tmp_path / "kept"))
    example = tiny.examples(1)[0]
    [found] = predict(loaded, tokenizer, task, [example], settings, 1)
    asked, said = tokenizer(example.prompt)["input_ids"], []
    while len(said) < 5 and 1 not in said:
        with torch.no_grad():
            logits, _ = one_row("t5gemma", model, asked, [*said, 0])
        said.append(int(logits[-1].argmax()))
    assert found.text == tokenizer.decode(said, skip_special_tokens=True).strip()
    plain = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "kept").generate(torch.tensor([asked]))[0]
    assert plain.tolist() == [2, *said]

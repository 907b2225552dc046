"""What holds for every family of models that can be trained, against plain calls of one row."""

import json
from pathlib import Path

import pytest
from support import model_families, tiny_models
from support.late import lates

from grue.errors import ConfigError, DataError
from grue.lm import checkpoint
from grue.tasks import Generation

torch, hf, predicting = lates("torch transformers grue.evaluation.predict")
oracles, tiny, exactness, saving = lates("oracles tiny exactness saved", "support.")
checks, forwarding, loading, lm, adapters, sampling, tokens = lates(
    "checks forward load model adapters sampling tokens", "grue.lm."
)
START = {"t5": 0, "mt5": 0, "t5gemma": 2}  # the other decoders start with 1


def one_row(kind, model, asked, said):
    """Logits and last states of `said`, of one row without padding."""
    return exactness.plain(model, asked, said, START.get(kind, 1))


@pytest.mark.parametrize("kind", [*tiny_models.ALL, *model_families.SUPPORTED])
def test_a_padded_batch_gives_logits_and_states_of_each_row_alone(kind):
    """And so does stepping with a cache."""
    model, prompts, responses = model_families.batch(kind)
    checks.check_model(model, tiny.tokenizer("seq2seq" if model.config.is_encoder_decoder else "causal"))
    assert not prompts.mask.all() and not responses.mask.all()
    with torch.no_grad():
        logits, states = forwarding.forward(model, prompts, responses, states=True)
        trunk = forwarding.trunk_states(model, prompts, responses)
        assert logits.std() > 0.1
        for row in range(3):
            said = exactness.real(responses, row)
            expected_logits, expected_states = one_row(kind, model, exactness.real(prompts, row), said)
            assert torch.allclose(logits[row, : len(said)], expected_logits, atol=1e-5)
            assert torch.allclose(states[row, : len(said)], expected_states, atol=1e-5)
            assert torch.allclose(trunk[row, : len(said)], expected_states, atol=1e-5)
        step, drawn = forwarding.Steps(model, prompts, states=True), None
        for t in range(responses.ids.shape[1]):
            rows, (now, state) = responses.mask[:, t], step(drawn)
            assert torch.allclose(now[rows], logits[rows, t], atol=1e-5)
            assert torch.allclose(state[rows], states[rows, t], atol=1e-5)
            drawn = responses.ids[:, t]


@pytest.mark.parametrize("sampler", [{"temperature": 0.7}, {"top_k": 9, "min_new_tokens": 3, "temperature": 3.0}])
@pytest.mark.parametrize("kind", ["gpt2", "t5", "llama", "bart", "opt", "qwen2"])
def test_the_sampler_keeps_what_the_model_says_of_each_row_alone(kind, sampler):
    model, prompts, _ = model_families.batch(kind)
    settings = Generation(max_new_tokens=8, do_sample=True, **sampler)
    chance = torch.rand(3, 8, generator=torch.Generator().manual_seed(1))
    found = sampling.sample_responses(model, prompts, settings, chance, eos=1, keep="states")
    kept, size = found.sampler_scores, lm.vocabulary_size(model)
    opened = found.open_vocabulary(torch.arange(3), found.responses.ids.shape[1], size)
    assert (opened is None) == ("top_k" not in sampler)
    for row in range(3):
        said = exactness.real(found.responses, row)
        with torch.no_grad():
            logits, states = one_row(kind, model, exactness.real(prompts, row), said)
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


def learnt(model, prompts, responses, encoded=None):
    """The logits, and the gradients of a loss on them."""
    logits, _ = forwarding.forward(model, prompts, responses, encoded=encoded)
    return logits, tiny_models.gradients(model, (logits.log_softmax(-1)[..., 3] * responses.mask).sum())


def assert_close(found, wanted):
    (logits, gradients), (expected, plain) = found, wanted
    assert torch.allclose(logits, expected, atol=1e-6)
    assert gradients.keys() == plain.keys()
    assert all(torch.allclose(gradients[name], plain[name], atol=1e-5) for name in plain)


@pytest.mark.parametrize("kind", tiny_models.SEQ2SEQ)
def test_an_encoder_reads_a_prompt_once_however_often_it_occurs(kind):
    model, prompts, responses = tiny_models.batch(kind)
    rows = torch.tensor([1, 0, 1, 1, 0])
    copies, answers = prompts.rows(rows), responses.rows(rows % len(responses.ids))
    read = []
    model.get_encoder().register_forward_pre_hook(lambda _, inputs: read.append(len(inputs[0])))

    plain, found = (
        learnt(model, copies, answers, forwarding.encode(model, prompts)[rows]),
        learnt(model, copies, answers),
    )
    assert_close(found, plain)
    assert read == [3, 2]
    adapters.silence_dropout(model)
    model.train()  # as checkpointing asks for: learning then sees matrices of the shape that scoring saw
    with torch.no_grad():
        forwarding.encode(model, copies)
    with adapters.dropping_out(model, 0.5, seed=1), torch.no_grad():
        first, second = forwarding.encode(model, copies)[[0, 2]]
    assert read == [3, 2, 2, 5] and not torch.equal(first, second)


@pytest.mark.parametrize("kind", tiny_models.SEQ2SEQ)
def test_an_encoder_run_once_serves_everything(kind):
    model, prompts, responses = tiny_models.batch(kind)
    lm.freeze_encoder(model)
    encoded = forwarding.encode(model, prompts)
    assert not encoded.requires_grad
    logits, gradients = learnt(model, prompts, responses)
    assert_close(learnt(model, prompts, responses, encoded), (logits, gradients))
    assert not any("encoder." in name for name in gradients)
    with torch.no_grad():
        states = forwarding.trunk_states(model, prompts, responses)
        assert torch.allclose(forwarding.trunk_states(model, prompts, responses, encoded), states, atol=1e-6)
        stepped, *_ = forwarding.Steps(model, prompts, encoded=encoded)(None)
        assert torch.allclose(stepped, logits[:, 0], atol=1e-5)
        rows = torch.tensor([0, 2])  # their prompts are shorter than the longest, which is padding in `encoded`
        part, said = prompts.rows(rows), responses.rows(rows)
        assert part.ids.shape[1] < prompts.ids.shape[1]
        some, _ = forwarding.forward(model, part, said, encoded=encoded[rows])
        assert torch.allclose(some[said.mask], logits[rows][:, : said.ids.shape[1]][said.mask], atol=1e-5)


@pytest.mark.parametrize(("kind", "changed"), [("t5", True), ("mt5", True), ("bart", False), ("gpt2", False)])
def test_attention_step_by_step_computes_the_same(kind, changed, refused):
    model, prompts, responses = model_families.batch(kind)
    before, (logits, _) = model.config._attn_implementation, forwarding.forward(model, prompts, responses)
    lm.choose_attention(model)
    assert before == "sdpa" and (model.config._attn_implementation == "eager") == changed
    assert torch.allclose(forwarding.forward(model, prompts, responses)[0], logits, atol=1e-5)
    if kind == "gpt2":
        with refused(ConfigError):
            lm.freeze_encoder(model)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_head_may_be_larger_than_its_tokenizer(kind):
    size = tiny_models.SIZE + 9
    model, tokenizer = tiny_models.model(kind, size=size), tiny.tokenizer(tiny_models.family(kind))
    assert lm.vocabulary_size(model) == size > len(tokenizer)
    checks.check_model(model, tokenizer)
    _, prompts, _ = tiny_models.batch(kind, model)
    settings = Generation(max_new_tokens=30, do_sample=True, temperature=5.0)
    uniforms = torch.rand(3, 30, generator=torch.Generator().manual_seed(0))
    rollout = sampling.sample_responses(model, prompts, settings, uniforms, eos=1)
    assert (rollout.responses.ids >= len(tokenizer)).any(), "the sampler knows nothing of tokenizers"
    known = [[i for i in exactness.real(rollout.responses, row) if i < len(tokenizer)] for row in range(3)]
    expected = [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in known]
    assert tokens.decode_responses(tokenizer, rollout.responses, rollout.truncated) == expected


def saved(kind, folder):
    tiny_models.model(kind).save_pretrained(folder)
    tiny.tokenizer(tiny_models.family(kind)).save_pretrained(folder)
    return str(folder)


def test_a_model_is_of_its_family_whatever_its_configuration_leaves_to_its_class(tmp_path, refused):
    with refused(DataError):
        loading.load_language_model("causal", saved("bart", tmp_path / "bart"))
    with refused(DataError):
        loading.load_language_model("seq2seq", saved("llama", tmp_path / "llama"))
    name = saved("t5", tmp_path / "t5")
    path = Path(name, "config.json")
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key != "is_encoder_decoder"}
    path.write_text(json.dumps(kept))
    assert loading.load_language_model("seq2seq", name)[0].config.is_encoder_decoder
    with refused(DataError):
        loading.load_language_model("causal", name)
    headless = tmp_path / "headless"
    tiny_models.model("llama").base_model.save_pretrained(headless)
    tiny.tokenizer("causal").save_pretrained(headless)
    with refused(DataError):
        loading.load_language_model("causal", str(headless))


def test_t5gemma_starts_with_its_decoder_s_first_token_after_saving_and_loading_too(tmp_path):
    model, settings, example = model_families.model("t5gemma"), Generation(max_new_tokens=5), tiny.examples(1)[0]
    checkpoint.save_checkpoint(tmp_path / "kept", model, tiny.tokenizer("seq2seq"), saving.MANIFEST, settings, "")
    loaded, tokenizer = loading.load_language_model("seq2seq", str(tmp_path / "kept"))
    [found] = predicting.predict((loaded, tokenizer), tiny.task("seq2seq"), [example], settings, 1)
    asked = tokenizer(example.prompt)["input_ids"]
    said = exactness.greedy(model, asked, 5, START["t5gemma"])
    assert found.text == tokenizer.decode(said, skip_special_tokens=True).strip()
    plain = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "kept").generate(torch.tensor([asked]))[0]
    assert plain.tolist() == [2, *said]

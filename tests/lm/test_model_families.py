"""GPT-2, OPT, Llama, Mistral, Gemma 2, T5, mT5 and BART: what holds for each of them, against plain calls of one row."""

import dataclasses

import pytest
import torch
from support import tiny, tiny_models
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertLMHeadModel, GPT2Model, PreTrainedTokenizerFast

from grue.errors import ConfigError, DataError
from grue.evaluation.predict import predict
from grue.lm.checks import check_lengths, check_model
from grue.lm.critic import Critic
from grue.lm.forward import encode, forward, next_logits, trunk_states
from grue.lm.load import load_language_model
from grue.lm.model import freeze_encoder, hidden_size, vocabulary_size
from grue.lm.sampling import sample_responses
from grue.lm.tokens import Tokens, decode_responses, encode_prompts, encode_responses
from grue.tasks import Generation, Prompt

ALL, CAUSAL, SEQ2SEQ = tiny_models.ALL, tiny_models.CAUSAL, tiny_models.SEQ2SEQ
START = {"t5": 0, "mt5": 0, "bart": 1}
PROMPT = Prompt(max_tokens=10, truncation="left")
WIDTH = {"opt": 20}  # OPT's head reads states narrower than its layers' 32


def real_tokens(tokens, row):
    return tokens.ids[row][tokens.mask[row]].tolist()


def one_row(kind, model, asked, said, **settings):
    """The model called as its documentation says, on one row without padding: logits and last states of `said`."""
    if kind in CAUSAL:
        out = model(input_ids=torch.tensor([asked + said]), output_hidden_states=True)
        here = slice(len(asked) - 1, -1)
        return out.logits[0, here], out.hidden_states[-1][0, here]
    decoder = torch.tensor([[START[kind], *said[:-1]]])
    out = model(input_ids=torch.tensor([asked]), decoder_input_ids=decoder, output_hidden_states=True)
    return out.logits[0], out.decoder_hidden_states[-1][0]


@pytest.mark.parametrize("kind", ALL)
def test_a_padded_batch_gives_logits_and_states_of_each_row_alone(kind):
    model, prompts, responses = tiny_models.batch(kind)
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


@pytest.mark.parametrize("kind", ALL)
def test_stepping_with_a_cache_gives_the_logits_of_the_whole(kind):
    model, prompts, responses = tiny_models.batch(kind)
    with torch.no_grad():
        whole, _ = forward(model, prompts, responses)
        step, drawn = next_logits(model, prompts), None
        for t in range(responses.ids.shape[1]):
            rows = responses.mask[:, t]
            assert torch.allclose(step(drawn)[rows], whole[rows, t], atol=1e-5)
            drawn = responses.ids[:, t]


def test_mistrals_window_slides():
    # A layer sees four tokens, itself among them, so two layers reach six back: the first of nine must not matter.
    model = tiny_models.model("mistral")
    mask = torch.ones(2, 9, dtype=torch.bool)
    ids = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10, 11], [12, 4, 5, 6, 7, 8, 9, 10, 11]])
    with torch.no_grad():
        logits, _ = forward(model, Tokens(ids, mask), Tokens(ids[:, :1] * 0 + 5, mask[:, :1]))
    assert torch.allclose(logits[0], logits[1], atol=1e-6)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shared", [True, False])
def test_a_critic_reads_states_of_the_right_width_and_learns(kind, shared):
    model, prompts, responses = tiny_models.batch(kind)
    assert hidden_size(model) == WIDTH.get(kind, 32)
    critic = Critic(model, shared)
    _, states = forward(model, prompts, responses, states=True)
    assert (critic(prompts, responses, states if shared else None) == 0).all()
    torch.nn.init.ones_(critic.head.weight)
    values = critic(prompts, responses, states if shared else None)
    assert torch.allclose(values[responses.mask], states.sum(-1)[responses.mask], atol=1e-4)
    values[responses.mask].square().sum().backward()
    learning = model if shared else critic.trunk
    assert sum(float(p.grad.abs().sum()) for p in learning.parameters() if p.grad is not None) > 0


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
        assert torch.allclose(next_logits(model, prompts, encoded)(None), logits[:, 0], atol=1e-5)
        rows = torch.tensor([0, 2])  # their prompts are shorter than the longest, which is padding in `encoded`
        part, said = prompts.rows(rows), responses.rows(rows)
        assert part.ids.shape[1] < prompts.ids.shape[1]
        some, _ = forward(model, part, said, encoded=encoded[rows])
        assert torch.allclose(some[said.mask], logits[rows][:, : said.ids.shape[1]][said.mask], atol=1e-5)


def test_a_causal_model_has_no_encoder_to_freeze():
    with pytest.raises(ConfigError, match="freeze_encoder: .*has no encoder; set it to false"):
        freeze_encoder(tiny_models.model("llama"))


# --- lengths and sizes -----------------------------------------------------------------------------------------------


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
    assert decode_responses(tokenizer, rollout.responses) == expected


# --- tokenizers ------------------------------------------------------------------------------------------------------


def words(family="causal", **special):
    made = tiny.tokenizer(family)
    return PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, unk_token="<unk>", **special)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
@pytest.mark.parametrize("special", [{"eos_token": "<eos>", "pad_token": "<eos>"}, {"eos_token": "<eos>"}])
def test_pad_may_be_eos_or_missing_since_masks_go_by_position(kind, special):
    model, tokenizer = tiny_models.model(kind), words(tiny_models.family(kind), **special)
    texts, replies = ["the dog sees", "man"], ["a house", "the tree in a ball"]
    prompts = encode_prompts(model, tokenizer, texts, PROMPT)
    extra = int(kind == "t5")
    assert prompts.mask.sum(1).tolist() == [3 + extra, 1 + extra]
    responses = encode_responses(model, tokenizer, replies, 8)
    assert responses.mask.sum(1).tolist() == [3, 6]
    assert [real_tokens(responses, row)[-1] for row in range(2)] == [1, 1], "the end token is a token that counts"
    other = tiny.tokenizer(tiny_models.family(kind))
    usual = encode_prompts(model, other, texts, PROMPT)
    with torch.no_grad():
        logits, _ = forward(model, prompts, responses)
        same, _ = forward(model, usual, encode_responses(model, other, replies, 8))
    assert torch.allclose(logits[responses.mask], same[responses.mask], atol=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_an_empty_prompt_answers_the_same_in_every_batch(kind):
    model, tokenizer = tiny_models.model(kind), tiny.tokenizer(tiny_models.family(kind))
    alone, together = (encode_prompts(model, tokenizer, texts, PROMPT) for texts in ([""], ["", "the dog sees"]))
    assert real_tokens(alone, 0) == real_tokens(together, 0) == [1]
    with torch.no_grad():
        assert torch.allclose(next_logits(model, alone)(None)[0], next_logits(model, together)(None)[0], atol=1e-5)


def test_an_empty_response_is_an_end_token():
    for kind in ("gpt2", "t5"):
        tokenizer = tiny.tokenizer(tiny_models.family(kind))
        assert real_tokens(encode_responses(tiny_models.model(kind), tokenizer, [" "], 4), 0) == [1]


def test_the_seam_is_one_space_whatever_a_tokenizer_adds_to_a_start():
    pieces = ["<eos>", "<unk>", ".", "▁", "▁the", "▁house", "▁▁the", "the", "▁."]
    inner = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])  # Llama 2's
    inner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", unk_token="<unk>")
    assert tokenizer(" the")["input_ids"] == [3, 4], "this tokenizer adds a space of its own"
    responses = encode_responses(tiny_models.model("llama"), tokenizer, ["the house"], 8)
    assert real_tokens(responses, 0) == [4, 5, 0]


def test_a_decoder_of_its_own_writes_the_special_tokens_of_its_tokenizer():
    tokenizer = words("causal", eos_token="<eos>", bos_token="<pad>")
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(
        single="<pad> $A <eos>", special_tokens=[("<pad>", 0), ("<eos>", 1)]
    )
    responses = encode_responses(tiny_models.model("bart"), tokenizer, ["the dog", "the dog sees a cat"], 5)
    assert real_tokens(responses, 0) == [0, 3, 5, 1]
    assert real_tokens(responses, 1)[0] == 0 and 1 not in real_tokens(responses, 1)
    assert decode_responses(tokenizer, responses)[0] == "the dog"


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_every_family_passes_the_check(kind):
    check_model(tiny_models.model(kind), tiny.tokenizer(tiny_models.family(kind)))


def test_a_tokenizer_without_an_end_token_is_refused():
    with pytest.raises(ConfigError, match="the GPT2LMHeadModel: the tokenizer has no end-of-text token; set `eos_tok"):
        check_model(tiny_models.model("gpt2"), words(pad_token="<pad>"))


def test_a_model_without_a_head_is_refused():
    bare = GPT2Model(tiny_models.model("gpt2").config)
    with pytest.raises(ConfigError, match="GPT2Model has no language head and so cannot write; load it with AutoModel"):
        check_model(bare, tiny.tokenizer("causal"))


def test_a_tokenizer_of_another_model_is_refused():
    with pytest.raises(ConfigError, match="knows 23 tokens and its head 20; take the tokenizer it was trained with"):
        check_model(tiny_models.model("gpt2", size=20), tiny.tokenizer("causal"))


def test_a_model_that_sees_what_comes_is_refused():
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    bert = BertLMHeadModel(BertConfig(vocab_size=tiny_models.SIZE, initializer_range=0.5, **shape)).eval()
    with pytest.raises(ConfigError, match="changes its logits, so BertLMHeadModel cannot be trained here; choose"):
        check_model(bert, tiny.tokenizer("causal"))


def test_a_decoder_that_does_not_know_its_first_token_is_refused():
    model = tiny_models.model("t5")
    model.config.decoder_start_token_id = None
    with pytest.raises(ConfigError, match="set `decoder_start_token_id` in its config.json"):
        check_model(model, tiny.tokenizer("seq2seq"))


def saved(kind, folder):
    tiny_models.model(kind).save_pretrained(folder)
    tiny.tokenizer(tiny_models.family(kind)).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_an_encoder_decoder_is_no_causal_model(kind, tmp_path):
    with pytest.raises(DataError, match=f"cannot be loaded as a causal language model: it is an enc.* .{kind}.*"):
        load_language_model("causal", saved(kind, tmp_path))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_causal_model_is_no_encoder_decoder(kind, tmp_path):
    with pytest.raises(DataError, match=f'as an encoder-decoder .*: it is a causal model .{kind}.* "causal"'):
        load_language_model("seq2seq", saved(kind, tmp_path))


def test_a_folder_whose_head_is_missing_is_refused(tmp_path):
    tiny_models.model("llama").base_model.save_pretrained(tmp_path)
    tiny.tokenizer("causal").save_pretrained(tmp_path)
    with pytest.raises(DataError, match="is not a causal language model: weights are missing .*lm_head"):
        load_language_model("causal", str(tmp_path))


def test_a_checkpoint_does_not_decide_how_it_is_decoded(tmp_path):
    model = tiny_models.model("bart")
    model.generation_config.update(forced_bos_token_id=7, forced_eos_token_id=1, no_repeat_ngram_size=1, min_length=9)
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

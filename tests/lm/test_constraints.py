"""A model's own end tokens, bans and first token: in sampling, in search, and in what a checkpoint says."""

import json
import math
from functools import partial

import pytest
from support.late import lates

from grue.errors import DataError
from grue.lm import checkpoint
from grue.tasks import Generation, Prompt

torch, hf, predicting = lates("torch transformers grue.evaluation.predict")
tiny, saving, model_families = lates("tiny saved model_families", "support.")
loading, sampling, words, scoring, distributions = lates("load sampling tokens log_probs distributions", "grue.lm.")

SIZE, EOS, UNK, WORD, OTHER = 23, 1, 2, 7, 8
PROMPT = Prompt(max_tokens=10, truncation="left")
TEXTS = ("the dog sees", "a cat likes the red ball", "man")
CASES = {
    "bans": {"bad_words_ids": [[0], [WORD]], "suppress_tokens": [UNK, OTHER, SIZE + 4]},
    "at the beginning": {"begin_suppress_tokens": [EOS, OTHER]},
    "first token": {"forced_bos_token_id": WORD, "begin_suppress_tokens": [OTHER], "suppress_tokens": [UNK]},
    "end tokens": {"eos_token_id": [EOS, UNK, OTHER]},
    "everything": {
        "eos_token_id": [OTHER, EOS], "forced_bos_token_id": WORD, "begin_suppress_tokens": [WORD], "bad_words_ids": [[0], [EOS]],
    },
}  # fmt: skip


def saved(folder, model=None, kind="seq2seq", **settings):
    model = model or model_families.model("marian")
    for key, value in {"forced_eos_token_id": None, **settings}.items():  # that of Marian's class is only for the limit
        setattr(model.generation_config, key, value)
    model.save_pretrained(folder)
    tiny.tokenizer(kind).save_pretrained(folder)
    return str(folder)


def prompts_of(model, tokenizer, copies=1):
    return words.encode_prompts(model, tokenizer, TEXTS * copies, PROMPT)


def uniforms(rows, columns):
    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_what_may_be_drawn_is_what_transformers_lets_be_drawn(given, tmp_path):
    """The reference is the model's own `generate`, which reads its generation_config.json."""
    name = saved(tmp_path, **given)
    theirs = hf.AutoModelForSeq2SeqLM.from_pretrained(name).eval()
    model, tokenizer = loading.load_language_model("seq2seq", name)
    settings, prompts = Generation(max_new_tokens=5, min_new_tokens=3, do_sample=True), prompts_of(model, tokenizer, 8)
    rollout = sampling.sample_responses(model, prompts, settings, uniforms(24, 5), EOS, keep="scores")
    asked = hf.GenerationConfig(max_new_tokens=5, min_new_tokens=3, do_sample=True, top_k=0, num_beams=1)
    more = {"return_dict_in_generate": True, "output_scores": True, "generation_config": asked}
    told = theirs.generate(prompts.ids, attention_mask=prompts.mask.long(), **more)
    length = rollout.responses.ids.shape[1]
    opened = rollout.open_vocabulary(torch.arange(24), length, SIZE)
    for t in range(min(length, len(told.scores))):
        expected = (told.scores[t] > -math.inf).all(0)
        for row in rollout.responses.mask[:, t].nonzero().flatten():
            assert torch.equal(opened[row, t], expected)
    ends = set(given.get("eos_token_id", [EOS]))
    for ids, cut in zip(rollout.responses.lists(), rollout.truncated.tolist(), strict=True):
        assert not ends & set(ids[:-1]) and cut == (ids[-1] not in ends)
    # What the update replays is what was drawn from.
    found = scoring.token_log_probs(model, prompts, rollout.responses, 1.0, rollout.support)
    torch.testing.assert_close(found.restricted.detach(), rollout.sampler_scores.restricted, atol=1e-5, rtol=1e-5)
    assert found.restricted[rollout.responses.mask].isfinite().all()


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_search_and_a_saved_checkpoint_decode_as_the_model_does(given, tmp_path):
    name = saved(tmp_path / "given", **given)
    model, tokenizer = loading.load_language_model("seq2seq", name)
    theirs, prompts = hf.AutoModelForSeq2SeqLM.from_pretrained(name).eval(), prompts_of(model, tokenizer)
    asked = {"inputs": prompts.ids, "attention_mask": prompts.mask.long()}
    for beams in (1, 4):
        settings = Generation(max_new_tokens=5, num_beams=beams)
        found, _ = predicting.continuations((model, tokenizer), prompts, tiny.examples(3), settings, 1, EOS)
        wanted = theirs.generate(**asked, max_new_tokens=5, num_beams=beams)
        assert torch.equal(found.ids, wanted[:, 1:])
    checkpoint.save_checkpoint(tmp_path / "kept", model, tokenizer, saving.MANIFEST, settings, "")
    kept = hf.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "kept").eval()
    assert torch.equal(kept.generate(**asked), wanted)
    again, _ = loading.load_language_model("seq2seq", str(tmp_path / "kept"))
    assert again.generation_config == model.generation_config


def test_a_likely_pad_that_is_banned_is_neither_drawn_nor_searched(tmp_path):
    """As Marian's models have it: without the ban, all answers would be empty."""
    model = model_families.model("marian")
    model.final_logits_bias[0, 0] = 50.0
    model, tokenizer = loading.load_language_model("seq2seq", saved(tmp_path, model, bad_words_ids=[[0]]))
    prompts, examples = prompts_of(model, tokenizer, 5), tiny.examples(15)
    rollout = sampling.sample_responses(model, prompts, Generation(6, do_sample=True), uniforms(15, 6), EOS)
    searched, _ = predicting.continuations((model, tokenizer), prompts, examples, Generation(6, num_beams=4), 1, EOS)
    for said in (rollout.responses, searched):
        assert not (said.ids[said.mask] == 0).any() and said.mask[:, 1].any()


def test_a_mask_leaves_something_that_the_model_allows(tmp_path):
    """The rule keeps one token, and it is one that is not banned."""
    model = model_families.model("marian")
    model.final_logits_bias[0, WORD] = 50.0
    model, tokenizer = loading.load_language_model("seq2seq", saved(tmp_path, model, suppress_tokens=[WORD]))
    mask = sampling.Mask(None, partial(distributions.top_k_support, k=1), always_open=(WORD,))
    prompts, settings = prompts_of(model, tokenizer), Generation(4, 4, do_sample=True)
    rollout = sampling.sample_responses(model, prompts, settings, uniforms(3, 4), EOS, mask)
    opened = rollout.open_vocabulary(torch.arange(3), 4, SIZE)
    assert not opened[..., WORD].any()
    assert opened[:, :3].sum(-1).eq(1).all()


def test_a_single_end_of_its_own_counts_only_as_a_special_token(tmp_path):
    for end, ends in ((OTHER, 1), (UNK, [1, UNK]), (50256, 1), ([1, OTHER, 50256], [1, OTHER])):
        name = saved(tmp_path / str(end), tiny.model("causal"), "causal", eos_token_id=end)
        assert loading.load_language_model("causal", name)[0].generation_config.eos_token_id == ends


def test_an_end_token_is_no_part_of_the_text_even_if_the_tokenizer_calls_it_a_word(tmp_path):
    name = saved(tmp_path, tiny.model("causal"), "causal", eos_token_id=[EOS, OTHER])
    model, tokenizer = loading.load_language_model("causal", name)
    prompts = prompts_of(model, tokenizer, 8)
    rollout = sampling.sample_responses(model, prompts, Generation(8, do_sample=True), uniforms(24, 8), EOS)
    said, cuts = rollout.responses.lists(), rollout.truncated.tolist()
    texts = words.decode_responses(tokenizer, rollout.responses, rollout.truncated)
    assert {OTHER, EOS} <= {ids[-1] for ids, cut in zip(said, cuts, strict=True) if not cut}
    assert not any(tokenizer.decode([OTHER]).strip() in text.split() for text in texts)
    kept = words.ids_beside_text(model, tokenizer, texts, cuts, said)
    assert words.encode_responses(model, tokenizer, texts, 8, cuts, kept).lists() == said, "what was drawn is learnt"


def test_what_is_not_applied_is_named(tmp_path):
    lost = {"bad_words_ids": [[0], [4, 5]], "no_repeat_ngram_size": 3, "repetition_penalty": 1.0, "min_length": 9}
    with pytest.warns(UserWarning, match="not applied: no_repeat_ngram_size, bad_words_ids of several tokens") as seen:
        model, _ = loading.load_language_model("seq2seq", saved(tmp_path, **lost))
    assert len(seen) == 1 and model.generation_config.suppress_tokens == [0]


def test_settings_that_cannot_be_are_refused(tmp_path, refused):
    for first in (EOS, SIZE):
        with refused(DataError):
            loading.load_language_model("seq2seq", saved(tmp_path / "model", forced_bos_token_id=first))
    name = saved(tmp_path / "model", forced_bos_token_id=None)
    path = tmp_path / "model" / "generation_config.json"
    plain = json.loads(path.read_text())
    for given in ({"bad_words_ids": [5]}, {"suppress_tokens": ["a"]}, {"eos_token_id": {"a": 1}}):
        path.write_text(json.dumps(plain | given))
        told = "cannot be loaded as an encoder-decoder language model: its generation settings"
        with pytest.raises(DataError, match=told):
            loading.load_language_model("seq2seq", name)


def test_an_update_sees_the_distribution_that_was_sampled(tmp_path):
    """PPO refuses a ratio that is not 1 at its first step."""
    run = tiny.run("seq2seq", "ppo", tmp_path, updates=1)
    run.trainer.policy.generation_config.update(suppress_tokens=[WORD, UNK], forced_bos_token_id=OTHER)
    tiny.train(run)
    assert all(math.isfinite(value) for line in tiny.logged(tmp_path) for value in line.values())
    assert run.observer.samples and all(text.split()[0] == "bird" for _, text, _ in run.observer.samples)

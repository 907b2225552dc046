"""Stop strings end responses with the token that completes one; the text before it is the answer."""

import pytest
from support.late import lates

from grue.tasks import Generation, Prompt

torch, transformers, backends, tiny = lates("torch transformers tokenizers support.tiny")
sampling, tokens, stopping, lm, predicting = lates(
    "lm.sampling lm.tokens lm.constraints lm.model evaluation.predict", "grue."
)

FAMILIES = ["causal", "seq2seq"]
# A whole token, a part of one behind a letter of the answer, and two tokens.
STOPS = [("dog",), ("at",), ("un", "e c"), ("ees", "big")]
EOS = 1


def drawn(family, **settings):
    """Return model, tokenizer and a rollout of 24 responses, with the settings they are of."""
    model, tokenizer = tiny.model(family), tiny.tokenizer(family)
    generation = Generation(**{"max_new_tokens": 12, "do_sample": True, **settings})
    texts = [example.prompt for example in tiny.examples(24)]
    prompts = tokens.encode_prompts(model, tokenizer, texts, Prompt(max_tokens=10, truncation="left"))
    uniforms = torch.rand(24, 12, generator=torch.Generator().manual_seed(0))
    stops = stopping.find_stops(tokenizer, generation.stop)
    return model, tokenizer, sampling.sample_responses(model, prompts, generation, uniforms, EOS, stops=stops)


def ended(tokenizer, ids, stop):
    """Return ids up to the first token with which a stop string is there, and the text before that; read word by word."""
    words = tokenizer.convert_ids_to_tokens(ids)
    for count in range(1, len(ids) + 1):
        text = " ".join(word for word in words[:count] if not word.startswith("<"))
        if found := [text.index(one) for one in stop if one in text]:
            return ids[:count], text[: min(found)].strip(), False
    text = " ".join(word for word in words if not word.startswith("<"))
    return ids, text, ids[-1] != EOS


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("stop", STOPS)
def test_a_response_ends_with_the_token_that_completes_a_stop_string(family, stop):
    _, tokenizer, free = drawn(family)
    _, _, stopped = drawn(family, stop=stop)
    expected = [ended(tokenizer, ids, stop) for ids in free.responses.lists()]
    assert stopped.responses.lists() == [ids for ids, _, _ in expected]
    assert stopped.truncated.tolist() == [cut for _, _, cut in expected]
    texts = tokens.decode_responses(tokenizer, stopped.responses, stopped.truncated, stop)
    assert texts == [text for _, text, _ in expected]
    assert any(len(one) < len(whole) for (one, _, _), whole in zip(expected, free.responses.lists(), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("beams", [1, 3])
def test_search_stops_as_samples_do(family, spread, beams):
    model, tokenizer, examples = tiny.model(family, seed=2), tiny.tokenizer(family), tiny.examples(12)
    task = tiny.task(family)

    def found(stop):
        settings = Generation(max_new_tokens=12, num_beams=beams, stop=stop)
        return predicting.respond((model, tokenizer), task, examples, settings, 1)

    free = found(())
    first, second, *_ = free[0].text.split()
    stop = (f"{first[-1]} {second}",) if spread else (second[1:],)
    stopped = found(stop)
    for one, whole in zip(stopped, free, strict=True):
        ids, text, cut = ended(tokenizer, list(whole.token_ids if beams == 1 else one.token_ids), stop)
        assert (list(one.token_ids), one.text, one.truncated) == (ids, text, cut)
    assert any(one.token_ids != whole.token_ids for one, whole in zip(stopped, free, strict=True))


def test_what_holds_a_stop_string_is_closed_before_the_least_length():
    model, tokenizer, rollout = drawn("causal", stop=("at",), min_new_tokens=3)
    cat = tokenizer.convert_tokens_to_ids("cat")
    support = rollout.open_vocabulary(torch.arange(24), rollout.responses.ids.shape[1], lm.vocabulary_size(model))
    assert not support[:, :3, [cat, EOS]].any()
    assert support[:, 3:, cat].all()
    settings = Generation(max_new_tokens=12, min_new_tokens=3, stop=("at", "the", "r"))
    answers = predicting.respond((model, tokenizer), tiny.task("causal"), tiny.examples(12), settings, 1)
    assert min(len(one.token_ids) for one in answers) >= 3


def test_a_mask_leaves_end_tokens_open_and_no_other_that_stops():
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    prompts = tokens.encode_prompts(model, tokenizer, ["the dog"], Prompt(max_tokens=10, truncation="left"))
    dog = tokenizer.convert_tokens_to_ids("dog")
    mask = sampling.Mask(None, lambda logits: torch.arange(logits.shape[-1]).eq(dog + 1).expand_as(logits))
    settings = Generation(max_new_tokens=1, do_sample=True, stop=("dog",))
    stops = stopping.find_stops(tokenizer, settings.stop)
    rollout = sampling.sample_responses(model, prompts, settings, torch.zeros(1, 1), EOS, mask, stops=stops)
    opened = rollout.open_vocabulary(torch.arange(1), 1, lm.vocabulary_size(model))[0, 0]
    assert opened.nonzero().flatten().tolist() == [EOS, dog + 1]


def test_settings_with_stop_strings_are_not_sampled_without_them():
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    prompts = tokens.encode_prompts(model, tokenizer, ["the dog"], Prompt(max_tokens=10, truncation="left"))
    with pytest.raises(AssertionError, match="must be those of the settings"):
        sampling.sample_responses(model, prompts, Generation(2, stop=("dog",)), torch.zeros(1, 2), EOS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stopped_response_is_learnt_with_its_own_end_and_a_reference_with_the_end_token(family):
    stop = ("at", "e c")
    model, tokenizer, rollout = drawn(family, stop=stop)
    ids, cut = rollout.responses.lists(), rollout.truncated.tolist()
    texts = tokens.decode_responses(tokenizer, rollout.responses, rollout.truncated, stop)
    beside = tokens.ids_beside_text(model, tokenizer, texts, cut, ids)
    again = tokens.target_ids(tokenizer, [EOS], family == "seq2seq", texts, cut, beside, stop)
    assert again == ids
    assert any(row[-1] != EOS and not short for row, short in zip(again, cut, strict=True))
    others = [tokenizer("the dog red")["input_ids"]]  # ids that end in neither are another tokenizer's
    odd = tokens.target_ids(tokenizer, [EOS], False, ["the dog"], [False], others, stop)
    assert odd == [[*tiny.tokenizer("causal")("the dog")["input_ids"], EOS]]


# --- tokens of bytes -------------------------------------------------------------------------------------------------


def byte_tokenizer():
    """Bytes, and tokens of two line breaks and of a full stop with one."""
    alphabet = sorted(backends.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {sign: i for i, sign in enumerate(["<eos>", *alphabet, "ĊĊ", ".Ċ"])}
    inner = backends.Tokenizer(backends.models.BPE(vocabulary, [("Ċ", "Ċ"), (".", "Ċ")]))
    inner.pre_tokenizer = backends.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = backends.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")


def answer(tokenizer, text, stop):
    """Return which token of a text is the last of its response, and the answer that it leaves."""
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    stops = stopping.find_stops(tokenizer, stop)
    end = int(stops.completed(ids)[0].nonzero()[0])
    kept = tokens.Tokens(ids[:, : end + 1], torch.ones(1, end + 1, dtype=torch.bool))
    return end, tokens.decode_responses(tokenizer, kept, torch.tensor([False]), stop)[0]


def test_a_longer_token_may_hold_a_stop_string_and_the_end_of_the_answer():
    tokenizer = byte_tokenizer()
    found = stopping.find_stops(tokenizer, ("\n",))
    assert {tokenizer.decode([i]) for i in found.ids} == {"\n", "\n\n", ".\n"}
    assert not found.spread
    assert answer(tokenizer, "So.\nAnd", ("\n",)) == (2, "So.")
    assert answer(tokenizer, "So\n\nAnd", ("\n",)) == (2, "So")
    assert answer(tokenizer, "\nAnd", ("\n",)) == (0, "")


def test_a_stop_string_may_be_spelled_by_several_tokens_or_bytes():
    tokenizer = byte_tokenizer()
    assert answer(tokenizer, "So.\nQ: why", ("\nQ:",)) == (4, "So.")
    assert answer(tokenizer, "好。是", ("。",)) == (5, "好")  # three bytes each, the last of which completes it
    assert answer(tokenizer, "a b", (" ",)) == (1, "a")


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["ppo", "dpo", "es"])
def test_a_run_learns_from_responses_that_stop(algorithm, tmp_path):
    task = tiny.task("causal", stop=("at", "e c"))
    settings = tiny.SMALL.get(algorithm, {}) | ({"samples_per_prompt": 3} if algorithm in tiny.GROUPED else {})
    run = tiny.train(tiny.run("causal", algorithm, tmp_path, task_=task, **settings))
    texts = [text for _, text, _ in run.observer.samples]
    assert len(texts) >= 4 and not any(stop in text for text in texts for stop in task.rollout.stop)
    assert not run.observer.warnings or algorithm == "es"

"""Text to tokens and back: masks by position, truncation, the seam between prompt and response, special tokens."""

import pytest
from support.late import lates

from grue.tasks import Prompt

torch, hf, fast, tiny, tiny_models = lates("torch transformers tokenizers support.tiny support.tiny_models")
tokens, forwarding, loading = lates("tokens forward load", "grue.lm.")

PROMPT = Prompt(max_tokens=10, truncation="left")


def words(family="causal", **special):
    made = tiny.tokenizer(family)
    return hf.PreTrainedTokenizerFast(tokenizer_object=made._tokenizer, unk_token="<unk>", **special)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
@pytest.mark.parametrize("special", [{"eos_token": "<eos>", "pad_token": "<eos>"}, {"eos_token": "<eos>"}])
def test_pad_may_be_eos_or_missing_since_masks_go_by_position(kind, special):
    model, tokenizer = tiny_models.model(kind), words(tiny_models.family(kind), **special)
    texts, replies = ["the dog sees", "man"], ["a house", "the tree in a ball"]
    prompts, extra = tokens.encode_prompts(model, tokenizer, texts, PROMPT), int(kind == "t5")
    assert prompts.mask.sum(1).tolist() == [3 + extra, 1 + extra]
    responses = tokens.encode_responses(model, tokenizer, replies, 8)
    assert responses.mask.sum(1).tolist() == [3, 6]
    assert [row[-1] for row in responses.lists()] == [1, 1], "the end token is a token that counts"
    other = tiny.tokenizer(tiny_models.family(kind))
    usual = tokens.encode_prompts(model, other, texts, PROMPT)
    with torch.no_grad():
        logits, _ = forwarding.forward(model, prompts, responses)
        same, _ = forwarding.forward(model, usual, tokens.encode_responses(model, other, replies, 8))
    assert torch.allclose(logits[responses.mask], same[responses.mask], atol=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_an_empty_prompt_answers_the_same_in_every_batch_and_an_empty_response_is_an_end_token(kind):
    model, tokenizer = tiny_models.model(kind), tiny.tokenizer(tiny_models.family(kind))
    batches = [tokens.encode_prompts(model, tokenizer, texts, PROMPT) for texts in ([""], ["", "the dog sees"])]
    assert [prompts.lists()[0] for prompts in batches] == [[1], [1]]
    with torch.no_grad():
        alone, together = (forwarding.Steps(model, prompts)(None)[0][0] for prompts in batches)
    assert torch.allclose(alone, together, atol=1e-5)
    assert tokens.encode_responses(model, tokenizer, [" "], 4).lists() == [[1]]


def test_the_seam_is_one_space_whatever_a_tokenizer_adds_to_a_start():
    pieces = ["<eos>", "<unk>", ".", "▁", "▁the", "▁house", "▁▁the", "the", "▁."]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    inner = fast.Tokenizer(fast.models.WordLevel(vocabulary, unk_token="<unk>"))
    steps = [fast.normalizers.Prepend("▁"), fast.normalizers.Replace(" ", "▁")]  # Llama 2's
    inner.normalizer = fast.normalizers.Sequence(steps)
    inner.pre_tokenizer = fast.pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", unk_token="<unk>")
    assert tokenizer(" the")["input_ids"] == [3, 4], "this tokenizer adds a space of its own"
    assert tokens.encode_responses(tiny_models.model("llama"), tokenizer, ["the house"], 8).lists() == [[4, 5, 0]]


@pytest.mark.parametrize(("family", "said"), [("causal", " house"), ("seq2seq", "house")])
def test_the_seam_between_prompt_and_response_is_a_space_for_causal_models(family, said):
    """Read by a tokenizer whose tokens hold the space before a word."""
    model, tokenizer = loading.load_language_model(family, f"mini:{family}")
    expected = [*tokenizer(said, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    assert tokens.encode_responses(model, tokenizer, [" house "], 8).lists() == [expected]


def test_a_decoder_of_its_own_writes_the_special_tokens_of_its_tokenizer():
    tokenizer, special = words("causal", eos_token="<eos>", bos_token="<pad>"), [("<pad>", 0), ("<eos>", 1)]
    template = fast.processors.TemplateProcessing(single="<pad> $A <eos>", special_tokens=special)
    tokenizer._tokenizer.post_processor = template
    texts = ["the dog", "the dog sees a cat"]
    responses = tokens.encode_responses(tiny_models.model("bart"), tokenizer, texts, 5)
    first, second = responses.lists()
    assert first == [0, 3, 5, 1] and second[0] == 0 and 1 not in second
    assert tokens.decode_responses(tokenizer, responses, torch.tensor([False, True]))[0] == "the dog"


def test_a_target_is_encoded_as_a_target():
    """NLLB and mBART begin it with the language that is written; Marian has another vocabulary for it."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "▁a", "▁b"]
    tokenizer = hf.NllbTokenizer(
        vocab={word: i for i, word in enumerate(pieces)}, merges=[("▁", "a"), ("▁", "b")],
        src_lang="eng_Latn", tgt_lang="deu_Latn", extra_special_tokens=["eng_Latn", "deu_Latn"],
    )  # fmt: skip
    model = tiny_models.model("bart")
    assert tokens.encode_prompts(model, tokenizer, ["a b"], PROMPT).lists() == [[10, 7, 8, 2]]
    assert tokens.encode_responses(model, tokenizer, ["a b", "b"], 8).lists() == [[11, 7, 8, 2], [11, 8, 2]]


def test_references_end_where_they_fit_and_prompts_are_cut_on_the_side_the_task_names():
    model, tokenizer, text = tiny.model("causal"), tiny.tokenizer("causal"), "the dog sees a cat"
    short, long = tokens.encode_responses(model, tokenizer, ["the dog", text], 4).lists()
    assert len(short) == 3 and short[-1] == 1
    assert len(long) == 4 and 1 not in long
    for side, kept in (("left", "a cat"), ("right", "the dog")):
        assert tokenizer.decode(tokens.encode_prompts(model, tokenizer, [text], Prompt(2, side)).ids[0]) == kept


def test_rows_drops_the_columns_that_nobody_uses():
    mask = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    part = tokens.Tokens(torch.arange(12).reshape(3, 4), mask).rows(torch.tensor([0, 1]))
    assert part.ids.tolist() == [[1, 2, 3], [5, 6, 7]]
    assert part.mask.tolist() == [[False, True, True], [True, True, True]]

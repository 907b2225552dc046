"""Text to tokens and back: masks by position, truncation, the seam between prompt and response, special tokens."""

import pytest
import torch
from support import tiny, tiny_models
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import NllbTokenizer, PreTrainedTokenizerFast

from grue.lm.forward import forward, next_logits
from grue.lm.tokens import Tokens, decode_responses, encode_prompts, encode_responses
from grue.tasks import Prompt

PROMPT = Prompt(max_tokens=10, truncation="left")


def real_tokens(tokens, row):
    return tokens.ids[row][tokens.mask[row]].tolist()


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
        assert torch.allclose(
            next_logits(model, alone)(None)[0][0], next_logits(model, together)(None)[0][0], atol=1e-5
        )


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
    assert decode_responses(tokenizer, responses, torch.tensor([False, True]))[0] == "the dog"


def test_a_target_is_encoded_as_a_target():
    """NLLB and mBART begin it with the language that is written; Marian has another vocabulary for it."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "▁a", "▁b"]
    tokenizer = NllbTokenizer(
        vocab={word: i for i, word in enumerate(words)}, merges=[("▁", "a"), ("▁", "b")],
        src_lang="eng_Latn", tgt_lang="deu_Latn", extra_special_tokens=["eng_Latn", "deu_Latn"],
    )  # fmt: skip
    model = tiny_models.model("bart")
    assert encode_prompts(model, tokenizer, ["a b"], PROMPT).lists() == [[10, 7, 8, 2]]
    assert encode_responses(model, tokenizer, ["a b", "b"], 8).lists() == [[11, 7, 8, 2], [11, 8, 2]]


def test_the_seam_between_prompt_and_response_is_a_space_for_causal_models():
    class Recorder:
        eos_token_id = 1

        def __init__(self):
            self.seen = []

        def __call__(self, text=None, text_target=None, **settings):
            self.seen.append(text or text_target)
            return {"input_ids": [5, 6] if text == "." else [5, 6, 7]}

    behind, alone = Recorder(), Recorder()
    assert encode_responses(tiny.model("causal"), behind, ["house "], 4).ids.tolist() == [[7, 1]]
    assert behind.seen == [".", ". house"]
    assert encode_responses(tiny.model("seq2seq"), alone, [" house"], 4).ids.tolist() == [[5, 6, 7, 1]]
    assert alone.seen == ["house"]


def test_references_end_with_the_end_token_only_where_they_fit():
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    responses = encode_responses(model, tokenizer, ["the dog", "the dog sees a cat"], 4)
    assert responses.mask.sum(1).tolist() == [3, 4]
    assert responses.ids[0, 2] == 1
    assert 1 not in responses.ids[1].tolist()


def test_prompts_are_cut_on_the_side_the_task_names():
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    left = encode_prompts(model, tokenizer, ["the dog sees a cat"], Prompt(2, "left"))
    right = encode_prompts(model, tokenizer, ["the dog sees a cat"], Prompt(2, "right"))
    assert tokenizer.decode(left.ids[0]) == "a cat"
    assert tokenizer.decode(right.ids[0]) == "the dog"


def test_rows_drops_the_columns_that_nobody_uses():
    ids = torch.arange(12).reshape(3, 4)
    mask = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    part = Tokens(ids, mask).rows(torch.tensor([0, 1]))
    assert part.ids.tolist() == [[1, 2, 3], [5, 6, 7]]
    assert part.mask.tolist() == [[False, True, True], [True, True, True]]

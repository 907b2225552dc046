"""Tokenizers that append an end token to every text: a causal model does not see it, an encoder-decoder does."""

import dataclasses

import pytest
from support import tiny
from support.saved import MANIFEST, SAMPLED
from tokenizers.processors import BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing
from transformers import AutoTokenizer, ByT5Tokenizer

from grue.cli.tasks import prompt_lengths
from grue.errors import DataError
from grue.lm.checkpoint import save_checkpoint
from grue.lm.endings import append_nothing
from grue.lm.load import check_language_model, load_language_model
from grue.lm.tokens import encode_prompts
from grue.tasks import Prompt

THE, DOG, SEES, A, CAT, MAN = 3, 5, 9, 4, 6, 7
START, END = ("<unk>", 2), ("<eos>", 1)
ENDING = TemplateProcessing(single="$A <eos>", pair="$A <eos> $B <eos>", special_tokens=[END])
APPENDING = {
    "end": (ENDING, []),
    "start and end": (TemplateProcessing(single="<unk> $A <eos>", special_tokens=[START, END]), [2]),
    "two ends": (TemplateProcessing(single="$A <eos> <unk>", special_tokens=[START, END]), []),
    "in a sequence": (Sequence([ByteLevel(trim_offsets=False), ENDING]), []),
    "bert": (BertProcessing(END, START), [2]),
    "roberta": (RobertaProcessing(END, START), [2]),
}


def saved(family, processor, folder):
    tokenizer = tiny.tokenizer(family)
    tokenizer.backend_tokenizer.post_processor = processor
    tiny.model(family).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder)("man")["input_ids"][-2:] != [MAN]
    return str(folder)


@pytest.mark.parametrize("kind", APPENDING)
def test_nothing_follows_a_causal_prompt(kind, tmp_path):
    processor, start = APPENDING[kind]
    name = saved("causal", processor, tmp_path / "given")
    model, tokenizer = load_language_model("causal", name)
    texts, room = ["the dog sees a cat", "man"], 3 - len(start)
    for side, kept in (("left", [DOG, SEES, A, CAT][-room:]), ("right", [THE, DOG, SEES][:room])):
        prompts = encode_prompts(model, tokenizer, texts, Prompt(max_tokens=3, truncation=side))
        assert prompts.lists() == [[*start, *kept], [*start, MAN]]
    task = dataclasses.replace(
        tiny.task("causal"), backbone=dataclasses.replace(tiny.task("causal").backbone, model=name)
    )
    lengths = [len(start) + len(one.prompt.split()) for one in tiny.examples(3)]
    assert prompt_lengths(task, tiny.examples(3)) == lengths
    # A checkpoint's tokenizer makes the prompts that were trained on, without grue too.
    save_checkpoint(tmp_path / "kept", model, tokenizer, MANIFEST, SAMPLED, "")
    assert AutoTokenizer.from_pretrained(tmp_path / "kept")("man")["input_ids"] == [*start, MAN]


def test_a_template_without_the_text_is_refused(tmp_path):
    name = saved("causal", TemplateProcessing(single="<unk> <eos>", special_tokens=[START, END]), tmp_path)
    for load in (load_language_model, check_language_model):
        with pytest.raises(
            DataError, match="cannot be loaded as a tokenizer: .*its post_processor leaves out the text"
        ):
            load("causal", name)


def test_an_encoder_decoder_s_prompt_keeps_its_end(tmp_path):
    model, tokenizer = load_language_model("seq2seq", saved("seq2seq", ENDING, tmp_path))
    prompts = encode_prompts(model, tokenizer, ["the dog sees a cat"], Prompt(max_tokens=3, truncation="left"))
    assert prompts.lists() == [[A, CAT, 1]]


def test_switches_and_tokenizers_in_python_append_nothing_either():
    switched = tiny.tokenizer("causal")
    switched.add_eos_token = True
    assert switched("man")["input_ids"] == [MAN, 1]
    append_nothing(switched)
    assert switched("man")["input_ids"] == [MAN] and not switched.add_eos_token
    bytewise = ByT5Tokenizer()
    assert bytewise("ab")["input_ids"] == [100, 101, 1]
    append_nothing(bytewise)
    assert bytewise("ab")["input_ids"] == [100, 101]
    assert bytewise("abc", truncation=True, max_length=2)["input_ids"] == [100, 101]

"""Tokenizers that append an end token to every text: a causal model does not see it, an encoder-decoder does."""

import dataclasses

import pytest
from support.late import lates

from grue.cli.tasks import prompt_lengths
from grue.errors import DataError
from grue.lm import checkpoint
from grue.tasks import Prompt

hf, processors, tiny, saving = lates("transformers tokenizers.processors support.tiny support.saved")
loading, tokens, endings = lates("load tokens endings", "grue.lm.")

THE, DOG, SEES, A, CAT, MAN = 3, 5, 9, 4, 6, 7
START, END = ("<unk>", 2), ("<eos>", 1)


def template(single, *special):
    return processors.TemplateProcessing(single=single, special_tokens=[*special])


def ending():
    return processors.TemplateProcessing(single="$A <eos>", pair="$A <eos> $B <eos>", special_tokens=[END])


APPENDING = {
    "end": (ending, []),
    "start and end": (lambda: template("<unk> $A <eos>", START, END), [2]),
    "two ends": (lambda: template("$A <eos> <unk>", START, END), []),
    "in a sequence": (lambda: processors.Sequence([processors.ByteLevel(trim_offsets=False), ending()]), []),
    "bert": (lambda: processors.BertProcessing(END, START), [2]),
    "roberta": (lambda: processors.RobertaProcessing(END, START), [2]),
}


def saved(family, processor, folder):
    tokenizer = tiny.tokenizer(family)
    tokenizer.backend_tokenizer.post_processor = processor
    tiny.model(family).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert hf.AutoTokenizer.from_pretrained(folder)("man")["input_ids"][-2:] != [MAN]
    return str(folder)


@pytest.mark.parametrize("kind", APPENDING)
def test_nothing_follows_a_causal_prompt(kind, tmp_path):
    make, start = APPENDING[kind]
    name = saved("causal", make(), tmp_path / "given")
    model, tokenizer = loading.load_language_model("causal", name)
    texts, room = ["the dog sees a cat", "man"], 3 - len(start)
    for side, kept in (("left", [DOG, SEES, A, CAT][-room:]), ("right", [THE, DOG, SEES][:room])):
        prompts = tokens.encode_prompts(model, tokenizer, texts, Prompt(max_tokens=3, truncation=side))
        assert prompts.lists() == [[*start, *kept], [*start, MAN]]
    task = tiny.task("causal")
    task = dataclasses.replace(task, backbone=dataclasses.replace(task.backbone, model=name))
    lengths = [len(start) + len(one.prompt.split()) for one in tiny.examples(3)]
    assert prompt_lengths(task, tiny.examples(3)) == lengths
    # A checkpoint's tokenizer makes the prompts that were trained on, without grue too.
    checkpoint.save_checkpoint(tmp_path / "kept", model, tokenizer, saving.MANIFEST, saving.SAMPLED, "")
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "kept")("man")["input_ids"] == [*start, MAN]


def test_a_template_without_the_text_is_refused(tmp_path, refused):
    name = saved("causal", template("<unk> <eos>", START, END), tmp_path)
    for load in (loading.load_language_model, loading.check_language_model):
        with refused(DataError):
            load("causal", name)


def test_an_encoder_decoder_s_prompt_keeps_its_end(tmp_path):
    model, tokenizer = loading.load_language_model("seq2seq", saved("seq2seq", ending(), tmp_path))
    prompts = tokens.encode_prompts(model, tokenizer, ["the dog sees a cat"], Prompt(max_tokens=3, truncation="left"))
    assert prompts.lists() == [[A, CAT, 1]]


def test_switches_and_tokenizers_in_python_append_nothing_either():
    switched, bytewise = tiny.tokenizer("causal"), hf.ByT5Tokenizer()
    switched.add_eos_token = True
    assert switched("man")["input_ids"] == [MAN, 1]
    endings.append_nothing(switched)
    assert switched("man")["input_ids"] == [MAN] and not switched.add_eos_token
    assert bytewise("ab")["input_ids"] == [100, 101, 1]
    endings.append_nothing(bytewise)
    assert bytewise("ab")["input_ids"] == [100, 101]
    assert bytewise("abc", truncation=True, max_length=2)["input_ids"] == [100, 101]

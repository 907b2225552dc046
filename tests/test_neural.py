"""Sentiment and perplexity against one unpadded forward pass a text."""

import math

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

from grue.errors import ConfigError
from grue.metrics.base import make_metric
from grue.metrics.neural import batches, seam
from grue.records import Example

WINDOW = 32
TEXT = "the film is slow but the music is lovely and the end is a surprise . I liked it very much indeed ."
PROMPTS = ["the film", "the music is lovely and", "I", "", "slow but the film is slow " * 6, "the end ", "surprise:\n"]
TEXTS = [
    "is slow .",
    " is a surprise",
    "liked it very much",
    "the film is lovely",
    "indeed .",
    "is lovely",
    "much " * 45,
]
EXAMPLES = [Example(f"e{i}", prompt, ()) for i, prompt in enumerate(PROMPTS)]


def make_tokenizer(classifier):
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<pad>", "<end>", "<start>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        [TEXT], trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    )
    if classifier:
        inner.post_processor = processors.TemplateProcessing(
            single="<start> $A <end>", special_tokens=[("<start>", 2), ("<end>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", model_max_length=WINDOW
    )


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """A random GPT-2 whose predictions are far from uniform, saved in a folder."""
    folder = tmp_path_factory.mktemp("language_model")
    torch.manual_seed(3)
    tokenizer = make_tokenizer(classifier=False)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=WINDOW, n_embd=16, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=1
    )
    model = GPT2LMHeadModel(config)
    model.transformer.wte.weight.data.mul_(20)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder), model.eval(), tokenizer


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A random DistilBERT with three labels, saved in a folder."""
    folder = tmp_path_factory.mktemp("classifier")
    torch.manual_seed(4)
    tokenizer = make_tokenizer(classifier=True)
    config = DistilBertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=WINDOW,
        dim=16,
        hidden_dim=32,
        n_layers=2,
        n_heads=2,
        num_labels=3,
    )
    model = DistilBertForSequenceClassification(config)
    for parameter in model.parameters():
        parameter.data.mul_(12 if parameter.dim() == 2 else 1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder), model.eval(), tokenizer


def surprise(model, ids, start):
    """Negative log-likelihood of ids[start:] in nats, one token at a time."""
    total = 0.0
    for position in range(start, len(ids)):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids[:position]])).logits[0, -1].double()
        total -= float(torch.log_softmax(logits, 0)[ids[position]])
    return total


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        ("the film", "is slow", ("the film", " is slow")),
        ("the film", " is slow", ("the film", " is slow")),
        ("the film ", "is slow", ("the film", " is slow")),
        ("the film ", " is slow", ("the film", " is slow")),
        ("Answer:\n", "yes", ("Answer:", "\nyes")),
        ("", "yes", ("", "yes")),
        ("prompt ", "", ("prompt", "")),
    ],
)
def test_seam(prompt, text, expected):
    assert seam(prompt, text) == expected


def test_batches_hold_every_index_once_longest_first():
    lengths = [3, 9, 1, 9, 5]
    assert list(batches(lengths, 2)) == [[1, 3], [4, 0], [2]]
    assert list(batches([], 4)) == []


def test_perplexity_is_one_forward_pass_a_token(language_model):
    folder, model, tokenizer = language_model
    short = [i for i, text in enumerate(TEXTS) if len(text) < 40]
    found = make_metric("perplexity", model=folder).statistics([EXAMPLES[i] for i in short], [TEXTS[i] for i in short])
    for (loss, count), index in zip(found, short, strict=True):
        context, continuation = seam(PROMPTS[index], TEXTS[index])
        before = tokenizer(context)["input_ids"] or [tokenizer.eos_token_id]
        after = tokenizer(continuation)["input_ids"]
        kept = (before + after)[-WINDOW:]
        assert count == len(after)
        assert loss == pytest.approx(surprise(model, kept, len(kept) - len(after)), abs=1e-4)


def test_perplexity_reads_the_seam_as_plain_text(language_model):
    folder, model, tokenizer = language_model
    whole = tokenizer("the film is slow .")["input_ids"]
    metric = make_metric("perplexity", model=folder)
    prompts = [Example("a", "the film", ()), Example("b", "the film ", ()), Example("c", "the film", ())]
    found = metric.statistics(prompts, ["is slow .", "is slow .", " is slow ."])
    expected = surprise(model, whole, len(tokenizer("the film")["input_ids"]))
    assert found[:, 0] == pytest.approx([expected] * 3, abs=1e-4)


def test_perplexity_of_a_text_longer_than_the_window(language_model):
    folder, model, tokenizer = language_model
    example, text = EXAMPLES[6], TEXTS[6]
    ((loss, count),) = make_metric("perplexity", model=folder).statistics([example], [text])
    before, after = (tokenizer(part)["input_ids"] for part in seam(example.prompt, text))
    ids = before + after
    assert len(after) > WINDOW
    assert count == len(after)
    expected = 0.0
    for start in range(len(before), len(ids), WINDOW // 2):
        stop = min(len(ids), start + WINDOW // 2)
        first = max(0, stop - WINDOW)
        assert start - first >= min(start, WINDOW // 2), "half a window stands before each token"
        expected += surprise(model, ids[first:stop], start - first)
    assert loss == pytest.approx(expected, abs=1e-3)


def test_perplexity_of_an_empty_text_is_that_of_the_end(language_model):
    folder, model, tokenizer = language_model
    metric = make_metric("perplexity", model=folder)
    found = metric.statistics([EXAMPLES[0], EXAMPLES[0], EXAMPLES[3]], ["", " \n", ""])
    ids = [*tokenizer(PROMPTS[0])["input_ids"], tokenizer.eos_token_id]
    assert found[:, 1].tolist() == [1, 1, 1]
    assert found[:2, 0] == pytest.approx([surprise(model, ids, len(ids) - 1)] * 2, abs=1e-5)
    assert found[2, 0] == pytest.approx(surprise(model, [1, 1], 1), abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 64])
def test_perplexity_does_not_depend_on_the_batch(language_model, batch_size):
    folder, _, _ = language_model
    expected = make_metric("perplexity", model=folder).statistics(EXAMPLES, TEXTS)
    found = make_metric("perplexity", model=folder, batch_size=batch_size).statistics(EXAMPLES[::-1], TEXTS[::-1])[::-1]
    assert found[:, 1].tolist() == expected[:, 1].tolist()
    assert found[:, 0] / found[:, 1] == pytest.approx(expected[:, 0] / expected[:, 1], abs=1e-5)


def test_perplexity_over_a_corpus_weighs_tokens(language_model):
    metric = make_metric("perplexity", model=language_model[0])
    statistics = metric.statistics(EXAMPLES, TEXTS)
    each = [math.exp(loss / count) for loss, count in statistics]
    assert metric.per_example(statistics) == pytest.approx(each)
    assert metric.corpus(statistics) == pytest.approx(math.exp(sum(statistics[:, 0]) / sum(statistics[:, 1])))
    assert metric.direction == "lower"


def test_sentiment_is_one_forward_pass_a_text(classifier):
    folder, model, tokenizer = classifier
    metric = make_metric("sentiment", model=folder, label=2)
    found = metric.per_example(metric.statistics(EXAMPLES, TEXTS))
    assert max(found) - min(found) > 0.1
    for prompt, text, value in zip(PROMPTS, TEXTS, found, strict=True):
        middle = tokenizer("".join(seam(prompt, text)), add_special_tokens=False)["input_ids"]
        ids = [2, *middle[-(WINDOW - 2) :], 1]  # the excess is cut on the left
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0].tolist()
        expected = math.exp(logits[2]) / sum(math.exp(logit) for logit in logits)
        assert value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_sentiment_does_not_depend_on_the_batch(classifier, batch_size):
    folder, _, _ = classifier
    expected = make_metric("sentiment", model=folder, label=0).statistics(EXAMPLES, TEXTS)
    metric = make_metric("sentiment", model=folder, label=0, batch_size=batch_size)
    assert metric.statistics(EXAMPLES[::-1], TEXTS[::-1])[::-1] == pytest.approx(expected, abs=1e-5)


def test_sentiment_of_empty_texts(classifier):
    metric = make_metric("sentiment", model=classifier[0], label=1)
    values = metric.per_example(metric.statistics([EXAMPLES[0], EXAMPLES[3]], ["", ""]))
    assert ((values > 0) & (values < 1)).all()


def test_sentiment_without_that_label(classifier):
    with pytest.raises(ConfigError) as error:
        make_metric("sentiment", model=classifier[0], label=3)
    assert str(error.value) == f"The metric 'sentiment': {classifier[0]} has the labels 0 to 2, not 3."


def test_signatures(classifier, language_model):
    metric = make_metric("sentiment", model=classifier[0], label=1, batch_size=7)
    assert metric.signature == f"sentiment|model:{classifier[0]}|revision:|label:1|cut:left"
    metric = make_metric("perplexity", model=language_model[0])
    assert metric.signature == f"perplexity|model:{language_model[0]}|revision:|of:text given prompt|empty:end of text"

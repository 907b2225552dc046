"""Sentiment and the perplexities against one unpadded forward pass a text, and what all metrics of models share."""

import math

import numpy as np
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

from grue.errors import ConfigError, DataError
from grue.lm.device import scoring_device
from grue.lm.load import load_language_model
from grue.lm.scorers import load_classifier, load_encoder, load_scoring_model, signed
from grue.metrics.neural.batching import batches, require_finite, seam
from grue.metrics.neural.perplexity import Perplexity
from grue.metrics.registry import make_metric
from grue.metrics.tokens import without_surrogates
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
    assert metric.signature == f"sentiment|{signed(classifier[0])}|label:1|cut:left"
    metric = make_metric("perplexity", model=language_model[0])
    assert metric.signature == f"perplexity|{signed(language_model[0])}|of:text given prompt|empty:end of text"


# --- the policy's perplexity on references ---------------------------------------------------------------------------

NAME = "perplexity:policy_on_references"
REFERRED = [
    Example("a", "the film", ("is slow but the music is lovely .", "is a surprise")),
    Example("b", "I liked it ", ()),
    Example("c", "slow but", (" the end is lovely and the film is a surprise and the music is slow",)),
    Example("d", "", ("much \ud800 größe 🙂",)),
]
WHOLE = [
    "the film is slow but the music is lovely .",
    "the film is a surprise",
    "slow but the end is lovely and the film is a surprise and the music is slow",
    "much \ufffd größe 🙂",
]
ALONE = [
    "is slow but the music is lovely .",
    "is a surprise",
    " the end is lovely and the film is a surprise and the music is slow",
    "much \ufffd größe 🙂",
]


def strided(model, tokenizer, texts, stride):
    """RL4LMs' number: a window's mean loss counts once for each of its new tokens, of which the very first has none."""
    ids = tokenizer("\n\n".join(texts), verbose=False)["input_ids"]
    total = 0.0
    for start in range(0, len(ids), stride):
        end = min(start + stride, len(ids))
        kept = ids[max(0, start + stride - WINDOW) : end]
        new = end - start
        predicted = min(new, len(kept) - 1)
        total += surprise(model, kept, len(kept) - predicted) / predicted * new
    return math.exp(total / len(ids)), len(ids)


@pytest.mark.parametrize("stride", [2, 7, 16, WINDOW - 1])
@pytest.mark.parametrize(("of", "texts"), [("whole", WHOLE), ("reference", ALONE)])
def test_policy_on_references_is_the_strided_number(language_model, stride, of, texts):
    folder, model, tokenizer = language_model
    expected, tokens = strided(model, tokenizer, texts, stride)
    metric = make_metric(NAME, model=folder, stride=stride, of=of)
    metric.prepare(REFERRED)
    statistics = metric.statistics(REFERRED, [""] * 4)
    assert statistics[:, 1].sum() == tokens > 2 * WINDOW
    assert metric.corpus(statistics) == pytest.approx(expected, rel=1e-5)
    assert statistics[1].tolist() == [0, 0]
    assert metric.statistics(REFERRED, ["other", "texts", "do", "nothing"]).tolist() == statistics.tolist()


def test_policy_on_references_counts_each_token_with_its_example(language_model):
    folder, _, tokenizer = language_model
    statistics = make_metric(NAME, model=folder, stride=16).statistics(REFERRED, [""] * 4)
    first = tokenizer("\n\n".join([*WHOLE[:2], ""]))["input_ids"]  # what follows starts anew after the line ends
    last = tokenizer(WHOLE[3])["input_ids"]
    assert statistics[0, 1] == len(first)
    assert statistics[3, 1] == len(last)


def test_policy_on_references_by_hand(tmp_path):
    """A model that knows nothing gives every token log V; the first window predicts one token fewer, and is made up."""
    tokenizer = make_tokenizer(classifier=False)
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=WINDOW, n_embd=16, n_layer=1, n_head=2, eos_token_id=1)
    model = GPT2LMHeadModel(config)
    model.transformer.wte.weight.data.zero_()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    metric = make_metric(NAME, model=str(tmp_path), stride=8)
    statistics = metric.statistics(REFERRED, [""] * 4)
    assert metric.corpus(statistics) == pytest.approx(len(tokenizer), rel=1e-5)
    short = [Example("short", "", ("the film is",))]
    statistics = metric.statistics(short, [""])
    count = len(tokenizer("the film is")["input_ids"])
    assert statistics.tolist() == [[pytest.approx(count * math.log(len(tokenizer)), rel=1e-5), count]]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_policy_on_references_does_not_depend_on_the_batch(language_model, batch_size):
    expected = make_metric(NAME, model=language_model[0], stride=5).statistics(REFERRED, [""] * 4)
    found = make_metric(NAME, model=language_model[0], stride=5, batch_size=batch_size).statistics(REFERRED, [""] * 4)
    assert found[:, 1].tolist() == expected[:, 1].tolist()
    assert found[:, 0] == pytest.approx(expected[:, 0], rel=1e-5)


def test_policy_on_references_has_no_value_for_a_text(language_model):
    metric = make_metric(NAME, model=language_model[0], stride=5)
    with pytest.raises(ConfigError) as caught:
        metric.per_example(metric.statistics(REFERRED, [""] * 4))
    assert str(caught.value) == (
        "perplexity:policy_on_references describes the policy and looks at no text, so it can be neither a reward nor "
        "a scored metric; give it the axis 'diversity', or take the metric perplexity."
    )
    assert metric.direction == "lower"
    assert metric.signature == f"{NAME}|{signed(language_model[0])}|of:whole|stride:5|window:32|mean:rl4lms"


def test_policy_on_references_without_any(language_model):
    metric = make_metric(NAME, model=language_model[0], stride=5)
    with pytest.raises(
        DataError, match="The example 'b' has no reference, which perplexity:policy_on_references needs"
    ):
        metric.statistics([REFERRED[1]], [""])
    for empty in ("", "a"):
        with pytest.raises(DataError, match="needs references of two tokens at least, found"):
            metric.statistics([Example("e", "", (empty,))], [""])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 1}, "the stride must be at least 2 and less than the 32 tokens that {} reads, found 1."),
        ({"stride": WINDOW}, "the stride must be at least 2 and less than the 32 tokens that {} reads, found 32."),
        ({"of": "text", "stride": 5}, "of must be one of whole, reference, found 'text'."),
    ],
)
def test_policy_on_references_with_bad_options(language_model, options, message):
    with pytest.raises(ConfigError) as caught:
        make_metric(NAME, model=language_model[0], **options)
    assert str(caught.value) == f"The metric {NAME!r}: {message.format(language_model[0])}"


# --- odd texts, damaged models, devices ------------------------------------------------------------------------------

ODD = ["a\r\nb", "a\x00b\x07", "größe 東京", "\u2028a\u0085b", "🙂", "שלום", "\ud800", "film \udfff!", "slow " * 20_000]


def test_lone_surrogates_are_replaced():
    assert without_surrogates("\ud800film\udfff \udbff\udc00 🙂") == "\ufffdfilm\ufffd \ufffd\ufffd 🙂"


@pytest.mark.parametrize("text", ODD)
def test_odd_texts(language_model, classifier, text):
    for example in (Example("as text", "the film", ()), Example("as prompt", text[:100], ())):
        (value,) = make_metric("sentiment", model=classifier[0], label=0).statistics([example], [text])[0]
        assert 0 < value < 1
        loss, count = make_metric("perplexity", model=language_model[0]).statistics([example], [text])[0]
        assert loss > 0
        assert count == len(language_model[2]("".join(seam("x", without_surrogates(text))))["input_ids"]) - 1


def test_no_examples(language_model, classifier):
    assert make_metric("sentiment", model=classifier[0], label=0).statistics([], []).shape == (0, 1)
    assert make_metric("perplexity", model=language_model[0]).statistics([], []).shape == (0, 2)


@pytest.mark.parametrize(("name", "options"), [("perplexity", {}), (NAME, {"stride": 5}), ("sentiment", {"label": 0})])
def test_a_damaged_model_is_an_error(language_model, classifier, tmp_path, name, options):
    _, model, tokenizer = classifier if name == "sentiment" else language_model
    model.save_pretrained(tmp_path, state_dict={k: torch.full_like(v, 3e38) for k, v in model.state_dict().items()})
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(DataError) as caught:
        make_metric(name, model=str(tmp_path), **options).statistics(REFERRED, ["is slow"] * 4)
    assert str(caught.value) == (
        f"The metric {name!r}: {tmp_path} gave a value that is not a finite number for the example 'a'; "
        "its weights are damaged, or it does not work in float32. Take another copy or another model."
    )


def test_values_that_are_finite_pass():
    examples = EXAMPLES[:2]
    assert require_finite("m", "model", examples, [[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(DataError, match="for the example 'e1'"):
            require_finite("m", "model", examples, [[1, 2], [3, value]])


def test_scoring_device(monkeypatch, language_model):
    monkeypatch.delenv("GRUE_DEVICE", raising=False)
    assert scoring_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setenv("GRUE_DEVICE", "")
    assert scoring_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setenv("GRUE_DEVICE", "cpu")
    assert scoring_device() == torch.device("cpu")


@pytest.mark.parametrize("value", ["gpu", "cuda:99", "meta", "hpu"])
def test_a_device_that_torch_cannot_use_is_an_error(monkeypatch, value):
    monkeypatch.setenv("GRUE_DEVICE", value)
    with pytest.raises(ConfigError) as caught:
        scoring_device()
    assert str(caught.value).startswith(f"GRUE_DEVICE is {value!r}, which torch cannot use here: ")
    assert str(caught.value).endswith(". Set it to cpu, cuda or cuda:<number>, or unset it.")


@pytest.mark.parametrize(
    ("load", "arguments"),
    [(load_scoring_model, ("causal", 0)), (load_classifier, (1,)), (load_encoder, (1,))],
    ids=["scoring model", "classifier", "encoder"],
)
def test_what_scores_is_put_on_the_scoring_device(monkeypatch, tmp_path, language_model, classifier, load, arguments):
    """A device that keeps no numbers stands in for a GPU."""
    monkeypatch.setattr("grue.lm.scorers.scoring_device", lambda: torch.device("meta"))
    *first, which = arguments
    _, model, tokenizer = (language_model, classifier)[which]
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load(*first, str(tmp_path))[0].device.type == "meta"
    assert load_language_model("causal", language_model[0])[0].device.type == "cpu"


# --- bounded perplexity ----------------------------------------------------------------------------------------------

BOUNDED = "perplexity:bounded"


def test_bounded_perplexity_folds_what_is_too_low_and_clips_what_is_too_high(language_model):
    statistics = make_metric("perplexity", model=language_model[0]).statistics(EXAMPLES, TEXTS)
    each = [math.exp(loss / count) for loss, count in statistics]
    for typical in (1.0, sorted(each)[1] * 1.5, sorted(each)[3], max(each) * 3):
        metric = make_metric(BOUNDED, model=language_model[0], typical=typical)
        found = metric.statistics(EXAMPLES, TEXTS)
        expected = [min(typical * typical / p if p < typical / 2 else p, 10 * typical) for p in each]
        assert metric.per_example(found) == pytest.approx(expected)
        assert metric.corpus(found) == pytest.approx(math.prod(expected) ** (1 / len(expected)))
    assert metric.direction == "lower"


def test_the_signature_of_bounded_perplexity(language_model):
    for typical, signature in (50.0, "50"), (50, "50"), (2.6, "2.6"), (2.6000001, "2.6000001"):
        metric = make_metric(BOUNDED, model=language_model[0], typical=typical)
        part = f"typical:{signature}|of:text given prompt|mean:texts"
        assert metric.signature == f"{BOUNDED}|{signed(language_model[0])}|{part}"


@pytest.mark.parametrize("typical", [0.5, 0.0, -1.0, math.nan, math.inf])
def test_bounded_perplexity_needs_a_perplexity(language_model, typical):
    with pytest.raises(ConfigError, match="'perplexity:bounded': typical must be a perplexity, 1 or more, found"):
        make_metric(BOUNDED, model=language_model[0], typical=typical)


def test_loops_neither_move_nor_win_bounded_perplexity(language_model, monkeypatch):
    """Three loops of 2,000 tokens among 400 texts of 24 tokens take over perplexity's mean; all loops would win it."""
    human = [(24 * (1.3 + 0.4 * math.sin(7 * i)), 24) for i in range(400)]
    dull, absurd = (2000 * 0.02, 2000), (2000 * 20.0, 2000)
    perplexity = make_metric("perplexity", model=language_model[0])
    metric = make_metric(BOUNDED, model=language_model[0], typical=math.exp(1.3))

    def both(losses):
        losses = np.array(losses)
        monkeypatch.setattr(Perplexity, "statistics", lambda self, examples, texts: losses)
        values = metric.statistics([EXAMPLES[0]] * len(losses), [""] * len(losses))
        return perplexity.corpus(losses), metric.corpus(values)

    usual = both(human)
    assert usual[1] == pytest.approx(usual[0], rel=0.05)
    for loop, better in ((dull, True), (absurd, False)):
        few, all_of_them = both([*human[:397], *[loop] * 3]), both([loop] * 400)
        assert usual[1] / 1.001 < few[1] < usual[1] * 20 ** (3 / 400)
        assert (few[0] < usual[0] / 1.5) if better else (few[0] > 100 * usual[0])
        assert all_of_them[1] > 3 * usual[1]
        assert (all_of_them[0] < usual[0]) is better
    assert both([*[dull] * 200, *[absurd] * 200])[1] > 3 * usual[1]  # the two do not cancel

"""The perplexities against one forward pass a token, and what all metrics of models share."""

import math
from importlib.metadata import version

import pytest
from support.late import late
from support.metric_texts import prepared

from grue.errors import ConfigError, DataError
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example

torch, transformers, tiny_bert = late("torch"), late("transformers"), late("support.tiny_bert")
batching, perplexity = late("grue.metrics.neural.batching"), late("grue.metrics.neural.perplexity")
device, scorers = late("grue.lm.device"), late("grue.lm.scorers")

WINDOW = 40
PROMPTS = ["the film", "the music is lovely and", "I", "", "slow but the film is slow " * 6, "the end ", "surprise:\n"]
TEXTS = [
    "is slow .",
    " is a surprise",
    "liked it very much",
    "the film is lovely",
    "indeed .",
    "is lovely",
    "much " * 55,
]
EXAMPLES = [Example(f"e{i}", prompt, ()) for i, prompt in enumerate(PROMPTS)]


@pytest.fixture
def language_model(models):
    return models["language model"]


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
    assert batching.seam(prompt, text) == expected


def test_perplexity_is_one_forward_pass_a_token(language_model):
    """An empty text is worth what its end is; a text longer than the window has half a window before each token."""
    folder, model, tokenizer = language_model
    examples, texts = [*EXAMPLES, EXAMPLES[0], EXAMPLES[0], EXAMPLES[3]], [*TEXTS, "", " \n", ""]
    end = tokenizer.eos_token_id
    found = make_metric("perplexity", model=folder).statistics(examples, texts)
    for (loss, count), example, text in zip(found, examples, texts, strict=True):
        context, continuation = batching.seam(example.prompt, text)
        before = tokenizer(context)["input_ids"] or [end]
        after = tokenizer(continuation)["input_ids"] if text.strip() else [end]
        ids, expected = before + after, 0.0
        for start in range(len(before), len(ids), WINDOW // 2):
            stop = min(len(ids), start + WINDOW // 2)
            first = max(0, stop - WINDOW)
            assert start - first >= min(start, WINDOW // 2)
            expected += surprise(model, ids[first:stop], start - first)
        assert count == len(after)
        assert loss == pytest.approx(expected, abs=1e-4 if len(ids) <= WINDOW else 1e-3)
    assert max(found[:, 1]) > WINDOW


def test_perplexity_computes_few_logits_at_a_time(language_model, monkeypatch):
    """A copied review of a thousand tokens times Gemma's vocabulary times 32 texts were 23 GB."""
    folder, model, _ = language_model
    metric = make_metric("perplexity", model=folder)
    usual = metric.statistics(EXAMPLES, TEXTS)
    sizes = []
    window_losses = perplexity.window_losses

    def counted(model, batch):
        losses = window_losses(model, batch)
        sizes.append(losses.shape)
        return losses

    monkeypatch.setattr(perplexity, "window_losses", counted)
    monkeypatch.setattr(perplexity, "LOGITS", 60 * model.config.vocab_size)
    assert metric.statistics(EXAMPLES, TEXTS) == pytest.approx(usual, abs=1e-4)
    assert max(rows for rows, _ in sizes) > 1
    assert all(rows == 1 or rows * tokens <= 60 for rows, tokens in sizes)


NAME = "perplexity:policy_on_references"
REFERRED = [
    Example("a", "the film", ("is slow but the music is lovely .", "is a surprise")),
    Example("b", "I liked it ", ()),
    Example("c", "slow but", (" the end is lovely and the film is a surprise and the music is slow",)),
    Example("d", "", ("much \ud800 größe 🙂",)),
]
ALONE = [
    "is slow but the music is lovely .",
    "is a surprise",
    " the end is lovely and the film is a surprise and the music is slow",
    "much \ufffd größe 🙂",
]
WHOLE = [f"the film {ALONE[0]}", f"the film {ALONE[1]}", f"slow but{ALONE[2]}", ALONE[3]]


def strided(model, tokenizer, texts, stride):
    """RL4LMs' number: a window's mean loss counts once for each of its new tokens, of which the very first has none."""
    ids = tokenizer("\n\n".join(texts), verbose=False)["input_ids"]
    total = 0.0
    for start in range(0, len(ids), stride):
        end = min(start + stride, len(ids))
        kept = ids[max(0, start + stride - WINDOW) : end]
        predicted = min(end - start, len(kept) - 1)
        total += surprise(model, kept, len(kept) - predicted) / predicted * (end - start)
    return math.exp(total / len(ids)), len(ids)


@pytest.mark.parametrize(("of", "stride"), [("whole", 2), ("whole", 16), ("reference", 7), ("reference", WINDOW - 1)])
def test_policy_on_references_is_the_strided_number(language_model, of, stride):
    folder, model, tokenizer = language_model
    expected, tokens = strided(model, tokenizer, WHOLE if of == "whole" else ALONE, stride)
    metric = prepared(NAME, REFERRED, model=folder, stride=stride, of=of)
    statistics = metric.statistics(REFERRED, [""] * 4)
    assert statistics[:, 1].sum() == tokens > WINDOW
    assert metric.corpus(statistics) == pytest.approx(expected, rel=1e-5)
    assert statistics[1].tolist() == [0, 0]
    alone = make_metric(NAME, model=folder, stride=stride, of=of, batch_size=1)
    found = alone.statistics(REFERRED, ["other", "texts", "do", "nothing"])
    assert found[:, 1].tolist() == statistics[:, 1].tolist()
    assert found[:, 0] == pytest.approx(statistics[:, 0], rel=1e-5)


def test_policy_on_references_counts_each_token_with_its_example(language_model):
    folder, _, tokenizer = language_model
    statistics = make_metric(NAME, model=folder, stride=16).statistics(REFERRED, [""] * 4)
    first = tokenizer("\n\n".join([*WHOLE[:2], ""]))["input_ids"]  # what follows starts anew after the line ends
    assert statistics[[0, 3], 1].tolist() == [len(first), len(tokenizer(WHOLE[3])["input_ids"])]


def test_what_policy_on_references_has_no_value_for(language_model, damaged, refused):
    folder = language_model[0]
    metric = make_metric(NAME, model=folder, stride=5)
    with refused(OfCorpusOnly):
        metric.per_example(metric.statistics(REFERRED, [""] * 4))
    for example in (REFERRED[1], Example("e", "", ("",)), Example("e", "", ("a",))):
        with refused(DataError):
            metric.statistics([example], [""])
    with refused(DataError):
        make_metric(NAME, model=damaged["language model"], stride=5).statistics(REFERRED, [""] * 4)
    for options in ({"stride": 1}, {"stride": WINDOW}, {"of": "text", "stride": 5}):
        with refused(ConfigError):
            make_metric(NAME, model=folder, **options)


BOUNDED = "perplexity:bounded"


def test_bounded_perplexity_folds_what_is_too_low_and_clips_what_is_too_high(language_model, refused):
    statistics = make_metric("perplexity", model=language_model[0]).statistics(EXAMPLES, TEXTS)
    each = [math.exp(loss / count) for loss, count in statistics]
    for typical in (1.0, sorted(each)[1] * 1.5, sorted(each)[3], max(each) * 3):
        metric = make_metric(BOUNDED, model=language_model[0], typical=typical)
        found = metric.statistics(EXAMPLES, TEXTS)
        expected = [min(typical * typical / p if p < typical / 2 else p, 10 * typical) for p in each]
        assert metric.per_example(found) == pytest.approx(expected)
        assert metric.corpus(found) == pytest.approx(math.prod(expected) ** (1 / len(expected)))
    for typical in (0.5, 0.0, -1.0, math.nan, math.inf):
        with refused(ConfigError):
            make_metric(BOUNDED, model=language_model[0], typical=typical)


# --- what all metrics of models share --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "options", "signature"),
    [
        ("bleurt", "regression", {"revision": "r", "multi_ref": "max"}, "bleurt|{}|cut:longest first|refs:max"),
        (
            "summac",
            "classifier",
            {"entailment": 2},
            "summac|version:zs|{}|entailment:2|of:document|split:sentences|shortest:11|most:100|cut:500",
        ),
        (
            "summac",
            "classifier",
            {"entailment": 2, "contradiction": 0, "use_con": True, "source": "prompt"},
            "summac|version:zs|{}|entailment:2|contradiction:0|of:prompt|split:sentences|shortest:11|most:100|cut:500",
        ),
        ("sentiment", "classifier", {"label": 1}, "sentiment|{}|label:1|cut:left"),
        ("asked_sentiment", "classifier", {}, "asked_sentiment|{}|label:asked|cut:left"),
        ("intent", "classifier", {"revision": "r"}, "intent|{}|of:last utterance and text|cut:left|empty:0"),
        (
            "bertscore",
            "encoder",
            {"layer": 2, "idf": True, "part": "recall"},
            "bertscore|{}|layer:2|idf:prepared|part:recall|rescaled:no|cut:right|empty:0|refs:best|bert-score:"
            + version("bert-score"),
        ),
        ("perplexity", "language model", {}, "perplexity|{}|of:text given prompt|empty:end of text"),
        *(
            (
                BOUNDED,
                "language model",
                {"typical": typical},
                f"{BOUNDED}|{{}}|typical:{told}|of:text given prompt|mean:texts",
            )
            for typical, told in ((50.0, "50"), (50, "50"), (2.6, "2.6"), (2.6000001, "2.6000001"))
        ),
        (NAME, "language model", {"stride": 5}, f"{NAME}|{{}}|of:whole|stride:5|window:{WINDOW}|mean:rl4lms"),
    ],
)
def test_signatures(models, name, kind, options, signature):
    metric = make_metric(name, model=models[kind][0], batch_size=3, **options)
    assert metric.signature == signature.format(scorers.model_signature(models[kind][0]))
    assert metric.direction == ("lower" if kind == "language model" else "higher")
    assert scorers.model_signature("some/hub-model", "r") == "model:some/hub-model|revision:r"


def test_scoring_device(monkeypatch):
    best = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.delenv("GRUE_DEVICE", raising=False)
    assert device.scoring_device().type == best
    for chosen, expected in {"": best, "cpu": "cpu"}.items():
        monkeypatch.setenv("GRUE_DEVICE", chosen)
        assert device.scoring_device().type == expected
    for unusable in ("gpu", "cuda:99", "meta", "hpu"):
        monkeypatch.setenv("GRUE_DEVICE", unusable)
        with pytest.raises(ConfigError) as caught:
            device.scoring_device()
        assert str(caught.value).startswith(f"GRUE_DEVICE is {unusable!r}, which torch cannot use here: ")
        assert str(caught.value).endswith(". Set it to cpu, cuda or cuda:<number>, or unset it.")


@pytest.mark.parametrize(
    ("load", "arguments", "kind"),
    [
        ("load_scoring_model", ("causal",), "language model"),
        ("load_classifier", (), "classifier"),
        ("load_encoder", (), "classifier"),
    ],
)
def test_what_scores_is_put_on_the_scoring_device(monkeypatch, tmp_path, models, load, arguments, kind):
    """A device that keeps no numbers stands in for a GPU."""
    monkeypatch.setattr("grue.lm.scorers.scoring_device", lambda: torch.device("meta"))
    _, model, tokenizer = models[kind]
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert getattr(scorers, load)(*arguments, str(tmp_path))[0].device.type == "meta"
    if kind == "language model":
        assert late("grue.lm.load").load_language_model("causal", models[kind][0])[0].device.type == "cpu"

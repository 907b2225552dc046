"""BLEURT, SummaC, sentiment and intent against one unpadded forward pass an input, cut and joined by hand."""

import math

import pytest
from support.late import late
from support.metric_texts import prepared

from grue.errors import ConfigError, DataError
from grue.metrics.registry import make_metric
from grue.records import Example

tiny_bert, batching = late("support.tiny_bert"), late("grue.metrics.neural.batching")
torch, transformers = late("torch"), late("transformers")

KINDS = {"bleurt": "regression"}
DEFAULTS = {"summac": {"entailment": 2}, "sentiment": {"label": 2}}


def values(models, name, examples, texts, **options):
    """Of the metric by the model of its kind, or by another one."""
    folder = options.pop("model", None) or models[KINDS.get(name, "classifier")][0]
    metric = prepared(name, examples, model=folder, **(DEFAULTS.get(name, {}) | options))
    statistics = metric.statistics(examples, texts)
    assert metric.corpus(statistics) == pytest.approx(sum(statistics[:, 0]) / len(texts))
    return metric.per_example(statistics)


def logits(models, first, second=None, kind="classifier"):
    _, model, tokenizer = models[kind]
    sides = [tiny_bert.plain_ids(tokenizer, side) for side in (first, second) if side is not None]
    if second is None:  # the excess is cut on the left
        return tiny_bert.one_pass(model, sides[0][-(tiny_bert.WINDOW - 2) :])
    return tiny_bert.one_pass(model, *tiny_bert.cut_longest_first(*sides))


def probability(models, label, *sides):
    scores = logits(models, *sides)
    return math.exp(scores[label]) / sum(math.exp(score) for score in scores)


REFERENCES = [
    ("the film is slow .", "the music is lovely and the end is a surprise ."),
    ("I liked it very much indeed .",),
    ("lovely", "slow", "the end"),
    ("the film is slow " * 9,),
    ("the end " * 12,),
]
TEXTS = ["the film is lovely .", "", "surprise", "the end", "the music is lovely " * 9]
EXAMPLES = [Example(f"e{i}", "", references) for i, references in enumerate(REFERENCES)]


def test_bleurt_reads_the_reference_first_and_cuts_the_longer_side(models):
    odd = [*tiny_bert.ODD, *tiny_bert.BLANK, "the film is slow " * 600]
    plain = [text.encode("utf-8", "replace").decode().replace("?", "\ufffd") for text in odd]
    groups = [*REFERENCES, *((reference,) for reference in reversed(plain))]
    texts = [*TEXTS, *(text if text.strip() else "" for text in plain)]
    each = [[logits(models, a, b, "regression")[0] for a in group] for group, b in zip(groups, texts, strict=True)]
    assert max(map(max, each)) - min(map(min, each)) > 0.1
    examples = [*EXAMPLES, *(Example(str(i), "", (text,)) for i, text in enumerate(reversed(odd)))]
    mean, highest = [sum(group) / len(group) for group in each], [max(group) for group in each]
    assert values(models, "bleurt", examples, [*TEXTS, *odd]) == pytest.approx(mean, abs=1e-5)
    found = values(models, "bleurt", examples, [*TEXTS, *odd], multi_ref="max", batch_size=1)
    assert found == pytest.approx(highest, abs=1e-5)
    turned = values(models, "bleurt", [Example("e", "", (TEXTS[0],))], [REFERENCES[0][0]])[0]
    assert abs(turned - each[0][0]) > 1e-3


def test_bleurt_by_a_model_without_token_types_and_a_tokenizer_without_a_limit(models, tmp_path):
    """A tokenizer of no particular model makes token types, and DistilBERT knows none."""
    torch.manual_seed(7)
    config = tiny_bert.config(transformers.DistilBertConfig, dim=16, hidden_dim=32, n_layers=2, n_heads=2, num_labels=1)
    made = transformers.DistilBertForSequenceClassification(config)
    folder, model, tokenizer = tiny_bert.save(tmp_path / "distilbert", made)
    with torch.no_grad():
        expected = float(model(input_ids=torch.tensor([tokenizer("the film", "is slow")["input_ids"]])).logits)
    found = values(models, "bleurt", [Example("e", "", ("the film",))], ["is slow"], model=folder)
    assert found[0] == pytest.approx(expected, abs=1e-5)
    models["regression"][1].save_pretrained(tmp_path)
    tiny_bert.tokenizer(model_max_length=None).save_pretrained(tmp_path)
    found = values(models, "bleurt", EXAMPLES, TEXTS, model=str(tmp_path))
    assert found == pytest.approx(values(models, "bleurt", EXAMPLES, TEXTS), abs=1e-6)


# --- SummaC ----------------------------------------------------------------------------------------------------------

DOCUMENTS = [
    ["The film is slow but lovely.", "The music is a surprise indeed!", "I liked it very much."],
    ["The end is slow, is it not?", "Yes."],
    ["So.", "Yes."],
    ["The film is lovely and the end is slow and the music is much too slow and lovely and slow."],
]
SUMMARIES = [
    ["It is a lovely film.", "The music is slow."],
    ["So.", "The end is slow, it is said."],
    ["Film.", "End."],
    ["I liked the end of the film indeed."],
]
ARTICLES = [Example(f"e{i}", " ".join(document), ()) for i, document in enumerate(DOCUMENTS)]
SAID = [" ".join(summary) for summary in SUMMARIES]


def entailed(models, document, summary, use_con=False):
    """SummaC-ZS of the sentences that count: those of more than ten characters, or all if there is none."""
    document, summary = ([one for one in side if len(one) > 10] or side for side in (document, summary))
    total = 0.0
    for hypothesis in summary:
        total += max(probability(models, 2, premise, hypothesis) for premise in document)
        if use_con:
            total -= max(probability(models, 0, premise, hypothesis) for premise in document)
    return total / len(summary)


@pytest.mark.parametrize("use_con", [False, True])
def test_summac_by_hand(models, use_con):
    expected = [entailed(models, *pair, use_con) for pair in zip(DOCUMENTS, SUMMARIES, strict=True)]
    assert max(expected) - min(expected) > 0.05
    for size in (1, 2, 64):
        found = values(models, "summac", ARTICLES, SAID, contradiction=0, use_con=use_con, batch_size=size)
        assert found == pytest.approx(expected, abs=1e-5)


def test_pairs_of_many_examples_stream_through_blocks(models, monkeypatch):
    expected = values(models, "summac", ARTICLES, SAID)
    blocks, real = [], batching._block_logits
    monkeypatch.setattr(batching, "BLOCK", 1)
    monkeypatch.setattr(batching, "_block_logits", lambda *rest: blocks.append(len(rest[2])) or real(*rest))
    assert values(models, "summac", ARTICLES, SAID, batch_size=2) == pytest.approx(expected, abs=1e-5)
    assert blocks == [2, 2, 2, 2, 2, 2]  # 3·2 + 1·1 + 2·2 + 1·1 pairs


def test_the_document_is_taken_from_the_meta_and_its_first_hundred_sentences_count(models):
    article = " ".join(DOCUMENTS[0])
    with_meta = [Example("e", f"Summarise the film: {article}", (), {"document": article})]
    expected = entailed(models, DOCUMENTS[0], SUMMARIES[0])
    assert values(models, "summac", with_meta, SAID[:1])[0] == pytest.approx(expected, abs=1e-5)
    first = f"Summarise the film: {DOCUMENTS[0][0]}"
    expected = entailed(models, [first, *DOCUMENTS[0][1:]], SUMMARIES[0])
    assert values(models, "summac", with_meta, SAID[:1], source="prompt")[0] == pytest.approx(expected, abs=1e-5)
    hundred = [f"The film number {number} is slow." for number in range(100)]
    more = " ".join(["So.", *hundred, *DOCUMENTS[0], "I liked it very much indeed."])
    examples = [Example("e", text, ()) for text in (" ".join(hundred), more, " ", "")]
    found = values(models, "summac", examples, [SAID[0]] * 4)
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert found[2:].tolist() == [0.0, 0.0], "an empty document entails nothing"


# --- sentiment and intent --------------------------------------------------------------------------------------------

UTTERANCES = ["the film", "I liked it very much", "", "is the end a surprise ?", "slow ", "the music is lovely " * 20]
ANSWERS = ["is slow .", " indeed", "the music is lovely", "it is", "but lovely", "I liked it"]


def joined(models, said, text):
    return logits(models, said.rstrip() + (text if text[0] == " " or not said else f" {text}"))


def asking_for(labels):
    return [
        Example(f"e{i}", utterance, (), {"intent": label, "last_utterance": utterance})
        for i, (label, utterance) in enumerate(zip(labels, UTTERANCES, strict=True))
    ]


def test_sentiment_is_one_forward_pass_a_text_and_the_words_that_ask_are_not_read(models):
    scores = [joined(models, *pair) for pair in zip(UTTERANCES, ANSWERS, strict=True)]
    shares = [[math.exp(score) / sum(map(math.exp, each)) for score in each] for each in scores]
    assert values(models, "sentiment", asking_for([0] * 6), ANSWERS) == pytest.approx([p[2] for p in shares], abs=1e-5)
    asked = [Example(f"e{i}", "is slow .", (), {"asked": i % 2, "text": said}) for i, said in enumerate(UTTERANCES)]
    expected = [share[i % 2] for i, share in enumerate(shares)]
    assert max(expected) - min(expected) > 0.1
    assert values(models, "asked_sentiment", asked, ANSWERS) == pytest.approx(expected, abs=1e-5)


def test_a_text_counts_if_its_act_is_the_one_asked_for(models):
    scores = [joined(models, *pair) for pair in zip(UTTERANCES, ANSWERS, strict=True)]
    acts = [max(range(3), key=each.__getitem__) for each in scores]
    assert len(set(acts)) > 1
    for label in range(3):
        found = values(models, "intent", asking_for([label] * 6), ANSWERS)
        assert found.tolist() == [float(act == label) for act in acts]
        assert values(models, "intent", asking_for([label] * 6), [*tiny_bert.BLANK, "", " "]).tolist() == [0.0] * 6


@pytest.mark.parametrize(
    ("name", "meta"),
    [
        *(("intent", {"last_utterance": "the film"} | more) for more in ({}, {"intent": True})),
        ("intent", {"intent": 1}),
        *(("asked_sentiment", each) for each in ({"asked": 1}, {"text": "the film"}, {"asked": 2, "text": "the film"})),
    ],
    ids=str,
)
def test_missing_meta_is_an_error(models, name, meta, refused):
    metric = make_metric(name, model=models["classifier"][0])
    with refused(DataError):
        metric.statistics([Example("e", "", (), meta)], ["is slow"])
    if name == "intent":
        with refused(DataError):
            metric.prepare([Example("e", "", (), meta)])


# --- options ---------------------------------------------------------------------------------------------------------


def test_options_models_acts_and_documents_that_cannot_be(models, refused):
    for name, options in (
        ("bleurt", {"multi_ref": "best"}),
        ("summac", {"entailment": 3}),
        ("summac", {"entailment": 2, "use_con": True}),
        ("summac", {"entailment": 2, "source": "article"}),
        ("sentiment", {"label": 3}),
        ("sentiment", {"label": -1}),
        ("bleurt", {"model": models["classifier"][0]}),
    ):
        with refused(ConfigError):
            make_metric(name, **{"model": models[KINDS.get(name, "classifier")][0]} | options)
    with refused(ConfigError):
        values(models, "intent", asking_for([0, 1, 3, 0, 0, 0]), ANSWERS)
    with refused(DataError):
        values(models, "summac", [Example("e", "", (), {"document": 3})], ["The film."])

"""SummaC-ZS against plain loops over every pair of sentences, one unpadded forward pass each."""

import math

import pytest
from support import tiny_bert

from grue.errors import ConfigError, DataError
from grue.lm.scorers import signed
from grue.metrics.neural import batching
from grue.metrics.registry import make_metric
from grue.records import Example

ENTAILMENT, CONTRADICTION = 2, 0
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
EXAMPLES = [Example(f"e{i}", " ".join(document), ()) for i, document in enumerate(DOCUMENTS)]
TEXTS = [" ".join(summary) for summary in SUMMARIES]


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return tiny_bert.classifier(tmp_path_factory.mktemp("nli"), labels=3)


def values(model, examples, texts, **options):
    metric = make_metric("summac", **({"model": model, "entailment": ENTAILMENT} | options))
    metric.prepare(examples)
    statistics = metric.statistics(examples, texts)
    assert metric.corpus(statistics) == pytest.approx(sum(statistics[:, 0]) / len(texts))
    return metric.per_example(statistics)


def probability(nli, premise, hypothesis, label):
    _, model, tokenizer = nli
    ids = tiny_bert.cut_longest_first(*(tiny_bert.plain_ids(tokenizer, side) for side in (premise, hypothesis)))
    scores = tiny_bert.one_pass(model, *ids)
    return math.exp(scores[label]) / sum(math.exp(score) for score in scores)


def by_hand(nli, document, summary, use_con=False):
    """The value for given sentences."""
    total = 0.0
    for hypothesis in summary:
        total += max(probability(nli, premise, hypothesis, ENTAILMENT) for premise in document)
        if use_con:
            total -= max(probability(nli, premise, hypothesis, CONTRADICTION) for premise in document)
    return total / len(summary)


def told(sentences):
    """The sentences that count: those of more than ten characters, or all if there is none."""
    return [sentence for sentence in sentences if len(sentence) > 10] or sentences


@pytest.mark.parametrize("use_con", [False, True])
def test_values_by_hand(nli, use_con):
    expected = [by_hand(nli, told(d), told(s), use_con) for d, s in zip(DOCUMENTS, SUMMARIES, strict=True)]
    assert max(expected) - min(expected) > 0.05
    found = values(nli[0], EXAMPLES, TEXTS, contradiction=CONTRADICTION, use_con=use_con)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_values_do_not_depend_on_the_batch(nli, batch_size):
    expected = values(nli[0], EXAMPLES, TEXTS)
    found = values(nli[0], EXAMPLES[::-1], TEXTS[::-1], batch_size=batch_size)[::-1]
    assert found == pytest.approx(expected, abs=1e-5)


def test_pairs_of_many_examples_stream_through_blocks(nli, monkeypatch):
    expected = values(nli[0], EXAMPLES, TEXTS)
    monkeypatch.setattr(batching, "BLOCK", 1)
    blocks = []
    real = batching._block_logits
    monkeypatch.setattr(batching, "_block_logits", lambda *rest: blocks.append(len(rest[2])) or real(*rest))
    assert values(nli[0], EXAMPLES, TEXTS, batch_size=2) == pytest.approx(expected, abs=1e-5)
    assert blocks == [2, 2, 2, 2, 2, 2]  # 3·2 + 1·1 + 2·2 + 1·1 pairs


def test_the_document_comes_first(nli):
    one, other = "The film is slow but lovely.", "The music is a surprise indeed!"
    found = [values(nli[0], [Example("e", a, ())], [b])[0] for a, b in ((one, other), (other, one))]
    assert found == pytest.approx([by_hand(nli, [one], [other]), by_hand(nli, [other], [one])], abs=1e-5)
    assert abs(found[0] - found[1]) > 1e-3


def test_the_document_is_taken_from_the_meta(nli):
    article = " ".join(DOCUMENTS[0])
    with_meta = Example("e", f"Summarise the film: {article}", (), {"document": article})
    expected = by_hand(nli, DOCUMENTS[0], SUMMARIES[0])
    assert values(nli[0], [with_meta], TEXTS[:1])[0] == pytest.approx(expected, abs=1e-5)
    first = f"Summarise the film: {DOCUMENTS[0][0]}"
    expected = by_hand(nli, [first, *DOCUMENTS[0][1:]], SUMMARIES[0])
    assert values(nli[0], [with_meta], TEXTS[:1], source="prompt")[0] == pytest.approx(expected, abs=1e-5)


def test_only_the_first_hundred_sentences_count(nli):
    hundred = [f"The film number {number} is slow." for number in range(100)]
    expected = values(nli[0], [Example("e", " ".join(hundred), ())], TEXTS[:1])[0]
    more = " ".join(["So.", *hundred, *DOCUMENTS[0], "I liked it very much indeed."])
    assert values(nli[0], [Example("e", more, ())], TEXTS[:1])[0] == pytest.approx(expected, abs=1e-6)


def test_empty_sides_are_zero(nli):
    full = EXAMPLES[0]
    for blank in tiny_bert.BLANK:
        found = values(
            nli[0], [full, Example("blank", blank, ()), Example("both", blank, ())], [blank, TEXTS[0], blank]
        )
        assert found.tolist() == [0.0, 0.0, 0.0]


def test_odd_texts(nli):
    texts = [*tiny_bert.ODD, "The film is slow. " * 60, "slow " * 20_000]
    examples = [Example(str(i), text[:2000], ()) for i, text in enumerate(texts)]
    found = values(nli[0], examples, [*texts[1:10], texts[0], texts[-1], "lovely"])
    assert ((found > 0) & (found < 1)).all()


def test_no_examples(nli):
    assert make_metric("summac", model=nli[0], entailment=2).statistics([], []).shape == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entailment": 3}, "The metric 'summac': {} has the labels 0 to 2, not 3."),
        ({"use_con": True}, "The metric 'summac': {} has the labels 0 to 2, not -1."),
        ({"source": "article"}, "The metric 'summac': source must be one of document, prompt, found 'article'."),
    ],
)
def test_bad_options(nli, options, message):
    with pytest.raises(ConfigError) as caught:
        make_metric("summac", **({"model": nli[0], "entailment": ENTAILMENT} | options))
    assert str(caught.value) == message.format(nli[0])


def test_a_document_that_is_no_text_is_an_error(nli):
    with pytest.raises(DataError) as caught:
        values(nli[0], [Example("e", "", (), {"document": 3})], ["The film."])
    assert str(caught.value) == (
        "The example 'e' has 3 as document in its meta, but summac needs a text there; mend its data format."
    )


def test_a_damaged_model_is_an_error(nli, tmp_path):
    folder = tiny_bert.damage(tmp_path, *nli[1:])
    with pytest.raises(DataError, match=f"'summac': {folder} gave a value .* for the example 'e1'; its weights are"):
        values(folder, EXAMPLES, ["", *TEXTS[1:]])


def test_signatures(nli):
    metric = make_metric("summac", model=nli[0], entailment=2, batch_size=3)
    assert metric.direction == "higher"
    assert metric.signature == (
        f"summac|version:zs|{signed(nli[0])}|entailment:2|of:document|split:sentences|shortest:11|most:100|cut:500"
    )
    metric = make_metric("summac", model=nli[0], entailment=2, contradiction=0, use_con=True, source="prompt")
    assert metric.signature == (
        f"summac|version:zs|{signed(nli[0])}|entailment:2|contradiction:0|of:prompt"
        "|split:sentences|shortest:11|most:100|cut:500"
    )

"""Intent against one unpadded forward pass a text."""

import pytest
from support import tiny_bert

from grue.errors import ConfigError, DataError
from grue.lm.scorers import signed
from grue.metrics.registry import make_metric
from grue.records import Example

LABELS = 4
SAID = ["the film", "I liked it very much", "", "is the end a surprise ?", "slow ", "the music is lovely " * 20]
TEXTS = ["is slow .", " indeed", "the music is lovely", "it is", "but lovely", "I liked it"]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny_bert.classifier(tmp_path_factory.mktemp("classifier"), LABELS, seed=14)


def asking_for(labels, said=SAID):
    return [
        Example(f"e{i}", "earlier", (), {"intent": label, "last_utterance": utterance})
        for i, (label, utterance) in enumerate(zip(labels, said, strict=True))
    ]


def told(classifier, said, text):
    """The most probable label of utterance and text, joined by hand, cut on the left."""
    _, model, tokenizer = classifier
    joined = said.rstrip() + (text if text[0] == " " or not said else f" {text}")
    scores = tiny_bert.one_pass(model, tiny_bert.plain_ids(tokenizer, joined)[-(tiny_bert.WINDOW - 2) :])
    return max(range(LABELS), key=lambda label: scores[label])


def values(classifier, examples, texts, **options):
    metric = make_metric("intent", model=classifier[0], **options)
    metric.prepare(examples)
    statistics = metric.statistics(examples, texts)
    assert metric.corpus(statistics) == pytest.approx(sum(statistics[:, 0]) / len(texts))
    return metric.per_example(statistics).tolist()


def test_a_text_counts_if_its_act_is_the_one_asked_for(classifier):
    acts = [told(classifier, said, text) for said, text in zip(SAID, TEXTS, strict=True)]
    assert len(set(acts)) > 1
    assert values(classifier, asking_for(acts), TEXTS) == [1.0] * len(TEXTS)
    for label in range(LABELS):
        expected = [float(act == label) for act in acts]
        assert values(classifier, asking_for([label] * len(TEXTS)), TEXTS) == expected


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_values_do_not_depend_on_the_batch(classifier, batch_size):
    examples = asking_for([i % LABELS for i in range(len(TEXTS))])
    expected = values(classifier, examples, TEXTS)
    assert values(classifier, examples[::-1], TEXTS[::-1], batch_size=batch_size)[::-1] == expected


def test_an_empty_text_has_no_act(classifier):
    for label in range(LABELS):
        assert values(classifier, asking_for([label] * 6), [*tiny_bert.BLANK, "", " "]) == [0.0] * 6


def test_odd_texts(classifier):
    said, texts = tiny_bert.ODD, [*tiny_bert.ODD[:-1], "the film is slow " * 6000]
    each = [values(classifier, asking_for([label] * len(said), said), texts) for label in range(LABELS)]
    assert [sum(row) for row in zip(*each, strict=True)] == [1.0] * len(said)


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (
            {"last_utterance": "the film"},
            "The example 'e' needs the index of a label as intent in its meta, found None; "
            "mend its data format, or take another metric than intent.",
        ),
        (
            {"intent": True, "last_utterance": "the film"},
            "The example 'e' needs the index of a label as intent in its meta, found True; "
            "mend its data format, or take another metric than intent.",
        ),
        (
            {"intent": 1},
            "The example 'e' needs a text as last_utterance in its meta, found None; "
            "mend its data format, or take another metric than intent.",
        ),
    ],
)
def test_missing_meta_is_an_error(classifier, meta, message):
    metric = make_metric("intent", model=classifier[0])
    example = Example("e", "", (), meta)
    for ask in (lambda: metric.prepare([example]), lambda: metric.statistics([example], ["is slow"])):
        with pytest.raises(DataError) as caught:
            ask()
        assert str(caught.value) == message


@pytest.mark.parametrize("label", [LABELS, -1])
def test_an_act_that_the_classifier_does_not_know_is_an_error(classifier, label):
    with pytest.raises(ConfigError) as caught:
        values(classifier, asking_for([0, 1, label, 0, 0, 0]), TEXTS)
    assert str(caught.value) == f"The metric 'intent': {classifier[0]} has the labels 0 to 3, not {label}."


def test_a_damaged_model_is_an_error(classifier, tmp_path):
    damaged = (tiny_bert.damage(tmp_path, *classifier[1:]),)
    with pytest.raises(DataError) as caught:
        values(damaged, asking_for([0] * 6), TEXTS)
    assert str(caught.value) == (
        f"The metric 'intent': {damaged[0]} gave a value that is not a finite number for the example 'e0'; "
        "its weights are damaged, or it does not work in float32. Take another copy or another model."
    )


def test_signature(classifier):
    metric = make_metric("intent", model=classifier[0], revision="r", batch_size=3)
    assert metric.direction == "higher"
    assert metric.signature == (f"intent|{signed(classifier[0])}|of:last utterance and text|cut:left|empty:0")

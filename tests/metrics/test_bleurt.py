"""BLEURT against one unpadded forward pass a pair."""

import pytest
import torch
from support import tiny_bert
from transformers import DistilBertConfig, DistilBertForSequenceClassification

from grue.errors import ConfigError, DataError
from grue.lm.scorers import signed
from grue.metrics.registry import make_metric
from grue.records import Example

REFERENCES = [
    ("the film is slow .", "the music is lovely and the end is a surprise ."),
    ("I liked it very much indeed .",),
    ("lovely", "slow", "the end"),
    ("the film is slow " * 9,),
    ("the end " * 12,),
]
TEXTS = ["the film is lovely .", "", "surprise", "the end", "the music is lovely " * 9]
EXAMPLES = [Example(f"e{i}", "", references) for i, references in enumerate(REFERENCES)]


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    return tiny_bert.classifier(tmp_path_factory.mktemp("regression"), labels=1)


def values(model, examples, texts, **options):
    metric = make_metric("bleurt", model=model, **options)
    statistics = metric.statistics(examples, texts)
    assert metric.corpus(statistics) == pytest.approx(sum(statistics[:, 0]) / len(texts))
    return metric.per_example(statistics)


def by_hand(regression, reference, text):
    _, model, tokenizer = regression
    ids = tiny_bert.cut_longest_first(*(tiny_bert.plain_ids(tokenizer, side) for side in (reference, text)))
    return tiny_bert.one_pass(model, *ids)[0]


def test_values_by_hand(regression):
    each = [
        [by_hand(regression, reference, text) for reference in group]
        for group, text in zip(REFERENCES, TEXTS, strict=True)
    ]
    assert max(map(max, each)) - min(map(min, each)) > 0.1
    mean = [sum(group) / len(group) for group in each]
    assert values(regression[0], EXAMPLES, TEXTS) == pytest.approx(mean, abs=1e-5)
    assert values(regression[0], EXAMPLES, TEXTS, multi_ref="mean") == pytest.approx(mean, abs=1e-5)
    assert values(regression[0], EXAMPLES, TEXTS, multi_ref="max") == pytest.approx([max(g) for g in each], abs=1e-5)


def test_the_reference_comes_first(regression):
    one, other = "the film is slow .", "the music is lovely"
    found = [values(regression[0], [Example("e", "", (a,))], [b])[0] for a, b in ((one, other), (other, one))]
    assert found == pytest.approx([by_hand(regression, one, other), by_hand(regression, other, one)], abs=1e-5)
    assert abs(found[0] - found[1]) > 1e-3


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_values_do_not_depend_on_the_batch(regression, batch_size):
    expected = values(regression[0], EXAMPLES, TEXTS)
    found = values(regression[0], EXAMPLES[::-1], TEXTS[::-1], batch_size=batch_size)[::-1]
    assert found == pytest.approx(expected, abs=1e-5)


def test_odd_texts(regression):
    texts = [*tiny_bert.ODD, *tiny_bert.BLANK, "the film is slow " * 6000]
    examples = [Example(str(i), "", (text,)) for i, text in enumerate(reversed(texts))]
    found = values(regression[0], examples, texts)
    plain = [text.encode("utf-8", "replace").decode().replace("?", "\ufffd") for text in texts]
    read = [text if text.strip() else "" for text in plain]
    expected = [by_hand(regression, a, b) for a, b in zip(reversed(plain), read, strict=True)]
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_model_without_token_types(tmp_path):
    """A tokenizer of no particular model makes them, and DistilBERT knows none."""
    torch.manual_seed(7)
    config = tiny_bert.config(DistilBertConfig, dim=16, hidden_dim=32, n_layers=2, n_heads=2, num_labels=1)
    folder, model, tokenizer = tiny_bert.save(tmp_path, DistilBertForSequenceClassification(config))
    ids = tokenizer("the film", "is slow")["input_ids"]
    with torch.no_grad():
        expected = float(model(input_ids=torch.tensor([ids])).logits)
    assert values(folder, [Example("e", "", ("the film",))], ["is slow"])[0] == pytest.approx(expected, abs=1e-5)


def test_a_tokenizer_without_a_limit(regression, tmp_path):
    _, model, _ = regression
    model.save_pretrained(tmp_path)
    tiny_bert.tokenizer(model_max_length=None).save_pretrained(tmp_path)
    expected = values(regression[0], EXAMPLES, TEXTS)
    assert values(str(tmp_path), EXAMPLES, TEXTS) == pytest.approx(expected, abs=1e-6)


def test_a_classifier_is_an_error(tmp_path):
    folder, *_ = tiny_bert.classifier(tmp_path, labels=2)
    with pytest.raises(ConfigError) as caught:
        make_metric("bleurt", model=folder)
    assert str(caught.value) == (
        f"The metric 'bleurt': {folder} has 2 outputs, not one; give a BLEURT checkpoint, converted with one label."
    )


def test_another_way_with_references_is_an_error(regression):
    with pytest.raises(ConfigError) as caught:
        make_metric("bleurt", model=regression[0], multi_ref="best")
    assert str(caught.value) == "The metric 'bleurt': multi_ref must be one of mean, max, found 'best'."


def test_no_reference_is_an_error(regression):
    with pytest.raises(DataError, match="The example 'none' has no reference, which bleurt needs"):
        values(regression[0], [Example("none", "", ())], ["the film"])


def test_a_damaged_model_is_an_error(regression, tmp_path):
    folder = tiny_bert.damage(tmp_path, *regression[1:])
    with pytest.raises(DataError, match=f"'bleurt': {folder} gave a value .* for the example 'e0'; its weights are"):
        values(folder, EXAMPLES, TEXTS)


def test_signature(regression):
    metric = make_metric("bleurt", model=regression[0], revision="r", batch_size=3, multi_ref="max")
    assert metric.direction == "higher"
    assert metric.signature == f"bleurt|{signed(regression[0])}|cut:longest first|refs:max"

"""The metrics' registry, their options and the promises that every metric keeps."""

import numpy as np
import pytest

from grue.errors import ConfigError, DataError, UnknownName
from grue.metrics.registry import CARDS, DIVERSITY, METRICS, make_metric, metric_factory
from grue.records import Example

LEXICAL = [name for name, card in CARDS.items() if card.family == "overlap"]
CAPTIONS = ["cider", "coverage", "spice_lite"]
EXAMPLES = [
    Example("a", "", ("the dog runs in the field", "a dog is running"), {"concepts": ["dog", "run"]}),
    Example("b", "", ("two cats sleep on a mat .",), {"concepts": ["cat", "sleep", "mat"]}),
    Example("c", "", ("she paints the old boat", "the boat is painted", "a boat"), {"concepts": ["paint", "boat"]}),
]
TEXTS = ["the dog is running", "", "a boat ! She's painting an old boat"]


def test_every_card_has_a_metric():
    assert sorted(CARDS) == METRICS.names()
    for name in CARDS:
        assert callable(METRICS[name])


@pytest.mark.parametrize("name", [*LEXICAL, *CAPTIONS, *DIVERSITY])
def test_contract(name):
    metric = make_metric(name)
    metric.prepare(EXAMPLES)
    statistics = metric.statistics(EXAMPLES, TEXTS)
    assert statistics.dtype == np.float64
    assert statistics.shape[0] == len(EXAMPLES)
    assert metric.direction == CARDS[name].direction
    assert metric.signature.split("|")[0] == name
    assert np.isfinite(statistics).all()
    assert np.isfinite(metric.corpus(statistics))
    assert np.isfinite(metric.corpus(metric.statistics(EXAMPLES, ["", "", ""])))


@pytest.mark.parametrize("name", [*LEXICAL, *CAPTIONS, "mean_length"])
def test_values_of_examples(name):
    metric = make_metric(name)
    metric.prepare(EXAMPLES)
    values = metric.per_example(metric.statistics(EXAMPLES, TEXTS))
    assert values.shape == (3,)
    assert values[1] == (100.0 if name == "ter" else 0.0), "an empty text scores worst"
    backwards = metric.per_example(metric.statistics(EXAMPLES[::-1], TEXTS[::-1]))
    assert list(backwards[::-1]) == list(values), "an example's value does not depend on its neighbours"
    assert metric.corpus(metric.statistics(EXAMPLES[::-1], TEXTS[::-1])) == pytest.approx(
        metric.corpus(metric.statistics(EXAMPLES, TEXTS)), abs=1e-12
    )


@pytest.mark.parametrize("name", [*LEXICAL, "coverage"])
def test_preparing_changes_no_value(name):
    prepared = make_metric(name)
    prepared.prepare(EXAMPLES)
    fresh = make_metric(name).statistics(EXAMPLES, TEXTS)
    assert prepared.statistics(EXAMPLES, TEXTS).tolist() == fresh.tolist()


@pytest.mark.parametrize("name", [*LEXICAL, "cider"])
def test_example_without_references(name):
    metric = make_metric(name)
    metric.prepare(EXAMPLES)
    with pytest.raises(DataError) as error:
        metric.statistics([Example("x7", "", ())], ["text"])
    assert str(error.value) == (
        f"The example 'x7' has no reference, which {name} needs; score a split with references or take another metric."
    )


def test_unknown_metric():
    with pytest.raises(
        UnknownName,
        match=r"There is no metric 'rouge3'\. Did you mean 'rougeL'\? Also near: .* `grue metrics list` lists",
    ):
        make_metric("rouge3")


def test_unknown_option():
    with pytest.raises(ConfigError) as error:
        make_metric("cider", tokeniser="words")
    assert str(error.value) == (
        "The metric 'cider' has no option 'tokeniser'. Did you mean 'tokenizer'? Known: tokenizer."
    )
    with pytest.raises(ConfigError, match=r"The metric 'meteor' has no option 'name'\. It has none\."):
        make_metric("meteor", **{"name": 1})


def test_missing_option():
    with pytest.raises(ConfigError) as error:
        make_metric("perplexity")
    assert str(error.value) == (
        "The metric 'perplexity' needs the option 'model'; set it in the task file's options, or for `grue score` with "
        "--set perplexity.model=VALUE."
    )


def test_option_of_another_type():
    with pytest.raises(ConfigError) as error:
        make_metric("sentiment", model="mini:sentiment", label="positive")
    assert str(error.value) == "The metric 'sentiment': the option 'label' must be a whole number, found 'positive'."


@pytest.mark.parametrize(
    ("name", "option", "value", "wanted"),
    [
        ("perplexity:bounded", "typical", "abc", "a number"),
        ("perplexity:bounded", "typical", True, "a number"),
        ("perplexity:bounded", "typical", None, "a number"),
        ("sentiment", "label", True, "a whole number"),
        ("ter", "case_sensitive", 1, "true or false"),
        ("evaluate:exact_match", "arguments", 5, "a table"),
        ("evaluate:exact_match", "arguments", [["power", 2]], "a table"),
    ],
)
def test_the_type_of_every_option_is_checked_before_the_metric_is_made(name, option, value, wanted):
    with pytest.raises(ConfigError) as error:
        metric_factory(name, {option: value})
    assert str(error.value) == f"The metric {name!r}: the option {option!r} must be {wanted}, found {value!r}."


def test_a_number_may_be_whole_and_a_table_left_out():
    for typical in (20, 2.5):
        assert callable(metric_factory("perplexity:bounded", {"model": "mini:causal", "typical": typical}))
    for arguments in ({}, {"power": 2}, None):
        assert callable(metric_factory("evaluate:exact_match", {"arguments": arguments}))


def test_option_value_nobody_knows():
    with pytest.raises(UnknownName, match=r"There is no tokenizer 'word'\. Did you mean 'words'\?"):
        make_metric("bleu4", tokenizer="word")
    with pytest.raises(ConfigError, match=r"sacrebleu has no tokenizer '13b'\. Did you mean '13a'\?"):
        make_metric("sacrebleu", tokenize="13b")

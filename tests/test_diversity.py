"""The diversity set against counting by hand and slow loops."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from grue.errors import ConfigError
from grue.metrics.base import DIVERSITY, make_metric
from grue.records import Example

CORPUS_ONLY = [name for name in DIVERSITY if name != "mean_length"]


def value(name, texts):
    metric = make_metric(name)
    examples = [Example(str(i), "", ()) for i in range(len(texts))]
    metric.prepare(examples)
    return metric.corpus(metric.statistics(examples, texts))


def bigrams(texts):
    return Counter(pair for text in texts for pair in zip(text.split(), text.split()[1:], strict=False))


def test_by_hand():
    texts = ["A a b", "a c", ""]  # tokens a a b a c; bigrams aa ab ac
    assert value("vocabulary", texts) == 3
    assert value("distinct1", texts) == 3 / 5
    assert value("distinct2", texts) == 1.0
    assert value("unique1", texts) == 2
    assert value("unique2", texts) == 3
    assert value("entropy2", texts) == pytest.approx(math.log2(3))
    assert value("entropy1", texts) == pytest.approx(-(0.6 * math.log2(0.6) + 2 * 0.2 * math.log2(0.2)))
    assert value("mean_length", texts) == pytest.approx(5 / 3)
    assert value("msttr", texts) == 3 / 5


def test_against_loops():
    generator = random.Random(0)
    texts = [" ".join(generator.choice("abcdefghij") for _ in range(generator.randrange(9))) for _ in range(200)]
    counts = bigrams(texts)
    total = sum(counts.values())
    assert value("distinct2", texts) == pytest.approx(len(counts) / total)
    assert value("entropy2", texts) == pytest.approx(-sum(c / total * math.log2(c / total) for c in counts.values()))
    assert value("unique2", texts) == sum(c == 1 for c in counts.values())
    tokens = " ".join(texts).split()
    windows = [tokens[i : i + 100] for i in range(0, len(tokens) - 99, 100)]
    assert len(windows) > 3
    assert value("msttr", texts) == pytest.approx(sum(len(set(w)) / 100 for w in windows) / len(windows))


@pytest.mark.parametrize("name", DIVERSITY)
@pytest.mark.parametrize("texts", [["", ""], []])
def test_nothing_written_is_zero(name, texts):
    if texts or name != "mean_length":
        assert value(name, texts) == 0.0


@pytest.mark.parametrize("name", CORPUS_ONLY)
def test_no_value_for_a_single_text(name):
    metric = make_metric(name)
    statistics = metric.statistics([Example("a", "", ())], ["some words"])
    with pytest.raises(ConfigError) as error:
        metric.per_example(statistics)
    assert str(error.value) == (
        f"{name} describes a whole set of texts and has no value for a single one, so it can be neither a reward nor a "
        "scored metric; give it the axis 'diversity', or take another metric."
    )


def test_rows_of_the_statistics_stand_for_their_texts():
    texts = ["a b c d", "", "a b", "e"]
    metric = make_metric("distinct1")
    statistics = metric.statistics([Example(str(i), "", ()) for i in range(4)], texts)
    assert metric.corpus(statistics[[0, 2]]) == value("distinct1", ["a b c d", "a b"])
    assert metric.corpus(statistics[[2, 2]]) == value("distinct1", ["a b", "a b"])
    assert np.isfinite(statistics).all()

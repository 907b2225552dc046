"""The diversity set against counting by hand and slow loops."""

import math
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from grue.errors import ConfigError
from grue.metrics import diversity
from grue.metrics.registry import CARDS, DIVERSITY, make_metric
from grue.records import Example

CORPUS_ONLY = [name for name in DIVERSITY if name != "mean_length"]


def value(name, texts, **options):
    metric = make_metric(name, **options)
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


def test_a_set_of_metrics_splits_each_text_once(monkeypatch):
    split = []
    monkeypatch.setattr(diversity, "treebank", lambda text: split.append(text) or text.split())
    texts = ["one text of the set", "another of the set"]
    for name in DIVERSITY:
        value(name, texts)
    assert split == texts


def test_texts_of_another_set_are_not_mixed_in():
    first, second = ["a a b", "c"], ["b c d e", "a"]
    alone = {name: (value(name, first), value(name, second)) for name in DIVERSITY}
    for name in DIVERSITY:
        metric = make_metric(name)
        of_first, of_second = (metric.statistics([Example("x", "", ())] * 2, texts) for texts in (first, second))
        assert (metric.corpus(of_first), metric.corpus(of_second)) == alone[name]
    assert alone["vocabulary"] == (3, 5)
    assert alone["distinct1"] == (3 / 4, 1.0)


def test_rows_of_the_statistics_stand_for_their_texts():
    texts = ["a b c d", "", "a b", "e"]
    metric = make_metric("distinct1")
    statistics = metric.statistics([Example(str(i), "", ()) for i in range(4)], texts)
    assert metric.corpus(statistics[[0, 2]]) == value("distinct1", ["a b c d", "a b"])
    assert metric.corpus(statistics[[2, 2]]) == value("distinct1", ["a b", "a b"])
    assert np.isfinite(statistics).all()


# --- beyond the set that every result has ----------------------------------------------------------------------------

FAMILY = [name for name, card in CARDS.items() if card.family == "diversity"]


def test_triples_by_hand():
    texts = ["a b a b a", "a b a", "c"]  # triples aba bab aba, aba; pairs ab ba ab ba, ab ba
    assert value("vocabulary2", texts) == 2
    assert value("vocabulary3", texts) == 2
    assert value("unique3", texts) == 1
    assert value("distinct3", texts) == 2 / 4
    assert value("entropy3", texts) == pytest.approx(-(3 / 4 * math.log2(3 / 4) + 1 / 4 * math.log2(1 / 4)))


def test_conditional_entropy_by_hand():
    # After a comes b two times of three, else c; after b and c comes a, always.
    texts = ["a b a c a", "b a b", "a"]  # pairs ab ba ac ca, ba ab
    assert value("conditional_entropy2", texts) == pytest.approx(
        3 / 6 * -(2 / 3 * math.log2(2 / 3) + 1 / 3 * math.log2(1 / 3))
    )
    # Triples aba bac aca, bab: after ba comes c or b, one bit for two of four.
    assert value("conditional_entropy3", texts) == pytest.approx(2 / 4)
    assert value("conditional_entropy2", ["a b c d"]) == 0.0
    assert value("conditional_entropy3", ["a b", "b c"]) == 0.0


def test_conditional_entropy_against_loops():
    generator = random.Random(1)
    texts = [" ".join(generator.choice("abcd") for _ in range(generator.randrange(9))) for _ in range(100)]
    for order in (2, 3):
        grams = Counter(
            tuple(text.split()[i : i + order]) for text in texts for i in range(len(text.split()) - order + 1)
        )
        before = Counter()
        for gram, count in grams.items():
            before[gram[:-1]] += count
        expected = -sum(c / grams.total() * math.log2(c / before[gram[:-1]]) for gram, c in grams.items())
        assert value(f"conditional_entropy{order}", texts) == pytest.approx(expected, abs=1e-9)


def test_lengths_by_hand():
    texts = ["a b c", "", "a b c d e f g", "a, b."]  # 3, 0, 7 and 4 words
    assert value("mean_length", texts) == 3.5
    assert value("median_length", texts) == 3.5
    assert value("min_length", texts) == 0
    assert value("max_length", texts) == 7
    assert value("total_length", texts) == 14
    assert value("std_length", texts) == pytest.approx(math.sqrt((0.25 + 12.25 + 12.25 + 0.25) / 4))


def test_without_punctuation():
    texts = ["Oh, no -- it's him... (a-b)!"]  # oh , no -- it 's him ... ( a-b ) !
    assert value("total_length", texts) == 12
    assert value("total_length", texts, punctuation=False) == 8  # -- and ... are more than one sign
    assert value("vocabulary", [". , ! ?"], punctuation=False) == 0
    assert value("vocabulary2", ["a , b", "a b"], punctuation=False) == 1
    assert value("mean_length", texts, punctuation=False) == 8
    assert value("total_length", ["x -. y", "x ./ y"], punctuation=False) == 6  # signs that are neighbours in ASCII
    assert make_metric("msttr", punctuation=False).signature == "msttr|case:lower|tok:treebank|sentences:rules|punct:no"


def test_words_are_those_of_the_text_as_it_was_written():
    """Sentences begin with capitals, so that a text is split before it is put in lower case."""
    texts = ["It ran. Then it sat.", "it sat ."]  # it ran . then it sat . / it sat .
    assert value("vocabulary", texts) == 5
    assert value("total_length", texts) == 10
    assert value("distinct1", texts) == 5 / 10


@pytest.mark.parametrize("name", FAMILY)
def test_a_value_depends_on_its_rows_alone(name):
    """Not on what was looked at before, nor on other rows."""
    texts = ["a b c a b", "", "c c d", "e"]
    examples = [Example(str(i), "", ()) for i in range(4)]
    metric = make_metric(name)
    first = metric.statistics(examples, texts)
    again = metric.statistics(examples, texts)
    assert metric.corpus(first) == metric.corpus(again) == value(name, texts)
    assert metric.corpus(first[2:]) == value(name, texts[2:])


@pytest.mark.parametrize("name", FAMILY)
def test_nothing_written_is_zero_of_every_kind(name):
    assert value(name, ["", " \n"]) == 0.0


@pytest.mark.parametrize("name", ["distinct2", "msttr", "mean_length"])
def test_one_long_text_takes_no_room_for_the_others(name):
    texts = ["a b"] * 5000 + ["word " * 20_000]
    examples = [Example(str(i), "", ()) for i in range(len(texts))]
    metric = make_metric(name)
    tracemalloc.start()
    metric.corpus(metric.statistics(examples, texts))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * 2**20  # a table of 5,001 rows of the longest text would take 800 MB

"""The diversity set against counting by hand and slow loops."""

import math
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from support.metric_texts import DIVERSITY

from grue.metrics import diversity
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example


def value(name, texts, **options):
    metric = make_metric(name, **options)
    return metric.corpus(metric.statistics([Example("e", "", ())] * len(texts), texts))


BY_HAND = [
    # tokens a a b a c; bigrams aa ab ac
    (["A a b", "a c", ""], {"vocabulary": 3, "distinct1": 3 / 5, "distinct2": 1, "unique1": 2, "unique2": 3, "msttr": 3 / 5,
                            "entropy2": math.log2(3), "entropy1": -(0.6 * math.log2(0.6) + 2 * 0.2 * math.log2(0.2))}),
    # triples aba bab aba, aba; pairs ab ba ab ba, ab ba
    (["a b a b a", "a b a", "c"], {"vocabulary2": 2, "vocabulary3": 2, "unique3": 1, "distinct3": 2 / 4,
                                   "entropy3": -(3 / 4 * math.log2(3 / 4) + 1 / 4 * math.log2(1 / 4))}),
    # pairs ab ba ac ca, ba ab: after a comes b two times of three, else c; after b and c comes a, always.
    # Triples aba bac aca, bab: after ba comes c or b, one bit for two of four.
    (["a b a c a", "b a b", "a"], {"conditional_entropy2": 3 / 6 * -(2 / 3 * math.log2(2 / 3) + 1 / 3 * math.log2(1 / 3)),
                                   "conditional_entropy3": 2 / 4}),
    (["a b", "b c"], {"conditional_entropy2": 0, "conditional_entropy3": 0}),
    # 3, 0, 7 and 4 words
    (["a b c", "", "a b c d e f g", "a, b."], {
        "mean_length": 3.5, "median_length": 3.5, "min_length": 0, "max_length": 7, "total_length": 14,
        "std_length": math.sqrt((0.25 + 12.25 + 12.25 + 0.25) / 4)}),
    # Sentences begin with capitals, so that a text is split before it is put in lower case: it ran . then it sat . twice
    (["It ran. Then it sat.", "it sat ."], {"vocabulary": 5, "total_length": 10, "distinct1": 5 / 10}),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "expected"), BY_HAND)
def test_by_hand(texts, expected):
    assert {name: value(name, texts) for name in expected} == pytest.approx(expected)


def test_against_loops():
    generator = random.Random(0)
    texts = [" ".join(generator.choices("abcdefghij", k=generator.randrange(9))) for _ in range(200)]
    for order in (1, 2, 3):
        grams = Counter(
            tuple(text.split()[i : i + order]) for text in texts for i in range(len(text.split()) - order + 1)
        )
        before, total = Counter(), grams.total()
        for gram, count in grams.items():
            before[gram[:-1]] += count
        assert value(f"distinct{order}", texts) == pytest.approx(len(grams) / total)
        assert value(f"unique{order}", texts) == sum(count == 1 for count in grams.values())
        entropy = -sum(count / total * math.log2(count / total) for count in grams.values())
        assert value(f"entropy{order}", texts) == pytest.approx(entropy)
        if order > 1:
            given = -sum(c / total * math.log2(c / before[gram[:-1]]) for gram, c in grams.items())
            assert value(f"conditional_entropy{order}", texts) == pytest.approx(given, abs=1e-9)
    tokens = " ".join(texts).split()
    windows = [tokens[i : i + 100] for i in range(0, len(tokens) - 99, 100)]
    assert len(windows) > 3
    assert value("msttr", texts) == pytest.approx(sum(len(set(w)) / 100 for w in windows) / len(windows))


def test_without_punctuation():
    texts = ["Oh, no -- it's him... (a-b)!"]  # oh , no -- it 's him ... ( a-b ) !
    assert value("total_length", texts) == 12
    assert value("total_length", texts, punctuation=False) == 8  # -- and ... are more than one sign
    assert value("mean_length", texts, punctuation=False) == 8
    assert value("vocabulary", [". , ! ?"], punctuation=False) == 0
    assert value("vocabulary2", ["a , b", "a b"], punctuation=False) == 1
    assert value("total_length", ["x -. y", "x ./ y"], punctuation=False) == 6  # signs that are neighbours in ASCII
    assert make_metric("msttr", punctuation=False).signature == "msttr|case:lower|tok:treebank|sentences:rules|punct:no"


@pytest.mark.parametrize("name", DIVERSITY)
def test_a_value_depends_on_its_rows_alone(name, refused):
    """Not on what was looked at before, nor on other rows."""
    texts, others = ["a b c a b", "", "c c d", "e"], ["b c d e", "a"]
    metric = make_metric(name)
    first, of_others, again = (metric.statistics([Example("e", "", ())] * len(t), t) for t in (texts, others, texts))
    assert metric.corpus(first) == metric.corpus(again) == value(name, texts)
    assert (metric.corpus(first[2:]), metric.corpus(of_others)) == (value(name, texts[2:]), value(name, others))
    assert metric.corpus(first[[2, 2]]) == value(name, [texts[2]] * 2)
    assert np.isfinite(first).all()
    if name == "msttr":
        with refused(OfCorpusOnly):
            metric.per_example(first)


def test_a_set_of_metrics_splits_each_text_once(monkeypatch):
    split = []
    monkeypatch.setattr(diversity, "treebank", lambda text: split.append(text) or text.split())
    texts = ["one text of the set", "another of the set"]
    for name in DIVERSITY:
        value(name, texts)
    assert split == texts


@pytest.mark.parametrize("name", ["distinct2", "msttr", "mean_length"])
def test_one_long_text_takes_no_room_for_the_others(name):
    texts = ["a b"] * 2000 + ["word " * 20_000]
    tracemalloc.start()
    value(name, texts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 13 * 2**20  # a table of 2,001 rows of the longest text would take 320 MB

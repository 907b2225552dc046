"""The diversity set against slow loops."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from support.metric_texts import DIVERSITY

from grue.metrics import diversity
from grue.metrics.card import CARDS
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example


def value(name, texts, **options):
    metric = make_metric(name, **options)
    return metric.corpus(metric.statistics([Example("e", "", ())] * len(texts), texts))


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
        assert value("vocabulary" if order == 1 else f"vocabulary{order}", texts) == len(grams)
        assert value(f"unique{order}", texts) == sum(count == 1 for count in grams.values())
        entropy = -sum(count / total * math.log2(count / total) for count in grams.values())
        assert value(f"entropy{order}", texts) == pytest.approx(entropy)
        if order > 1:
            given = -sum(c / total * math.log2(c / before[gram[:-1]]) for gram, c in grams.items())
            assert value(f"conditional_entropy{order}", texts) == pytest.approx(given, abs=1e-9)
    lengths = [len(text.split()) for text in texts]
    for name, of in {"mean": np.mean, "median": np.median, "min": min, "max": max, "total": sum, "std": np.std}.items():
        assert value(f"{name}_length", texts) == pytest.approx(of(lengths)), name
    tokens = " ".join(texts).split()
    windows = [tokens[i : i + 100] for i in range(0, len(tokens) - 99, 100)]
    assert len(windows) > 3
    assert value("msttr", texts) == pytest.approx(sum(len(set(w)) / 100 for w in windows) / len(windows))


def test_case_and_punctuation():
    """Sentences begin with capitals, so that a text is split before it is put in lower case."""
    texts = ["It ran. Then it sat.", "it sat ."]  # it ran . then it sat . / it sat .
    assert (value("vocabulary", texts), value("total_length", texts), value("distinct1", texts)) == (5, 10, 5 / 10)
    texts = ["Oh, no -- it's him... (a-b)!"]  # oh , no -- it 's him ... ( a-b ) !
    assert value("total_length", texts) == 12
    assert value("total_length", texts, punctuation=False) == 8  # -- and ... are more than one sign
    assert value("mean_length", texts, punctuation=False) == 8
    assert value("vocabulary", [". , ! ?"], punctuation=False) == 0
    assert value("vocabulary2", ["a , b", "a b"], punctuation=False) == 1
    assert value("total_length", ["x -. y", "x ./ y"], punctuation=False) == 6  # signs that are neighbours in ASCII
    assert make_metric("msttr", punctuation=False).signature == "msttr|case:lower|tok:treebank|sentences:rules|punct:no"


def test_cards_say_which_have_a_value_for_a_single_text():
    found = {name for name in diversity.METRICS if isinstance(make_metric(name), diversity.Diversity)}
    assert found == {name for name in diversity.METRICS if not CARDS[name].single}
    assert found == set(diversity.METRICS) - {"ttr", "mean_length"}


def test_the_type_token_ratio_is_of_each_text():
    metric = make_metric("ttr")
    statistics = metric.statistics([], ["", "so", "So so so, so.", "a b c d"])  # so so so , so .
    assert metric.per_example(statistics).tolist() == [0.0, 1.0, 3 / 6, 1.0]
    assert metric.corpus(statistics[1:3]) == 0.75


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

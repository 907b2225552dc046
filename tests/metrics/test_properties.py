"""What holds for every metric whatever the texts are: bounds, and neither order nor preparing nor other texts matter."""

import random

import numpy as np
import pytest
from support.metric_texts import DIVERSITY, LEXICAL, META, drawn, prepared

from grue.metrics.card import CARDS
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example


def sets(count):
    """Yield sets of two to five examples with a text each; the first has overlap with training, the second has not."""
    draw, (examples, texts) = random.Random(7), drawn(5 * count, seed=8)
    for start in range(0, 5 * count, 5):
        part = slice(start, start + draw.randrange(2, 6))
        yield (
            [
                Example(e.id, "", e.references, {**META, **e.meta, "overlap": place != 1})
                for place, e in enumerate(examples[part])
            ],
            texts[part],
            draw,
        )


def near(expected):
    return pytest.approx(expected, abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("name", [*LEXICAL, *DIVERSITY])
def test_values_are_in_range_and_depend_on_neither_order_nor_what_was_prepared_nor_other_texts(name):
    """But for msttr, whose windows go over the texts in their order, and CIDEr, which weighs by what is prepared."""
    low, high = CARDS[name].range
    of_corpus = not CARDS[name].single
    for examples, texts, draw in sets(15):
        metric = prepared(name, examples)
        statistics = metric.statistics(examples, texts)
        assert (statistics.dtype, statistics.shape[0]) == (np.float64, len(texts))
        corpus, values = metric.corpus(statistics), [] if of_corpus else metric.per_example(statistics).tolist()
        for found in (corpus, *values):
            assert abs(found) < float("inf") and low - 1e-9 <= found <= high + 1e-9
        order = draw.sample(range(len(texts)), len(texts))
        if name != "msttr":
            shuffled = [examples[index] for index in order]
            other = prepared(name, shuffled)
            found = other.statistics(shuffled, [texts[index] for index in order])
            assert other.corpus(found) == near(corpus)
            if values:
                assert other.per_example(found).tolist() == near([values[index] for index in order])
        fresh = (
            metric if name == "cider" else make_metric(name) if draw.random() < 0.5 else prepared(name, examples[1:])
        )
        cut = draw.randrange(1, len(texts))
        halves = [fresh.statistics(examples[part], texts[part]) for part in (slice(cut), slice(cut, None))]
        assert fresh.corpus(np.vstack(halves)) == near(corpus)
        if values:
            assert fresh.per_example(np.vstack(halves)).tolist() == (near(values) if name == "cider" else values)
    if of_corpus:
        with pytest.raises(OfCorpusOnly):
            metric.per_example(statistics)

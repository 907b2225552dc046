"""What holds for every metric whatever the texts are: bounds, a copy is best, neither order nor preparing matters.

The texts are drawn by seeds: words that a text and its references share, and any characters at all, controls, emoji
and lone surrogates among them.
"""

import random

import numpy as np
import pytest
from support.metric_texts import DIVERSITY, LEXICAL, ODD_WORDS, prepared

from grue.metrics.card import CARDS
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example

"""Metrics whose value of a text another reference cannot lower.

It can lower sacreBLEU, whose closest reference may become a longer one; CIDEr, a mean over references; spice_lite,
which wants what all of them say; PARENT's precision and recall, which are those of the reference with the best F1; and
what RL4LMs made of a list of references, one long text.
"""
COMMON = (
    "the The a dog dogs ran running car auto big happily happy isn't 3.5 U.S. well-known . , ! ? ' \" - ( )".split()
)
VALUES = ["the dog", "big car", "3.5", "U.S.", "ran"]


def a_text(draw):
    def a_word():
        kind = draw.random()
        if kind < 0.6:
            return draw.choice(COMMON)
        return draw.choice(ODD_WORDS) if kind < 0.8 else any_characters(draw.randrange(4))

    def any_characters(count):  # every code point, lone surrogates too
        return "".join(chr(draw.randrange(draw.choice((0x80, 0x800, 0x10000, 0x110000)))) for _ in range(count))

    kind = draw.random()
    if kind < 0.1:
        return draw.choice(["", " ", "\n\t", "\u2028"])
    return any_characters(draw.randrange(26)) if kind < 0.3 else " ".join(a_word() for _ in range(draw.randrange(13)))


def text_of(draw, references):
    """Any text, or one that has to do with the references: a copy, a part, the words in another order."""
    words = draw.choice(references).split(" ")
    kind = draw.randrange(5)
    if kind == 2:
        draw.shuffle(words)
    return a_text(draw) if kind > 2 else " ".join(words[draw.randrange(len(words) + 1) if kind == 1 else 0 :])


def an_example(draw, name="e", most=3, overlap=True):
    highlighted = draw.choices(VALUES, k=draw.randrange(1, 4))
    table = [*highlighted, *draw.choices(VALUES, k=draw.randrange(3))]
    facts = {"expected": [[value] for value in highlighted], "wrong": ["a car"], "closed": True}
    meta = {
        "concepts": ["dog", "run", "car"],
        "facts": facts,
        "table": table,
        "highlighted": highlighted,
        "overlap": overlap,
    }
    return Example(name, "", tuple(a_text(draw) for _ in range(draw.randrange(1, most + 1))), meta)


def sets(count):
    """Yield sets of two to five examples with a text each; the first has overlap with training, the second has not."""
    draw = random.Random(7)
    for _ in range(count):
        examples = [an_example(draw, f"e{index}", overlap=index != 1) for index in range(draw.randrange(2, 6))]
        yield examples, [text_of(draw, example.references) for example in examples], draw


def near(expected, tolerance=1e-9):
    return pytest.approx(expected, abs=tolerance, rel=tolerance)


@pytest.mark.parametrize("name", [*LEXICAL, *DIVERSITY])
def test_values_are_in_range_and_depend_on_neither_order_nor_what_was_prepared_nor_other_texts(name):
    """But for msttr, whose windows go over the texts in their order, and CIDEr, which weighs by what is prepared."""
    low, high = CARDS[name].range
    of_corpus = name in DIVERSITY and name != "mean_length"
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

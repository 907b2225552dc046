"""What holds for every metric whatever the texts are: bounds, a copy is best, neither order nor preparing matters.

The texts are drawn by seeds: words that a text and its references share, and any characters at all, controls, emoji
and lone surrogates among them.
"""

import random

import numpy as np
import pytest
from support.metric_texts import DIVERSITY, FREE, LEXICAL, ODD_WORDS, PARENT, PRINTED, prepared

from grue.metrics.card import CARDS
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example

ROUGE = [name for name in LEXICAL if name.startswith("rouge") and not name.endswith(":rl4lms")]
NEVER_LOWERED = [
    *ROUGE,
    *("meteor", "chrf", "chrfpp", "parent", "parent_overlap", "rouge_l_max:rl4lms"),
    *("bleu1", "bleu2", "bleu3", "bleu4"),  # more n-grams count, and the shortest reference gets no longer
    "rouge:rl4lms",  # the first reference alone counts
]
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


def pairs(count, most=3):
    """Yield examples with a text each."""
    draw = random.Random(most)
    for _ in range(count):
        example = an_example(draw, most=most)
        yield example, text_of(draw, example.references), draw


def sets(count):
    """Yield sets of two to five examples with a text each; the first has overlap with training, the second has not."""
    draw = random.Random(7)
    for _ in range(count):
        examples = [an_example(draw, f"e{index}", overlap=index != 1) for index in range(draw.randrange(2, 6))]
        yield examples, [text_of(draw, example.references) for example in examples], draw


def value(metric, example, text):
    return float(metric.per_example(metric.statistics([example], [text]))[0])


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


def test_no_text_is_better_than_a_copy_of_the_only_reference_or_of_what_rl4lms_took_for_it():
    """METEOR's penalty for chunks is smallest, not 0, for a copy; CIDEr's clipped cosines are at most those of a copy."""
    others = [Example("o1", "", ("a big car ran .",)), Example("o2", "", ("happy dogs",))]  # for CIDEr's frequencies
    for example, text, _ in pairs(40, most=1):
        for name in [name for name in LEXICAL if name not in (*PARENT, *FREE)]:
            metric = prepared(name, [example, *others] if name == "cider" else [example])
            sign = 1 if metric.direction == "higher" else -1
            copy = str([*example.references]) if name in PRINTED else example.references[0]
            best = sign * value(metric, example, copy)
            for other in (text, example.references[0]):
                assert best >= sign * value(metric, example, other) - 1e-9, name


def test_a_copy_of_any_reference_is_perfect_and_of_meteor_better_than_other_texts():
    """Or worth nothing, where the metric sees no word, or no pair of words, in it; a short copy may miss n-gram orders."""
    for example, text, draw in pairs(40):
        copy = draw.choice(example.references)
        for name in [*ROUGE, "bleu4", "sacrebleu", "chrf", "chrfpp", "ter", "rouge_l_max:rl4lms"]:
            found = value(prepared(name, [example]), example, copy)
            unseen = not copy.strip() or name.startswith("rouge")
            assert found == (0.0 if name == "ter" else near(CARDS[name].range[1])) or (found == 0.0 and unseen), name
        metric = prepared("meteor", [example])
        assert max(value(metric, example, each) for each in example.references) >= value(metric, example, text) - 1e-9


def test_parent_of_a_copy_of_the_reference_and_of_the_table():
    """A copy need not be best: saying more of the table can win more recall than it loses precision.

    But one of four words or more is precise, and if the reference says all that is highlighted it is perfect. With
    RL4LMs' "<null>" everything is left to the table, whatever people wrote.
    """
    for example, _, draw in pairs(25, most=2):
        words = draw.choices(["dog", "ran", "car", "happily", "."], k=draw.randrange(4, 11))
        short, full = " ".join(words), " ".join([*words, *example.meta["highlighted"]])
        assert value(make_metric("parent_precision"), Example("e", "", (short,), example.meta), short) == near(1)
        for name in PARENT[:-1]:
            meta = {**example.meta, "overlap": name != "parent_nonoverlap"}
            assert value(make_metric(name), Example("e", "", (full,), meta), full) == near(1, 1e-8)  # F1 has 1e-8 below
        table = {"highlighted": ["the dog", "big car"], "table": ["the dog", "big car", "ran"]}
        copied = Example("e", "", example.references, table)
        assert value(make_metric(PARENT[-1]), copied, "the dog big car") == near(1, 1e-8)
    meta = {"table": ["dog", "cat", "big car"], "highlighted": ["dog", "cat"]}
    example, metric = Example("e", "", ("a dog ran home",), meta), make_metric("parent")
    assert value(metric, example, "a dog ran home cat") > value(metric, example, "a dog ran home")


def test_another_reference_never_lowers_the_value():
    """TER's edits it never adds; TER itself counts against the references' mean length."""
    for example, _, draw in pairs(50):
        place = draw.randrange(len(example.references) + 1)
        references = (*example.references[:place], a_text(draw), *example.references[place:])
        more, text = Example("m", "", references, example.meta), text_of(draw, references)
        behind = Example("m", "", (*example.references, *references))
        for name in NEVER_LOWERED:
            metric = make_metric(name)
            found = value(metric, behind if name == "rouge:rl4lms" else more, text)
            assert found >= value(metric, example, text) - 1e-9, name
        metric = make_metric("ter")
        assert metric.statistics([more], [text])[0, 0] <= metric.statistics([example], [text])[0, 0]


@pytest.mark.parametrize(
    ("name", "text", "reference", "another"),
    [
        ("sacrebleu", "a b c d e f g h", "a b c d e f", "r s t u v w x y z"),
        ("cider", "a happy dog", "a happy dog", "big car"),
        ("spice_lite", "A dog barks.", "A dog barks.", "A cat sleeps."),
        ("rouge1:rl4lms", "a dog", "a dog", "big car"),
        ("meteor:rl4lms", "a dog", "a dog", "big car"),
    ],
)
def test_another_reference_can_lower_the_value(name, text, reference, another):
    fewer, more = Example("f", "", (reference,)), Example("m", "", (reference, another))
    metric = prepared(name, [fewer, Example("o", "", ("the cars ran",))])
    assert value(metric, more, text) < value(metric, fewer, text)

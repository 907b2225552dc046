"""TER against edits counted by hand and against sacrebleu."""

import random

import pytest
from sacrebleu.metrics import TER

from grue.metrics.registry import make_metric
from grue.metrics.ter import BAND
from grue.records import Example

LETTERS = list("abcdefgh")


def rates(pairs, **options):
    """TER of each (text, references), half of them prepared."""
    examples = [Example(str(index), "", tuple(references)) for index, (_, references) in enumerate(pairs)]
    metric = make_metric("ter", **options)
    metric.prepare(examples[::2])
    return metric.per_example(metric.statistics(examples, [text for text, _ in pairs])).tolist()


@pytest.mark.parametrize(
    ("text", "reference", "edits"),
    [
        ("a b c d", "a b c d", 0),
        ("a b d", "a b c d", 1),  # c inserted
        ("a b x c d", "a b c d", 1),  # x deleted
        ("a x c d", "a b c d", 1),  # x substituted
        ("x y z", "a b c d", 4),  # three substituted, one inserted
        ("c d a b", "a b c d", 1),  # one block moved
        ("b c d a", "a b c d", 1),
        ("c d a x", "a b c d", 2),  # a block moved, then x substituted
        ("c d a b y", "a b c d", 2),  # a block moved, y deleted
        ("b a d c", "a b c d", 2),  # two words moved
        ("", "a b c d", 4),
        (" \n", "a b c d", 4),
        ("A b C d", "a B c D", 0),
        ("a b c d .", "a b c d", 1),  # signs are words
        ("a b c d.", "a b c d", 1),  # and white space alone tells words apart
        ("a\u2028b\tc\x85d", "a b c d", 0),
    ],
)
def test_edits_by_hand(text, reference, edits):
    assert rates([(text, [reference])]) == [25.0 * edits]


def test_an_empty_reference():
    assert rates([("", [""])]) == [0.0]
    assert rates([("a b", [" "])]) == [100.0]
    assert rates([("a b", ["", "a b"])]) == [0.0]


def test_the_nearest_reference_counts_and_the_mean_length_divides():
    assert rates([("a x", ["a b c d", "a b"])]) == [pytest.approx(100 * 1 / 3)]
    assert rates([("a b c", ["", "a b c", "x y z a b c"])]) == [0.0]


def test_more_edits_than_words():
    assert rates([("a b c d e f", ["a b"])]) == [200.0]


def test_case_can_count():
    pair = [("The Cat sat", ["the cat sat"])]
    assert rates(pair) == [0.0]
    assert rates(pair, case_sensitive=True) == [pytest.approx(200 / 3)]
    assert make_metric("ter").signature != make_metric("ter", case_sensitive=True).signature


def test_a_corpus_is_all_edits_over_all_words():
    examples = [Example("a", "", ("a b c d",)), Example("b", "", ("x y", "x y z w")), Example("c", "", ("p",))]
    metric = make_metric("ter")
    statistics = metric.statistics(examples, ["c d a b", "x y q", "p"])
    assert statistics.tolist() == [[1.0, 4.0], [1.0, 3.0], [0.0, 1.0]]
    assert metric.corpus(statistics) == pytest.approx(100 * 2 / 8)
    assert metric.direction == "lower"


def changed(generator, words):
    """The same words, one block moved and some replaced."""
    start, end = sorted(generator.randrange(len(words) + 1) for _ in range(2))
    block, rest = words[start:end], words[:start] + words[end:]
    place = generator.randrange(len(rest) + 1)
    moved = rest[:place] + block + rest[place:]
    return [generator.choice(LETTERS) if generator.random() < 0.1 else word for word in moved]


def draw(generator, length, vocabulary):
    return [generator.choice(vocabulary) for _ in range(length)]


def short_pairs(generator):
    for _ in range(100):
        references = [draw(generator, generator.randrange(1, 13), LETTERS) for _ in range(generator.randint(1, 3))]
        near = generator.random() < 0.6
        yield (
            (changed(generator, references[0]) if near else draw(generator, generator.randrange(13), LETTERS)),
            references,
        )


def long_pairs(generator):
    """Texts beyond the band: near each other, and without much in common."""
    vocabulary = [f"w{number}" for number in range(30)]
    for _ in range(16):
        reference = draw(generator, generator.randrange(BAND + 1, 40), vocabulary)
        yield changed(generator, reference), [reference]
    for _ in range(6):
        yield draw(generator, generator.randrange(BAND + 1, 35), vocabulary), [draw(generator, 30, vocabulary)]


def unequal_pairs(generator):
    """One text many times as long as the other; what they share lies far from the diagonal."""
    for _ in range(10):
        long, short = draw(generator, generator.randrange(60, 120), LETTERS), draw(generator, 8, LETTERS)
        yield long, [short]
        yield short, [long]
    for _ in range(3):
        reference = draw(generator, 40, [f"w{number}" for number in range(60)])
        yield [f"x{number}" for number in range(45)] + reference, [reference]
        yield reference, [[f"x{number}" for number in range(45)] + reference]


@pytest.mark.parametrize("make", [short_pairs, long_pairs, unequal_pairs])
def test_ter_is_sacrebleus(make):
    pairs = [
        (" ".join(text), [" ".join(reference) for reference in references])
        for text, references in make(random.Random(6))
    ]
    library = TER()
    expected = [library.sentence_score(text, references).score for text, references in pairs]
    assert rates(pairs) == pytest.approx(expected, abs=1e-9)
    examples = [Example(str(index), "", tuple(references)) for index, (_, references) in enumerate(pairs)]
    metric = make_metric("ter")
    columns = [[refs[i] if i < len(refs) else None for _, refs in pairs] for i in range(3)]
    found = metric.corpus(metric.statistics(examples, [text for text, _ in pairs]))
    assert found == pytest.approx(TER().corpus_score([text for text, _ in pairs], columns).score, abs=1e-9)

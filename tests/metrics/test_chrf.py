"""chrF and chrF++ against counting by hand and against sacrebleu."""

import random

import pytest
from sacrebleu.metrics import CHRF

from grue.metrics.registry import make_metric
from grue.records import Example

WORDS = "a the cat cats dog's runs, ran. (so) \"it\" - -- don't größe 東京 😀 ... x,y ,z 3.5 T".split()


def scored(name, text, *references):
    metric = make_metric(name)
    return metric.per_example(metric.statistics([Example("a", "", references)], [text]))[0]


def f2(precisions, recalls):
    """F2 of the means over orders, 0–100."""
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_chrf_by_hand():
    # abc, abd: letters 2 of 3, pairs 1 of 2, triples 0 of 1; neither has an n-gram of four.
    assert scored("chrf", "abc", "abd") == pytest.approx(f2([2 / 3, 1 / 2, 0], [2 / 3, 1 / 2, 0]))
    # Repeated letters count as often as both have them: a in aab and abbb; pairs ab; only the text's lengths differ.
    assert scored("chrf", "aab", "abbb") == pytest.approx(f2([2 / 3, 1 / 2, 0], [2 / 4, 1 / 3, 0]))
    assert scored("chrf", "abcdefgh", "abcdefgh") == pytest.approx(100.0)
    assert scored("chrf", "x", "x") == pytest.approx(100.0)
    assert scored("chrf", "abc", "xyz") == 0.0


def test_white_space_does_not_count_and_case_does():
    assert scored("chrf", "the cat", " t\nhec\u2028at ") == pytest.approx(100.0)
    assert scored("chrf", "ab", "AB") == 0.0


@pytest.mark.parametrize("name", ["chrf", "chrfpp"])
@pytest.mark.parametrize(("text", "reference"), [("", "abc"), (" \n", "abc"), ("abc", ""), ("", "")])
def test_an_empty_side_is_the_worst(name, text, reference):
    assert scored(name, text, reference) == 0.0


def test_chrfpp_by_hand():
    # Letters: a, b and c of a b c and a b d; pairs ab; no triple. Words: 2 of 3; pairs of words: 1 of 2.
    assert scored("chrfpp", "a b c", "a b d") == pytest.approx(
        f2([2 / 3, 1 / 2, 0, 2 / 3, 1 / 2], [2 / 3, 1 / 2, 0, 2 / 3, 1 / 2])
    )


def test_chrfpp_sees_the_sign_as_a_word():
    assert scored("chrfpp", "a cat. ran", "a cat . ran") == pytest.approx(100.0)
    assert scored("chrfpp", "a (cat) ran", "a ( cat ) ran") < 100.0
    assert scored("chrf", "a (cat) ran", "a ( cat ) ran") == pytest.approx(100.0)


def test_the_best_reference_counts():
    alone = scored("chrf", "the cat ran", "the cat runs")
    assert scored("chrf", "the cat ran", "nothing", "the cat runs", "") == alone


@pytest.mark.parametrize(("name", "words"), [("chrf", 0), ("chrfpp", 2)])
def test_chrf_is_sacrebleus(name, words):
    generator = random.Random(7)

    def draw():
        return " ".join(generator.choice(WORDS) for _ in range(generator.randrange(12)))

    examples = [Example(str(index), "", tuple(draw() for _ in range(generator.randint(1, 4)))) for index in range(200)]
    texts = [generator.choice(e.references) if generator.random() < 0.1 else draw() for e in examples]
    metric, library = make_metric(name), CHRF(word_order=words)
    metric.prepare(examples[::2])
    for other in ("chrf", "chrfpp"):  # which share what they count
        make_metric(other).statistics(examples, texts)
        make_metric(other).statistics(examples[:3], texts[:3])
    statistics = metric.statistics(examples, texts)
    expected = [library.sentence_score(text, e.references).score for e, text in zip(examples, texts, strict=True)]
    assert metric.per_example(statistics).tolist() == pytest.approx(expected, abs=1e-9)
    columns = [[e.references[i] if i < len(e.references) else None for e in examples] for i in range(4)]
    assert metric.corpus(statistics) == pytest.approx(
        CHRF(word_order=words).corpus_score(texts, columns).score, abs=1e-9
    )

"""Which of several texts the others agree with most."""

import random
from collections import Counter

import pytest

from grue.lookups.consensus import agreement, most_central


def slow_likeness(one: str, other: str) -> float:
    first, second = (
        Counter(text.split()) + Counter(zip(text.split(), text.split()[1:], strict=False)) for text in (one, other)
    )
    sizes = first.total() + second.total()
    return 2 * (first & second).total() / sizes if sizes else 0.0


def test_agreement_is_the_mean_f1_of_words_and_their_pairs() -> None:
    generator = random.Random(2)
    texts = [" ".join(generator.choices("abcde", k=generator.randint(0, 8))) for _ in range(9)]
    slow = [
        sum(slow_likeness(text, other) for j, other in enumerate(texts) if j != i) / 8 for i, text in enumerate(texts)
    ]
    assert agreement(texts).tolist() == pytest.approx(slow)
    assert most_central(texts) == slow.index(max(slow))


def test_the_text_in_the_middle_is_chosen_and_the_first_of_equals() -> None:
    texts = ["Fish swim.", "The dog ran home.", "The dog ran home from the river.", "A dog came from the river."]
    assert most_central(texts) == 2
    assert most_central(["a b", "A B", "c"]) == 0
    assert most_central(["alone"]) == 0
    assert most_central(["", ""]) == 0

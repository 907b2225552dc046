"""What lookups search and choose by: an index against BM25, the most central text, and sentences aligned."""

import math
import random
from collections import Counter

import pytest

from grue.lookups.alignment import Frames, matched, moved, plain, terms
from grue.lookups.consensus import agreement, most_central
from grue.lookups.retrieval import Index

GENERATOR = random.Random(1)
DOCUMENTS = [[str(int(GENERATOR.random() ** 3 * 60)) for _ in range(GENERATOR.randint(0, 12))] for _ in range(80)]


def bm25(documents, query):
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for term in query:
            having = sum(term in other for other in documents)
            often = document.count(term)
            if having:
                rarity = math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))
                score += rarity * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * len(document) / average))
        scores.append(score)
    return scores


def test_scores_are_those_of_bm25():
    index = Index(DOCUMENTS)
    for number in range(10):
        query = [*DOCUMENTS[number], "unheard of", *DOCUMENTS[number + 1][:2]]
        assert index.scores(query) == pytest.approx(bm25(DOCUMENTS, query), abs=1e-4)


def test_the_nearest_are_the_best_and_of_equals_the_earlier():
    index = Index(iter([["a", "b"], ["c"], ["a", "b"], ["a", "c"], []]))  # read once, so that a stream will do
    assert [number for number, _ in index.nearest(["a", "b"], 3)] == [0, 2, 3]
    assert [number for number, _ in index.nearest(["c"], 2)] == [1, 3]
    (_, first), (_, second) = index.nearest(["b"], 2)
    assert first == second > 0


def test_what_nothing_has_is_as_near_to_all_and_of_no_documents_none_is_near():
    assert Index([["a"], ["b"]]).nearest(["z"], 5) == [(0, 0.0), (1, 0.0)]
    assert Index([["a"], []]).nearest([], 1) == [(0, 0.0)] == Index([[], []]).nearest(["a"], 1)
    assert Index([]).nearest(["a"], 3) == []


def likeness(*texts):
    words = [text.split() for text in texts]
    first, second = (Counter(w) + Counter(zip(w, w[1:], strict=False)) for w in words)
    sizes = first.total() + second.total()
    return 2 * (first & second).total() / sizes if sizes else 0.0


def test_agreement_is_the_mean_f1_of_words_and_their_pairs():
    generator = random.Random(2)
    texts = [" ".join(generator.choices("abcde", k=generator.randint(0, 8))) for _ in range(9)]
    slow = [sum(likeness(one, other) for j, other in enumerate(texts) if j != i) / 8 for i, one in enumerate(texts)]
    assert agreement(texts).tolist() == pytest.approx(slow)
    assert most_central(texts) == slow.index(max(slow))


def test_the_text_in_the_middle_is_chosen_and_the_first_of_equals():
    texts = ["Fish swim.", "The dog ran home.", "The dog ran home from the river.", "A dog came from the river."]
    assert most_central(texts) == 2
    assert [most_central(equal) for equal in (["a b", "A B", "c"], ["alone"], ["", ""])] == [0, 0, 0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("behind the stove", "under an oven"),
        ("She hides a ring", "She hides one watch"),
        ("a bus", "one bus"),
        ("no", "no"),
    ],
)
def test_words_of_a_sentence_are_replaced_by_those_in_their_place(answer, expected):
    said, other = terms("Old Tom hides a ring behind the stove."), terms("Young Ann hides one watch under an oven.")
    match = matched(tuple("_ _ hides a _ behind the _ .".split()), tuple("_ _ hides one _ under an _ .".split()))
    assert plain(moved(terms(answer), said, other, match)) == expected


def test_frames_keep_what_many_texts_have_and_text_is_typeset():
    frames = Frames([["the", "Ring", "is", name] for name in ("mine", "yours", "his", "hers")])
    assert frames.of(("The", "ring", "is", "Mine")) == ("the", "ring", "is", "_")
    assert frames.rarity("mine") > frames.rarity("the") > 0
    assert plain(terms("Tom's ring, worth $1,500, is gone.")) == "Tom's ring, worth $1,500, is gone."

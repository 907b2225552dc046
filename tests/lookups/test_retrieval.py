"""The index against BM25 by slow loops."""

import math
import random
from collections.abc import Sequence

import pytest

from grue.lookups.retrieval import Index

GENERATOR = random.Random(1)
DOCUMENTS = [[str(int(GENERATOR.random() ** 3 * 60)) for _ in range(GENERATOR.randint(0, 12))] for _ in range(80)]


def bm25(documents: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
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


@pytest.mark.parametrize("number", range(10))
def test_scores_are_those_of_bm25(number: int) -> None:
    query = [*DOCUMENTS[number], "unheard of", *DOCUMENTS[number + 1][:2]]
    assert Index(DOCUMENTS).scores(query) == pytest.approx(bm25(DOCUMENTS, query), abs=1e-4)


def test_the_nearest_are_the_best_and_of_equals_the_earlier() -> None:
    index = Index(iter([["a", "b"], ["c"], ["a", "b"], ["a", "c"], []]))  # read once, so that a stream will do
    assert [number for number, _ in index.nearest(["a", "b"], 3)] == [0, 2, 3]
    assert [number for number, _ in index.nearest(["c"], 2)] == [1, 3]
    (_, first), (_, second) = index.nearest(["b"], 2)
    assert first == second > 0


def test_what_nothing_has_is_as_near_to_all() -> None:
    assert Index([["a"], ["b"]]).nearest(["z"], 5) == [(0, 0.0), (1, 0.0)]
    assert Index([["a"], []]).nearest([], 1) == [(0, 0.0)]
    assert Index([[], []]).nearest(["a"], 1) == [(0, 0.0)]


def test_of_no_documents_none_is_near() -> None:
    assert Index([]).nearest(["a"], 3) == []

"""The nearest of many short texts: BM25 over an inverted index.

Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", k1 = 1.2, b = 0.75.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

K1, B = 1.2, 0.75


class Index:
    """A search index of documents as bags of terms; a hundred thousand of them take seconds and little memory.

    Args:
        documents: One sequence of terms each, read once.
    """

    __slots__ = ("count", "ids", "numbers", "starts", "weights")

    def __init__(self, documents: Iterable[Sequence[str]]) -> None:
        self.ids: dict[str, int] = {}
        terms, times, distinct, lengths = array("i"), array("i"), array("i"), array("i")
        for document in documents:
            bag = Counter(document)
            terms.extend(self.ids.setdefault(term, len(self.ids)) for term in bag)
            times.extend(bag.values())
            distinct.append(len(bag))
            lengths.append(len(document))
        self.count = len(lengths)
        of_term = np.frombuffer(terms, np.int32) if terms else np.zeros(0, np.int32)
        order = np.argsort(of_term, kind="stable")
        self.numbers = np.repeat(np.arange(self.count, dtype=np.int32), distinct)[order]
        frequency = np.bincount(of_term, minlength=len(self.ids))
        self.starts = np.concatenate([[0], np.cumsum(frequency)])
        length = np.array(lengths, np.float32)
        average = float(length.mean()) if lengths else 0.0
        crowded = K1 * (1 - B + B * length / max(average, 1.0))
        often = np.array(times, np.float32)[order]
        rarity = np.log1p((self.count - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
        self.weights = np.repeat(rarity, frequency) * often * np.float32(K1 + 1) / (often + crowded[self.numbers])

    def scores(self, query: Sequence[str]) -> NDArray[np.float32]:
        """Return [count] BM25 scores, 0 or more; a term counts as often as the query has it."""
        total = np.zeros(self.count, np.float32)
        for term, times in Counter(query).items():
            number = self.ids.get(term)
            if number is not None:
                place = slice(self.starts[number], self.starts[number + 1])
                total[self.numbers[place]] += times * self.weights[place]
        return total

    def nearest(self, query: Sequence[str], k: int) -> list[tuple[int, float]]:
        """Return the numbers and scores of the `k` best documents, best first; among equals, the earlier one."""
        k = min(k, self.count)
        if not k:
            return []
        scores = self.scores(query)
        least = np.partition(scores, self.count - k)[self.count - k]  # of all candidates, ties included
        candidates = np.flatnonzero(scores >= least)
        order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
        return [(int(number), float(scores[number])) for number in order]

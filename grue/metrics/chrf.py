"""chrF (Popović 2015) and chrF++ (Popović 2017), 0–100: the library sacrebleu counts and computes.

The library's functions for a single segment are private. They are used because a corpus value must follow from
statistics of the examples, and because chrF and chrF++ can then share the counts of characters.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from weakref import WeakValueDictionary

import numpy as np

from grue.metrics.metric import FloatArray, Latest, Prepared, require_references
from grue.records import Direction, Example

ORDER = 6  # longest character n-gram
MOST_PREPARED = 1 << 10  # the character n-grams of a text take a hundred times its own space


Counters = list[Counter[str]]
"""A text's n-grams, by order."""


def compare(text: Counters, reference: Counters) -> list[int]:
    """Return three numbers per order: n-grams of the text, of the reference, and shared."""
    from sacrebleu.metrics.chrf import CHRF  # slow to import, and most metrics do not need it

    return [
        count
        for ours, theirs in zip(text, reference, strict=True)
        for count in CHRF._get_match_statistics(ours, theirs)
    ]


class Letters:
    """Character n-grams of texts compared with those of each of their references."""

    def __init__(self) -> None:
        self.references = Prepared(lambda example: list(map(self._count, example.references)), MOST_PREPARED)
        self.compared = Latest(self._compare)

    def _compare(self, examples: Sequence[Example], texts: Sequence[str]) -> list[list[list[int]]]:
        comparisons = []
        for example, text in zip(examples, texts, strict=True):
            counted = self._count(text)
            comparisons.append([compare(counted, reference) for reference in self.references(example)])
        return comparisons

    @staticmethod
    def _count(text: str) -> Counters:
        from sacrebleu.metrics.helpers import extract_all_char_ngrams

        return extract_all_char_ngrams(text, ORDER)


_LETTERS: WeakValueDictionary[int, Letters] = WeakValueDictionary()  # order → the counts that chrF and chrF++ share


class Chrf:
    """chrF, or chrF++ with words.

    The statistics of an example are three numbers per order, which add up over a corpus: n-grams of the text, of the
    reference, and shared. Of several references, the one with the best score is used.

    Args:
        name: Name of the metric.
        words: Longest word n-gram: 0 for chrF, 2 for chrF++.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, words: int) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self._name = name
        self._library = CHRF(char_order=ORDER, word_order=words)
        self.signature = f"{name}|case:mixed|eff:yes|nc:{ORDER}|nw:{words}|space:no|beta:{CHRF.BETA}|refs:best"
        self._letters = _LETTERS.setdefault(ORDER, Letters())
        self._words = Prepared(lambda example: list(map(self._count_words, example.references)), MOST_PREPARED)

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the references' n-grams in advance."""
        require_references(examples, self._name)
        self._letters.references.prepare(examples)
        self._words.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 3·orders] counts; see the class's docstring."""
        require_references(examples, self._name)
        rows = []
        for example, text, letters in zip(examples, texts, self._letters.compared(examples, texts), strict=True):
            words = self._count_words(text)
            each = zip(letters, self._words(example), strict=True)
            counts = [[*of_letters, *compare(words, reference)] for of_letters, reference in each]
            rows.append(max(counts, key=self._library._compute_f_score))
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3 * self._library.order)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values of the examples."""
        return np.array([self._value(row) for row in statistics], dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value of the summed counts."""
        return self._value(statistics.sum(axis=0))

    def _value(self, row: FloatArray) -> float:
        return float(self._library._compute_f_score(row.tolist()))

    def _count_words(self, text: str) -> Counters:
        from sacrebleu.metrics.helpers import extract_word_ngrams

        words = self._library._remove_punctuation(text) if self._library.word_order else []
        return [extract_word_ngrams(words, order + 1) for order in range(self._library.word_order)]


METRICS = {"chrf": partial(Chrf, "chrf", 0), "chrfpp": partial(Chrf, "chrfpp", 2)}

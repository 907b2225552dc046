"""chrF (Popović 2015) and chrF++ (Popović 2017), 0–100: the library sacrebleu counts and computes.

The library's functions for a single segment are private. They are used because a corpus value must follow from
statistics of the examples, and because chrF and chrF++ can then share the counts of characters.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from weakref import WeakValueDictionary

import numpy as np

from grue.metrics.metric import FloatArray, Latest, Prepared, Summed, require_references
from grue.records import Example

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


def chrf(name: str, words: int) -> Summed:
    """Return chrF, or chrF++ with words.

    The statistics of an example are three numbers per order, which add up over a corpus: n-grams of the text, of the
    reference, and shared. Of several references, the one with the best score is used.

    Args:
        name: Name of the metric.
        words: Longest word n-gram: 0 for chrF, 2 for chrF++.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.helpers import extract_word_ngrams

    library = CHRF(char_order=ORDER, word_order=words)
    letters = _LETTERS.setdefault(ORDER, Letters())

    def count(text: str) -> Counters:
        tokens = library._remove_punctuation(text) if words else []
        return [extract_word_ngrams(tokens, order + 1) for order in range(words)]

    references = Prepared(lambda example: list(map(count, example.references)), MOST_PREPARED)

    def prepare(examples: Sequence[Example]) -> None:
        require_references(examples, name)
        letters.references.prepare(examples)
        references.prepare(examples)

    def statistics(examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        require_references(examples, name)
        rows = []
        for example, text, of_letters in zip(examples, texts, letters.compared(examples, texts), strict=True):
            counted = count(text)
            each = zip(of_letters, references(example), strict=True)
            counts = [[*shared, *compare(counted, reference)] for shared, reference in each]
            rows.append(max(counts, key=library._compute_f_score))
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3 * library.order)

    return Summed(
        f"{name}|case:mixed|eff:yes|nc:{ORDER}|nw:{words}|space:no|beta:{CHRF.BETA}|refs:best",
        statistics,
        lambda row: float(library._compute_f_score(row.tolist())),
        prepare,
    )


METRICS = {"chrf": partial(chrf, "chrf", 0), "chrfpp": partial(chrf, "chrfpp", 2)}

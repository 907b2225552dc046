"""chrF (Popović 2015) and chrF++ (Popović 2017), 0–100: the library sacrebleu counts and computes.

What it does for a single segment is not part of its documented interface, but of the one it gives those who add metrics
(`sacrebleu.metrics.base.Metric`). It is used here because a corpus value must follow from statistics of the examples.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from grue.metrics.card import Card
from grue.metrics.metric import FloatArray, Prepared, references_of
from grue.records import Direction, Example

MOST_PREPARED = 1 << 10  # the character n-grams of a text take a hundred times its own space


class Chrf:
    """chrF, or chrF++ with words.

    The statistics of an example are three numbers per order, which add up over a corpus: n-grams of the text, of the
    reference, and shared. Of several references the one with the best score counts.

    Args:
        name: Name of the metric.
        words: Longest word n-gram: 0 for chrF, 2 for chrF++.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, words: int) -> None:
        from sacrebleu.metrics.chrf import CHRF  # slow to import, and most metrics do not need it

        self._name = name
        self._library = CHRF(word_order=words)
        self.signature = (
            f"{name}|case:mixed|eff:yes|nc:{CHRF.CHAR_ORDER}|nw:{words}|space:no|beta:{CHRF.BETA}|refs:best"
        )
        self._references: Prepared[dict[str, Any]] = Prepared(self._read_references, MOST_PREPARED)

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the references' n-grams in advance."""
        self._references.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 3·orders] counts; see the class's docstring."""
        rows = [
            self._library._compute_segment_statistics(text, self._references(example))
            for example, text in zip(examples, texts, strict=True)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3 * self._library.order)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values of the examples."""
        return np.array([self._value(row) for row in statistics], dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value of the summed counts."""
        return self._value(statistics.sum(axis=0))

    def _value(self, row: FloatArray) -> float:
        return float(self._library._compute_f_score(row.tolist()))

    def _read_references(self, example: Example) -> dict[str, Any]:
        found: dict[str, Any] = self._library._extract_reference_info(references_of(example, self._name))
        return found


CARDS = {
    "chrf": Card(
        partial(Chrf, "chrf", 0),
        family="overlap",
        range=(0, 100),
        definition="chrF2: F-score, recall weighing twice, of character n-grams up to 6, white space left out.",
        source="Popović 2015; sacrebleu 2.6",
    ),
    "chrfpp": Card(
        partial(Chrf, "chrfpp", 2),
        family="overlap",
        range=(0, 100),
        definition="chrF++: chrF2 with word n-grams up to 2 beside the character n-grams.",
        source="Popović 2017; sacrebleu 2.6",
    ),
}

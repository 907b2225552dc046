"""chrF (Popović 2015) and chrF++ (Popović 2017), 0–100: the library sacrebleu counts and computes.

The library's functions for a single segment are private. They are used because a corpus value must follow from
statistics of the examples.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from grue.metrics.metric import FloatArray, Prepared, Summed, require_references
from grue.records import Example

MOST_PREPARED = 1 << 10  # the character n-grams of a text take a hundred times its own space


def chrf(name: str, words: int) -> Summed:
    """Return chrF, or chrF++ with words.

    The statistics of an example are three numbers per order, which add up over a corpus: n-grams of the text, of the
    reference, and shared. Of several references, the one with the best score is used.

    Args:
        name: Name of the metric.
        words: Longest word n-gram: 0 for chrF, 2 for chrF++.
    """
    from sacrebleu.metrics.chrf import CHRF  # slow to import, and most metrics do not need it

    library = CHRF(word_order=words)
    references = Prepared(lambda example: library._extract_reference_info(example.references), MOST_PREPARED)

    def prepare(examples: Sequence[Example]) -> None:
        require_references(examples, name)
        references.prepare(examples)

    def statistics(examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        require_references(examples, name)
        pairs = zip(examples, texts, strict=True)
        rows = [library._compute_segment_statistics(text, references(example)) for example, text in pairs]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3 * library.order)

    return Summed(
        f"{name}|case:mixed|eff:yes|nc:{CHRF.CHAR_ORDER}|nw:{words}|space:no|beta:{CHRF.BETA}|refs:best",
        statistics,
        lambda row: float(library._compute_f_score(row.tolist())),
        prepare,
    )


METRICS = {"chrf": partial(chrf, "chrf", 0), "chrfpp": partial(chrf, "chrfpp", 2)}

"""Minimum Bayes risk: of several answers, the one that the others agree with most.

Source: Eikema and Aziz 2020, "Is MAP Decoding All You Need?", with the answers themselves as the pseudo-references.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from grue.lookups.nearest import terms


def agreement(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return [n] the mean similarity of each text to the other texts, 0 to 1; 0 for a single text.

    Similarity is the F1 of words and word bigrams, with their counts.
    """
    words = [terms(text) for text in texts]
    bags = [Counter([*each, *zip(each, each[1:], strict=False)]) for each in words]
    features = list(dict.fromkeys(feature for bag in bags for feature in bag))
    counts = np.array([[bag[feature] for feature in features] for bag in bags], np.float64)
    shared = np.array([np.minimum(row, counts).sum(1) for row in counts])
    sizes = counts.sum(1)
    likeness = 2 * shared / np.maximum(sizes[:, None] + sizes, 1)
    np.fill_diagonal(likeness, 0)
    means: NDArray[np.float64] = likeness.sum(1) / max(len(texts) - 1, 1)
    return means


def most_central(texts: Sequence[str]) -> int:
    """Return the index of the text that the others agree with most, among equals the first. There is at least one."""
    return int(agreement(texts).argmax())


def central(texts: Sequence[str]) -> str:
    """Return that text itself."""
    return texts[most_central(texts)]

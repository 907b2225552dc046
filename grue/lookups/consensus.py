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
    counts = _counts(texts)
    shared = np.array([np.minimum(row, counts).sum(1) for row in counts])
    sizes = counts.sum(1)
    likeness = 2 * shared / np.maximum(sizes[:, None] + sizes, 1)
    np.fill_diagonal(likeness, 0)
    means: NDArray[np.float64] = likeness.sum(1) / max(len(texts) - 1, 1)
    return means


def most_central(texts: Sequence[str]) -> int:
    """Return the index of the text that the others agree with most, among equals the first. There is at least one."""
    return int(agreement(texts).argmax())


def _counts(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return [n, features] how often each text has each word and each word bigram."""
    bags = [_bag(terms(text)) for text in texts]
    columns = {feature: number for number, feature in enumerate(dict.fromkeys(f for bag in bags for f in bag))}
    counts = np.zeros((len(texts), len(columns)))
    for row, bag in zip(counts, bags, strict=True):
        for feature, times in bag.items():
            row[columns[feature]] = times
    return counts


def _bag(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter([*((word,) for word in words), *zip(words, words[1:], strict=False)])

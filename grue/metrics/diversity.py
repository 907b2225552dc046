"""How varied a system's texts are as a whole, after GEM and NLG-diversity; no references are looked at.

All but `mean_length` have no value for a single text, so they cannot be rewards. All depend on how many texts there
are: compare systems on the same split only. Tokens are lower-case words and signs; n-grams never cross texts.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from grue.errors import ConfigError
from grue.metrics.base import METRICS, Average, FloatArray
from grue.metrics.tokens import words
from grue.records import Direction, Example

WINDOW = 100


class Diversity:
    """A value of all texts together.

    The statistics of a text are the numbers of its tokens, padded with −1; a token has one number within a call of
    `statistics`, so any rows of the array stand for a set of texts.

    Args:
        name: Registered name.
        value: Token numbers [N, longest text] → the value.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, value: Callable[[NDArray[np.int64]], float]) -> None:
        self.name = name
        self.signature = f"{name}|case:lower|tok:words"
        self._value = value

    def prepare(self, examples: Sequence[Example]) -> None:
        """Do nothing: only the texts count."""

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, K] token numbers, K = tokens of the longest text."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(token, len(numbers)) for token in words(text.lower())] for text in texts]
        padded = np.full((len(rows), max(map(len, rows), default=0)), -1.0)
        for row, tokens in zip(padded, rows, strict=True):
            row[: len(tokens)] = tokens
        return padded

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Refuse.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"{self.name} describes a whole set of texts and has no value for a single one, so it can be neither a "
            "reward nor a scored metric; give it the axis 'diversity', or take another metric."
        )

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over all texts."""
        return self._value(statistics.astype(np.int64))


def ngram_counts(numbers: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """Return how often each distinct n-gram occurs; `numbers` is [N, K], padded with −1."""
    if numbers.shape[1] < order:
        return np.zeros(0, dtype=np.int64)
    size = int(numbers.max(initial=0)) + 1
    width = numbers.shape[1] - order + 1
    keys = np.zeros((numbers.shape[0], width), dtype=np.int64)
    for start in range(order):
        keys = keys * size + numbers[:, start : start + width]
    complete = numbers[:, order - 1 :] >= 0  # padding is on the right: the last token decides
    return np.unique(keys[complete], return_counts=True)[1]


def distinct(order: int, numbers: NDArray[np.int64]) -> float:
    """Return distinct n-grams per n-gram, 0–1; 0 where there is none."""
    counts = ngram_counts(numbers, order)
    return len(counts) / int(counts.sum()) if len(counts) else 0.0


def entropy(order: int, numbers: NDArray[np.int64]) -> float:
    """Return the Shannon entropy of the n-gram distribution, in bits; 0 where there is none."""
    counts = ngram_counts(numbers, order)
    shares = counts / counts.sum()
    return abs(float((shares * np.log2(shares)).sum()))


def unique(order: int, numbers: NDArray[np.int64]) -> float:
    """Return the number of n-grams that occur once in all texts."""
    return float((ngram_counts(numbers, order) == 1).sum())


def vocabulary(numbers: NDArray[np.int64]) -> float:
    """Return the number of distinct tokens."""
    return float(len(ngram_counts(numbers, 1)))


def msttr(numbers: NDArray[np.int64]) -> float:
    """Return the mean share of distinct tokens in successive windows of 100 tokens, 0–1.

    The texts are joined in order, and a last window that is not full is dropped unless it is the only one.
    """
    tokens = numbers[numbers >= 0]
    full = len(tokens) // WINDOW * WINDOW
    if not full:
        return distinct(1, numbers)
    return float(np.mean([len(np.unique(window)) / WINDOW for window in tokens[:full].reshape(-1, WINDOW)]))


for _order in (1, 2):
    METRICS.register(f"distinct{_order}")(partial(Diversity, f"distinct{_order}", partial(distinct, _order)))
    METRICS.register(f"entropy{_order}")(partial(Diversity, f"entropy{_order}", partial(entropy, _order)))
    METRICS.register(f"unique{_order}")(partial(Diversity, f"unique{_order}", partial(unique, _order)))
METRICS.register("vocabulary")(partial(Diversity, "vocabulary", vocabulary))
METRICS.register("msttr")(partial(Diversity, "msttr", msttr))


@METRICS.register("mean_length")
def mean_length() -> Average:
    """Return the number of tokens of a text."""
    return Average("mean_length|tok:words", lambda examples, texts: [float(len(words(text))) for text in texts])

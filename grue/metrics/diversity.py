"""How varied a system's texts are as a whole, after GEM and NLG-diversity; references are not read.

Only `ttr` and `mean_length` have a value for a single text; the others cannot be rewards, and depend on the number of
texts: compare systems on the same split only. Tokens are lower-case words and signs, as nltk splits them;
with `punctuation = false` single punctuation marks do not count. n-grams never cross texts.
"""

import string
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from grue.metrics.metric import Average, FloatArray, MetricFactory, OfCorpusOnly
from grue.metrics.treebank import treebank
from grue.records import Direction, Example

Tokens = tuple[str, ...]

WINDOW = 100
SIGNS = frozenset(string.punctuation)


class Diversity:
    """A value of all texts together.

    The statistics of a text are one number, the index of its tokens in this object: an array of tokens would be as
    wide as the longest text. Any selection of rows is a set of texts.

    Args:
        name: Registered name.
        value: Token numbers [T], all texts concatenated and a 0 after each → the value.
        punctuation: Whether single punctuation marks count as words.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, value: Callable[[NDArray[np.int64]], float], punctuation: bool = True) -> None:
        self.name = name
        self.signature = _signature(name, punctuation)
        self._value = value
        self._punctuation = punctuation
        self._texts: list[Tokens] = []

    def prepare(self, examples: Sequence[Example]) -> None:
        """Do nothing: only the texts count."""

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 1] numbers of the texts, which stay valid."""
        first = len(self._texts)
        self._texts += tokens_of(tuple(texts), self._punctuation)
        return np.arange(first, len(self._texts), dtype=np.float64).reshape(-1, 1)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Refuse: raise OfCorpusOnly."""
        raise OfCorpusOnly(self.name)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over all texts."""
        return self._value(numbered(tuple(self._texts[int(number)] for number in statistics[:, 0])))


# All diversity metrics read the same texts, so these are split and numbered once.


@lru_cache(maxsize=1)
def tokens_of(texts: tuple[str, ...], punctuation: bool) -> tuple[Tokens, ...]:
    """Return the tokens of each text in lower case; without `punctuation` no single punctuation marks."""
    # Lower-cased only after splitting, since capitals mark the start of sentences. Each word is stored once.
    lowered = (tuple(sys.intern(token.lower()) for token in treebank(text)) for text in texts)
    return tuple(
        tokens if punctuation else tuple(token for token in tokens if token not in SIGNS) for tokens in lowered
    )


@lru_cache(maxsize=1)
def numbered(texts: tuple[Tokens, ...]) -> NDArray[np.int64]:
    """Return the texts' tokens as numbers from 1 in the order of their first use, [T], with a 0 after each text."""
    numbers: dict[str, int] = {}
    sequence: list[int] = []
    for text in texts:
        sequence += [numbers.setdefault(token, len(numbers) + 1) for token in text]
        sequence.append(0)
    array = np.array(sequence, dtype=np.int64)
    array.flags.writeable = False  # all metrics of these texts read it
    return array


def ngram_counts(numbers: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """Return how often each distinct n-gram occurs; `numbers` is [T], with a 0 after each text."""
    size = int(numbers.max(initial=0)) + 1
    width = max(0, len(numbers) - order + 1)
    keys = np.zeros(width, dtype=np.int64)
    within = np.ones(width, dtype=np.bool_)  # whether no text ends in it
    for start in range(order):
        tokens = numbers[start : start + width]
        keys = keys * size + tokens
        within &= tokens > 0
    return np.unique(keys[within], return_counts=True)[1]


def distinct(order: int, numbers: NDArray[np.int64]) -> float:
    """Return distinct n-grams per n-gram, 0–1; 0 where there is none."""
    counts = ngram_counts(numbers, order)
    return len(counts) / int(counts.sum()) if len(counts) else 0.0


def entropy(order: int, numbers: NDArray[np.int64]) -> float:
    """Return the Shannon entropy of the n-gram distribution, in bits; 0 where there is none."""
    counts = ngram_counts(numbers, order)
    shares = counts / counts.sum()
    return abs(float((shares * np.log2(shares)).sum()))


def conditional_entropy(order: int, numbers: NDArray[np.int64]) -> float:
    """Return the entropy of an n-gram's last token given those before it, in bits; 0 where there is none.

    The preceding tokens are counted where they begin an n-gram, so that both entropies are over the same positions.
    """
    followed = np.where(numbers[1:] > 0, numbers[:-1], 0)
    return max(0.0, entropy(order, numbers) - entropy(order - 1, followed))


def unique(order: int, numbers: NDArray[np.int64]) -> float:
    """Return the number of n-grams that occur once in all texts."""
    return float((ngram_counts(numbers, order) == 1).sum())


def vocabulary(order: int, numbers: NDArray[np.int64]) -> float:
    """Return the number of distinct n-grams."""
    return float(len(ngram_counts(numbers, order)))


def msttr(numbers: NDArray[np.int64]) -> float:
    """Return the mean share of distinct tokens in successive windows of 100 tokens, 0–1.

    The texts are joined in order, and a last window that is not full is dropped unless it is the only one.
    """
    tokens = numbers[numbers > 0]
    full = len(tokens) // WINDOW * WINDOW
    if not full:
        return distinct(1, numbers)
    return float(np.mean([len(np.unique(window)) / WINDOW for window in tokens[:full].reshape(-1, WINDOW)]))


def lengths(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of tokens of each text; [0] where there is no text."""
    token_counts: NDArray[np.int64] = np.diff(np.flatnonzero(numbers == 0), prepend=-1) - 1
    return token_counts if len(token_counts) else np.zeros(1, dtype=np.int64)


def mean_length(punctuation: bool = True) -> Average:
    """Return the number of tokens of a text; without `punctuation` single punctuation marks do not count."""
    return _each("mean_length", punctuation, lambda tokens: float(len(tokens)))


def ttr(punctuation: bool = True) -> Average:
    """Return the type-token ratio of a text: its distinct tokens per token, 0–1; 0 for a text without any.

    It falls with length, so it compares only texts that have about as many words.
    """
    return _each("ttr", punctuation, lambda tokens: len(set(tokens)) / max(1, len(tokens)))


def _each(name: str, punctuation: bool, value: Callable[[Tokens], float]) -> Average:
    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [value(tokens) for tokens in tokens_of(tuple(texts), punctuation)]

    return Average(_signature(name, punctuation), values)


def _signature(name: str, punctuation: bool) -> str:
    return f"{name}|case:lower|tok:treebank|sentences:rules|punct:{'yes' if punctuation else 'no'}"


_OF_ALL_TEXTS: dict[str, Callable[[NDArray[np.int64]], float]] = {
    "msttr": msttr,
    **{f"distinct{order}": partial(distinct, order) for order in (1, 2, 3)},
    **{f"entropy{order}": partial(entropy, order) for order in (1, 2, 3)},
    **{f"conditional_entropy{order}": partial(conditional_entropy, order) for order in (2, 3)},
    **{f"unique{order}": partial(unique, order) for order in (1, 2, 3)},
    **{f"vocabulary{order if order > 1 else ''}": partial(vocabulary, order) for order in (1, 2, 3)},
    "std_length": lambda numbers: float(np.std(lengths(numbers))),
    "median_length": lambda numbers: float(np.median(lengths(numbers))),
    "min_length": lambda numbers: float(np.min(lengths(numbers))),
    "max_length": lambda numbers: float(np.max(lengths(numbers))),
    "total_length": lambda numbers: float(np.sum(lengths(numbers))),
}

METRICS: dict[str, MetricFactory] = {
    "mean_length": mean_length,
    "ttr": ttr,
    **{name: partial(Diversity, name, value) for name, value in _OF_ALL_TEXTS.items()},
}

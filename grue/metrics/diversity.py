"""How varied a system's texts are as a whole, after GEM and NLG-diversity; references are not read.

Only `ttr` and `mean_length` have a value for a single text; the others cannot be rewards, and depend on the number of
texts: compare systems on the same split only. Tokens are lower-case words and signs, as nltk splits them;
with `punctuation = false` single punctuation marks do not count. n-grams never cross texts.
"""

import math
import string
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain
from statistics import fmean

import numpy as np

from grue.metrics.metric import Average, FloatArray, MetricFactory, OfCorpusOnly
from grue.metrics.treebank import treebank
from grue.records import Direction, Example

Tokens = tuple[str, ...]
Texts = Sequence[Tokens]

WINDOW = 100
SIGNS = frozenset(string.punctuation)


class Diversity:
    """A value of all texts together.

    The statistics of a text are one number, the index of its tokens in this object: an array of tokens would be as
    wide as the longest text. Any selection of rows is a set of texts.

    Args:
        name: Registered name.
        value: The tokens of all texts → the value.
        punctuation: Whether single punctuation marks count as words.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, value: Callable[[Texts], float], punctuation: bool = True) -> None:
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
        return self._value([self._texts[int(number)] for number in statistics[:, 0]])


@lru_cache(maxsize=1)  # all diversity metrics read the same texts
def tokens_of(texts: tuple[str, ...], punctuation: bool) -> tuple[Tokens, ...]:
    """Return the tokens of each text in lower case; without `punctuation` no single punctuation marks."""
    # Lower-cased only after splitting, since capitals mark the start of sentences. Each word is stored once.
    lowered = (tuple(sys.intern(token.lower()) for token in treebank(text)) for text in texts)
    return tuple(
        tokens if punctuation else tuple(token for token in tokens if token not in SIGNS) for tokens in lowered
    )


def ngrams(order: int, texts: Texts) -> Counter[Tokens]:
    """Return how often each n-gram occurs."""
    return Counter(chain.from_iterable(zip(*(text[i:] for i in range(order)), strict=False) for text in texts))


def distinct(order: int, texts: Texts) -> float:
    """Return distinct n-grams per n-gram, 0–1; 0 where there is none."""
    counts = ngrams(order, texts)
    return len(counts) / counts.total() if counts else 0.0


def entropy(order: int, texts: Texts) -> float:
    """Return the Shannon entropy of the n-gram distribution, in bits; 0 where there is none."""
    return _bits(ngrams(order, texts))


def _bits(counts: Counter[Tokens]) -> float:
    total = counts.total()
    return abs(math.fsum(count / total * math.log2(count / total) for count in counts.values()))


def conditional_entropy(order: int, texts: Texts) -> float:
    """Return the entropy of an n-gram's last token given those before it, in bits; 0 where there is none.

    The preceding tokens are counted where they begin an n-gram, so that both entropies are over the same positions.
    """
    counts, before = ngrams(order, texts), Counter[Tokens]()
    for ngram, count in counts.items():
        before[ngram[:-1]] += count
    return max(0.0, _bits(counts) - _bits(before))


def unique(order: int, texts: Texts) -> float:
    """Return the number of n-grams that occur once in all texts."""
    return float(sum(count == 1 for count in ngrams(order, texts).values()))


def vocabulary(order: int, texts: Texts) -> float:
    """Return the number of distinct n-grams."""
    return float(len(ngrams(order, texts)))


def msttr(texts: Texts) -> float:
    """Return the mean share of distinct tokens in successive windows of 100 tokens, 0–1.

    The texts are joined in order, and a last window that is not full is dropped unless it is the only one.
    """
    tokens = list(chain.from_iterable(texts))
    starts = range(0, len(tokens) - WINDOW + 1, WINDOW)
    return (
        fmean(len(set(tokens[start : start + WINDOW])) / WINDOW for start in starts) if starts else distinct(1, texts)
    )


def of_lengths(value: Callable[[Sequence[int]], float], texts: Texts) -> float:
    """Return a value of the numbers of tokens; of [0] where there is no text."""
    return float(value([len(text) for text in texts] or [0]))


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


_OF_ALL_TEXTS: dict[str, Callable[[Texts], float]] = {
    "msttr": msttr,
    **{f"distinct{order}": partial(distinct, order) for order in (1, 2, 3)},
    **{f"entropy{order}": partial(entropy, order) for order in (1, 2, 3)},
    **{f"conditional_entropy{order}": partial(conditional_entropy, order) for order in (2, 3)},
    **{f"unique{order}": partial(unique, order) for order in (1, 2, 3)},
    **{f"vocabulary{order if order > 1 else ''}": partial(vocabulary, order) for order in (1, 2, 3)},
    "std_length": partial(of_lengths, np.std),
    "median_length": partial(of_lengths, np.median),
    "min_length": partial(of_lengths, min),
    "max_length": partial(of_lengths, max),
    "total_length": partial(of_lengths, sum),
}

METRICS: dict[str, MetricFactory] = {
    "mean_length": mean_length,
    "ttr": ttr,
    **{name: partial(Diversity, name, value) for name, value in _OF_ALL_TEXTS.items()},
}

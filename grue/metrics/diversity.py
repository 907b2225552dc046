"""How varied a system's texts are as a whole, after GEM and NLG-diversity; no references are looked at.

Only `mean_length` has a value for a single text; the others cannot be rewards. All depend on how many texts there are:
compare systems on the same split only. Tokens are lower-case words and signs, as nltk splits them;
with `punctuation = false` those that are a single sign of punctuation do not count. n-grams never cross texts.
"""

import string
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from grue.metrics.metric import METRICS, Average, FloatArray, OfCorpusOnly
from grue.metrics.treebank import treebank
from grue.records import Direction, Example

WINDOW = 100
SIGNS = frozenset(string.punctuation)


class Diversity:
    """A value of all texts together.

    The statistics of a text are one number, under which the object keeps its tokens: an array of tokens would be as
    wide as the longest text. Any rows stand for a set of texts.

    Args:
        name: Registered name.
        value: Token numbers [T], all texts end to end and a 0 behind each → the value.
        punctuation: Whether single signs of punctuation count as words.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, value: Callable[[NDArray[np.int64]], float], punctuation: bool = True) -> None:
        self.name = name
        self.signature = f"{name}|case:lower|tok:treebank|sentences:rules|punct:{'yes' if punctuation else 'no'}"
        self._value = value
        self._punctuation = punctuation
        self._numbers: dict[str, int] = {}
        self._texts: list[NDArray[np.int64]] = []

    def prepare(self, examples: Sequence[Example]) -> None:
        """Do nothing: only the texts count."""

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 1] numbers of the texts, which stay valid."""
        first = len(self._texts)
        for text in texts:
            tokens = tokens_of(text, self._punctuation)
            numbers = [self._numbers.setdefault(token, len(self._numbers) + 1) for token in tokens]
            self._texts.append(np.array([*numbers, 0], dtype=np.int64))
        return np.arange(first, len(self._texts), dtype=np.float64).reshape(-1, 1)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Refuse.

        Raises:
            OfCorpusOnly: Always.
        """
        raise OfCorpusOnly(self.name)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over all texts."""
        texts = [self._texts[int(number)] for number in statistics[:, 0]]
        return self._value(np.concatenate([np.zeros(0, dtype=np.int64), *texts]))


def tokens_of(text: str, punctuation: bool) -> list[str]:
    """Return the tokens of a text in lower case."""
    found = [token.lower() for token in treebank(text)]  # capitals tell where sentences begin
    return found if punctuation else [token for token in found if token not in SIGNS]


def ngram_counts(numbers: NDArray[np.int64], order: int) -> NDArray[np.int64]:
    """Return how often each distinct n-gram occurs; `numbers` is [T], with a 0 behind each text."""
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

    The tokens before it are counted where they begin an n-gram, so that the entropies are of the same positions.
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
    found: NDArray[np.int64] = np.diff(np.flatnonzero(numbers == 0), prepend=-1) - 1
    return found if len(found) else np.zeros(1, dtype=np.int64)


for _order in (1, 2, 3):
    METRICS.register(f"distinct{_order}")(partial(Diversity, f"distinct{_order}", partial(distinct, _order)))
    METRICS.register(f"entropy{_order}")(partial(Diversity, f"entropy{_order}", partial(entropy, _order)))
    METRICS.register(f"unique{_order}")(partial(Diversity, f"unique{_order}", partial(unique, _order)))
    _name = f"vocabulary{_order}" if _order > 1 else "vocabulary"
    METRICS.register(_name)(partial(Diversity, _name, partial(vocabulary, _order)))
for _order in (2, 3):
    _name = f"conditional_entropy{_order}"
    METRICS.register(_name)(partial(Diversity, _name, partial(conditional_entropy, _order)))
METRICS.register("msttr")(partial(Diversity, "msttr", msttr))
METRICS.register("std_length")(partial(Diversity, "std_length", lambda numbers: float(lengths(numbers).std())))
METRICS.register("median_length")(
    partial(Diversity, "median_length", lambda numbers: float(np.median(lengths(numbers))))
)
METRICS.register("min_length")(partial(Diversity, "min_length", lambda numbers: float(lengths(numbers).min())))
METRICS.register("max_length")(partial(Diversity, "max_length", lambda numbers: float(lengths(numbers).max())))
METRICS.register("total_length")(partial(Diversity, "total_length", lambda numbers: float(lengths(numbers).sum())))


@METRICS.register("mean_length")
def mean_length(punctuation: bool = True) -> Average:
    """Return the number of tokens of a text; without `punctuation` single signs of it do not count."""
    signature = f"mean_length|case:lower|tok:treebank|sentences:rules|punct:{'yes' if punctuation else 'no'}"
    return Average(signature, lambda examples, texts: [float(len(tokens_of(text, punctuation))) for text in texts])

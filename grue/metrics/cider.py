"""CIDEr-D (Vedantam et al. 2015) as pycocoevalcap 1.2 computes it, all texts of a call at once.

An n-gram is a number, and a text is a sorted array of its n-grams, each with a weight (count × idf). All references are
concatenated into one such array, where the n-grams of all candidates are looked up together.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from grue.errors import ConfigError
from grue.metrics.metric import Average, FloatArray, references_of
from grue.metrics.tokens import Tokenizer
from grue.metrics.treebank import TOKENIZERS, TokenizerName
from grue.records import Example

IntArray = NDArray[np.int64]

LONGEST = 4
SIGMA = 6.0
CHUNK = 1024  # candidates that are compared at once, which bounds memory

# A key identifies an n-gram of a text: text · 2³⁶ + index of the n-gram among those of its order · 4 + order − 1.
_TEXT, _INDEX = 36, 2
_ORDERS = (1 << _INDEX) - 1
_NGRAMS = (1 << _TEXT) - 1


def cider(tokenizer: TokenizerName = "words") -> Average:
    """Return CIDEr-D on pycocoevalcap's scale: 0–10, a copy of a single reference of four words or more scores 10.

    Document frequencies come from the references of the prepared examples: the evaluated split for a report, the
    training split for a reward. An n-gram that all of them share has weight 0, so that all values are 0 where only one
    example was prepared.

    Args:
        tokenizer: "words" (case and punctuation kept, as in RL4LMs), "treebank" or "whitespace".
    """
    consensus = Consensus(TOKENIZERS[tokenizer])
    signature = f"cider|version:d|n:{LONGEST}|sigma:{SIGMA:g}|case:mixed|tok:{tokenizer}|idf:prepared|refs:mean"
    return Average(signature, consensus.values, consensus.prepare)


Bags = tuple[IntArray, IntArray, IntArray]
"""Keys [L] of the L distinct n-grams of texts, ascending; their counts [L] in their texts; lengths [texts]."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Texts as weighted n-grams; keys and lengths as in `Bags`.

    Attributes:
        weights: [L] count × idf.
        norms: [texts, 4] Euclidean norm of the weights of each order.
    """

    keys: IntArray
    weights: FloatArray
    norms: FloatArray
    lengths: IntArray


class Numbering:
    """The numbers of n-grams: an n-gram is identified by its prefix (an n-gram itself) and its last token.

    Attributes:
        tokens: Token → number.
        longer: For each order from 2 to 4 the numbered pairs (number of the prefix · 2³¹ + last token), ascending.
    """

    def __init__(self) -> None:
        self.tokens: defaultdict[str, int] = defaultdict(count().__next__)
        self.longer: list[IntArray] = []

    def learn(self, texts: Sequence[Sequence[str]]) -> Bags:
        """Number the n-grams of `texts`, before any call of `read`."""
        bags = self._bags(texts, self.tokens.__getitem__, self._learn_longer)
        self.tokens.default_factory = None
        return bags

    def read(self, texts: Sequence[Sequence[str]]) -> Bags:
        """Number the n-grams of `texts`; new ones get the next free numbers, for this call only."""
        new: defaultdict[str, int] = defaultdict(count(len(self.tokens)).__next__)

        def number(token: str) -> int:
            index = self.tokens.get(token)
            return new[token] if index is None else index

        return self._bags(texts, number, self._find_longer)

    def size(self, order: int) -> int:
        """Return how many n-grams of `order` tokens are numbered."""
        return len(self.tokens) if order == 1 else len(self.longer[order - 2])

    def _learn_longer(self, order: int, pairs: IntArray) -> IntArray:
        distinct, numbers = np.unique(pairs, return_inverse=True)
        self.longer.append(distinct)
        return numbers

    def _find_longer(self, order: int, pairs: IntArray) -> IntArray:
        learned = self.longer[order - 2]
        numbers = np.searchsorted(learned, pairs)
        unseen = numbers == len(learned)
        unseen[~unseen] = learned[numbers[~unseen]] != pairs[~unseen]
        numbers[unseen] = len(learned) + np.unique(pairs[unseen], return_inverse=True)[1]
        return numbers

    @staticmethod
    def _bags(
        texts: Sequence[Sequence[str]], number: Callable[[str], int], number_longer: Callable[[int, IntArray], IntArray]
    ) -> Bags:
        lengths = np.array([len(tokens) for tokens in texts], dtype=np.int64)
        tokens = np.array([number(token) for token in chain.from_iterable(texts)], dtype=np.int64)
        text = np.repeat(np.arange(len(texts)), lengths)
        end = np.repeat(np.cumsum(lengths), lengths)
        starts, numbers = np.arange(len(tokens)), tokens
        keys = [text << _TEXT | numbers << _INDEX]
        for order in range(2, LONGEST + 1):
            within = starts + order <= end[starts]
            starts = starts[within]
            numbers = number_longer(order, numbers[within] << 31 | tokens[starts + order - 1])
            keys.append(text[starts] << _TEXT | numbers << _INDEX | order - 1)
        distinct, counts = np.unique(np.concatenate(keys), return_counts=True)
        return distinct, counts, lengths


class Consensus:
    """CIDEr's weights of n-grams, its references as vectors, and the values of texts against them."""

    def __init__(self, tokenize: Tokenizer) -> None:
        self._tokenize = tokenize
        self._numbering = Numbering()
        self._idf: list[FloatArray] = []  # for each order: of its n-grams, and last of an n-gram in no reference
        self._references: Vectors | None = None
        self._rows: dict[tuple[str, ...], range] = {}

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the document frequency of each n-gram, and weight the references."""
        times = Counter(references_of(example, "cider") for example in examples)
        self._rows = dict(zip(times, _consecutive(times), strict=True))
        self._numbering = Numbering()
        bags = self._numbering.learn([self._tokenize(text) for texts in times for text in texts])
        keys = bags[0]
        # An n-gram counts once per example, however many of its references have it.
        example = np.repeat(np.arange(len(times)), [len(texts) for texts in times])[keys >> _TEXT]
        once = np.unique(example << _TEXT | keys & _NGRAMS)
        multiplicity = np.array(list(times.values()), dtype=np.float64)[once >> _TEXT]
        order, index = once & _ORDERS, (once & _NGRAMS) >> _INDEX
        unseen = math.log(len(examples)) if examples else 0.0
        self._idf = []
        for each in range(LONGEST):
            seen_in = np.bincount(index[order == each], multiplicity[order == each], self._numbering.size(each + 1))
            self._idf.append(np.append(unseen - np.log(seen_in), unseen))
        self._references = self._weigh(bags)

    def values(self, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        """Return the mean similarity of each text to its references, times ten; a ConfigError before `prepare`."""
        if self._references is None:
            raise ConfigError("cider weighs n-grams by how rare they are in references: call prepare(examples) first.")
        scores: list[float] = []
        pairs = list(zip(examples, texts, strict=True))
        for start in range(0, len(pairs), CHUNK):
            scores += self._chunk(self._references, *zip(*pairs[start : start + CHUNK], strict=True))
        return scores

    def _chunk(self, prepared: Vectors, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        groups = [references_of(example, "cider") for example in examples]
        if all(group in self._rows for group in groups):
            candidates = self._weigh(self._numbering.read(list(map(self._tokenize, texts))))
            return mean_similarity(candidates, prepared, [self._rows[group] for group in groups])
        both = self._weigh(self._numbering.read(list(map(self._tokenize, (*texts, *chain(*groups))))))
        return mean_similarity(both, both, _consecutive(groups, start=len(texts)))

    def _weigh(self, bags: Bags) -> Vectors:
        keys, counts, lengths = bags
        text, order, index = keys >> _TEXT, keys & _ORDERS, (keys & _NGRAMS) >> _INDEX
        weights = counts.astype(np.float64)
        for each, idf in enumerate(self._idf):
            weights[order == each] *= idf[np.minimum(index[order == each], len(idf) - 1)]
        squares = np.bincount(text * LONGEST + order, weights**2, len(lengths) * LONGEST)
        return Vectors(keys, weights, np.sqrt(squares).reshape(-1, LONGEST), lengths)


def _consecutive(groups: Iterable[Sequence[str]], start: int = 0) -> list[range]:
    """Return the rows of each group of texts when all are laid end to end."""
    rows = []
    for group in groups:
        rows.append(range(start, start + len(group)))
        start += len(group)
    return rows


def mean_similarity(candidates: Vectors, references: Vectors, rows: Sequence[range]) -> list[float]:
    """Return ten times the mean similarity of each of N candidates to its references, which are in its `rows`.

    A similarity is the mean over orders of the clipped cosine, times a Gaussian of the difference in length. Texts
    after the N-th of `candidates` are not read.
    """
    sizes = np.array([len(each) for each in rows])
    candidate = np.repeat(np.arange(len(rows)), sizes)  # [pairs]
    reference = np.array(list(chain.from_iterable(rows)), dtype=np.int64)  # [pairs]
    # Every n-gram of a candidate is compared with every one of its references: [M] = Σ n-grams × references.
    candidate_keys = candidates.keys[: np.searchsorted(candidates.keys, len(rows) << _TEXT)]
    text = candidate_keys >> _TEXT
    repeats = sizes[text]
    entry = np.repeat(np.arange(len(text)), repeats)
    nth = np.arange(len(entry)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    pair = (np.cumsum(sizes) - sizes)[text[entry]] + nth
    keys = reference[pair] << _TEXT | candidate_keys[entry] & _NGRAMS
    place = np.searchsorted(references.keys, keys)
    shared = place < len(references.keys)
    shared[shared] = references.keys[place[shared]] == keys[shared]
    entry, pair, reference_weights = entry[shared], pair[shared], references.weights[place[shared]]
    products = np.bincount(
        pair * LONGEST + (candidate_keys[entry] & _ORDERS),
        np.minimum(candidates.weights[entry], reference_weights) * reference_weights,
        len(candidate) * LONGEST,
    ).reshape(-1, LONGEST)
    norms = candidates.norms[candidate] * references.norms[reference]
    cosines = np.divide(products, norms, out=np.zeros(norms.shape), where=norms > 0)
    # pycocoevalcap counts a text's bigrams and calls it the length.
    bigrams = [np.maximum(lengths - 1, 0) for lengths in (candidates.lengths[candidate], references.lengths[reference])]
    similarities = cosines.mean(axis=1) * np.exp(-((bigrams[0] - bigrams[1]) ** 2) / (2 * SIGMA**2))
    values: list[float] = (10.0 * np.bincount(candidate, similarities, len(rows)) / sizes).tolist()
    return values


METRICS = {"cider": cider}

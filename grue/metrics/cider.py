"""CIDEr-D (Vedantam et al. 2015) as pycocoevalcap 1.2 computes it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from grue.errors import ConfigError
from grue.metrics.bleu import Ngrams, count_ngrams
from grue.metrics.metric import Average, Prepared, references_of
from grue.metrics.tokens import Tokenizer
from grue.metrics.treebank import TOKENIZERS, TokenizerName
from grue.records import Example

LONGEST = 4
SIGMA = 6.0
MOST_PREPARED = 1 << 10  # the n-grams of a reference take a hundred times its own space


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


@dataclass(frozen=True, slots=True)
class Vector:
    """A text as weighted n-grams.

    Attributes:
        weights: N-gram → count × idf.
        norms: Euclidean norm of the weights of each order.
        bigrams: Their number, which pycocoevalcap calls the length.
    """

    weights: Mapping[tuple[str, ...], float]
    norms: list[float]
    bigrams: int


class Consensus:
    """CIDEr's document frequencies, and the values of texts by them."""

    def __init__(self, tokenize: Tokenizer) -> None:
        self._tokenize = tokenize
        self._frequencies: Ngrams = Counter()  # n-gram → number of examples with it in a reference
        self._unseen: float | None = None  # idf of any other

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the document frequency of each n-gram."""
        self._frequencies = Counter()
        for example in examples:
            bags = [count_ngrams(self._tokenize(text), LONGEST) for text in references_of(example, "cider")]
            self._frequencies.update(set().union(*bags))
        self._unseen = math.log(len(examples)) if examples else 0.0
        self._references = Prepared(
            lambda example: [self._read(text) for text in references_of(example, "cider")], MOST_PREPARED
        )

    def values(self, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        """Return the mean similarity of each text to its references, times ten; a ConfigError before `prepare`."""
        if self._unseen is None:
            raise ConfigError("cider weighs n-grams by how rare they are in references: call prepare(examples) first.")
        values = []
        for example, text in zip(examples, texts, strict=True):
            candidate = self._read(text)
            values.append(10.0 * fmean(similarity(candidate, each) for each in self._references(example)))
        return values

    def _read(self, text: str) -> Vector:
        tokens = self._tokenize(text)
        unseen, weights, squares = self._unseen or 0.0, {}, [0.0] * LONGEST
        for ngram, count in count_ngrams(tokens, LONGEST).items():
            weight = count * (unseen - math.log(self._frequencies[ngram] or 1))
            weights[ngram] = weight
            squares[len(ngram) - 1] += weight**2
        return Vector(weights, list(map(math.sqrt, squares)), max(0, len(tokens) - 1))


def similarity(candidate: Vector, reference: Vector) -> float:
    """Return the mean over orders of the clipped cosine, times a Gaussian of the difference in length, 0–1."""
    products = [0.0] * LONGEST
    for ngram, weight in candidate.weights.items():
        other = reference.weights.get(ngram)
        if other is not None:
            products[len(ngram) - 1] += min(weight, other) * other
    norms = [own * other for own, other in zip(candidate.norms, reference.norms, strict=True)]
    cosines = [product / norm if norm else 0.0 for product, norm in zip(products, norms, strict=True)]
    return fmean(cosines) * math.exp(-((candidate.bigrams - reference.bigrams) ** 2) / (2 * SIGMA**2))


METRICS = {"cider": cider}

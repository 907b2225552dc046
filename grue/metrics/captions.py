"""Metrics of short descriptions: CIDEr and the coverage of given concepts."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grue.errors import ConfigError, DataError
from grue.metrics import wordnet
from grue.metrics.base import METRICS, Average, references_of
from grue.metrics.bleu import Ngrams, count_ngrams
from grue.metrics.tokens import TOKENIZERS, Tokenizer, words
from grue.records import Example

LONGEST = 4
SIGMA = 6.0
IRREGULAR = {"shorn": frozenset({"shear"})}  # common forms that WordNet's own lists lack


@dataclass(frozen=True, slots=True)
class Vector:
    """A text as weighted n-grams.

    Attributes:
        weights: n-gram → count × idf.
        norms: Euclidean norm of the weights of each order, 1 to 4.
        bigrams: Number of bigrams, which stands for the text's length.
    """

    weights: dict[tuple[str, ...], float]
    norms: list[float]
    bigrams: int


@METRICS.register("cider")
def cider(tokenizer: str = "words") -> Average:
    """Return CIDEr-D (Vedantam et al. 2015) on pycocoevalcap's scale: 0–10, a copy of a lone reference is 10.

    How rare an n-gram is comes from the references of the prepared examples, and stays the same whatever is scored:
    for a report that is the evaluated split, for a reward the training split.

    Args:
        tokenizer: "words" (case and punctuation kept, as RL4LMs has it) or "whitespace".
    """
    consensus = Consensus(TOKENIZERS[tokenizer])
    signature = f"cider|version:d|n:{LONGEST}|sigma:{SIGMA:g}|case:mixed|tok:{tokenizer}|idf:prepared|refs:mean"
    return Average(signature, consensus.values, consensus.prepare)


class Consensus:
    """CIDEr's weights of n-grams, its references as vectors, and the values of texts against them."""

    def __init__(self, tokenize: Tokenizer) -> None:
        self._tokenize = tokenize
        self._idf: dict[tuple[str, ...], float] = {}
        self._unseen_idf: float | None = None
        self._prepared: dict[tuple[str, ...], list[Vector]] = {}

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count in how many examples' references each n-gram occurs, and weigh the references."""
        counted = {e.references: [self._count(text) for text in references_of(e, "cider")] for e in examples}
        document_frequency = Counter(ngram for e in examples for ngram in set().union(*counted[e.references]))
        self._unseen_idf = math.log(len(examples)) if examples else 0.0
        self._idf = {ngram: self._unseen_idf - math.log(seen) for ngram, seen in document_frequency.items()}
        self._prepared = {texts: [self._weigh(counts) for counts in each] for texts, each in counted.items()}

    def values(self, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        """Return the mean similarity of each text to its references, times ten.

        Raises:
            ConfigError: Nothing was prepared, so that no n-gram has a weight.
        """
        if self._unseen_idf is None:
            raise ConfigError("cider weighs n-grams by how rare they are in references: call prepare(examples) first.")
        return [self._value(example, text) for example, text in zip(examples, texts, strict=True)]

    def _value(self, example: Example, text: str) -> float:
        candidate = self._weigh(self._count(text))
        references = self._prepared.get(example.references) or [
            self._weigh(self._count(reference)) for reference in references_of(example, "cider")
        ]
        return 10.0 * sum(similarity(candidate, reference) for reference in references) / len(references)

    def _count(self, text: str) -> Ngrams:
        return count_ngrams(self._tokenize(text), LONGEST)

    def _weigh(self, counts: Ngrams) -> Vector:
        assert self._unseen_idf is not None
        weights = {ngram: count * self._idf.get(ngram, self._unseen_idf) for ngram, count in counts.items()}
        squares = [0.0] * LONGEST
        for ngram, weight in weights.items():
            squares[len(ngram) - 1] += weight * weight
        bigrams = sum(count for ngram, count in counts.items() if len(ngram) == 2)
        return Vector(weights, [math.sqrt(square) for square in squares], bigrams)


def similarity(candidate: Vector, reference: Vector) -> float:
    """Return the mean over orders of the clipped cosine, times a Gaussian of the difference in length."""
    products = [0.0] * LONGEST
    few, many = sorted((candidate.weights, reference.weights), key=len)
    for ngram in few:
        if ngram in many:
            wanted = reference.weights[ngram]
            products[len(ngram) - 1] += min(candidate.weights[ngram], wanted) * wanted
    cosines = [
        product / (norm * wanted_norm)
        for product, norm, wanted_norm in zip(products, candidate.norms, reference.norms, strict=True)
        if norm and wanted_norm
    ]
    penalty = math.exp(-((candidate.bigrams - reference.bigrams) ** 2) / (2 * SIGMA**2))
    return sum(cosines) * penalty / LONGEST


@METRICS.register("coverage")
def coverage() -> Average:
    """Return the share of an example's concepts that a text uses in any inflection, 0–1.

    A word uses a concept if it is the concept, or if WordNet knows the concept as one of the word's lemmas for any
    part of speech: "leaves" uses both leaf and leave. A hyphenated word also counts by its parts.

    Of the 4,018 human references of CommonGen's development set, 99.9 % of the concepts count as used.
    """

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [covered(concepts_of(example), text) for example, text in zip(examples, texts, strict=True)]

    def prepare(examples: Sequence[Example]) -> None:
        for example in examples:
            concepts_of(example)

    return Average(f"coverage|lemmas:{wordnet.DATA}|pos:any|case:lower|tok:words", values, prepare)


def concepts_of(example: Example) -> frozenset[str]:
    """Return the distinct concepts of an example, in lower case.

    Raises:
        DataError: The example carries none.
    """
    concepts = frozenset(str(concept).lower() for concept in example.meta.get("concepts", ()))
    if not concepts:
        raise DataError(
            f"The example {example.id!r} has no concepts in its meta, which coverage needs; take another metric."
        )
    return concepts


def covered(concepts: frozenset[str], text: str) -> float:
    """Return the share of `concepts` that `text` uses."""
    found = words(text.lower())
    used = {part for word in found for part in (word, *word.split("-"))}
    used.update(*map(lemmas_of, used.copy()))
    return len(concepts & used) / len(concepts)


def lemmas_of(word: str) -> frozenset[str]:
    """Return what a word in lower case can be a form of; a word unknown to WordNet may end in an s of inflection."""
    return IRREGULAR.get(word) or wordnet.lemmas(word) or frozenset([word.removesuffix("s")])

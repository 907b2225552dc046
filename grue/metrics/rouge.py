"""ROUGE (Lin 2004) as the library rouge-score 0.1.2 defines it, with its tokens, Porter stems and tie rules.

Each has two steps: read a text once, then compare a reference with a candidate. Values are F1, 0–1.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Literal

from rapidfuzz.distance import LCSseq
from rouge_score.tokenize import tokenize

from grue.metrics import tokens
from grue.metrics.metric import Average, MetricFactory, best_of_references
from grue.metrics.tokens import sentences

LONGEST_CACHED = 10_000  # characters


def rouge_tokens(text: str, stem: bool) -> tuple[str, ...]:
    """Return lower-case runs of a–z and 0–9, stemmed where longer than three letters unless `stem` is off."""
    # The four types of ROUGE read the same texts; very long ones would take too much memory.
    return _cached(text, stem) if len(text) <= LONGEST_CACHED else _rouge_tokens(text, stem)


def _rouge_tokens(text: str, stem: bool) -> tuple[str, ...]:
    return tuple(tokenize(text, tokens if stem else None))  # the module's cached `stem` replaces the stemmer


_cached = lru_cache(maxsize=1 << 16)(_rouge_tokens)


def f1(overlap: int, candidate_total: int, reference_total: int) -> float:
    """Return the harmonic mean of overlap / candidate_total and overlap / reference_total; 0 without overlap."""
    if not overlap:
        return 0.0
    precision, recall = overlap / candidate_total, overlap / reference_total
    return 2 * precision * recall / (precision + recall)


# --- ROUGE-N: shared n-grams -----------------------------------------------------------------------------------------


def ngrams(order: int, stem: bool) -> Callable[[str], Counter[Any]]:
    """Return a reader of text into the counts of its n-grams of that order; single words for order 1."""

    def read(text: str) -> Counter[Any]:
        words = rouge_tokens(text, stem)
        return Counter(words if order == 1 else zip(*(words[start:] for start in range(order)), strict=False))

    return read


def ngram_f1(reference: Counter[Any], candidate: Counter[Any]) -> float:
    """Compare two texts by the n-grams they share, each counted as often as in the text that has fewer of it."""
    overlap = sum([min(reference[ngram], candidate[ngram]) for ngram in reference.keys() & candidate.keys()])
    return f1(overlap, candidate.total(), reference.total())


# --- ROUGE-L: the longest common subsequence -------------------------------------------------------------------------


def lcs_f1(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """Compare two texts by the length of their longest common subsequence of tokens."""
    return f1(LCSseq.similarity(reference, candidate), len(candidate), len(reference))


# --- ROUGE-Lsum: the union of common subsequences, line by line ------------------------------------------------------


Lines = list[tuple[str, ...]]


def lines(split: str, stem: bool) -> Callable[[str], Lines]:
    r"""Return a reader of text into the tokens of each line, ended by "\n" only, or sentence (`split` "sentences")."""
    parts = sentences if split == "sentences" else partial(str.split, sep="\n")

    def read(text: str) -> Lines:
        return [rouge_tokens(part, stem) for part in parts(text) if part]

    return read


def union_lcs_f1(reference: Lines, candidate: Lines) -> float:
    """Compare two texts by what each reference line shares with any candidate line."""
    if len(reference) == len(candidate) == 1:
        return lcs_f1(reference[0], candidate[0])
    return f1(union_lcs(reference, candidate), sum(map(len, candidate)), sum(map(len, reference)))


def union_lcs(reference: Lines, candidate: Lines) -> int:
    """Count the tokens of each reference line that it shares with any candidate line, none more often than there."""
    others = set(candidate)
    shared_of = {line: set().union(*(lcs_places(line, other) for other in others)) for line in set(reference)}
    shared = Counter(line[place] for line in reference for place in shared_of[line])
    return (shared & Counter(chain.from_iterable(candidate))).total()


def lcs_places(line: Sequence[str], other: Sequence[str]) -> list[int]:
    """Return the places in `line` of its longest common subsequence with `other`; of several, the one of rouge-score.

    Row i of the table of lengths is a number, whose bit j says that the length rises at j (Hyyrö, "Bit-parallel
    LCS-length computation revisited", 2004); a whole table of two lines of 10,000 words would take a gigabyte.
    """
    places_of: dict[str, int] = {}
    for place, word in enumerate(other):
        places_of[word] = places_of.get(word, 0) | 1 << place
    whole = flat = (1 << len(other)) - 1
    rises = [0]
    for word in line:
        common = flat & places_of.get(word, 0)
        flat = ((flat + common) | (flat - common)) & whole
        rises.append(whole ^ flat)
    places, i, j = list[int](), len(line), len(other)
    while i and j:
        up_to = (1 << j) - 1
        if line[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            places.append(i)
        elif (rises[i] & up_to).bit_count() > (rises[i - 1] & up_to).bit_count():
            j -= 1
        else:
            i -= 1
    return places


# --- the metrics -----------------------------------------------------------------------------------------------------


def rouge(name: str, order: int | None, stem: bool = True) -> Average:
    """Return ROUGE-N F1, or ROUGE-L F1 over the whole text, against the best reference, 0–1.

    Args:
        name: Registered name.
        order: N; None for ROUGE-L.
        stem: Whether words of more than three letters are stemmed (Porter).
    """
    details = f"tok:a-z0-9|stem:{'porter' if stem else 'no'}"
    if order is None:
        return best_of_references(name, details, partial(rouge_tokens, stem=stem), lcs_f1)
    return best_of_references(name, details, ngrams(order, stem), ngram_f1)


def rouge_lsum(split: Literal["newline", "sentences"] = "newline", stem: bool = True) -> Average:
    """Return ROUGE-L F1 of the union over lines, 0–1; equal to ROUGE-L where every text is one line.

    Args:
        split: "newline", or "sentences" where a system's texts do not have the references' line ends.
        stem: As for `rouge`.
    """
    details = f"split:{split}|tok:a-z0-9|stem:{'porter' if stem else 'no'}"
    return best_of_references("rougeLsum", details, lines(split, stem), union_lcs_f1)


METRICS: dict[str, MetricFactory] = {
    "rouge1": partial(rouge, "rouge1", 1),
    "rouge2": partial(rouge, "rouge2", 2),
    "rougeL": partial(rouge, "rougeL", None),
    "rougeLsum": rouge_lsum,
    "rougeLmax": partial(rouge, "rougeLmax", None),
}

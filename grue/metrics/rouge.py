"""ROUGE (Lin 2004) as the library rouge-score 0.1.2 defines it, with its tokens, Porter stems and tie rules.

Two steps each: read a text once, then compare a reference with a candidate. Values are F1, 0–1.
"""

from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial

from rouge_score.tokenize import tokenize

from grue.metrics import lcs, tokens
from grue.metrics.tokens import sentences

Ngrams = Counter[tuple[str, ...]]

MOST_REMEMBERED = 10_000  # characters


def rouge_tokens(text: str, stem: bool = True) -> tuple[str, ...]:
    """Return lower-case runs of a–z and 0–9, stemmed where longer than three letters unless `stem` is off."""
    # The four types of ROUGE read the same texts; only very long ones are not worth the memory.
    return _remembered(text, stem) if len(text) <= MOST_REMEMBERED else _rouge_tokens(text, stem)


def _rouge_tokens(text: str, stem: bool) -> tuple[str, ...]:
    return tuple(token for chunk in text.split() for token in _chunk_tokens(chunk, stem))


_remembered = lru_cache(maxsize=1 << 16)(_rouge_tokens)


@lru_cache(maxsize=1 << 17)
def _chunk_tokens(chunk: str, stem: bool) -> tuple[str, ...]:
    """Split a chunk without blanks by the library; its rules look no further."""
    return tuple(tokenize(chunk, tokens if stem else None))  # the module's cached `stem` in the stemmer's place


def f1(overlap: int, candidate_total: int, reference_total: int) -> float:
    """Return the harmonic mean of overlap / candidate_total and overlap / reference_total; 0 without overlap."""
    if not overlap:
        return 0.0
    precision, recall = overlap / candidate_total, overlap / reference_total
    return 2 * precision * recall / (precision + recall)


# --- ROUGE-N: shared n-grams -----------------------------------------------------------------------------------------


def ngrams(order: int, stem: bool = True) -> Callable[[str], Ngrams]:
    """Return a reader of text into counts of its n-grams of that order."""

    def read(text: str) -> Ngrams:
        found = rouge_tokens(text, stem)
        return Counter(zip(*(found[start:] for start in range(order)), strict=False))

    return read


def ngram_f1(reference: Ngrams, candidate: Ngrams) -> float:
    """Compare two texts by the n-grams they share, each counted as often as in the text that has fewer of it."""
    overlap = 0
    for ngram in reference.keys() & candidate.keys():
        overlap += min(reference[ngram], candidate[ngram])
    return f1(overlap, candidate.total(), reference.total()) if overlap else 0.0


# --- ROUGE-L: the longest common subsequence -------------------------------------------------------------------------


def sequence(text: str, stem: bool = True) -> lcs.Tokens:
    """Read a text as one sequence, line ends counting as spaces."""
    return lcs.read(rouge_tokens(text, stem))


def lcs_f1(reference: lcs.Tokens, candidate: lcs.Tokens) -> float:
    """Compare two texts by the length of their longest common subsequence of tokens."""
    overlap = lcs.length(reference, candidate.tokens)
    return f1(overlap, len(candidate.tokens), len(reference.tokens))


# --- ROUGE-Lsum: the union of common subsequences, line by line ------------------------------------------------------


def lines(split: str = "newline", stem: bool = True) -> Callable[[str], list[lcs.Tokens]]:
    r"""Return a reader of text into one sequence a line, ended by "\n" only, or a sentence (`split` "sentences")."""
    parts = sentences if split == "sentences" else partial(str.split, sep="\n")

    def read(text: str) -> list[lcs.Tokens]:
        return [sequence(part, stem) for part in parts(text) if part]

    return read


def union_lcs_f1(reference: list[lcs.Tokens], candidate: list[lcs.Tokens]) -> float:
    """Compare two texts by what each reference line shares with any candidate line, no token counted too often."""
    left_in_reference = Counter(token for line in reference for token in line.tokens)
    left_in_candidate = Counter(token for line in candidate for token in line.tokens)
    hits = 0
    for line in reference:
        union = 0
        for other in candidate:
            union |= lcs.common_positions(line.tokens, other)
        while union:
            lowest = union & -union
            union ^= lowest
            token = line.tokens[lowest.bit_length() - 1]
            if left_in_candidate[token] and left_in_reference[token]:
                hits += 1
                left_in_candidate[token] -= 1
                left_in_reference[token] -= 1
    return f1(hits, sum(len(line.tokens) for line in candidate), sum(len(line.tokens) for line in reference))

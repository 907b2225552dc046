"""ROUGE (Lin 2004) as the library rouge-score 0.1.2 defines it, with its tokens, Porter stems and tie rules.

Two steps each: `read` a text once, then `compare` a reference with a candidate. Values are F1, 0–1. The longest common
subsequence is found with bit masks (one integer a text instead of a table), which is what makes it fast.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rouge_score.tokenize import tokenize

from grue.metrics import tokens

Ngrams = Counter[tuple[str, ...]]


def rouge_tokens(text: str) -> list[str]:
    """Return lower-case runs of a–z and 0–9, stemmed where longer than three letters."""
    found: list[str] = tokenize(text, tokens)  # the module's cached `stem` in the stemmer's place
    return found


def f1(overlap: int, candidate_total: int, reference_total: int) -> float:
    """Return the harmonic mean of overlap / candidate_total and overlap / reference_total; 0 without overlap."""
    if not overlap:
        return 0.0
    precision, recall = overlap / candidate_total, overlap / reference_total
    return 2 * precision * recall / (precision + recall)


# --- ROUGE-N: shared n-grams -----------------------------------------------------------------------------------------


def ngrams(order: int) -> Callable[[str], Ngrams]:
    """Return a reader of text into counts of its n-grams of that order."""

    def read(text: str) -> Ngrams:
        found = rouge_tokens(text)
        return Counter(zip(*(found[start:] for start in range(order)), strict=False))

    return read


def ngram_f1(reference: Ngrams, candidate: Ngrams) -> float:
    """Compare two texts by the n-grams they share, each counted as often as in the text that has fewer of it."""
    few, many = sorted((reference, candidate), key=len)
    overlap = sum(min(count, many[ngram]) for ngram, count in few.items() if ngram in many)
    return f1(overlap, candidate.total(), reference.total())


# --- ROUGE-L: the longest common subsequence -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sequence:
    """A text as tokens; bit i of `positions[token]` is set where token i is that token."""

    tokens: list[str]
    positions: dict[str, int]


def sequence(text: str) -> Sequence:
    """Read a text as one sequence, line ends counting as spaces."""
    found = rouge_tokens(text)
    positions: dict[str, int] = {}
    for index, token in enumerate(found):
        positions[token] = positions.get(token, 0) | 1 << index
    return Sequence(found, positions)


def lcs_f1(reference: Sequence, candidate: Sequence) -> float:
    """Compare two texts by the length of their longest common subsequence of tokens."""
    length = len(reference.tokens)
    row = lcs_rows(reference, candidate.tokens)[-1]
    return f1(length - row.bit_count(), len(candidate.tokens), length)


def lcs_rows(columns: Sequence, rows: list[str]) -> list[int]:
    """Return the table of common subsequences, one integer a row, after Hyyrö (2004).

    Cell [i, j] of the usual table, the best length of the first i of `rows` and the first j of `columns`, is the
    number of zero bits among the low j bits of integer i.
    """
    full = (1 << len(columns.tokens)) - 1
    row = full
    table = [row]
    for token in rows:
        if matches := columns.positions.get(token):
            shared = row & matches
            row = ((row + shared) | (row - shared)) & full
        table.append(row)
    return table


# --- ROUGE-Lsum: the union of common subsequences, line by line ------------------------------------------------------


def lines(text: str) -> list[Sequence]:
    r"""Read a text as one sequence a line; lines end at "\n" only."""
    return [sequence(line) for line in text.split("\n") if line]


def union_lcs_f1(reference: list[Sequence], candidate: list[Sequence]) -> float:
    """Compare two texts by what each reference line shares with any candidate line, no token counted too often."""
    left_in_reference = Counter(token for line in reference for token in line.tokens)
    left_in_candidate = Counter(token for line in candidate for token in line.tokens)
    hits = 0
    for line in reference:
        union = 0
        for other in candidate:
            union |= lcs_positions(line, other)
        for index, token in enumerate(line.tokens):
            if union >> index & 1 and left_in_candidate[token] and left_in_reference[token]:
                hits += 1
                left_in_candidate[token] -= 1
                left_in_reference[token] -= 1
    return f1(hits, sum(len(line.tokens) for line in candidate), sum(len(line.tokens) for line in reference))


def lcs_positions(reference: Sequence, candidate: Sequence) -> int:
    """Return the reference positions of one longest common subsequence, as bits.

    Of several subsequences the choice is rouge-score's: walking back from the end, step left in the candidate only
    where that is strictly better.
    """
    table = lcs_rows(candidate, reference.tokens)
    i, j, found = len(reference.tokens), len(candidate.tokens), 0
    while i and j:
        if reference.tokens[i - 1] == candidate.tokens[j - 1]:
            i, j = i - 1, j - 1
            found |= 1 << i
        elif _length(table[i], j - 1) > _length(table[i - 1], j):
            j -= 1
        else:
            i -= 1
    return found


def _length(row: int, columns: int) -> int:
    return columns - (row & ((1 << columns) - 1)).bit_count()

"""METEOR (Banerjee & Lavie 2005) in nltk's version: alpha 0.9, beta 3, gamma 0.5.

Words are aligned in three stages, exact, then Porter stem, then WordNet synonym, each stage greedy from the end of the
candidate. As in nltk, the last stage looks up the stem, not the word.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from grue.metrics import wordnet
from grue.metrics.metric import Average, best_of_references
from grue.metrics.tokens import stem
from grue.metrics.treebank import treebank

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5


@dataclass(frozen=True, slots=True)
class Words:
    """A text as lower-case words and their stems."""

    words: list[str]
    stems: list[str]


def read(text: str) -> Words:
    """Read a text into words and stems."""
    return from_words(treebank(text))


def from_words(tokens: list[str]) -> Words:
    """Read a text that is already tokenised."""
    lowered = [word.lower() for word in tokens]
    return Words(lowered, stem.each(lowered))


def meteor(reference: Words, candidate: Words) -> float:
    """Return METEOR of a candidate, 0–1; identical texts score a little under 1, texts without a common word 0."""
    match = align(reference, candidate)
    if not match:
        return 0.0
    precision, recall = len(match) / len(candidate.words), len(match) / len(reference.words)
    f_mean = (precision * recall) / (ALPHA * precision + (1 - ALPHA) * recall)
    chunks = sum(1 for index, position in match.items() if match.get(index - 1) != position - 1)
    penalty: float = GAMMA * (chunks / len(match)) ** BETA
    return (1 - penalty) * f_mean


def align(reference: Words, candidate: Words) -> dict[int, int]:
    """Return candidate index → reference index of the aligned words."""
    match: dict[int, int] = {}
    indices = list(range(len(candidate.words)))
    free = _positions(reference.words, range(len(reference.words)))
    indices = _take_equal(candidate.words, indices, free, match)
    if indices:
        free = _positions(reference.stems, sorted(place for places in free.values() for place in places))
        indices = _take_equal(candidate.stems, indices, free, match)
    if indices:
        _take_synonyms(candidate.stems, indices, free, match)
    return match


def _positions(keys: list[str], indices: Iterable[int]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for index in indices:
        places.setdefault(keys[index], []).append(index)
    return places


def _take_equal(keys: list[str], indices: list[int], free: dict[str, list[int]], match: dict[int, int]) -> list[int]:
    """Give each index, from the last, the last free place of the same key; return the indices left over."""
    left = []
    for index in reversed(indices):
        if places := free.get(keys[index]):
            match[index] = places.pop()
        else:
            left.append(index)
    return left[::-1]


def _take_synonyms(stems: list[str], indices: list[int], free: dict[str, list[int]], match: dict[int, int]) -> None:
    """Give each index, from the last, the last free place whose stem is a synonym of its own."""
    free = {key: places for key, places in free.items() if places}
    for index in reversed(indices):
        shared = wordnet.synonyms(stems[index]) & free.keys()
        if shared:
            nearest = max(shared, key=lambda key: free[key][-1])
            match[index] = free[nearest].pop()
            if not free[nearest]:
                del free[nearest]


def meteor_nltk() -> Average:
    """Return METEOR in nltk's version, 0–1."""
    details = f"version:nltk3.10.4|case:lower|tok:treebank|sentences:rules|stem:porter|synonyms:{wordnet.DATA}"
    return best_of_references("meteor", details, read, meteor)


METRICS = {"meteor": meteor_nltk}

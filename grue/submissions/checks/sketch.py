"""How alike two runs' texts are, whatever their case, punctuation, accents and invisible characters.

A text is compared by its character 4-grams. Min-wise hashing (Broder 1997) keeps `SLOTS` numbers of a text: the share
of equal numbers of two texts estimates the Jaccard similarity of their 4-grams, with a standard error of at most .07.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grue.records import Prediction

SLOTS = 48
NEAR = 0.7
"""Similarity from which two texts are near-copies: they differ by about a word in ten."""

_GRAM = 4  # characters
_SEEDS = np.random.default_rng(0).integers(2**63, size=(SLOTS, 2), dtype=np.uint64) | np.uint64(1)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_NO_LETTERS = re.compile(r"[\W_]+")
_FILLERS = re.compile("[\u115f\u1160\u3164\uffa0]")  # letters by their category, but invisible


def bare(text: str) -> str:
    """Return what a reader takes in of a text: NFKC's letters and digits in lower case, a space between words.

    Case, punctuation, accents, format characters and everything that Unicode lets a renderer ignore are dropped.
    """
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", _FILLERS.sub("", text))
        text = "".join(sign for sign in parts if unicodedata.category(sign) not in ("Mn", "Mc", "Me", "Cf"))
    return _NO_LETTERS.sub(" ", text.casefold()).strip()


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A run's texts, for comparing it with other runs.

    Attributes:
        texts: One hash for each example and its bare text, for finding what is equal.
        slots: Example id → its row in `rows`.
        rows: uint32 [examples, SLOTS].
    """

    texts: frozenset[int]
    slots: Mapping[str, int]
    rows: NDArray[np.uint32]


def sketch(predictions: Sequence[Prediction]) -> Sketch:
    """Return the sketch of a run's predictions, in any order."""
    texts = {prediction.id: bare(prediction.text) for prediction in sorted(predictions, key=lambda one: one.id)}
    slots = {name: slot for slot, name in enumerate(texts)}
    return Sketch(frozenset(map(hash, texts.items())), slots, signatures(list(texts.values())))


def equal(one: Sketch, other: Sketch) -> float:
    """Return the share of examples with equal bare texts, 0–1."""
    return len(one.texts & other.texts) / max(len(one.texts), len(other.texts), 1)


def alike(one: Sketch, other: Sketch) -> float:
    """Return the share of examples whose texts are near-copies of each other, 0–1."""
    if one.slots.keys() == other.slots.keys():  # the usual case; both are sorted by id
        pairs = one.rows == other.rows
    else:
        shared = sorted(one.slots.keys() & other.slots.keys())
        pairs = one.rows[[one.slots[k] for k in shared]] == other.rows[[other.slots[k] for k in shared]]
    return float((pairs.mean(1) >= NEAR).sum()) / max(len(one.slots), len(other.slots), 1)


def near(texts: Sequence[str], others: Sequence[Iterable[str]]) -> NDArray[np.bool_]:
    """Return for each bare text whether one of its `others`, bare too, is a near-copy; bool [texts]."""
    flat = [(row, other) for row, group in enumerate(others) for other in group]
    found = np.zeros(len(texts), bool)
    if flat:
        rows = np.array([row for row, _ in flat])
        same = (signatures(texts)[rows] == signatures([other for _, other in flat])).mean(1) >= NEAR
        np.logical_or.at(found, rows, same)
    return found


def signatures(texts: Sequence[str]) -> NDArray[np.uint32]:
    """Return the min-wise hashes of bare texts, uint32 [texts, SLOTS]."""
    if not texts:
        return np.zeros((0, SLOTS), np.uint32)
    padded = [f" {text} ".ljust(_GRAM) for text in texts]
    letters = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    ends = np.cumsum([len(text) for text in padded])
    starts = np.concatenate([[0], ends[:-1]])
    grams = np.zeros(len(letters) - _GRAM + 1, np.uint64)
    for offset in range(_GRAM):
        grams = grams * _BASE + letters[offset : len(grams) + offset]
    inside = np.ones(len(grams), bool)  # no 4-gram spans two texts
    for offset in range(1, _GRAM):
        inside[(ends - offset)[ends - offset < len(grams)]] = False
    grams, firsts = grams[inside], starts - np.arange(len(texts)) * (_GRAM - 1)
    return np.stack(
        [
            np.minimum.reduceat(((grams ^ (grams >> np.uint64(29))) * factor + shift) >> np.uint64(32), firsts)
            for factor, shift in _SEEDS
        ],
        axis=1,
    ).astype(np.uint32)

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
_BAND = 4  # slots, all of which are equal before two texts are compared: in 96 % of near-copies somewhere, or more
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
        texts: Hash of each example and its bare text → hash of the bare text alone, for finding what is equal.
        slots: Example id → its row in `rows`, that of its first draw.
        rows: uint32 [examples, SLOTS].
    """

    texts: Mapping[int, int]
    slots: Mapping[str, int]
    rows: NDArray[np.uint32]


def sketch(predictions: Sequence[Prediction]) -> Sketch:
    """Return the sketch of a run's predictions, in any order.

    Of several draws of an example each has a slot, in the order of their texts, so that another order hides nothing.
    """
    texts, hashes = {}, {}
    for prediction in sorted(predictions, key=lambda one: one.id):
        for number, text in enumerate(sorted(bare(one.text) for one in prediction.draws)):
            texts[f"{prediction.id}\n{number}" if number else prediction.id] = text
            hashes[hash((prediction.id, text))] = hash(text)
    slots = {name: slot for slot, name in enumerate(texts)}
    return Sketch(hashes, slots, signatures(list(texts.values())))


def equal(one: Sketch, other: Sketch) -> float:
    """Return the share of examples with equal bare texts, or of their different draws, 0–1."""
    return len(one.texts.keys() & other.texts.keys()) / max(len(one.texts), len(other.texts), 1)


def anywhere(one: Sketch, other: Sketch) -> float:
    """Return the share of one's distinct bare texts that the other has for whatever example, 0–1."""
    said = set(one.texts.values())
    return len(said & set(other.texts.values())) / max(len(said), 1)


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


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """Many texts, for finding whether others are near-copies of any.

    Attributes:
        rows: uint32 [texts, SLOTS].
        bands: A hash of every `_BAND` slots, each row sorted; uint64 [bands, texts].
        order: The text of each of these hashes; int64 [bands, texts].
    """

    rows: NDArray[np.uint32]
    bands: NDArray[np.uint64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Shelf":
        """Return bare texts, each once."""
        rows = signatures(sorted(set(texts)))
        bands = _bands(rows)
        order = bands.argsort(axis=1)
        return cls(rows, np.take_along_axis(bands, order, axis=1), order)

    def near(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each bare text whether one of these is a near-copy of it; bool [texts]."""
        rows = signatures(texts)
        bands = list(zip(self.bands, self.order, _bands(rows), strict=True))
        spans = [(order, known.searchsorted(own), known.searchsorted(own, "right")) for known, order, own in bands]
        found = np.zeros(len(texts), bool)
        for index, row in enumerate(rows):
            candidates = np.concatenate([order[first[index] : end[index]] for order, first, end in spans])
            found[index] = ((self.rows[candidates] == row).mean(1) >= NEAR).any()
        return found


def _bands(rows: NDArray[np.uint32]) -> NDArray[np.uint64]:
    parts = rows.T.reshape(SLOTS // _BAND, _BAND, len(rows)).astype(np.uint64)
    hashes = np.zeros(parts[:, 0].shape, np.uint64)
    for offset in range(_BAND):
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _BASE + parts[:, offset]
    return hashes


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

"""Translation edit rate (Snover et al. 2006) as the library sacrebleu 2.6 defines it, limits and tie rules included.

A hypothesis is turned into a reference by moving blocks of words, each move one edit, as long as a move lowers the edit
distance; the rest is insertions, deletions and substitutions. Most of the time goes into the distances after a possible
move. They are computed by rapidfuzz, many times faster than the library's search in Python.

The library searches only a band around the diagonal of the edit table, so that it does not always find the optimum for
long and very different texts. Where the band could matter, the distance is computed here in the same band. A move
changes a few rows of the table; those before and after them are computed once for all moves, so that a move costs the
same in a text of twenty thousand words as in one of a hundred.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import add

import numpy as np
from rapidfuzz.distance import Levenshtein

from grue.metrics.metric import FloatArray, Prepared, Summed, references_of
from grue.records import Example

LONGEST_BLOCK = 10
FURTHEST_MOVE = 50
MOST_CANDIDATES = 1000
BAND = 25

INFINITE = 1 << 30


def ter(case_sensitive: bool = False) -> Summed:
    """Return TER in edits per hundred reference words, 0 is best; words are separated by white space.

    The statistics of an example are its edits to the nearest reference and the mean length of its references.

    Args:
        case_sensitive: Whether "The" and "the" differ; sacrebleu's default is that they do not.
    """

    def split(text: str) -> list[str]:
        return (text if case_sensitive else text.lower()).split()

    references_as_words = Prepared(lambda example: list(map(split, references_of(example, "ter"))))

    def statistics(examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        rows = []
        for example, text in zip(examples, texts, strict=True):
            references, words = references_as_words(example), split(text)
            nearest = min(edits(words, reference) for reference in references)
            rows.append((nearest, sum(map(len, references)) / len(references)))
        return np.array(rows, dtype=np.float64).reshape(len(rows), 2)

    case = "mixed" if case_sensitive else "lower"
    signature = f"ter|case:{case}|tok:tercom|norm:no|punct:yes|refs:nearest|reflen:mean"
    return Summed(signature, statistics, _rate, references_as_words.prepare, direction="lower")


def _rate(row: FloatArray) -> float:
    edited, length = row
    if not length:
        return 100.0 if edited else 0.0
    return float(100.0 * edited / length)


def edits(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """Return how many edits, moves of blocks among them, turn `hypothesis` into `reference`."""
    numbers: dict[str, int] = {}
    # One letter per word: string slices move blocks fast, and rapidfuzz reads strings without conversion.
    words, reference_words = (
        "".join(chr(numbers.setdefault(word, len(numbers))) for word in text) for text in (hypothesis, reference)
    )
    if not reference_words:
        return len(words)
    moves = candidates = 0
    while True:
        band = Band(words, reference_words)
        best, tried = best_move(band)
        candidates += tried
        if best is None or candidates >= MOST_CANDIDATES:
            return moves + band.distance
        words = best
        moves += 1


def best_move(band: "Band") -> tuple[str | None, int]:
    """Return the words after the move that saves most, or None if none saves anything, and how many moves were tried.

    Of equal moves the longest block wins, then the leftmost start, then the leftmost target.
    """
    from sacrebleu.metrics.lib_ter import trace_to_alignment  # slow to import, and most metrics do not need it

    place_of, unmet, wrong = trace_to_alignment(band.trace())
    best: tuple[int, ...] = (1 - band.distance,)  # a move must save an edit at least
    moved_best: str | None = None
    tried = 0
    for start, place, length in _equal_blocks(band.words, band.reference):
        # The block must be wrong where it is and unmet where it goes, outside of itself.
        if not any(wrong[start : start + length]) or not any(unmet[place : place + length]):
            continue
        if start <= place_of[place] < start + length:
            continue
        for target in dict.fromkeys(place_of.get(index, -1) + 1 for index in range(place - 1, place + length)):
            moved = move(band.words, start, length, target)
            tried += 1
            distance = band.distance_of(moved, min(start, target), max(start, target) + length, -best[0])
            candidate = (-distance, length, -start, -target)
            if candidate > best:
                best, moved_best = candidate, moved
        if tried >= MOST_CANDIDATES:
            break
    return moved_best, tried


def move(words: str, start: int, length: int, target: int) -> str:
    """Return `words` with the block at `start` moved to before `target`; within the block, to as far behind `start`."""
    rest = words[:start] + words[start + length :]
    place = target - length if target > start + length else target
    return rest[:place] + words[start : start + length] + rest[place:]


def _equal_blocks(words: str, reference: str) -> Iterator[tuple[int, int, int]]:
    """Yield (start, reference index, length) of equal blocks that are near each other."""
    for start, word in enumerate(words):
        place = reference.find(word, max(0, start - FURTHEST_MOVE), start + FURTHEST_MOVE + 1)
        while place >= 0:
            for length in range(1, min(LONGEST_BLOCK, len(words) - start, len(reference) - place) + 1):
                if words[start + length - 1] != reference[place + length - 1]:
                    break
                yield start, place, length
            place = reference.find(word, place + 1, start + FURTHEST_MOVE + 1)


class Band:
    """The edit table of two texts, within the band."""

    def __init__(self, words: str, reference: str) -> None:
        self.words = words
        self.reference = reference
        self._spans = _spans(len(words), len(reference))
        self._before = _rows(words, reference, self._spans)

    @property
    def distance(self) -> int:
        """The distance of the texts."""
        return self._before[-1][-1]

    def trace(self) -> str:
        """Return the best edits as `trace_to_alignment` reads them; ties prefer substituting, deleting, inserting."""
        steps = []
        i, j = len(self.words), len(self.reference)
        while i or j:
            here = self._cell(i, j)
            differs = not (i and j and self.words[i - 1] == self.reference[j - 1])
            if self._cell(i - 1, j - 1) + differs == here:
                steps.append("s" if differs else " ")
                i, j = i - 1, j - 1
            elif self._cell(i - 1, j) + 1 == here:
                steps.append("i")
                i -= 1
            else:
                steps.append("d")
                j -= 1
        return "".join(reversed(steps))

    def _cell(self, i: int, j: int) -> int:
        return self._before[i][j - self._spans[i].start] if i >= 0 and j in self._spans[i] else INFINITE

    def distance_of(self, moved: str, first: int, last: int, cutoff: int) -> int:
        """Return the distance after a move that changes the words from `first` to before `last`.

        A distance above `cutoff` may come back as any number above it.
        """
        whole: int = Levenshtein.distance(moved, self.reference, score_cutoff=cutoff)
        # A best path has at most `reach` insertions, or deletions. Rounding costs one cell, and the band ends one cell
        # earlier on the right; a narrow table lies within it entirely.
        reach = (whole + abs(len(moved) - len(self.reference))) / 2
        if whole > cutoff or len(self.reference) < BAND or reach <= BAND - 2:
            return whole
        row: Sequence[int] = self._before[first]
        last = min(last, len(moved))
        for i in range(first, last):
            row = _row(moved[i], self.reference, self._spans[i], self._spans[i + 1], row)
        distance: int = min(map(add, row, self._behind[last]))
        return distance

    @cached_property
    def _behind(self) -> list["array[int]"]:
        """For each row but the first the distances to the table's last cell: those of the reversed table."""
        width = len(self.reference) + 1
        turned = [range(width - span.stop, width - span.start) for span in self._spans[:0:-1]]
        rows = _rows(self.words[:0:-1], self.reference[::-1], turned)
        return [array("i"), *(row[::-1] for row in reversed(rows))]


def _spans(rows: int, width: int) -> list[range]:
    """Return the columns of the edit table's rows, 0 to `rows`, that lie in the band.

    The first row has all columns; the last row has all to the right, but, like the others, none far to the left.
    """
    slope = width / rows if rows else 1.0
    band = math.ceil(slope / 2 + BAND) if slope / 2 > BAND else BAND
    spans = [range(width + 1)]
    for i in range(1, rows + 1):
        middle = math.floor(i * slope)
        spans.append(range(max(0, middle - band), width + 1 if i == rows else min(width + 1, middle + band)))
    return spans


def _row(word: str, reference: str, span_above: range, span: range, row_above: Sequence[int]) -> list[int]:
    """Return the distances of the cells of a word's row.

    Column j is that of reference[j − 1]. The row before has the columns `span_above` and the distances `row_above`;
    `span`, the columns of this row, begins no further left.
    """
    # The cells above and up to the left of every cell of this row.
    padded = [
        *([INFINITE] if span.start == span_above.start else []),
        *row_above[max(0, span.start - 1 - span_above.start) :],
    ]
    padded += [INFINITE] * (len(span) + 1 - len(padded))
    letters = reference[span.start - 1 : span.stop - 1] if span.start else f"\U0010ffff{reference[: span.stop - 1]}"
    row = []
    left = INFINITE
    for diagonal, up, letter in zip(padded, padded[1:], letters, strict=False):
        left = min(diagonal + (word != letter), up + 1, left + 1)
        row.append(left)
    return row


def _rows(words: str, reference: str, spans: Sequence[range]) -> list["array[int]"]:
    """Return the distances from the table's first cell to the cells of each row."""
    rows = [array("i", spans[0])]
    for word, above, span in zip(words, spans, spans[1:], strict=False):
        rows.append(array("i", _row(word, reference, above, span, rows[-1])))
    return rows


METRICS = {"ter": ter}

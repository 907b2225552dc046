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
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import add

import numpy as np
from rapidfuzz.distance import Levenshtein

from grue.metrics.metric import FloatArray, Prepared, Summed, references_of
from grue.records import Example

LONGEST_BLOCK = 10
FURTHEST_MOVE = 50
MOST_CANDIDATES = 1000
BAND = 25
MOST_BITS = 512  # longer references would take more memory as rows of bits than as a band
MOST_WHOLE = 2000  # for longer references, the rows of the band that a move changes are faster than a whole distance

INFINITE = 1 << 30

_KEEP, _SUBSTITUTE, _DELETE, _INSERT = range(4)


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
        alignment = align(words, reference_words)
        if not alignment.distance:
            return moves
        best, tried = best_move(words, reference_words, alignment)
        candidates += tried
        if best is None or candidates >= MOST_CANDIDATES:
            return moves + alignment.distance
        words = best
        moves += 1


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a hypothesis is edited into a reference.

    Attributes:
        distance: Insertions, deletions and substitutions.
        place: Reference index → index of the hypothesis word that it is aligned with or follows.
        wrong: Running count of hypothesis words that are deleted or substituted, starting with 0.
        unmet: Running count of reference words that are inserted or substituted, starting with 0.
    """

    distance: int
    place: list[int]
    wrong: list[int]
    unmet: list[int]


def align(words: str, reference: str) -> Alignment:
    """Return the best alignment; ties prefer substituting, then deleting, then inserting."""
    distance = Levenshtein.distance(words, reference) if len(reference) <= MOST_BITS else len(words) + len(reference)
    # The paths to the best path's neighbours must lie in the band, too: they decide between equal steps.
    reach = distance + 1 + abs(len(words) - len(reference))
    if len(reference) <= MOST_BITS and _within_band(reach, reference):
        steps = _path(words, reference)
    else:
        distance, steps = _path_in_band(words, reference)
    place, wrong, unmet = [0] * len(reference), [0] * len(words), [0] * len(reference)
    i, j = len(words), len(reference)
    for step in steps:
        if step == _INSERT:
            j -= 1
            place[j], unmet[j] = i - 1, 1
        elif step == _DELETE:
            i -= 1
            wrong[i] = 1
        else:
            i, j = i - 1, j - 1
            place[j] = i
            wrong[i] = unmet[j] = int(step == _SUBSTITUTE)
    return Alignment(distance, place, *(list(accumulate(flags, initial=0)) for flags in (wrong, unmet)))


def best_move(words: str, reference: str, alignment: Alignment) -> tuple[str | None, int]:
    """Return `words` after the move that saves most, or None if none saves anything, and how many moves were tried.

    Of equal moves the longest block wins, then the leftmost start, then the leftmost target.
    """
    best: tuple[int, int, int, int] | None = None
    moved_best = None
    tried = 0
    cutoff = len(words) + len(reference)
    band = Band(words, reference)
    for start, place, length in _blocks(words, reference, alignment):
        for target in _targets(alignment, place, length):
            moved = move(words, start, length, target)
            tried += 1
            distance = _distance(moved, band, min(start, target), max(start, target) + length, cutoff)
            candidate = (-distance, length, -start, -target)
            if best is None or candidate > best:
                best, moved_best, cutoff = candidate, moved, distance
        if tried >= MOST_CANDIDATES:
            break
    if best is None or -best[0] >= alignment.distance:
        return None, tried
    return moved_best, tried


def _blocks(words: str, reference: str, alignment: Alignment) -> Iterator[tuple[int, int, int]]:
    """Yield (start, reference index, length) of equal blocks that are wrong where they are and unmet where they go."""
    places: dict[str, list[int]] = {}
    for index, word in enumerate(reference):
        places.setdefault(word, []).append(index)
    for start, word in enumerate(words):
        if alignment.wrong[min(start + LONGEST_BLOCK, len(words))] == alignment.wrong[start]:
            continue
        occurrences = places.get(word, [])
        near = slice(bisect_left(occurrences, start - FURTHEST_MOVE), bisect_right(occurrences, start + FURTHEST_MOVE))
        for place in occurrences[near]:
            longest = min(LONGEST_BLOCK, len(words) - start, len(reference) - place)
            for length in range(1, longest + 1):
                if words[start + length - 1] != reference[place + length - 1]:
                    break
                wrong = alignment.wrong[start + length] > alignment.wrong[start]
                unmet = alignment.unmet[place + length] > alignment.unmet[place]
                if wrong and unmet and not start <= alignment.place[place] < start + length:
                    yield start, place, length


def _targets(alignment: Alignment, place: int, length: int) -> Iterator[int]:
    """Yield the hypothesis positions before which a block can go that belongs at the reference index `place`."""
    before = -1
    for index in range(place - 1, place + length):
        target = 0 if index < 0 else alignment.place[index] + 1
        if target != before:
            yield target
        before = target


def move(words: str, start: int, length: int, target: int) -> str:
    """Return `words` with the block at `start` moved to before `target`."""
    block, end = words[start : start + length], start + length
    if target < start:
        return words[:target] + block + words[target:start] + words[end:]
    if target > end:
        return words[:start] + words[end:target] + block + words[target:]
    return words[:start] + words[end : target + length] + block + words[target + length :]


def _distance(moved: str, band: "Band", first: int, last: int, cutoff: int) -> int:
    """Return the edit distance within the band after a move that changes the words from `first` to before `last`.

    A distance above `cutoff` may come back as any number above it.
    """
    reference = band.reference
    if len(reference) <= MOST_WHOLE:
        distance: int = Levenshtein.distance(moved, reference, score_cutoff=cutoff)
        # A best path has at most this many insertions, or deletions.
        reach = (distance + abs(len(moved) - len(reference))) / 2
        if distance > cutoff or _within_band(reach, reference):
            return distance
    return band.distance(moved, first, min(last, len(moved)))


def _within_band(reach: float, reference: str) -> bool:
    """Whether paths up to `reach` cells from the straight line between the table's corners stay in the band.

    Rounding costs one cell, and the band ends one cell earlier on the right. A narrow table lies within it entirely.
    """
    return len(reference) < BAND or reach <= BAND - 2


def _path(words: str, reference: str) -> list[int]:
    """Return the steps from the last cell of the whole edit table back to the first, found with bit masks.

    Bit j of a row's `level` is set where cell [i, j + 1] is as far as the one before it on the diagonal, of its `up`
    where it is one further than the cell above (Myers 1999, Hyyrö 2003).
    """
    full = (1 << len(reference)) - 1
    positions: dict[str, int] = {}
    for index, letter in enumerate(reference):
        positions[letter] = positions.get(letter, 0) | 1 << index
    rising, falling = full, 0  # differences along a row
    rows = []
    for word in words:
        match = positions.get(word, 0)
        level = ((((match & rising) + rising) ^ rising) | match | falling) & full
        up = (falling | ~(level | rising)) & full
        down = level & rising
        rows.append((match, level, up))
        up = up << 1 | 1
        rising, falling = (down << 1 | ~(level | up)) & full, up & level
    steps = []
    i, j = len(words), len(reference)
    while i or j:
        match, level, up = rows[i - 1] if i else (0, full, 0)
        bit = 1 << (j - 1) if j else 0
        if match & bit:
            step = _KEEP
        elif bit and not level & bit:
            step = _SUBSTITUTE
        elif not bit or up & bit:
            step = _DELETE
        else:
            step = _INSERT
        steps.append(step)
        i, j = i - (step != _INSERT), j - (step != _DELETE)
    return steps


def _path_in_band(words: str, reference: str) -> tuple[int, list[int]]:
    """Return the edit distance within the band, and the steps from the last cell back to the first."""
    spans = _spans(len(words), len(reference))
    row: Sequence[int] = range(len(reference) + 1)
    table = [bytes([_INSERT]) * (len(reference) + 1)]
    for word, above, span in zip(words, spans, spans[1:], strict=False):
        row, steps = _row(word, reference, above, span, row)
        table.append(bytes(steps))
    path = []
    i, j = len(words), len(reference)
    while i or j:
        path.append(table[i][j - spans[i].start])
        i, j = i - (path[-1] != _INSERT), j - (path[-1] != _DELETE)
    return row[-1], path


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


def _row(
    word: str, reference: str, span_above: range, span: range, row_above: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the distances of the cells of a word's row, and the last step to each.

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
    row, steps = [], []
    left = INFINITE
    for diagonal, up, letter in zip(padded, padded[1:], letters, strict=False):
        if word == letter:
            best, step = diagonal, _KEEP
        else:
            best, step = diagonal + 1, _SUBSTITUTE
        if up + 1 < best:
            best, step = up + 1, _DELETE
        if left + 1 < best:
            best, step = left + 1, _INSERT
        row.append(best)
        steps.append(step)
        left = best
    return row, steps


class Band:
    """The distances within the band of the edit table of a text before a move; those after it follow quickly."""

    def __init__(self, words: str, reference: str) -> None:
        self.words = words
        self.reference = reference

    def distance(self, moved: str, first: int, last: int) -> int:
        """Return the distance of `moved`, which differs from the text only from word `first` to before `last`."""
        row: Sequence[int] = self._before[first]
        for i in range(first, last):
            row, _ = _row(moved[i], self.reference, self._spans[i], self._spans[i + 1], row)
        distance: int = min(map(add, row, self._behind[last]))
        return distance

    @cached_property
    def _spans(self) -> list[range]:
        return _spans(len(self.words), len(self.reference))

    @cached_property
    def _before(self) -> list["array[int]"]:
        """For each row the distances from the table's first cell."""
        return _rows(self.words, self.reference, self._spans)

    @cached_property
    def _behind(self) -> list["array[int]"]:
        """For each row but the first the distances to the table's last cell: those of the reversed table."""
        width = len(self.reference) + 1
        turned = [range(width - span.stop, width - span.start) for span in self._spans[:0:-1]]
        rows = _rows(self.words[:0:-1], self.reference[::-1], turned)
        return [array("i"), *(row[::-1] for row in reversed(rows))]


def _rows(words: str, reference: str, spans: Sequence[range]) -> list["array[int]"]:
    """Return the distances from the table's first cell to the cells of each row."""
    rows = [array("i", spans[0])]
    for word, above, span in zip(words, spans, spans[1:], strict=False):
        rows.append(array("i", _row(word, reference, above, span, rows[-1])[0]))
    return rows


METRICS = {"ter": ter}

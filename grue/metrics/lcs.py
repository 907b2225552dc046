"""Where the longest common subsequence of two texts lies, by bit masks: one integer a row instead of a row of cells.

A row of the standard table, the best lengths of the first i tokens of one text and the first j of the other, becomes
one integer: cell [i, j] is the number of its zero bits among the low j bits (Hyyrö 2004).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

SHORT = 64  # rows that are cheap enough to keep all at once


@dataclass(frozen=True, slots=True)
class IndexedTokens:
    """A text as tokens; bit i of `positions[token]` is set where token i is that token."""

    tokens: Sequence[str]
    positions: dict[str, int]


def read(tokens: Sequence[str]) -> IndexedTokens:
    """Index a text that is already tokenised."""
    positions: dict[str, int] = {}
    for index, token in enumerate(tokens):
        positions[token] = positions.get(token, 0) | 1 << index
    return IndexedTokens(tokens, positions)


def common_positions(rows: Sequence[str], columns: IndexedTokens) -> int:
    """Return the positions in `rows` of one longest common subsequence, as bits.

    Of several subsequences, rouge-score's choice is returned: walking back from the end, step left in the columns only
    where that is strictly better. Rows without a match do not affect the walk and are left out. Of many rows only every
    √n-th is kept and those between are recomputed on the way back, which saves memory on two long texts.
    """
    matching = [index for index, token in enumerate(rows) if token in columns.positions]
    step = max(SHORT, isqrt(len(matching)) + 1)
    matches = [columns.positions[rows[index]] for index in matching]
    above = (1 << len(columns.tokens)) - 1
    blocks = []
    for start in range(0, len(matches), step):
        blocks.append((start, above))
        above = _table(columns, matches[start : start + step], above)[-1] if start + step < len(matches) else 0
    positions, j = 0, len(columns.tokens)
    for start, first in reversed(blocks):
        table = _table(columns, matches[start : start + step], first)
        i = len(table) - 1
        while i and j:
            left = (1 << (j - 1)) - 1
            if matches[start + i - 1] >> (j - 1) & 1:
                i, j = i - 1, j - 1
                positions |= 1 << matching[start + i]
            # Lengths are numbers of zero bits: of j − 1 in this row, and of j in the row above.
            elif (table[i] & left).bit_count() < (table[i - 1] & (left << 1 | 1)).bit_count() - 1:
                j -= 1
            else:
                i -= 1
    return positions


def _table(columns: IndexedTokens, matches: Sequence[int], above: int) -> list[int]:
    """Return the row `above` and then one row for each row's matches."""
    full = (1 << len(columns.tokens)) - 1
    table = [above]
    for match in matches:
        shared = above & match
        above = ((above + shared) | (above - shared)) & full
        table.append(above)
    return table

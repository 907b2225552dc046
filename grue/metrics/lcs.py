"""The longest common subsequence of two texts, found with bit masks: one integer a row instead of a row of cells.

A row of the usual table, the best lengths of the first i tokens of one text and the first j of the other, becomes one
integer: cell [i, j] is the number of its zero bits among the low j bits (Hyyrö 2004).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

SHORT = 64  # rows that are cheap enough to be kept all at once


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as tokens; bit i of `positions[token]` is set where token i is that token."""

    tokens: Sequence[str]
    positions: dict[str, int]


def read(tokens: Sequence[str]) -> Tokens:
    """Read a text that is already split."""
    positions: dict[str, int] = {}
    for index, token in enumerate(tokens):
        positions[token] = positions.get(token, 0) | 1 << index
    return Tokens(tokens, positions)


def length(columns: Tokens, rows: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    full = row = (1 << len(columns.tokens)) - 1
    positions = columns.positions
    for token in rows:
        if token in positions:
            shared = row & positions[token]
            row = ((row + shared) | (row - shared)) & full
    return len(columns.tokens) - row.bit_count()


def common_positions(rows: Sequence[str], columns: Tokens) -> int:
    """Return the positions in `rows` of one longest common subsequence, as bits.

    Of several subsequences the choice is rouge-score's: walking back from the end, step left in the columns only where
    that is strictly better. Of many rows only every √n-th is kept and those between are made again on the way back, so
    that memory stays small for two long texts.
    """
    step = max(SHORT, isqrt(len(rows)) + 1)
    kept = [(1 << len(columns.tokens)) - 1]
    for start in range(0, len(rows) - step, step):
        *_, last = _table(columns, rows[start : start + step], kept[-1])
        kept.append(last)
    found, j = 0, len(columns.tokens)
    for block in range(len(kept) - 1, -1, -1):
        start = block * step
        table = list(_table(columns, rows[start : start + step], kept[block]))
        i = len(table) - 1
        while i and j:
            if rows[start + i - 1] == columns.tokens[j - 1]:
                i, j = i - 1, j - 1
                found |= 1 << (start + i)
            elif _cell(table[i], j - 1) > _cell(table[i - 1], j):
                j -= 1
            else:
                i -= 1
    return found


def _table(columns: Tokens, rows: Sequence[str], above: int) -> Iterator[int]:
    """Yield the row `above` and then one row a token."""
    full = (1 << len(columns.tokens)) - 1
    yield above
    for token in rows:
        if matches := columns.positions.get(token):
            shared = above & matches
            above = ((above + shared) | (above - shared)) & full
        yield above


def _cell(row: int, columns: int) -> int:
    return columns - (row & ((1 << columns) - 1)).bit_count()

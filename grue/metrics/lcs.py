"""Where the longest common subsequence of two texts lies, by bit masks: one integer a row instead of a row of cells.

A row of the standard table, the best lengths of the first i tokens of one text and the first j of the other, becomes
one integer: cell [i, j] is the number of its zero bits among the low j bits (Hyyrö 2004).
"""

from collections.abc import Sequence
from dataclasses import dataclass


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


def common_positions(rows: Sequence[str], columns: IndexedTokens) -> set[int]:
    """Return the positions in `rows` of one longest common subsequence.

    Of several subsequences, rouge-score's choice is returned: walking back from the end, step left in the columns only
    where that is strictly better. Rows without a match do not affect the walk and are left out.
    """
    matching = [index for index, token in enumerate(rows) if token in columns.positions]
    full = above = (1 << len(columns.tokens)) - 1
    table = [above]
    for index in matching:
        shared = above & columns.positions[rows[index]]
        above = ((above + shared) | (above - shared)) & full
        table.append(above)
    positions, i, j = set[int](), len(matching), len(columns.tokens)
    while i and j:
        left = (1 << (j - 1)) - 1
        row = matching[i - 1]
        if columns.positions[rows[row]] >> (j - 1) & 1:
            i, j = i - 1, j - 1
            positions.add(row)
        # Lengths are numbers of zero bits: of j − 1 in this row, and of j in the row above.
        elif (table[i] & left).bit_count() < (table[i - 1] & (left << 1 | 1)).bit_count() - 1:
            j -= 1
        else:
            i -= 1
    return positions

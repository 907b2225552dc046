"""Tables of text, before any renderer lays them out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a column; numbers stand at the right, and come padded so that their decimals stand in line."""

    header: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """A column on its way into a table: its cells, and the rows in which they stand out."""

    heading: Heading
    cells: Sequence[str]
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of plain text, ready to be laid out.

    Attributes:
        title: Empty where the page's own title says enough.
        columns: The first two say whose a row is.
        strong: (row, column) of what stands out: the best, and what cannot be told from it.
        lines: Sentences below the table, footnotes included.
    """

    title: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()
    lines: tuple[str, ...] = ()


def as_table(title: str, series: Sequence[Series], lines: tuple[str, ...] = ()) -> TextTable:
    """Return the table that the columns make."""
    return TextTable(
        title,
        tuple(one.heading for one in series),
        tuple(zip(*(one.cells for one in series), strict=True)),
        frozenset((row, column) for column, one in enumerate(series) for row in one.strong),
        lines,
    )


def in_a_terminal(text: str) -> float:
    """Return how many characters a cell takes, its borders included."""
    return len(text) + 3


def narrow(table: TextTable, width: float, room: Callable[[str], float] = in_a_terminal) -> list[TextTable]:
    """Cut a table into tables of at most `width`, where the columns allow it.

    The first two columns are repeated in each; the title stands over the first, the lines under the last.

    Args:
        table: A table of at least two columns.
        width: In the unit of `room`: by default the characters of a line.
        room: What a cell takes, borders included; a column takes as much as its widest cell.
    """
    headers = [column.header for column in table.columns]
    sizes = [max(map(room, cells)) for cells in zip(headers, *table.rows, strict=True)]
    parts: list[list[int]] = [[]]
    for column in range(2, len(sizes)):
        taken = 1 + sum(sizes[:2]) + sum(sizes[known] for known in parts[-1])
        if parts[-1] and taken + sizes[column] > width:
            parts.append([])
        parts[-1].append(column)
    last = len(parts) - 1
    return [
        _part(table, (0, 1, *part), table.title if i == 0 else "", table.lines if i == last else ())
        for i, part in enumerate(parts)
    ]


def _part(table: TextTable, columns: Sequence[int], title: str, lines: tuple[str, ...]) -> TextTable:
    place = {column: i for i, column in enumerate(columns)}
    return TextTable(
        title,
        tuple(table.columns[column] for column in columns),
        tuple(tuple(row[column] for column in columns) for row in table.rows),
        frozenset((row, place[column]) for row, column in table.strong if column in place),
        lines,
    )

"""Tables of text, independent of a format."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a column; numbers are right-aligned, and padded so that their decimal points align."""

    header: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Series:
    """A column: its heading, its cells, and the rows to emphasise."""

    heading: Heading
    cells: Sequence[str]
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of plain text.

    Attributes:
        title: Empty if the page's title suffices.
        columns: The first two identify the row.
        strong: (row, column) of the cells to emphasise: the best, and those that do not differ from it.
        lines: Sentences below the table, footnotes included.
    """

    title: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: frozenset[tuple[int, int]] = frozenset()
    lines: tuple[str, ...] = ()


def as_table(title: str, series: Sequence[Series], lines: tuple[str, ...] = ()) -> TextTable:
    """Return the table of some columns."""
    return TextTable(
        title,
        tuple(column.heading for column in series),
        tuple(zip(*(column.cells for column in series), strict=True)),
        frozenset((row, place) for place, column in enumerate(series) for row in column.strong),
        lines,
    )


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> TextTable:
    """Return a table without a title; `left` are the places of the columns that hold no numbers."""
    headings = tuple(Heading(name, place not in left) for place, name in enumerate(head))
    return TextTable("", headings, tuple(map(tuple, rows)))


def in_a_terminal(text: str) -> float:
    """Return the width of a cell in characters, borders included."""
    return len(text) + 3


def narrow(table: TextTable, width: float, room: Callable[[str], float] = in_a_terminal) -> list[TextTable]:
    """Split a table into tables of at most `width`, if the columns allow it.

    Each repeats the first two columns; the first has the title, the last the lines.

    Args:
        table: A table of at least two columns.
        width: In the unit of `room`: by default the characters of a line.
        room: The width of a cell, borders included; a column is as wide as its widest cell.
    """
    headers = [column.header for column in table.columns]
    sizes = [max(map(room, cells)) for cells in zip(headers, *table.rows, strict=True)]
    parts: list[list[int]] = [[]]
    for column in range(2, len(sizes)):
        taken = 1 + sum(sizes[:2]) + sum(sizes[chosen] for chosen in parts[-1])
        if parts[-1] and taken + sizes[column] > width:
            parts.append([])
        parts[-1].append(column)
    tables = []
    for i, part in enumerate(parts):
        place = {column: i for i, column in enumerate((0, 1, *part))}
        tables.append(
            TextTable(
                table.title if i == 0 else "",
                tuple(table.columns[column] for column in place),
                tuple(tuple(row[column] for column in place) for row in table.rows),
                frozenset((row, place[column]) for row, column in table.strong if column in place),
                table.lines if part is parts[-1] else (),
            )
        )
    return tables

"""Tables of text, independent of a format."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Series:
    """A column; numbers are right-aligned, and padded so that their decimal points align.

    Attributes:
        strong: The rows to emphasise: the best, and those that do not differ from it.
    """

    header: str
    cells: Sequence[str]
    strong: frozenset[int] = frozenset()
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of plain text.

    Attributes:
        title: Empty if the page's title suffices.
        columns: The first two identify the row.
        lines: Sentences below the table, footnotes included.
    """

    title: str
    columns: tuple[Series, ...]
    lines: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells, row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))


def plain_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[int] = (0,),
    strong: Collection[tuple[int, int]] = (),
) -> TextTable:
    """Return a table without a title.

    Args:
        left: Places of the columns that hold no numbers.
        strong: (row, column) of the cells to emphasise.
    """
    cells = list(zip(*rows, strict=True)) or [()] * len(head)
    marked = [frozenset(row for row, at in strong if at == place) for place in range(len(head))]
    columns = zip(head, cells, marked, (place not in left for place in range(len(head))), strict=True)
    return TextTable("", tuple(Series(*column) for column in columns))


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
    sizes = [max(map(room, (column.header, *column.cells))) for column in table.columns]
    parts: list[list[int]] = [[]]
    for column in range(2, len(sizes)):
        taken = 1 + sum(sizes[:2]) + sum(sizes[chosen] for chosen in parts[-1])
        if parts[-1] and taken + sizes[column] > width:
            parts.append([])
        parts[-1].append(column)
    tables = [TextTable("", tuple(table.columns[column] for column in (0, 1, *part))) for part in parts]
    tables[0] = replace(tables[0], title=table.title)
    return [*tables[:-1], replace(tables[-1], lines=table.lines)]

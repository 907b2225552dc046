"""Tables of ToTTo as text: the highlighted cells with their headers, in the shape of the official baseline.

A table is a list of rows, a row a list of cells; a cell knows which columns it covers, since one that spans several
moves those to its right. Cells that reach down from rows above are not reckoned with, as in the official script.

Source: Parikh et al. 2020, "ToTTo: A Controlled Table-To-Text Generation Dataset"; google-research/language,
totto/baseline_preprocessing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grue.data.rows import text_of
from grue.errors import DataError


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text with single spaces, whether it is a header, and the columns [start, end) that it covers."""

    text: str
    is_header: bool
    start: int
    end: int


Table = Sequence[Sequence[Cell]]
Place = tuple[int, int]  # row, place within the row, both from 0


def read_table(rows: Any, where: str) -> Table:
    """Return the table of a ToTTo row, whose cells have `value`, `is_header` and `column_span`.

    Args:
        where: The row, for messages.

    Raises:
        DataError: It is no table; names the cell.
    """
    if not isinstance(rows, Sequence) or not all(isinstance(row, Sequence) for row in rows):
        raise DataError(f"{where}: table should be a list of rows of cells.")
    table = []
    for row_number, row in enumerate(rows):
        cells: list[Cell] = []
        for number, cell in enumerate(row):
            start = cells[-1].end if cells else 0
            cells.append(_read_cell(cell, start, f"{where}: table[{row_number}][{number}]"))
        table.append(cells)
    return table


def _read_cell(cell: Any, start: int, where: str) -> Cell:
    if not isinstance(cell, Mapping):
        raise DataError(f"{where}: expected value, is_header and column_span, found {cell!r:.80}.")
    value, header, span = (cell.get(key) for key in ("value", "is_header", "column_span"))
    if not isinstance(header, bool) or not isinstance(span, int) or span < 0:
        raise DataError(f"{where}: is_header should be true or false, column_span a number, found {cell!r:.80}.")
    return Cell(" ".join(text_of(value, "value", where).split()), header, start, start + span)


def read_places(places: Any, table: Table, where: str) -> list[Place]:
    """Return the places of the highlighted cells, checked against the table.

    Raises:
        DataError: One of them is not a place in the table.
    """
    if not isinstance(places, Sequence):
        raise DataError(f"{where}: highlighted_cells should be a list of [row, column].")
    found = []
    for place in places:
        match place:
            case [int(row), int(column)] if 0 <= row < len(table) and 0 <= column < len(table[row]):
                found.append((row, column))
            case _:
                raise DataError(f"{where}: the table has no cell at {place!r:.80}, which highlighted_cells names.")
    return found


def column_headers(table: Table, place: Place) -> list[str]:
    """Return the different headers in the rows above a cell that cover one of its columns, from the top."""
    row, column = place
    cell = table[row][column]
    above = (other for line in table[:row] for other in line if other.is_header)
    return _distinct(other.text for other in above if other.start < cell.end and other.end > cell.start)


def row_headers(table: Table, place: Place) -> list[str]:
    """Return the different headers to the left of a cell in its own row."""
    row, column = place
    return _distinct(other.text for other in table[row][:column] if other.is_header)


def linearise(table: Table, places: Sequence[Place], page_title: str, section_title: str) -> str:
    """Return the highlighted cells of a table as one text, with the titles of page and section before them.

    The shape is the official one, "[page_title] X [/page_title] [section_title] Y [/section_title] [table] [cell] v
    [col_header] h [/col_header] [row_header] r [/row_header] [/cell] [/table]", with three differences: brackets are
    square, because T5's vocabulary has neither "<" nor ">"; a header that stands twice over a cell is said once; and
    empty headers are left out.
    """
    titles = [("page_title", page_title), ("section_title", section_title)]
    cells = [_cell(table, place) for place in places]
    return " ".join([*(tagged(tag, title) for tag, title in titles if title), tagged("table", *cells)])


def _cell(table: Table, place: Place) -> str:
    headers = [tagged("col_header", header) for header in column_headers(table, place)]
    headers += [tagged("row_header", header) for header in row_headers(table, place)]
    return tagged("cell", table[place[0]][place[1]].text, *headers)


def tagged(tag: str, *parts: str) -> str:
    """Return the parts that are not empty between "[tag]" and "[/tag]", a space between each two."""
    return " ".join([f"[{tag}]", *filter(None, parts), f"[/{tag}]"])


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]

"""ToTTo: a sentence about the highlighted cells of a table.

A table is a list of rows, a row a list of cells. A cell knows which columns it covers, since a cell that spans several
columns shifts those to its right. Cells that span rows are ignored below their first row, as in the official script.

Source: Parikh et al. 2020, "ToTTo: A Controlled Table-To-Text Generation Dataset"; google-research/language,
totto/baseline_preprocessing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue.data.archives import FolderRows, json_lines, nearest_one, split_names
from grue.data.rows import Row, numbered, text_of, texts_of, with_columns, within
from grue.errors import DataError
from grue.records import Example

COLUMNS = ("table", "highlighted_cells", "table_page_title", "table_section_title", "table_section_text", "example_id")

OVERLAPS = {"True": True, "False": False, "None": None, "none": None}
"""What a row says of the overlap with training → its value in `meta`, if it has one."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell: its text with single spaces, whether it is a header, and the columns [start, end) that it covers."""

    text: str
    is_header: bool
    start: int
    end: int


CellTable = Sequence[Sequence[TableCell]]
CellIndex = tuple[int, int]  # row, and position in the row; both from 0


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per table: the highlighted cells with headers and titles, and up to three references.

    The prompt is what `linearise` returns. `meta` is what PARENT reads: under "table" all values with titles and text
    of the section, under "highlighted" the highlighted values with the titles, and under "overlap" whether training has
    the table's headers, which training rows lack. "facts" is what that metric reads, where a task asks for facts. The
    withheld references of the test split are "" or, on the hub, "none".
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "totto", *COLUMNS):
        table = _table(row["table"], where)
        highlighted = _highlighted(row["highlighted_cells"], table, where)
        texts = (text_of(row[column] or "", column, where) for column in COLUMNS[2:5])
        page, section, around = (" ".join(text.split()) for text in texts)
        values = [cell.text for cells in table for cell in cells]
        chosen = [table[line][column].text for line, column in highlighted]
        sentences = within(row.get("sentence_annotations"), "final_sentence") or ()
        overlap = str(row.get("overlap_subset"))
        if overlap not in OVERLAPS:
            raise DataError(f"{where}: overlap_subset should be true or false, found {row['overlap_subset']!r:.80}.")
        # A number in the official files, its digits on the hub.
        identity = str(row["example_id"]) if type(row["example_id"]) is int else row["example_id"]
        yield Example(
            id=numbered(f"totto-{text_of(identity, 'example_id', where)}", times),
            prompt=linearise(table, highlighted, page, section),
            # A list of annotations in the official files, one annotation of lists on the hub.
            references=tuple(text for text in texts_of(sentences, "final_sentence", where) if text not in ("", "none")),
            meta={
                # PARENT's values, without "|", the separator of its official files.
                "table": [text.replace("|", "-") for text in (*values, page, section, around) if text],
                "highlighted": [text.replace("|", "-") for text in (*chosen, page, section) if text],
                **({} if OVERLAPS[overlap] is None else {"overlap": OVERLAPS[overlap]}),
                **({"facts": _facts(table, highlighted, f"{page} {section}")} if row.get("facts") else {}),
            },
        )


# --- reading a row ---------------------------------------------------------------------------------------------------


def _table(rows: Any, where: str) -> CellTable:
    """Return the table of a row, whose cells have `value`, `is_header` and `column_span`."""
    if not isinstance(rows, Sequence) or not all(isinstance(row, Sequence) for row in rows):
        raise DataError(f"{where}: table should be a list of rows of cells.")
    table = []
    for row_number, row in enumerate(rows):
        cells: list[TableCell] = []
        for number, cell in enumerate(row):
            place, start = f"{where}: table[{row_number}][{number}]", cells[-1].end if cells else 0
            if not isinstance(cell, Mapping):
                raise DataError(f"{place}: expected value, is_header and column_span, found {cell!r:.80}.")
            header, span = cell.get("is_header"), cell.get("column_span")
            if header not in (True, False) or not isinstance(span, int) or span < 0:  # 1 and 0 are accepted, too
                fault = "is_header should be true or false, column_span a number"
                raise DataError(f"{place}: {fault}, found {cell!r:.80}.")
            text = " ".join(text_of(cell.get("value"), "value", place).split())
            cells.append(TableCell(text, bool(header), start, start + span))
        table.append(cells)
    return table


def _highlighted(indices: Any, table: CellTable, where: str) -> list[CellIndex]:
    """Return the indices of the highlighted cells, checked against the table."""
    if not isinstance(indices, Sequence):
        raise DataError(f"{where}: highlighted_cells should be a list of [row, column].")
    cells = []
    for index in indices:
        match index:
            case [int(row), int(column)] if 0 <= row < len(table) and 0 <= column < len(table[row]):
                cells.append((row, column))
            case _:
                raise DataError(f"{where}: the table has no cell at {index!r:.80}, which highlighted_cells names.")
    return cells


def _facts(table: CellTable, highlighted: Sequence[CellIndex], titles: str) -> dict[str, Any]:
    """Return the highlighted values as facts; those of other cells that no title repeats are wrong."""
    expected = dict.fromkeys(table[line][column].text for line, column in highlighted)
    right = _words(" ".join((titles, *expected)))
    texts = dict.fromkeys(cell.text for cells in table for cell in cells if not cell.is_header)
    wrong = [text for text in texts if _words(text).strip() and _words(text) not in right]
    return {"expected": [[text] for text in expected if _words(text).strip()], "wrong": wrong, "closed": True}


def _words(text: str) -> str:
    """Return the words of a text in lower case, a space before and after each."""
    return " ".join(("", *re.findall(r"[\w,.:-]*\w", text.lower()), ""))


# --- the prompt ------------------------------------------------------------------------------------------------------


def linearise(table: CellTable, highlighted: Sequence[CellIndex], page_title: str, section_title: str) -> str:
    """Return the highlighted cells of a table as one text, after the titles of page and section.

    The shape is the official one, "[page_title] X [/page_title] [section_title] Y [/section_title] [table] [cell] v
    [col_header] h [/col_header] [row_header] r [/row_header] [/cell] [/table]", with three differences: brackets are
    square, because T5's vocabulary lacks "<" and ">"; a repeated header is written once; and empty headers are left
    out.
    """
    titles = [("page_title", page_title), ("section_title", section_title)]
    cells = []
    for row, column in highlighted:
        cell = table[row][column]
        above = [each for line in table[:row] for each in line if each.start < cell.end and each.end > cell.start]
        headers = [("col_header", header) for header in above] + [("row_header", left) for left in table[row][:column]]
        texts = dict.fromkeys((tag, header.text) for tag, header in headers if header.is_header and header.text)
        cells.append(_tagged("cell", cell.text, *(_tagged(tag, text) for tag, text in texts)))
    return " ".join([*(_tagged(tag, title) for tag, title in titles if title), _tagged("table", *cells)])


def _tagged(tag: str, *parts: str) -> str:
    """Return the non-empty parts between "[tag]" and "[/tag]", separated by spaces."""
    return " ".join([f"[{tag}]", *filter(None, parts), f"[/{tag}]"])


# --- the original layout ---------------------------------------------------------------------------------------------


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of `totto_<split>_data.jsonl`; the test split is the unlabelled one."""
    names = split_names(split)
    patterns = [pattern for name in names for pattern in (f"*totto_*{name}_*.jsonl", f"{name}_sample.jsonl")]
    source = nearest_one(folder, *patterns)
    return FolderRows((source,), lambda: json_lines(source))

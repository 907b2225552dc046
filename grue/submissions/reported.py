"""Figures that papers print: shown as printed, with their source, and never mixed with recomputed scores.

submissions/<suite>/<key>.reported.json
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from grue import files
from grue.errors import DataError, instead
from grue.records import Direction
from grue.submissions.reading import refuse_strange
from grue.task_files import task_names

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Publication:
    """Where figures were printed; `key` names the source, as in a bibliography."""

    key: str
    authors: str
    title: str
    venue: str
    year: int
    url: str
    version: str


@dataclass(frozen=True, slots=True)
class ReportedColumn:
    """A printed column, with the metric's name if it is meant to be one, and how it is known to deviate from that."""

    name: str
    direction: Literal[Direction, "none"]
    deviation: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A printed mean and its ±; None if none is printed."""

    mean: float
    sd: float | None = None


@dataclass(frozen=True, slots=True)
class ReportedRow:
    """A line of a printed table: column → figure.

    `reward` is empty without one, and where the table does not state it; `variant` is what else tells lines apart.
    """

    algorithm: str
    reward: str
    variant: str
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class ReportedTable:
    """One printed table, "Table 12", or the part of it that is about one task.

    Figures beside quality have their own: "Table 13, diversity". `split` and `seeds` are as the source states them.
    """

    task: str
    table: str
    split: str
    seeds: int | None
    note: str
    columns: tuple[ReportedColumn, ...]
    rows: tuple[ReportedRow, ...]


@dataclass(frozen=True, slots=True)
class Reported:
    """What one source printed: the content of a `.reported.json`."""

    source: Publication
    tables: tuple[ReportedTable, ...]


def read_reported(folder: Path, suite: str) -> tuple[Reported, ...]:
    """Read the reported figures of a suite from the folder `submissions/`; empty if there are none."""
    found = []
    for path in sorted((folder / suite).glob("*.reported.json")):
        refuse_strange(path)
        reported = files.load_json(path, Reported)
        name = f"{reported.source.key}.reported.json"
        if path.name != name:
            raise DataError(f"{path}: source.key is {reported.source.key!r}; name the file {name}.")
        for contradiction in _contradictions(reported, task_names(suite)):
            raise DataError(f"{path}: {contradiction}")
        found.append(reported)
    return tuple(found)


def _contradictions(reported: Reported, tasks: list[str]) -> Iterator[str]:
    for task, name in _twins((table.task, table.table) for table in reported.tables):
        yield f"{name} of {task} is there twice; give each table of a task its own name."
    for table in reported.tables:
        where, columns = f"{table.table} of {table.task}", [column.name for column in table.columns]
        if table.task not in tasks:
            yield f"{where}: there is no such task.{instead(table.task, tasks)}"
        yield from (f"{where}: the column {name!r} is there twice." for name in _twins(columns))
        for names in _twins((row.algorithm, row.reward, row.variant) for row in table.rows):
            yield f"{where}: the row {', '.join(filter(None, names))} is there twice; distinguish the two by `variant`."
        for row in table.rows:
            for name in sorted(set(row.figures) - set(columns)):
                yield f"{where}: {row.algorithm} has a figure for {name!r}, which is no column of the table."


def _twins(values: Iterable[T]) -> list[T]:
    return [value for value, count in Counter(values).items() if count > 1]

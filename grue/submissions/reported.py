"""Figures that papers print: shown as they stand, with their source, and never mixed with what was recomputed.

submissions/<suite>/<key>.reported.json
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files
from grue.records import Direction


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures were printed; `key` is what tables are named by, as in a bibliography."""

    key: str
    authors: str
    title: str
    venue: str
    year: int
    url: str
    version: str


@dataclass(frozen=True, slots=True)
class ReportedColumn:
    """A printed metric.

    Attributes:
        name: What the column is called here; it is no metric of ours unless `deviation` is empty.
        direction: Whether higher or lower is better; "none" for what is neither, like a length.
        deviation: How the computation differs from the metric's definition; empty if it is not known to differ.
    """

    name: str
    direction: Direction | Literal["none"]
    deviation: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A printed mean and its ±, None where none is printed."""

    mean: float
    sd: float | None = None


@dataclass(frozen=True, slots=True)
class ReportedRow:
    """A line of a printed table.

    Attributes:
        algorithm: As printed, in one spelling.
        reward: What was learned from; empty without reinforcement learning.
        variant: What else tells the line from others: "target KL 0.1", say.
        figures: Column → what is printed.
    """

    algorithm: str
    reward: str
    variant: str
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class ReportedTable:
    """One printed table, or the part of it that is about one task.

    Attributes:
        table: Its number: "Table 12".
        seeds: How many seeds stand behind a figure; None where the source does not say.
        note: What a reader has to know before comparing.
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

    source: Source
    tables: tuple[ReportedTable, ...]


def read_reported(folder: Path, suite: str) -> tuple[Reported, ...]:
    """Read the reported figures of a suite from the folder `submissions/`; none where there are none.

    Raises:
        DataError: A file cannot be read, or is not of this shape.
    """
    return tuple(files.load_json(path, Reported) for path in sorted((folder / suite).glob("*.reported.json")))

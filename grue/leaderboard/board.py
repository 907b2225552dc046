"""The data model of a board, as tables, pages and files show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from grue.records import About, Axis, Direction, Status
from grue.stats.intervals import Interval
from grue.submissions.reported import Reported

BOARD_SCHEMA = 2

Standing = Literal["ranked", "preliminary", "too few seeds", "partial", "limited", "no predictions", "reference"]
IntervalKind = Literal["t", "bootstrap", "none"]
Scoring = Literal["grue-1", "paper"]


@dataclass(frozen=True, slots=True)
class Column:
    """A metric as a column of a task; `range` or `reference` scales it, as in the task file."""

    metric: str
    axis: Axis
    direction: Direction
    range: tuple[float, float] | None = None
    reference: float | None = None


@dataclass(frozen=True, slots=True)
class BoardTask:
    """A task as the board shows it, identified by its hash."""

    name: str
    title: str
    version: int
    hash: str
    columns: tuple[Column, ...]

    def has(self, axis: Axis) -> bool:
        """Whether a metric of the task counts towards `axis`."""
        return any(column.axis == axis for column in self.columns)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds; `sd` is the sample standard deviation, None for a single seed."""

    mean: float
    sd: float | None
    by_seed: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Cell:
    """A system's scores on one task.

    Attributes:
        failed: The seeds whose run failed; they count as 0 in preference and naturalness, and in no metric.
        preference: 0–100; None if the task has no such metric. Likewise naturalness.
        interval: Interval of the preference; None with a single seed.
        metrics: Raw values, in the order of the task's columns.
    """

    seeds: tuple[int, ...]
    failed: tuple[int, ...]
    preference: Estimate | None
    interval: Interval | None
    naturalness: Estimate | None
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Row:
    """A system on the board.

    Attributes:
        standing: "ranked", or why it is not. A "reference" does not compete: a constant, a copy, the references. With
            "no predictions" the scores cannot be checked.
        rank: 1 + the number of ranked systems whose interval is wholly above this one's; None if not ranked, or on a
            board without intervals.
        task_ranks: Task → the rank among the systems with enough seeds on that task.
        preference: Mean over the tasks, 0–100; None if a task is missing. Likewise naturalness.
        interval: Interval of the preference; None also if a task has a single seed.
        naturalness_interval: Interval of the naturalness.
        iqm: Interquartile mean of the preference over tasks and seeds, 0–100; it decides no rank.
        cells: Task → scores, for the tasks with results.
    """

    system: str
    status: Status
    standing: Standing
    about: About
    rank: int | None
    task_ranks: Mapping[str, int]
    preference: float | None
    interval: Interval | None
    naturalness: float | None
    naturalness_interval: Interval | None
    iqm: float | None
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Board:
    """The board of one suite, or of one task of it.

    Attributes:
        scoring: "grue-1", scaled by the task files; "paper", plain means of raw metrics (`--compat paper`).
        interval_kind: The method of the intervals.
        level: Their level, 0.95.
        notes: Remarks on the results: what was left out, failed or could not be scored.
        reported: Figures of papers, as printed: never recomputed, never mixed with the rows.
    """

    schema: int
    suite: str
    scoring: Scoring
    interval_kind: IntervalKind
    level: float
    tasks: tuple[BoardTask, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    reported: tuple[Reported, ...] = ()

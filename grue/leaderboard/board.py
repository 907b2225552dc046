"""The data model of a board, as tables, pages and files show it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grue.evaluation.prompting import Prompting
from grue.records import About, Axis, Cost, Direction, Status
from grue.stats.intervals import Interval, mean, sd
from grue.submissions.reported import Reported
from grue.tasks import MetricSpec

RANK_TEST = "t over seeds, paired or Welch, Holm 5 %"
"""The test behind `Row.rank` and `Row.task_ranks`: see `grue/leaderboard/places.py`."""

Standing = Literal[
    "ranked", "preliminary", "too few seeds", "partial", "unverified", "limited", "no predictions", "reference"
]


@dataclass(frozen=True, slots=True)
class Column:
    """A metric as a column of a task; `range` or `reference` scales it, as in the task file."""

    metric: str
    axis: Axis
    direction: Direction
    range: tuple[float, float] | None = None
    reference: float | None = None

    def scale(self, value: float) -> float | None:
        """Map a raw value to 0–100 as the task file does, or None for a metric outside the score."""
        return MetricSpec(self.metric, self.axis, self.range, self.reference).scale(value)


@dataclass(frozen=True, slots=True)
class BoardTask:
    """A task as the board shows it, identified by its hash.

    Attributes:
        rewards: The terms of the task's default reward.
        families: Groups of metrics that move together, as in the task file.
        data: Hashes of the examples that the rows were scored on, as in a result's `hashes`, as far as they are stated.
        unlearned: The best system without learning if it is above every competing one; else empty.
    """

    name: str
    title: str
    version: int
    hash: str
    columns: tuple[Column, ...]
    rewards: tuple[str, ...] = ()
    families: tuple[tuple[str, ...], ...] = ()
    description: str = ""
    decoding: str = ""
    data: Mapping[str, str] = field(default_factory=dict, hash=False)
    backbone: str = ""
    unlearned: str = ""

    def has(self, axis: Axis) -> bool:
        """Whether a metric of the task counts towards `axis`."""
        return any(column.axis == axis for column in self.columns)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds; `sd` is the sample standard deviation, None for a single seed."""

    mean: float
    sd: float | None
    by_seed: Mapping[int, float]

    @classmethod
    def of(cls, by_seed: Mapping[int, float]) -> "Estimate":
        """Return the estimate of seed → value."""
        return cls(mean(by_seed.values()), sd(by_seed.values()), by_seed)


@dataclass(frozen=True, slots=True)
class Cell:
    """A system's scores on one task.

    Attributes:
        failed: The seeds whose run failed; they count as 0 in preference and naturalness, and in no metric.
        preference: 0–100; None if the task has no such metric. Likewise naturalness.
        interval: Interval of the preference; None with a single seed.
        metrics: Raw values, in the order of the task's columns.
        rewards: The terms of the rewards that its runs were trained on or picked by; empty if there were none.
        held_out: Mean of the scaled preference metrics that are neither a reward nor of a reward's family, 0–100; None
            if there is none. See `grue/leaderboard/trained_on.py`.
        lineage: Seed → the first digits of the hash of the weights, then of those that training began from, as far as
            the result states them.
        training: Name of a cost → seed → cost of training until the kept update, with that of the weights it
            began from, as far as the result states it.
        updates: Seed → the kept update; 0 is the start itself.
        whole: The same costs of the whole run, with the updates after the kept one, as far as the result states them.
        last_updates: Seed → the last update of the run.
        parameters: Of the system; None if the results state none.
        code: Versions of GRUE that made the results, each with the first digits of its commit.
        machines: Types of machines that trained and answered, as far as the results state them.
        algorithms: The algorithms that the results state; a row's `about` may word them differently.
        presets: The presets of its algorithm's settings (`grue.runs.algorithms.preset_of`).
        backbones: The models that it was trained from, if they are not the task's.
        searched: The preference of answers by the task's `[search]`, if the results of all seeds state it; else None.
            It is not part of any score.
    """

    seeds: tuple[int, ...]
    failed: tuple[int, ...]
    preference: Estimate | None
    interval: Interval | None
    naturalness: Estimate | None
    metrics: Mapping[str, Estimate]
    rewards: tuple[str, ...] = ()
    held_out: Estimate | None = None
    lineage: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    training: Mapping[Cost, Mapping[int, float]] = field(default_factory=dict)
    updates: Mapping[int, int] = field(default_factory=dict)
    whole: Mapping[Cost, Mapping[int, float]] = field(default_factory=dict)
    last_updates: Mapping[int, int] = field(default_factory=dict)
    parameters: int | None = None
    code: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    held_out_metrics: tuple[str, ...] = ()
    searched: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A system on the board.

    Attributes:
        standing: "ranked", or why it is not. A "reference" does not compete: a constant, a copy, the references. With
            "no predictions" the scores cannot be checked; "unverified" rows of a suite with a generator have not passed
            its fresh draw.
        rank: 1 + the number of ranked systems whose preference is significantly above this one's, and not better than
            that of one with a higher mean; None if not ranked.
        task_ranks: Task → the rank among the systems with enough seeds on that task.
        preference: Mean over the tasks, 0–100; None if a task is missing. Likewise naturalness.
        interval: Interval of the preference; None also if a task has a single seed.
        iqm: Interquartile mean of the preference over tasks and seeds, 0–100; ranks do not depend on it.
        cells: Task → scores, for the tasks with results.
        learned: Mean preference over the tasks where no system without learning is above every competing one
            (`BoardTask.unlearned`); None if it equals the preference, or is unknown. Ranks do not depend on it.
        prompting: How it was prompted: by the plain prompts, with or without examples, or by the tasks' chat prompts.
        by_endpoint: Whether a server answered: weights and training are then unknown.
        reruns: How many of its runs the record behind its status drew again.
    """

    system: str
    status: Status
    standing: Standing
    about: About
    rank: int | None = None
    task_ranks: Mapping[str, int] = field(default_factory=dict)
    preference: float | None = None
    interval: Interval | None = None
    naturalness: float | None = None
    naturalness_interval: Interval | None = None
    iqm: float | None = None
    cells: Mapping[str, Cell] = field(default_factory=dict)
    learned: float | None = None
    learned_interval: Interval | None = None
    prompting: Prompting = "plain"
    by_endpoint: bool = False
    reruns: int = 0


@dataclass(frozen=True, slots=True)
class Board:
    """The board of one suite, or of one task of it.

    Attributes:
        scoring: How metrics become scores: scaled by the task files.
        interval_kind: The method of the intervals: Student's t.
        notes: Remarks on the results: what was left out, failed or could not be scored.
        reported: Figures of papers, as printed: never recomputed, never mixed with the rows.
    """

    schema: int
    suite: str
    scoring: Literal["grue-1"]
    interval_kind: Literal["t"]
    level: float
    tasks: tuple[BoardTask, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    reported: tuple[Reported, ...] = ()
    rank_test: str = RANK_TEST

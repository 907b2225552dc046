"""The ladder of trust: rescored < reproduced < retrained, and the record of what maintainers saw.

    submissions/<suite>/<system>.trust.json

It lies beside the system's folder, which is its authors': no submission may change it. An observation names the file of
predictions that was compared, by its sha256. If the row is replaced, it no longer counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import DataError
from grue.submissions.reading import refuse_strange

SCHEMA_VERSION = 1
Rung = Literal["reproduced", "retrained"]
RUNGS: tuple[Rung, ...] = ("reproduced", "retrained")
Verdict = Literal["equal weights", "equal texts", "nearly equal texts", "inside", "different", "outside", "undecided"]
PASSING = ("equal weights", "equal texts", "nearly equal texts", "inside")


@dataclass(frozen=True, slots=True)
class Scores:
    """The axes of a run, 0–100; None where the task has no such axis."""

    preference: float | None
    naturalness: float | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen when one run of a row was made again.

    Attributes:
        by: Who did it.
        date: ISO 8601.
        grue: The code that made it again: version and commit.
        machine: Its kind; equal bytes are to be expected on the same kind only.
        packages: Package → version.
        predictions: sha256 of the file of predictions in the row.
        equal_texts: Share of the predictions that are the same, 0–1.
        then, now: The scores of the row, and those of the run that was made again.
        weights_then, weights_now: What identifies the checkpoints; empty if it is not known.
        configuration: Of a retrained run: "submitted", or "recipe" if the task's recipe was the recorded one.
        intervals: Of a retrained run whose texts differ: axis → where a further seed is expected, by the others.
    """

    rung: Rung
    task: str
    seed: int
    verdict: Verdict
    by: str
    date: str
    grue: Mapping[str, str]
    machine: str
    packages: Mapping[str, str]
    predictions: str
    equal_texts: float
    then: Scores
    now: Scores
    weights_then: str = ""
    weights_now: str = ""
    configuration: Literal["", "submitted", "recipe"] = ""
    intervals: Mapping[str, tuple[float, float]] | None = None

    @property
    def passed(self) -> bool:
        """Whether the run that was made again is the one of the row, or is like its other seeds."""
        return self.verdict in PASSING


@dataclass(frozen=True, slots=True)
class Trust:
    """The content of a record."""

    schema: int
    seen: tuple[Seen, ...]


def record_of(system: Path) -> Path:
    """Return the path of the record of a system's folder."""
    place = system.absolute()
    return place.with_name(f"{place.name}.trust.json")


def read_seen(system: Path) -> tuple[Seen, ...]:
    """Read what was seen of a system's runs; nothing if there is no record.

    Raises:
        DataError: The record cannot be read, or is none of this schema.
    """
    path = record_of(system)
    if not path.exists() and not path.is_symlink():
        return ()
    refuse_strange(path)
    found = files.load_json(path, Trust)
    if found.schema != SCHEMA_VERSION:
        raise DataError(f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {found.schema}.")
    return found.seen


def record(system: Path, new: Seen) -> Path:
    """Add an observation to a system's record and return its path.

    It replaces the one of the same run and rung. What was seen of predictions that are no longer there is dropped.

    Raises:
        DataError: The record cannot be read or written.
    """
    kept = [one for one in current(system, read_seen(system)) if _key(one) != _key(new)]
    files.write_json(record_of(system), Trust(SCHEMA_VERSION, tuple(sorted([*kept, new], key=_key))))
    return record_of(system)


def _key(one: Seen) -> tuple[str, str, int]:
    return one.rung, one.task, one.seed


def current(system: Path, seen: Iterable[Seen]) -> list[Seen]:
    """Return what was seen of the predictions that are in the folder now."""
    return [one for one in seen if _digest(system, one.task, one.seed) == one.predictions]


def _digest(system: Path, task: str, seed: int) -> str | None:
    path = system / task / f"seed-{seed}.predictions.jsonl.gz"
    inside = "/" not in task and path.is_file() and not path.is_symlink()
    return files.sha256_file(path) if inside else None


def rung_of(system: Path, tasks: Collection[str]) -> Rung | None:
    """Return the rung that the record supports for a row with runs of these tasks; None if it supports none.

    A task holds a rung if at least one of its runs passed and none failed; whoever trains again has more than
    reproduced. A row stands where the lowest of its tasks does: it holds the rung on every one.

    Raises:
        DataError: The record cannot be read.
    """
    seen = current(system, read_seen(system))
    lowest = min((_height(task, seen) for task in tasks), default=0)
    return RUNGS[lowest - 1] if lowest else None


def _height(task: str, seen: Iterable[Seen]) -> int:
    """Return how many rungs a task is up: 0 is none."""
    of_task = [one for one in seen if one.task == task]
    passed = {rung: [one.passed for one in of_task if one.rung == rung] for rung in RUNGS}
    return max((RUNGS.index(rung) + 1 for rung, found in passed.items() if found and all(found)), default=0)

"""The ladder of trust: rescored < reproduced < retrained, and the record of what maintainers saw.

    submissions/<suite>/<system>.trust.json

It lies beside the system's folder, which is its authors': no submission may change it. An observation names what it was
made of, by sha256: the predictions, what the row says of the run, and its configuration. If one of them changes, it no
longer counts. What may change is how the predictions are packed and ordered, what the check computes again, how long
the run took and with which code it was scored, and in `submission.toml` all but `VOUCHED_FOR`: authors, licence,
budget, link, contact.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import DataError
from grue.submissions.folder import CONFIG, place_of, predictions_of, read_result, read_submission
from grue.submissions.reading import read_unscanned_predictions, refuse_strange

SCHEMA_VERSION = 3
Rung = Literal["reproduced", "retrained"]
RUNGS: tuple[Rung, ...] = ("reproduced", "retrained")
Verdict = Literal["equal weights", "equal texts", "nearly equal texts", "inside", "different", "outside", "undecided"]
PASSING = ("equal weights", "equal texts", "nearly equal texts", "inside")
FAILING = ("different", "outside")
COMPUTED_AGAIN = ("scores", "preference", "naturalness", "hashes", "counts", "errors", "notes")
OF_THE_SCORING = ("schema", "grue", "packages", "timing")
VOUCHED_FOR = ("algorithm", "backbone", "training_data")
"""What `submission.toml` says of the system, and the board shows beside the rung."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The axes of a run, 0–100; None where the task has no such axis."""

    preference: float | None
    naturalness: float | None


@dataclass(frozen=True, slots=True)
class Basis:
    """What an observation was made of, each part by its sha256; it holds for nothing else.

    Attributes:
        predictions: The row's predictions, sorted by id.
        statement: What the row says of the run: its result but for what is computed again or of the scoring, and
            `VOUCHED_FOR` of `submission.toml`.
        configuration: The row's `config.json`; empty if it had none.
    """

    predictions: str
    statement: str
    configuration: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen when one run of a row was made again.

    Attributes:
        by: Who did it.
        date: ISO 8601.
        grue: The code that made it again: version and commit.
        machine: Its kind; equal bytes are to be expected on the same kind only.
        packages: Package → version.
        of: What was in the row.
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
    of: Basis
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

    @property
    def failed(self) -> bool:
        """Whether it is another run; where too few seeds are there to say, it neither passed nor failed."""
        return self.verdict in FAILING


@dataclass(frozen=True, slots=True)
class Trust:
    """The content of a record."""

    schema: int
    seen: tuple[Seen, ...]


def record_of(system: Path) -> Path:
    """Return the path of the record of a system's folder."""
    place = place_of(system)
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
    data = files.read_json(path)
    if isinstance(data, dict) and data.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {data['schema']!r}. Remove the file, "
            "and make the runs again with --record."
        )
    return files.load_json(path, Trust).seen


def record(system: Path, new: Seen) -> Path:
    """Add an observation to a system's record and return its path.

    It replaces the one of the same run and rung. What was seen of a run that has changed since is dropped.

    Raises:
        DataError: The record cannot be read or written, or a result cannot be read.
        ConfigError: submission.toml cannot be read.
    """
    kept = [one for one in current(system, read_seen(system)) if _key(one) != _key(new)]
    files.write_json(record_of(system), Trust(SCHEMA_VERSION, tuple(sorted([*kept, new], key=_key))))
    return record_of(system)


def _key(one: Seen) -> tuple[str, str, int]:
    return one.rung, one.task, one.seed


def current(system: Path, seen: Iterable[Seen]) -> list[Seen]:
    """Return what was seen of the runs as they are in the folder now; raises as `basis_of` does."""
    return [one for one in seen if not changed(system, one)]


def changed(system: Path, one: Seen) -> list[str]:
    """Return which parts of a run are others than those that were seen; raises as `basis_of` does.

    A run that was reproduced may gain a configuration: a checkpoint was seen, and no training. A failure is of the
    predictions alone: no other statement about them undoes it.
    """
    now, then = basis_of(system, one.task, one.seed), one.of
    if now is None:
        return ["its files"]
    if one.failed:
        then = replace(now, predictions=then.predictions)
    elif one.rung == "reproduced" and not then.configuration:
        then = replace(then, configuration=now.configuration)
    parts = {"predictions": "its predictions", "statement": "what the row says of it", "configuration": CONFIG}
    return [name for part, name in parts.items() if getattr(now, part) != getattr(then, part)]


def basis_of(system: Path, task: str, seed: int) -> Basis | None:
    """Return what a row holds of a run; None if its result or its predictions are not there.

    Raises:
        DataError: The result or the predictions cannot be read.
        ConfigError: submission.toml cannot be read.
    """
    result = system / task / f"seed-{seed}.result.json"
    predictions, configuration = predictions_of(result), system / task / CONFIG
    if "/" in task or not _is_file(result) or not _is_file(predictions):
        return None
    return Basis(
        predictions=files.sha256_json(sorted(read_unscanned_predictions(predictions), key=lambda one: one.id)),
        statement=_statement(system, result),
        configuration=files.sha256_file(configuration) if _is_file(configuration) else "",
    )


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _statement(system: Path, path: Path) -> str:
    """Return the sha256 of what a row says of a run, as its files have it: a later version may know more keys."""
    read_result(path)
    said, submission = files.read_json(path), read_submission(system)
    free = (*COMPUTED_AGAIN, *OF_THE_SCORING)
    of_run = {key: value for key, value in said.items() if key not in free}
    return files.sha256_json([of_run, {key: getattr(submission, key) for key in VOUCHED_FOR}])


def rung_of(system: Path, tasks: Collection[str]) -> Rung | None:
    """Return the rung that the record supports for a row with runs of these tasks; None if it supports none.

    A task holds a rung if at least one of its runs passed it and none failed it or the one below; whoever trains again
    has more than reproduced. A row stands where the lowest of its tasks does: it holds the rung on every one.

    Raises:
        DataError: The record, a result or predictions cannot be read.
        ConfigError: submission.toml cannot be read.
    """
    seen = current(system, read_seen(system))
    lowest = min((_height(task, seen) for task in tasks), default=0)
    return RUNGS[lowest - 1] if lowest else None


def _height(task: str, seen: Iterable[Seen]) -> int:
    """Return how many rungs a task is up: 0 is none."""
    of_task = [(RUNGS.index(one.rung), one) for one in seen if one.task == task]
    failed = min((rung for rung, one in of_task if one.failed), default=len(RUNGS))
    return max((rung + 1 for rung, one in of_task if one.passed and rung < failed), default=0)

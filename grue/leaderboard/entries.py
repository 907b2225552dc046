"""Results of runs as entries of a board, in an order that does not depend on the file system."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from grue import files
from grue.errors import ConfigError, DataError
from grue.evaluation.prompting import Prompting, is_by_endpoint, prompting_of
from grue.lm.checkpoint import run_of
from grue.records import SCORED, SEEDLESS, About, Entry, Result, ScoredAxis, Status
from grue.runs.algorithms import preset_of
from grue.submissions.entries import entries_of, suite_of
from grue.submissions.folder import read_result, systems
from grue.tasks import Task

EVALUATE = "Evaluate the run again with `grue evaluate --force`, or remove the file."


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A local result or a submission that cannot be shown, why, and what to do; the others are shown."""

    path: Path
    system: str
    why: str
    cure: str

    @property
    def reason(self) -> str:
        """Why, and what to do about it."""
        return f"{self.why} {self.cure}"

    @property
    def note(self) -> str:
        """The note on a board."""
        return f"Left out: {self.reason}"


def _left_out(result: Path, why: str, cure: str = EVALUATE) -> LeftOut:
    return LeftOut(result, result.parts[-3], why, cure)


def find_submitted(submissions: Path, suite: str) -> tuple[list[Entry], list[LeftOut]]:
    """Read the submissions of a suite; return the entries, and the submissions that cannot be read."""
    entries: list[Entry] = []
    unread: list[LeftOut] = []
    for system in systems(submissions):
        try:
            entries += entries_of(system) if suite_of(system) == suite else ()
        except (DataError, ConfigError) as error:
            unread.append(LeftOut(system, system.name, str(error), f"See `grue submit check {system}`."))
    return entries, unread


def find_results(runs: Path, suite: str = "*") -> tuple[list[Entry], list[LeftOut]]:
    """Read `runs/<suite>/<task>/<system>/seed-<n>/result.json`; a missing folder holds none.

    Returns:
        The results, and those that cannot be read or are copies of another's folder.
    """
    entries: list[Entry] = []
    out: list[LeftOut] = []
    for path in sorted(runs.glob(f"{suite}/*/*/seed-*/result.json")):
        try:
            entries.append(local_entry(path))
        except DataError as error:
            out.append(_left_out(path, str(error)))
    by_run: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        by_run.setdefault((entry.result.suite, *_order(entry)[:3]), []).append(entry)
    for twins in by_run.values():
        twins.sort(key=lambda entry: not _is_at_home(entry))
        for entry in [entry for entry in twins if len(twins) > 1 and not _is_at_home(entry)]:
            other = next(twin for twin in twins if twin is not entry)
            name, task, seed = entry.result.system["name"], entry.result.task, entry.result.seed
            why = f"{entry.path}: claims to be {name} on {task} with seed {seed}, as {other.path} does."
            cure = "A run keeps its name and seed in any folder: remove one of the two, or move it elsewhere."
            out.append(_left_out(entry.path, why, cure))
    unfit = {left_out.path for left_out in out}
    return [entry for entry in entries if entry.path not in unfit], sorted(out, key=lambda left_out: left_out.path)


def local_entry(path: Path) -> Entry:
    """Read the `result.json` of a local run."""
    result = read_result(path)
    about = About(
        algorithm=str(result.system.get("algorithm", "")),
        backbone=str(result.system.get("backbone", "")),
        parameters=result.system.get("parameters"),
        deterministic=result.system.get("algorithm") in SEEDLESS,
    )
    return Entry(result, path, "local", about, _preset(run_of(path.parent) / "config.toml"))


def _preset(configuration: Path) -> str:
    """Return the preset of a local run's settings; empty if its configuration is not beside the result."""
    if not configuration.is_file():
        return ""
    try:
        run = files.read_toml(configuration)
    except ConfigError as error:
        raise DataError(str(error)) from error
    config = run.get("config")
    return preset_of(str(run.get("algorithm", "")), config if isinstance(config, dict) else {})


def incomplete(entries: Iterable[Entry], tasks: Iterable[Task]) -> list[LeftOut]:
    """Return the local results that lack a score of their task."""
    by_name = {task.name: task for task in tasks}
    out = []
    for entry in entries:
        missing = [axis for axis in SCORED if lacks(entry.result, axis)]
        task = by_name.get(entry.result.task) if missing else None
        if task is None or task.hash != entry.result.task_hash:
            continue
        required = [axis for axis in missing if any(spec.axis == axis for spec in task.metrics)]
        out += [_left_out(entry.path, lacking(entry, axis)) for axis in required[:1]]
    return out


def lacks(result: Result, axis: ScoredAxis) -> bool:
    """Whether a result lacks a value of an axis; naturalness may be missing if metrics could not be computed."""
    unscored = result.status == "complete" and getattr(result, axis) is None
    return unscored and not (axis == "naturalness" and result.errors)


def lacking(entry: Entry, axis: ScoredAxis) -> str:
    """Return the message about a result that lacks an axis."""
    why = "".join(f" It was not scored by {error}" for error in entry.result.errors)
    return f"{entry.path}: {axis} is missing, although the task scores it; score the run again.{why}"


def _is_at_home(entry: Entry) -> bool:
    result = entry.result
    return entry.path.parts[-5:-1] == (result.suite, result.task, result.system["name"], f"seed-{result.seed}")


def of_suite(entries: Iterable[Entry], suite: str, tasks: Iterable[str]) -> list[Entry]:
    """Return the entries of some tasks of a suite, sorted by row, task, seed and path."""
    names = set(tasks)
    return sorted((e for e in entries if e.result.suite == suite and e.result.task in names), key=_order)


RowKey = tuple[str, Status, bool, Prompting, bool]
"""System, status, limited, prompting, by an endpoint."""


def row_key(entry: Entry) -> RowKey:
    """Return the row that an entry belongs to.

    Results on a part of a split, with another status or another prompting are never averaged with the rest of a
    system, nor a server's answers with those of local weights.
    """
    result = entry.result
    return result.system["name"], entry.status, result.limited, prompting_of(result), is_by_endpoint(result)


def _order(entry: Entry) -> tuple[RowKey, str, int, str]:
    return row_key(entry), entry.result.task, entry.result.seed, str(entry.path)


def refuse_twins(entries: Sequence[Entry]) -> None:
    """Refuse two entries of the same system, task and seed.

    Args:
        entries: In the order of `of_suite`.
    """
    for entry, other in pairwise(entries):
        if _order(entry)[:3] == _order(other)[:3]:
            name, task, seed = entry.result.system["name"], entry.result.task, entry.result.seed
            raise DataError(
                f"Two results claim to be {name} on {task} with seed {seed}: {entry.path} and {other.path}; remove one."
            )

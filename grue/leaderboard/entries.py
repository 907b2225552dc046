"""Results of runs as entries of a board, in an order that does not depend on how they were found."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from grue.errors import DataError
from grue.records import SEEDLESS, About, Entry, Result, Status
from grue.submissions.folder import read_result


def find_results(runs: Path, suite: str = "*") -> list[Entry]:
    """Read `runs/<suite>/<task>/<system>/seed-<n>/result.json`; a missing folder holds none.

    Raises:
        DataError: One of the files cannot be read.
    """
    return [local_entry(path) for path in sorted(runs.glob(f"{suite}/*/*/seed-*/result.json"))]


def local_entry(path: Path) -> Entry:
    """Read the `result.json` of a local run.

    Raises:
        DataError: It cannot be read.
    """
    result = read_result(path)
    return Entry(result, path, "local", _about(result))


def _about(result: Result) -> About:
    """Return what a result records about its system."""
    system = result.system
    return About(
        algorithm=str(system.get("algorithm", "")),
        backbone=str(system.get("backbone", "")),
        parameters=system.get("parameters"),
        deterministic=system.get("algorithm") in SEEDLESS,
    )


def of_suite(entries: Iterable[Entry], suite: str, tasks: Iterable[str]) -> list[Entry]:
    """Return the entries of some tasks of a suite, sorted by row, task, seed and path."""
    names = set(tasks)
    return sorted((e for e in entries if e.result.suite == suite and e.result.task in names), key=_order)


def row_key(entry: Entry) -> tuple[str, Status, bool]:
    """Return the row that an entry belongs to: system, status, limited.

    Results on a part of a split, and results of another status, are never averaged with the rest of a system.
    """
    return entry.result.system["name"], entry.status, entry.result.limited


def _order(entry: Entry) -> tuple[tuple[str, Status, bool], str, int, str]:
    return row_key(entry), entry.result.task, entry.result.seed, str(entry.path)


def refuse_twins(entries: Sequence[Entry]) -> None:
    """Refuse two entries of the same system, task and seed.

    Args:
        entries: In the order of `of_suite`.

    Raises:
        DataError: There are two; names both files.
    """
    for one, other in pairwise(entries):
        if _order(one)[:3] == _order(other)[:3]:
            name, task, seed = one.result.system["name"], one.result.task, one.result.seed
            raise DataError(
                f"Two results claim to be {name} on {task} with seed {seed}: {one.path} and {other.path}; remove one."
            )

"""Systems whose outputs are published elsewhere: the figures that follow from them, with address and sha256.

    submissions/<suite>/<system>.recomputed.json

A maintainer writes them. Such a row is partial whatever it holds: it has one output for each example, and no seeds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grue import files
from grue.errors import DataError
from grue.records import About, Entry, Result
from grue.submissions.reading import refuse_strange

RECOMPUTED = ".recomputed.json"
PROVENANCE = ("source", "source_split", "examples", "outputs", "outputs_sha256")
"""What the data of each result says of the published file, and of the examples that it answers."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The content of a `.recomputed.json`: what the board says of a system, and its result on each task."""

    about: About
    results: tuple[Result, ...]


def recomputed(folder: Path, suite: str) -> list[Entry]:
    """Return the rows of a suite in `submissions/` whose outputs are published elsewhere, one entry a task.

    Raises:
        DataError: A file cannot be read, has another shape, or contradicts itself.
    """
    return [entry for path in sorted((folder / suite).glob(f"[!.]*{RECOMPUTED}")) for entry in _read(path, suite)]


def _read(path: Path, suite: str) -> Iterator[Entry]:
    refuse_strange(path)
    row = files.load_json(path, Recomputed)
    about = replace(row.about, log=f"submissions/{suite}/{path.name}")
    for result in row.results:
        if (result.suite, f"{result.system['name']}{RECOMPUTED}") != (suite, path.name):
            said = f"{result.suite}/{result.system['name']}"
            raise DataError(f"{path}: is of {said}; write it to {said}{RECOMPUTED}.")
        if missing := [key for key in PROVENANCE if key not in result.data] + ["year"] * ("year" not in result.system):
            raise DataError(f"{path}: {result.task}: does not say {', '.join(missing)}.")
        yield Entry(result, path, "recomputed", about)

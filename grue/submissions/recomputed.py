"""Systems whose outputs are published elsewhere: the figures that follow from them, with address and sha256.

    submissions/<suite>/<system>.recomputed.json

A maintainer writes them. Such a row is partial whatever it holds: it has one output for each example, and no seeds.
"""

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
    """Return the rows of a suite whose outputs are published elsewhere, one entry a task; raises as `read_reported`."""
    entries = []
    for path in sorted((folder / suite).glob(f"[!.]*{RECOMPUTED}")):
        refuse_strange(path)
        row = files.load_json(path, Recomputed)
        about = replace(row.about, log=f"submissions/{suite}/{path.name}")
        for result in row.results:
            home = f"{result.suite}/{result.system['name']}"
            if f"{home}{RECOMPUTED}" != f"{suite}/{path.name}":
                raise DataError(f"{path}: is of {home}; write it to {home}{RECOMPUTED}.")
            missing = [key for key in PROVENANCE if key not in result.data] + ["year"] * ("year" not in result.system)
            if missing:
                raise DataError(f"{path}: {result.task}: does not say {', '.join(missing)}.")
            entries.append(Entry(result, path, "recomputed", about))
    return entries

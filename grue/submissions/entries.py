"""Submitted results as entries of a board, read as carefully as the check reads them (`grue.submissions.reading`).

Beside them stand systems whose outputs are published elsewhere: the figures that follow from them, with address and
sha256, in `submissions/<suite>/<system>.recomputed.json`. A maintainer writes them. Such a row is partial whatever it
holds: it has one output for each example, and no seeds.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path

from grue import files
from grue.errors import DataError
from grue.records import About, Entry, Result, Status
from grue.runs.algorithms import preset_of
from grue.submissions.configuration import read_configuration
from grue.submissions.folder import (
    CONFIG,
    SUBMISSIONS,
    place_of,
    predictions_of,
    read_result,
    read_submission,
    seed_of,
    systems,
)
from grue.submissions.reading import check_manifest, refuse_strange, scan
from grue.submissions.trust.draw import GENERATED
from grue.submissions.trust.record import Standing, record_of, standing_of
from grue.task_files import SUITES, task_names

RECOMPUTED = ".recomputed.json"
PROVENANCE = ("source", "source_split", "examples", "outputs", "outputs_sha256")
"""What the data of each result says of the published file, and of the examples that it answers."""


def results(folder: Path, suite: str | None = None) -> list[Entry]:
    """Read the results of every submission in `folder`; their scores are not checked (`grue.submissions.checks` does).

    Raises:
        DataError, ConfigError: There is no such folder, or a file in it cannot be read or does not belong there.
    """
    return [entry for path in systems(folder) if suite in (None, suite_of(path)) for entry in entries_of(path)]


def suite_of(system: Path) -> str:
    """Return the suite of a system's folder."""
    return place_of(system).parent.name


def entries_of(system: Path) -> list[Entry]:
    """Read the results of a submission; raises as `results`."""
    suite = suite_of(system)
    if suite not in SUITES:
        raise DataError(f"{system}: {suite!r} is not a suite; submissions are in folders {' and '.join(SUITES)}.")
    scanned = scan(system, task_names(suite), texts=False)
    for problem in scanned.problems:
        raise DataError(f"{problem.path}: {problem.message} See `grue submit check {system}`.")
    submission = read_submission(system)
    shared = {field.name for field in fields(About)} & {field.name for field in fields(submission)}
    about = About(**{name: getattr(submission, name) for name in shared})
    paths = [system / name for name in sorted(scanned.readable)]
    read = {path: read_result(path) for path in paths if seed_of(path.name) is not None}
    presets = {}
    for path in (path for path in paths if path.name == CONFIG):
        last = read_configuration(path).stages[-1]
        presets[path.parent] = preset_of(last.algorithm, last.config)
    standing = standing_of(system, suite, read.values())
    if standing.rung and check_manifest(system, scanned)[0]:  # the record is of a manifest, and that of other files
        standing = Standing(None, standing.why, unverified=suite in GENERATED)
    logged = replace(about, log=f"{SUBMISSIONS}/{suite}/{record_of(system).name}") if standing.rung else about
    backed: tuple[Status, About] = standing.rung or "rescored", logged
    entries = []
    for path, result in read.items():
        # A failed run has no predictions to rescore.
        backing = backed if result.status == "failed" or predictions_of(path).is_file() else ("reported", about)
        is_rerun = (result.task, result.seed) in standing.reruns
        entries.append(Entry(result, path, *backing, presets.get(path.parent, ""), standing.unverified, is_rerun))
    return entries


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The content of a `.recomputed.json`: what the board says of a system, and its result on each task."""

    about: About
    results: tuple[Result, ...]


def recomputed(folder: Path, suite: str) -> list[Entry]:
    """Return the rows of a suite whose outputs are published elsewhere, one entry a task; raises as `results`."""
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

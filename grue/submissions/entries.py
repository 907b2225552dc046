"""Submitted results as entries of a board, read as carefully as the check reads them (`grue.submissions.reading`)."""

from dataclasses import replace
from pathlib import Path

from grue.errors import ConfigError, DataError
from grue.records import About, Entry, Result, Status
from grue.runs.algorithms import preset_of
from grue.submissions.configuration import read_configuration
from grue.submissions.folder import (
    CONFIG,
    SUBMISSIONS,
    Submission,
    place_of,
    predictions_of,
    read_result,
    read_submission,
    seed_of,
    systems,
)
from grue.submissions.reading import scan
from grue.submissions.trust.record import record_of, standing_of
from grue.task_files import SUITES, task_names


def results(folder: Path, suite: str | None = None) -> list[Entry]:
    """Read the results of every submission in `folder`; their scores are not checked (`grue.submissions.checks` does).

    Raises:
        DataError: There is no such folder; a system's folder holds what does not belong there, a link or a special
            file; or a result or a record of trust cannot be read.
        ConfigError: A submission.toml cannot be read.
    """
    places = [(system, place_of(system).parent.name) for system in systems(folder)]
    return [entry for system, of in places if suite in (None, of) for entry in _of_system(system, of)]


def readable_results(folder: Path, suite: str) -> tuple[list[Entry], dict[Path, str]]:
    """Read the results of every submission of a suite that can be read, and return why others cannot, by their folders.

    Raises:
        DataError: There is no such folder.
    """
    entries: list[Entry] = []
    unread: dict[Path, str] = {}
    for system in systems(folder):
        if place_of(system).parent.name == suite:
            try:
                entries += _of_system(system, suite)
            except (DataError, ConfigError) as error:
                unread[system] = str(error)
    return entries, unread


def _of_system(system: Path, suite: str) -> list[Entry]:
    if suite not in SUITES:
        raise DataError(f"{system}: {suite!r} is not a suite; submissions are in folders {' and '.join(SUITES)}.")
    found = scan(system, task_names(suite), texts=False)
    for problem in found.problems:
        raise DataError(f"{problem.path}: {problem.message} See `grue submit check {system}`.")
    about = about_submission(read_submission(system))
    paths = [system / name for name in sorted(found.readable) if seed_of(Path(name).name) is not None]
    known = {path: read_result(path) for path in paths}
    configured = {path.parent: path for name in found.readable if (path := system / name).name == CONFIG}
    presets = {folder: _preset(path) for folder, path in configured.items()}
    place = place_of(system)
    standing = standing_of(place, suite, known.values())
    if standing.rung is not None:
        about = replace(about, log=f"{SUBMISSIONS}/{suite}/{record_of(place).name}")
    status: Status = standing.rung or "rescored"
    entries = [_entry(path, result, status, about, presets.get(path.parent, "")) for path, result in known.items()]
    return [replace(entry, unverified=standing.unverified) for entry in entries]


def _preset(configuration: Path) -> str:
    last = read_configuration(configuration).last
    return preset_of(last.algorithm, last.config)


def _entry(path: Path, result: Result, status: Status, about: About, preset: str) -> Entry:
    # A failed run has no predictions to rescore.
    if result.status == "failed" or predictions_of(path).is_file():
        return Entry(result, path, status, about, preset)
    return Entry(result, path, "reported", replace(about, log=""), preset)


def about_submission(submission: Submission) -> About:
    """Return what the board shows about a submitted system."""
    return About(
        algorithm=submission.algorithm,
        backbone=submission.backbone,
        authors=submission.authors,
        licence=submission.licence,
        training_data=submission.training_data,
        budget=submission.budget,
        link=submission.link,
        deterministic=submission.deterministic,
    )

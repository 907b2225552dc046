"""Packing: writes the folder of a submission, all of it or nothing. Equal input gives equal bytes."""

import gzip
import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import SYSTEM_NAME, Prediction
from grue.submissions.configuration import Configuration
from grue.submissions.folder import CONFIG, MANIFEST, SUBMISSION, Submission, predictions_of
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.recorded import shared
from grue.submissions.packing.refusals import refusals


def pack(
    runs: Sequence[PackedRun],
    submission: Submission,
    output: Path,
    force: bool = False,
) -> Path:
    """Write the submission of `runs` into `<output>/<suite>/<name>` and return that folder.

    The folder is written under a temporary name and renamed: a reader finds the whole submission or none.

    Args:
        output: The folder `submissions/`.
        force: Replace a submission of that name.

    Raises:
        SubmissionError: The runs cannot be one submission; lists every reason.
        ConfigError: The name is invalid, or a submission of that name exists and `force` is not set.
        DataError: The folder cannot be written.
    """
    reasons = refusals(runs, submission.deterministic)
    if reasons:
        raise SubmissionError("\n  ".join(["These runs cannot be one submission:", *reasons]))
    if not SYSTEM_NAME.fullmatch(submission.name):
        raise ConfigError(f"--name {submission.name}: use letters, digits, '_', '-', '+' and '.'.")
    folder = output / runs[0].result.suite / submission.name
    try:
        files.restore_folder(folder)
        if folder.exists() and not force:
            raise ConfigError(f"{folder}: exists; replace it with --force, or choose another --name.")
        with files.replacing_folder(folder) as new:
            _fill(new, runs, submission)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}.") from error
    return folder


def _fill(folder: Path, runs: Sequence[PackedRun], submission: Submission) -> None:
    described = {key: value for key, value in files.plain(submission).items() if value}
    files.write_toml(folder / SUBMISSION, described)
    for run in sorted(runs, key=lambda run: (run.result.task, run.result.seed)):
        path = folder / run.result.task / f"seed-{run.result.seed}.result.json"
        named = replace(run.result, system={**run.result.system, "name": submission.name})
        files.write_json(path, named)
        if run.predictions is not None:
            predictions_of(path).write_bytes(zipped(run.predictions))
    for task, configuration in configurations(runs).items():
        if configuration is not None:
            files.write_json(folder / task / CONFIG, configuration)
    (folder / MANIFEST).write_text(manifest(folder), encoding="utf-8", newline="\n")


def configurations(runs: Iterable[PackedRun]) -> dict[str, Configuration | None]:
    """Return task → what all of its seeds were trained with; None if that is not one and the same, or not known."""
    found: dict[str, list[Configuration | None]] = {}
    for run in runs:
        if run.predictions is not None:
            found.setdefault(run.result.task, []).append(run.configuration)
    return {task: shared(of_task) for task, of_task in found.items()}


def zipped(predictions: Iterable[Prediction]) -> bytes:
    """Return predictions as gzipped JSON lines; the bytes depend on nothing else, not on the time or a file's name."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as handle:
        for prediction in predictions:
            record = {key: value for key, value in files.plain(prediction).items() if key != "truncated" or value}
            handle.write(f"{files.canonical_json(record)}\n".encode())
    return buffer.getvalue()


def manifest(folder: Path) -> str:
    """Return the lines of MANIFEST.sha256, which `sha256sum --check` reads: every file but itself, sorted."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names if name != MANIFEST
    )

"""A run's log, `train.jsonl`: a line per update, a line per validation, and a last line when the run is finished.

Updates are logged once each, in order, and a validation after the update that it measures. Any other log has lost
lines, or has lines of another run, and is refused.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import DataError
from grue.files import flush_to_disk, reason

NAME = "train.jsonl"

Line = Mapping[str, Any]


def is_update(line: Line) -> bool:
    """Whether a line is of an update, not of a validation or the end of the run."""
    return "seconds" in line


# --- reading ---------------------------------------------------------------------------------------------------------


def read_log(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], bool]:
    """Return the whole lines of a log, numbered, and whether a torn one follows because the run was killed.

    Raises:
        DataError: It cannot be read, a line is damaged, or updates are missing, repeated or of another run.
    """
    lines, torn = files.read_growing_jsonl(path)
    previous: Line = {"update": 0}
    for number, line in lines:
        if fault := _fault(line, previous):
            raise DataError(f"{path}, line {number}: {fault}")
        previous = {"of": previous.get("of"), **line}
    return lines, torn


def _fault(line: Line, previous: Line) -> str | None:
    """Return what is wrong with a line after a previous one; None if nothing is."""
    restore = "Lines are missing or repeated, or are another run's; restore the log."
    if previous.get("finished"):
        return f"stands behind the line that says that the run is finished. {restore}"
    if line.get("finished"):
        return None
    update = line.get("update")
    if not isinstance(update, int) or isinstance(update, bool):
        return f"update: expected a whole number, found {update!r}."
    if update != previous["update"] + is_update(line):
        subject = "update" if is_update(line) else "the validation of update"
        return f"{subject} {update} follows update {previous['update']}. {restore}"
    if not is_update(line) and update > 0 and not is_update(previous):
        return f"update {update} is validated a second time. {restore}"
    before = previous.get("of")
    if before is not None and line.get("of", before) != before:
        return f"is of a run of {line['of']} updates, after lines of one of {before}. {restore}"
    return None


# --- going back to a state -------------------------------------------------------------------------------------------


def flushed_digest(path: Path) -> dict[str, Any]:
    """Flush a log to disk, so that no state is ever ahead of it; return what identifies its content.

    Raises:
        DataError: It cannot be written.
    """
    try:
        flush_to_disk(path)
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {reason(error)}. Earlier states are untouched.") from error
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def rewind(path: Path, marked: Mapping[str, Any], update: int) -> None:
    """Cut a log back to what it was when the state of `update` was saved.

    Raises:
        DataError: The log does not begin with what was logged until then; nothing is cut.
    """
    content = path.read_bytes() if path.exists() else b""
    if hashlib.sha256(content[: marked["size"]]).hexdigest() == marked["sha256"]:
        if len(content) > marked["size"]:
            os.truncate(path, marked["size"])
        return
    advice = f"Restore the file, or remove {path.parent} to start the run again."
    if len(content) < marked["size"]:
        raise DataError(f"{path}: does not reach update {update}, where the saved state resumes. {advice}")
    try:
        read_log(path)
    except DataError as error:
        raise DataError(f"{error} The saved state resumes at update {update}. {advice}") from None
    raise DataError(f"{path}: not what was logged up to update {update}, where the saved state resumes. {advice}")

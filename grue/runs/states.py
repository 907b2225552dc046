"""The states that an interrupted run resumes from: its last few, each with a hash that shows whether it is whole.

A state is the file `state-<update>.pt`: what `torch.save` wrote, followed by a line with its sha256. It is written
under a temporary name, flushed to disk and renamed, and only then are older ones removed. It names the run that it
belongs to: a state of another run is refused.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from grue.errors import DataError
from grue.files import flush_to_disk, reason

NAME = re.compile(r"state-(\d+)\.pt")
TEMPORARY = re.compile(r"\.(config\.toml|run_id|selected\.json)\.[0-9a-f]{16}")  # of `files.write_text`
SEAL = "\nsha256 {}\n"
SEAL_BYTES = len(SEAL.format("0" * 64))
CHUNK = 1 << 20

Owner = Mapping[str, str | int]
"""What identifies the run that a state belongs to, the most telling first."""


def save_state(folder: Path, update: int, state: Mapping[str, Any], keep_last: int, owner: Owner) -> None:
    """Write everything that an interrupted run needs to resume, and remove all but the last `keep_last` states.

    Raises:
        DataError: It cannot be written; the states before are untouched.
    """
    path = folder / f"state-{update:06d}.pt"
    temporary = folder / f".{path.name}.new"
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            flush_to_disk(folder.parent)
        remove(*folder.glob(".state-*.new"))  # of a process that was killed while it wrote
        with temporary.open("wb") as handle:
            torch.save({"owner": {**owner, "update": update}, "state": dict(state)}, handle)
            handle.flush()
            handle.write(_seal(temporary, handle.tell()))
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
        flush_to_disk(folder)
        before = [old for number, old in _states(folder) if number < update]
        remove(*before[keep_last - 1 :])
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        with suppress(OSError):  # report the first error
            remove(temporary)
        raise DataError(
            f"{path}: cannot be written: {reason(error)}. Earlier states are untouched: "
            "once there is room, the same command resumes from the last of them."
        ) from error


def newest_state(folder: Path, owner: Owner, warn: Callable[[str], None]) -> tuple[int, dict[str, Any]] | None:
    """Return the newest whole state and how many updates it has, or None if none was ever saved.

    A damaged state is renamed, with a warning, if an older one is whole.

    Raises:
        DataError: No state is whole, or the newest whole one cannot be read or is another run's.
    """
    saved = _states(folder)
    try:
        for index, (update, path) in enumerate(saved):
            if _is_whole(path):
                state = _load(path, {**owner, "update": update})
                for _, damaged in saved[:index]:
                    aside = damaged.with_name(f"{damaged.name}.damaged")
                    os.replace(damaged, aside)
                    warn(f"{damaged}: damaged, and set aside as {aside.name}; going on from update {update} instead.")
                return update, state
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {reason(error)}.") from error
    if saved:
        names = ", ".join(path.name for _, path in saved)
        raise DataError(
            f"{folder}: no saved state is whole ({names}), so the run cannot resume. Restore a copy of "
            f"one, or remove {folder.parent} to start the run again."
        )
    return None


def discard_states(folder: Path) -> None:
    """Remove the states of a finished run; a DataError if they cannot be removed."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{folder}: cannot be removed: {reason(error)}; the run is finished without it.") from error


def clear_leavings(folder: Path) -> None:
    """Remove temporary files that a process left in a run's folder because it was killed while it wrote."""
    remove(*(path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)))


def remove(*paths: Path) -> None:
    """Remove files if they exist; a read-only disk refuses to unlink even what is not there."""
    for path in filter(os.path.lexists, paths):
        path.unlink(missing_ok=True)


def _states(folder: Path) -> list[tuple[int, Path]]:
    """Return the updates and paths of all states, newest first."""
    if not folder.is_dir():
        return []
    named = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted(((int(match[1]), path) for match, path in named if match), reverse=True)


def _is_whole(path: Path) -> bool:
    """Whether a file ends in the sha256 of its other content."""
    with path.open("rb") as handle:
        size = handle.seek(0, os.SEEK_END) - SEAL_BYTES
        handle.seek(max(0, size))
        return size > 0 and handle.read() == _seal(path, size)


def _seal(path: Path, size: int) -> bytes:
    """Return the seal of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        for begin in range(0, size, CHUNK):
            digest.update(handle.read(min(CHUNK, size - begin)))
    return SEAL.format(digest.hexdigest()).encode()


def _load(path: Path, owner: Owner) -> dict[str, Any]:
    """Read a whole state, and refuse that of another run before any of it is used.

    torch reads it with its seal, since a zip archive may be followed by more bytes.
    """
    try:
        saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, KeyError, EOFError, UnpicklingError) as error:
        raise DataError(
            f"{path}: whole, but torch {torch.__version__} cannot read it: {reason(error)}. "
            "Go on with the version of torch that saved it."
        ) from error
    pairs = {key: (saved["owner"][key], expected) for key, expected in owner.items()}
    differing = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    if list(differing) == ["system"]:  # of this very run
        stated, expected = differing["system"]
        raise DataError(
            f"{path}: this run began as {stated}, and a run keeps its name: its folder was renamed to {expected}. "
            f"Rename it back, and train it as {stated} (--system): it then resumes from here."
        )
    for key, (stated, expected) in differing.items():
        raise DataError(
            f"{path}: the state of another run: its {key} is {stated!r}, not {expected!r}. Remove it: the same "
            "command then resumes from the states that this run saved itself."
        )
    state: dict[str, Any] = saved["state"]
    return state

"""The states that an interrupted run resumes from: its last few, each with the hash that shows whether it is whole.

A state is the file `state-<update>.pt`: what `torch.save` wrote and, behind it, a line with the sha256 of that. It is
filled under a temporary name, brought to the disk and renamed, and only then do older ones go. It says whose it is: a
state of another run is refused, and so is one that says nothing of that, as older versions wrote them.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, BinaryIO

import torch

from grue.errors import DataError
from grue.files import flush_to_disk, reason

NAME = re.compile(r"state-(\d+)\.pt")
TEMPORARY = re.compile(r"\.(config\.toml|run_id|selected\.json)\.[0-9a-f]{16}")  # of `files.write_text`
SEAL = "\nsha256 {}\n"
SEAL_BYTES = len(SEAL.format("0" * 64))
CHUNK = 1 << 20

Owner = Mapping[str, str | int]
"""What says whose a state is, the most telling first."""


def save_state(folder: Path, update: int, state: Mapping[str, Any], keep_last: int, owner: Owner) -> None:
    """Write everything that an interrupted run needs to resume, and remove all but the last `keep_last` states.

    Args:
        folder: The run's folder of states; it is made if it is not there.
        update: Updates behind the state.
        state: Tensors, numbers, texts, and lists and dictionaries of them.
        owner: What says whose state it is: see `grue.runs.folder.owner_of`.

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
        _write_sealed(temporary, {"owner": {**owner, "update": update}, "state": dict(state)})
        os.replace(temporary, path)
        flush_to_disk(folder)
        before = [old for number, old in _states(folder) if number < update]
        remove(*before[keep_last - 1 :])
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        with suppress(OSError):  # the first error is the one to tell
            remove(temporary)
        raise DataError(
            f"{path}: cannot be written: {reason(error)}. The states before are untouched: "
            "once there is room, the same command resumes from the last of them."
        ) from error


def newest_state(folder: Path, owner: Owner, warn: Callable[[str], None]) -> tuple[int, dict[str, Any]] | None:
    """Return the newest whole state and the updates behind it, or None if none was ever saved.

    A damaged state is set aside under another name, with a warning, where an older one is whole.

    Args:
        owner: What the state must say of itself.

    Raises:
        DataError: None is whole, or it cannot be read, or is another run's.
    """
    found = _states(folder)
    try:
        for index, (update, path) in enumerate(found):
            if _is_whole(path):
                state = _load(path, {**owner, "update": update})
                for _, damaged in found[:index]:
                    aside = damaged.with_name(f"{damaged.name}.damaged")
                    os.replace(damaged, aside)
                    warn(f"{damaged}: damaged, and set aside as {aside.name}; going on from update {update} instead.")
                return update, state
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {reason(error)}.") from error
    if found:
        names = ", ".join(path.name for _, path in found)
        raise DataError(
            f"{folder}: no saved state is whole ({names}), so the run cannot resume. Restore a copy of "
            f"one, or remove {folder.parent} to start the run again."
        )
    return None


def discard_states(folder: Path) -> None:
    """Remove the states of a run that is finished.

    Raises:
        DataError: They cannot be removed.
    """
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{folder}: cannot be removed: {reason(error)}; the run is finished without it.") from error


def clear_leavings(folder: Path) -> None:
    """Remove what a process that was killed while it wrote left in a run's folder under temporary names."""
    remove(*(path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)))


def remove(*paths: Path) -> None:
    """Remove files, those that are there."""
    for path in paths:
        path.unlink(missing_ok=True)


def _states(folder: Path) -> list[tuple[int, Path]]:
    """Return the updates and paths of all states, newest first."""
    if not folder.is_dir():
        return []
    named = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted(((int(match[1]), path) for match, path in named if match), reverse=True)


def _write_sealed(path: Path, state: Mapping[str, Any]) -> None:
    with path.open("w+b") as handle:
        torch.save(dict(state), handle)
        size = handle.seek(0, os.SEEK_END)
        handle.write(SEAL.format(_digest(handle, size)).encode())
        handle.flush()
        os.fsync(handle.fileno())


def _is_whole(path: Path) -> bool:
    """Whether a file ends in the sha256 of all that stands before."""
    with path.open("rb") as handle:
        size = handle.seek(0, os.SEEK_END) - SEAL_BYTES
        return size > 0 and SEAL.format(_digest(handle, size)).encode() == handle.read()


def _digest(handle: BinaryIO, size: int) -> str:
    """Return the sha256 of the first `size` bytes of a file, and leave it behind them."""
    digest = hashlib.sha256()
    handle.seek(0)
    while size:
        chunk = handle.read(min(CHUNK, size))
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def _load(path: Path, owner: Owner) -> dict[str, Any]:
    """Read a state that is whole; a zip archive may have more behind it, so torch reads it seal and all.

    Raises:
        DataError: torch cannot read it, or it is another run's.
    """
    try:
        saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, KeyError, EOFError, UnpicklingError) as error:
        raise DataError(
            f"{path}: whole, but torch {torch.__version__} cannot read it: {reason(error)}. "
            "Go on with the version of torch that saved it."
        ) from error
    _refuse_other_owner(path, saved.get("owner") if isinstance(saved, dict) else None, owner)
    state: dict[str, Any] = saved["state"]
    return state


def _refuse_other_owner(path: Path, found: object, owner: Owner) -> None:
    """Refuse the state of another run, before any of it is used.

    Raises:
        DataError: It is another's, or does not say whose it is.
    """
    if not isinstance(found, dict):
        raise DataError(
            f"{path}: does not say which run saved it, as states of older versions of grue do not. Go on with the "
            f"version that saved it, or remove {path.parent.parent} to start the run again."
        )
    for key, expected in owner.items():
        if found.get(key) != expected:
            raise DataError(
                f"{path}: the state of another run: its {key} is {found.get(key)!r}, not {expected!r}. Remove it: the "
                "same command then resumes from the states that this run saved itself."
            )

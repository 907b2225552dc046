"""Work that takes long and may be interrupted: claimed, written, then finished or abandoned, by one process at a time.

A claim states everything that decides what comes out. Work is resumed by the call that makes the same claim, and by no
other. What is made outside a run's folder is kept in `TARGET.partial` until the target is whole.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from grue import files
from grue.errors import ConfigError, DataError

T = TypeVar("T")

LOCK = ".lock"
"""The file of a folder's lock; it stays there when the lock is released."""
CLAIM = "claim.json"
CURE = "Write elsewhere with --output, or remove it."
HASHES = ("_hash", "_sha256", "_weights", "_models")
"""How keys end whose values tell a reader only that something differs."""


def unfinished(target: Path) -> Path:
    """Return the folder that keeps what is not finished of a file or folder."""
    return target.with_name(f"{target.name}.partial")


def carry_out(
    target: Path,
    claim: Mapping[str, Any],
    what: str,
    progress: str,
    read: Callable[[], T],
    write: Callable[[Path], T],
) -> T:
    """Return what `read` does if the target is whole, else what `write` does.

    Args:
        what: What the target holds: "responses".
        progress: Name of the file or folder in the partial folder that interrupted work is resumed from.
        read: Reads the target; refuses one of another claim.
        write: Called with the partial folder, in which progress is kept; writes the target, as a whole.

    Raises:
        ConfigError: The partial folder holds other work, or another process writes there.
        DataError: Something cannot be read or written.
    """
    partial = unfinished(target)
    if target.exists() and not partial.exists():
        return read()
    with sole_owner(partial, f"{target}: another process is writing it; wait for it, or write elsewhere."):
        if target.exists():
            done = read()
        else:
            _begin(partial, files.plain(claim), what, progress)
            try:
                done = write(partial)
            except BaseException:
                if not _holds(partial / progress):
                    shutil.rmtree(partial)  # abandoned: nothing that could be resumed
                raise
        shutil.rmtree(partial)
    return done


def _begin(partial: Path, claim: Mapping[str, Any], what: str, progress: str) -> None:
    others = sorted(
        path.name for path in partial.iterdir() if path.name not in (CLAIM, progress) and path.name[0] != "."
    )
    if others:
        raise ConfigError(f"{partial}: holds unfinished work of another kind, {others[0]}. {CURE}")
    if _holds(partial / progress):
        refuse_other(partial, what, read_claim(partial / CLAIM, f"Remove {partial} to start again."), claim, CURE)
    else:
        files.write_json(partial / CLAIM, claim)


def _holds(progress: Path) -> bool:
    return any(progress.iterdir()) if progress.is_dir() else progress.exists()


def read_claim(path: Path, cure: str) -> dict[str, Any]:
    """Read a claim.

    Raises:
        DataError: It cannot be read; the message ends with `cure`.
    """
    try:
        claim = files.read_json(path)
    except DataError as error:
        raise DataError(f"{error} {cure}") from error
    if not isinstance(claim, dict):
        raise DataError(f"{path}: expected an object. {cure}")
    return claim


def differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return key → (value held, value wanted) where they differ; keys of tables are written `table.key`."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for key, value in wanted.items():
        other = held.get(key)
        if isinstance(other, Mapping) and isinstance(value, Mapping):
            inner = differences(other, {**dict.fromkeys(other), **value})
            pairs |= {f"{key}.{name}": pair for name, pair in inner.items()}
        elif other != value:
            pairs[key] = (other, value)
    return pairs


def refuse_other(where: Path, what: str, held: Mapping[str, Any], wanted: Mapping[str, Any], cure: str) -> None:
    """Refuse a folder or a file whose claim is of other work than is wanted.

    Args:
        what: What it holds: "responses".

    Raises:
        ConfigError: A value differs; names the first that a reader understands, and the keys of all others.
    """
    pairs = differences(held, wanted)
    keys = sorted(pairs, key=lambda key: key.partition(".")[0].endswith(HASHES))
    if keys:
        others = f" (and other values of {', '.join(keys[1:])})" if keys[1:] else ""
        raise ConfigError(f"{where}: holds {what} {_in_words(keys[0], *pairs[keys[0]])}{others}. {cure}")


def _in_words(key: str, held: Any, wanted: Any) -> str:
    if key == "limit":
        parts = ["the whole split" if limit is None else f"the first {limit} examples" for limit in (held, wanted)]
        return f"of {parts[0]}, not of {parts[1]}"
    if key == "task_hash":
        return f"for another version of the task ({str(held)[:12]}, now {wanted[:12]})"
    if key == "data_sha256" and held:
        return "of other data: the files that its examples were read from have changed"
    if key == "chat" and held and wanted:
        return f"by another chat prompt ({str(held)[:12]}, now {wanted[:12]})"
    return f"with {key} = {held!r}, not {wanted!r}"


@contextmanager
def sole_owner(folder: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there; it is released on exit, also that of the process.

    Raises:
        ConfigError: Another process holds it; the message is `refusal`.
        DataError: The folder cannot be written, or its file system gives no locks.
    """
    path = folder / LOCK
    lock = _lock_of(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}.") from error
    try:
        lock.acquire()
    except Timeout as error:
        raise ConfigError(refusal) from error
    except OSError as error:
        raise _cannot_lock(path, error) from error
    try:
        yield
    finally:
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of a folder; looking makes no folder.

    Raises:
        DataError: The lock cannot be read, or the file system gives none.
    """
    path = folder / LOCK
    if not path.exists():
        return False
    try:
        with _lock_of(path):
            return False
    except Timeout:
        return True
    except OSError as error:
        raise _cannot_lock(path, error) from error


def _lock_of(path: Path) -> FileLock:
    return FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)


def _cannot_lock(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path}: cannot be locked: {files.reason(error)}. Without a lock two processes could write here at once; some "
        "network file systems give none. Choose a folder on another file system with --runs, or mount this one with "
        "locks."
    )

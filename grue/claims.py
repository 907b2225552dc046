"""Long work that may be interrupted: claimed, written, then finished or abandoned, by one process at a time.

A claim contains everything that the result depends on. Only a call with the same claim can resume the work. Unfinished
work outside a run's folder is kept in `TARGET.partial`.
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
"""The lock file of a folder; it stays when the lock is released."""
CLAIM = "claim.json"
CURE = "Write elsewhere with --output, or remove it."
HASHES = ("_hash", "_sha256", "_weights", "_models")
"""Endings of keys whose values tell a reader only that something differs."""
PLACES: Mapping[str, str] = {
    **{"backbone": "backbone_weights", "data_dir": "data_sha256", "split": "file"},
    **{"config.data": "scored_sha256", "config.reference": "reference_sha256"},
}
"""Key that says where something lies → key of its hash; `table.key` is in a table."""


def unfinished(target: Path) -> Path:
    """Return the folder for the unfinished content of a file or folder."""
    return target.with_name(f"{target.name}.partial")


def carry_out(
    target: Path,
    claim: Mapping[str, Any],
    contents: str,
    progress: str,
    read: Callable[[], T],
    write: Callable[[Path], T],
) -> T:
    """Return the result of `read` if the target is complete, else that of `write`.

    Args:
        contents: What the target holds, for messages: "responses".
        progress: Name of the file or folder in the partial folder from which interrupted work is resumed.
        read: Reads the target; refuses one with another claim.
        write: Called with the partial folder, where it keeps progress; writes the complete target.

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
            names = {path.name for path in partial.iterdir() if path.name[0] != "."}
            if foreign := sorted(names - {CLAIM, progress}):
                raise ConfigError(f"{partial}: holds unfinished work of another kind, {foreign[0]}. {CURE}")
            if _holds(partial / progress):
                held = read_claim(partial / CLAIM, f"Remove {partial} to start again.")
                refuse_other(partial, contents, held, files.plain(claim), CURE)
            else:
                files.write_json(partial / CLAIM, claim)
            try:
                done = write(partial)
            except BaseException:
                if not _holds(partial / progress):
                    shutil.rmtree(partial)  # abandoned: there is nothing to resume
                raise
        shutil.rmtree(partial)
    return done


def _holds(progress: Path) -> bool:
    return any(progress.iterdir()) if progress.is_dir() else progress.exists()


def read_claim(path: Path, cure: str) -> dict[str, Any]:
    """Read a claim."""
    try:
        claim = files.read_json(path)
    except DataError as error:
        raise DataError(f"{error} {cure}") from error
    if not isinstance(claim, dict):
        raise DataError(f"{path}: expected an object. {cure}")
    return claim


def differences(held: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return key → (held value, expected value) where they differ; keys of tables are written `table.key`."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for key, value in expected.items():
        current = held.get(key)
        if isinstance(current, Mapping) and isinstance(value, Mapping):
            inner = differences(current, {**dict.fromkeys(current), **value})
            pairs |= {f"{key}.{name}": pair for name, pair in inner.items()}
        elif current != value:
            pairs[key] = (current, value)
    return pairs


def as_held(held: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Return an expected claim with the places of the held one where the hash says that the same lies there.

    A folder that was moved, or is mounted elsewhere on another machine, is no other work.
    """
    claim = dict(expected)
    for place, content in PLACES.items():
        table, _, key = place.rpartition(".")
        ours, theirs = (claim.get(table), held.get(table)) if table else (claim, held)
        same = claim.get(content) and claim[content] == held.get(content)
        if same and isinstance(ours, Mapping) and isinstance(theirs, Mapping) and key in ours and key in theirs:
            claim |= {table: {**ours, key: theirs[key]}} if table else {key: theirs[key]}
    return claim


def refuse_other(where: Path, contents: str, held: Mapping[str, Any], expected: Mapping[str, Any], cure: str) -> None:
    """Refuse a folder or file with another claim than expected."""
    pairs = differences(held, as_held(held, expected))
    keys = sorted(pairs, key=lambda key: key.partition(".")[0].endswith(HASHES))
    if keys:
        rest = f" (and other values of {', '.join(keys[1:])})" if keys[1:] else ""
        raise ConfigError(f"{where}: holds {contents} {_in_words(keys[0], *pairs[keys[0]])}{rest}. {cure}")


def _in_words(key: str, held: Any, expected: Any) -> str:
    if key == "limit":
        parts = ["the whole split" if limit is None else f"the first {limit} examples" for limit in (held, expected)]
        return f"of {parts[0]}, not of {parts[1]}"
    if key == "task_hash":
        return f"for another version of the task ({str(held)[:12]}, now {expected[:12]})"
    if key == "data_sha256" and held:
        return "of other data: the files that its examples were read from have changed"
    if key == "chat" and held and expected:
        return f"by another chat prompt ({str(held)[:12]}, now {expected[:12]})"
    return f"with {key} = {held!r}, not {expected!r}"


@contextmanager
def sole_owner(folder: Path, refusal: str, name: str = LOCK) -> Iterator[None]:
    """Hold a lock of a folder, which is created if needed; the lock is released on exit, also of the process."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}.") from error
    lock = _acquired(path)
    if lock is None:
        raise ConfigError(refusal)
    try:
        yield
    finally:
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of a folder, which is not created."""
    path = folder / LOCK
    if not path.exists():
        return False
    lock = _acquired(path)
    if lock is not None:
        lock.release()
    return lock is None


def _acquired(path: Path) -> FileLock | None:
    """Return a lock that is now held by this process; None if another holds it."""
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be locked: {files.reason(error)}. Without a lock two processes could write here at once; "
            "some network file systems have none. Choose a folder on another file system with --runs, or mount this "
            "one with locks."
        ) from error
    return lock

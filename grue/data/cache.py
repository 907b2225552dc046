"""Where data is kept on this machine, and how a file gets there: whole or not at all, by one process at a time."""

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grue.errors import DataError


def cache_folder() -> Path:
    """Return $GRUE_CACHE, else grue's folder in $XDG_CACHE_HOME, else ~/.cache/grue."""
    if chosen := os.environ.get("GRUE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "grue"


def mirror_folder() -> Path:
    """Return where fetched data goes: $GRUE_DATA, else the folder `mirror` of the cache."""
    chosen = os.environ.get("GRUE_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder() / "mirror"


def mirror_folders() -> list[Path]:
    """Return where fetched data is looked for, in order: `mirror_folder`, then the cache's own."""
    return list(dict.fromkeys([mirror_folder(), cache_folder() / "mirror"]))


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour of `path` to be filled; it takes the place of `path` if all goes well.

    Raises:
        DataError: The place cannot be written, or is full; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        finally:
            with suppress(OSError):  # it is not there when all went well
                temporary.unlink()


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn the system's errors in writing `path` into one that says what to do; others pass."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"{path}: the disk is full ({free_space(path)} free). Make room, or choose another place with "
                "GRUE_CACHE, GRUE_DATA or --output; the same command goes on from what is whole."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise DataError(
                f"{path}: cannot be written: {error.strerror}. Choose another place with GRUE_CACHE, GRUE_DATA or "
                "--output."
            ) from error
        raise


def free_space(path: Path) -> str:
    """Return how much room there is where `path` is or would be, for people to read."""
    there = next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))
    return size_text(shutil.disk_usage(there).free)


def size_text(size: float) -> str:
    """Return a number of bytes for people to read: `12.3 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for another process that does; one that dies lets go of it.

    Raises:
        DataError: The file cannot be written.
    """
    with telling(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield

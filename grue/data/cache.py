"""Where data is kept on this machine; files are written there atomically, by one process at a time."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from grue import files
from grue.errors import DataError


def cache_folder() -> Path:
    """Return $GRUE_CACHE, else grue's folder in $XDG_CACHE_HOME, else ~/.cache/grue."""
    if chosen := os.environ.get("GRUE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "grue"


def mirror_folder() -> Path:
    """Return the folder that data is fetched into: $GRUE_DATA, else the folder `mirror` of the cache."""
    chosen = os.environ.get("GRUE_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder() / "mirror"


def mirror_folders() -> list[Path]:
    """Return the folders searched for fetched data, in order: `mirror_folder`, then the cache's own mirror."""
    return list(dict.fromkeys([mirror_folder(), cache_folder() / "mirror"]))


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` to write to; it replaces `path` if the block succeeds."""
    with translate_disk_errors(path), files.replacing(path) as temporary:
        yield temporary


@contextmanager
def translate_disk_errors(path: Path) -> Iterator[None]:
    """Translate a full disk, or a `path` that cannot be written, into an error that says so; others are not changed."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            existing = next((folder for folder in (path, *path.parents) if folder.exists()), Path("/"))
            raise DataError(
                f"{path}: the disk is full ({size_text(shutil.disk_usage(existing).free)} free). Make room, or choose "
                "another place with GRUE_CACHE, GRUE_DATA or --output; the same command then resumes from the finished "
                "files."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise DataError(
                f"{path}: cannot be written: {error.strerror}. Choose another place with GRUE_CACHE, GRUE_DATA or "
                "--output."
            ) from error
        raise


def size_text(size: float) -> str:
    """Return a number of bytes for people to read: `12.3 MB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for another process that holds it; the lock is released on exit."""
    lock = FileLock(path)
    with translate_disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()

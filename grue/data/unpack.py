"""Unpacking an archive that is not trusted.

The filters of `tarfile` and `zipfile` rewrite a member's name that leads out of the folder, allow links within it, and
set no limit on the size. Here such a member is an error, and so is an archive that unpacks to too much.
"""

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from grue.data.cache import translate_disk_errors
from grue.errors import DataError

CHUNK = 1 << 20  # bytes
LARGEST = 20 * 1000**3  # bytes that an archive may unpack to
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError)


def unpack(archive: Path, folder: Path, largest: int = LARGEST) -> None:
    """Unpack a zip or tar archive into a new folder; any other file is copied there.

    Archives within it stay packed: the readers of original layouts look into zip files.

    Args:
        largest: Bytes that the archive may unpack to.

    Raises:
        DataError: The archive is damaged, contains links or paths outside the folder, or unpacks to more than
            `largest` bytes.
    """
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not archive.name.lower().endswith((".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")):
            shutil.copyfile(archive, folder / archive.name)
            return
        members, left = _zip_members if archive.suffix.lower() == ".zip" else _tar_members, largest
        try:
            for name, content in members(archive):
                left -= _write(content, folder / _inside(archive, name), left)
        except DAMAGED as error:
            raise DataError(f"{archive}: the archive is damaged: {error}. Delete it and fetch it again.") from error


def _write(content: IO[bytes], target: Path, largest: int) -> int:
    """Write a member of an archive, and return its size in bytes."""
    size = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as handle:
        while chunk := content.read(CHUNK):
            size += len(chunk)
            if size > largest:
                raise DataError(f"{target}: refused: the archive unpacks to more than is allowed.")
            handle.write(chunk)
    return size


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                raise DataError(f"{archive}: refused: it contains the link {member.filename!r}.")
            if not member.is_dir():
                with opened.open(member) as content:
                    yield member.filename, content


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content
            elif not member.isdir():
                raise DataError(f"{archive}: refused: it contains {member.name!r}, which is neither file nor folder.")


def _inside(archive: Path, name: str) -> PurePosixPath:
    """Return a member's path, which must lie within the folder that the archive is unpacked into."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or not path.parts:
        raise DataError(f"{archive}: refused: it contains {name!r}, a path outside its folder.")
    return path

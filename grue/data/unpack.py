"""Unpacking an archive that is not trusted.

The filters of `tarfile` and `zipfile` rewrite a member's name that leads out of the folder, allow links within it, and
set no limit on the size. Here such a member is an error, and so is an archive that unpacks to too much.
"""

import bz2
import errno
import gzip
import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from grue.data.cache import translate_disk_errors
from grue.data.limits import LARGEST, MOST_MEMBERS, BoundedReader, check_member, check_ratio, open_zip
from grue.errors import DataError, escaped

CHUNK = 1 << 20  # bytes
DEEPEST, LONGEST_NAME = 64, 255  # folders, and bytes of one's name
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
DAMAGE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL)
"""What the system says of names in each other's way, and of places before the beginning of a file."""
OPEN: Mapping[str, Callable[[Path], Any]] = {
    ".tar": lambda path: path.open("rb"),
    ".tgz": gzip.open,
    ".tar.gz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tar.xz": lzma.open,
}


class DamagedArchive(DataError):
    """What cannot be unpacked as the archive that its name says it is."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive}: the archive is damaged: {reason}. Delete it and fetch it again.")
        self.reason = reason


def unpack(archive: Path, folder: Path, largest: int = LARGEST) -> None:
    """Unpack a zip or tar archive into a new folder; any other file is copied there.

    Archives within it stay packed: the readers of original layouts look into zip files.

    Args:
        largest: Bytes that the archive may unpack to.

    Raises:
        DamagedArchive: It is damaged, or none.
        DataError: It contains links or paths outside the folder, or unpacks to more than `largest` bytes.
    """
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        name = archive.name.lower()
        if not name.endswith((".zip", *OPEN)):
            shutil.copyfile(archive, folder / archive.name)
            return
        members, left = _zip_members if name.endswith(".zip") else _tar_members, largest
        try:
            for inside, content in members(archive):
                left -= _write(content, folder / _inside(archive, inside), left)
                check_ratio(archive, largest - left, archive.stat().st_size)
        except (*DAMAGED, gzip.BadGzipFile) as error:
            raise DamagedArchive(archive, escaped(error) or type(error).__name__) from error
        except OSError as error:
            if error.errno in DAMAGE or error.errno is None:  # the system's have a number, that of bz2 has none
                raise DamagedArchive(archive, error.strerror or escaped(error)) from error
            raise


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
    with open_zip(archive, archive) as opened:
        for member in opened.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind == stat.S_IFLNK:
                raise DataError(f"{archive}: refused: it contains the link {member.filename!r}.")
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise DataError(
                    f"{archive}: refused: it contains {member.filename!r}, which is neither file nor folder."
                )
            if not member.is_dir():
                check_member(archive, member)
                with opened.open(member) as content:
                    yield member.filename, content


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    ending = next(ending for ending in OPEN if archive.name.lower().endswith(ending))
    with OPEN[ending](archive) as handle:
        reader: Any = BoundedReader(handle, archive, archive.stat().st_size)
        with tarfile.open(fileobj=reader, mode="r:") as opened:
            for number, member in enumerate(opened, start=1):
                if number > MOST_MEMBERS:
                    raise DataError(f"{archive}: refused: it has more than {MOST_MEMBERS:,} members.")
                content = opened.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content
                elif not member.isdir():
                    raise DataError(
                        f"{archive}: refused: it contains {member.name!r}, which is neither file nor folder."
                    )
            reader.seek(opened.offset)
            if reader.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # tarfile takes garbage for the end
                raise DamagedArchive(archive, "it has no end")


def _inside(archive: Path, name: str) -> PurePosixPath:
    """Return a member's path, which must lie within the folder that the archive is unpacked into."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or not path.parts:
        raise DataError(f"{archive}: refused: it contains {name!r:.80}, a path outside its folder.")
    if (
        not name.isprintable()
        or len(path.parts) > DEEPEST
        or any(len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME for part in path.parts)
    ):
        raise DataError(f"{archive}: refused: it contains {name!r:.80}, a name that is no sensible file's.")
    return path

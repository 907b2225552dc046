"""How much a file of data may hold, so that one from an untrusted place cannot fill memory or disk.

The bounds are far above what the data sets hold: WMT16 has 4.5 million rows, IMDB's archive 100,000 members. That of a
line is in `grue.files`.
"""

import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

from grue.errors import DataError, escaped

LARGEST = 20 * 1000**3  # bytes that an archive may unpack to, or one of its members
RATIO, SLACK = 200, 16 * 1000**2  # times its packed size that data may have unpacked; text has up to 20 times
MOST_MEMBERS = 300_000  # of an archive
LARGEST_DIRECTORY = 128 * 1000**2  # bytes of a zip archive's list of members
LARGEST_READ = 64 * 1000**2  # bytes that a tar archive's header may ask to be read at once
LARGEST_TEXT = 1000**3  # bytes of a file that is read at once
LONGEST_CELL = 1 << 24  # characters; the csv module stops at 131,072, and articles may be longer
MOST_COLUMNS = 4096
MOST_ROWS = 100_000_000
MOST_RESPONSES = 10_000_000  # of a file of scored responses
LARGEST_REWARD = 1e18  # its square fits into single precision, in which rewards are standardised
LARGEST_BATCH = 1000**3  # bytes of rows of parquet that are in memory at once


def check_ratio(where: object, unpacked: int, packed: int) -> None:
    """Refuse data that unpacks to far more than data does.

    Raises:
        DataError: It does.
    """
    if unpacked > LARGEST or unpacked > RATIO * packed + SLACK:
        raise DataError(
            f"{escaped(where)}: refused: {packed:,} bytes unpack to {unpacked:,} or more, more than is allowed."
        )


class _Limit:
    """The memory of this process, which several threads may limit at once: the first sets it, the last restores it."""

    lock, threads, usual = Lock(), 0, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    @classmethod
    def enter(cls, most: int) -> None:
        with cls.lock:
            cls.threads += 1
            if cls.threads == 1:
                cls.usual = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
                size, *_, data, _ = map(int, Path("/proc/self/statm").read_text(encoding="ascii").split())
                limit = (data or size) * resource.getpagesize() + most
                resource.setrlimit(resource.RLIMIT_DATA, (limit if soft < 0 else min(soft, limit), hard))

    @classmethod
    def leave(cls) -> None:
        with cls.lock:
            cls.threads -= 1
            if not cls.threads:
                resource.setrlimit(resource.RLIMIT_DATA, cls.usual)


@contextmanager
def bounded_memory(where: object, most: int) -> Iterator[None]:
    """Let this process take at most `most` further bytes meanwhile, all its threads together; on Linux alone.

    Raises:
        DataError: More was asked for.
    """
    if sys.platform != "linux":
        yield
        return
    _Limit.enter(most)
    try:
        yield
    except MemoryError as error:
        raise DataError(f"{escaped(where)}: refused: it takes more than {most:,} bytes of memory at once.") from error
    finally:
        _Limit.leave()


# --- zip -------------------------------------------------------------------------------------------------------------

END, END64 = b"PK\5\6", b"PK\6\6"


def open_zip(handle: IO[bytes] | Path, where: object) -> ZipFile:
    """Open a zip archive, once its list of members is known to fit into memory.

    Raises:
        DataError: The list is too long.
        BadZipFile: It is no zip archive, or damaged; zipfile raises others, too.
    """
    if isinstance(handle, Path):
        with handle.open("rb") as opened:
            _check_directory(opened, where)
    else:
        _check_directory(handle, where)
    archive = ZipFile(handle)
    if len(archive.filelist) > MOST_MEMBERS:
        raise DataError(f"{escaped(where)}: refused: it has more than {MOST_MEMBERS:,} members.")
    return archive


def _check_directory(handle: IO[bytes], where: object) -> None:
    """Compare the size that an archive states for its list of members, which zipfile reads whole, with the bound."""
    size = handle.seek(0, 2)
    handle.seek(max(0, size - (1 << 16) - 22 - 76))
    tail = handle.read()
    handle.seek(0)
    whole = tail[-22:-18] == END and tail[-2:] == b"\0\0"  # as zipfile finds it: at the very end, else before a comment
    end = len(tail) - 22 if whole else tail.rfind(END)
    if not 0 <= end <= len(tail) - 22:
        return  # zipfile will say that it is no zip archive
    stated = struct.unpack_from("<L", tail, end + 12)[0]
    larger = tail[max(0, end - 76) : end]  # a zip64 archive has two further records there
    if larger.startswith(END64) and len(larger) == 76:
        stated = struct.unpack_from("<Q", larger, 40)[0]
    if LARGEST_DIRECTORY < stated != 0xFFFFFFFF:
        raise DataError(f"{escaped(where)}: refused: its list of members has {stated:,} bytes.")


def check_member(where: object, member: ZipInfo) -> None:
    """Refuse a member of a zip archive that states to unpack to far more than data does; zipfile reads no more of it.

    Raises:
        DataError: It does.
    """
    check_ratio(f"{where}/{member.filename}", member.file_size, member.compress_size)


# --- tar -------------------------------------------------------------------------------------------------------------


class BoundedReader:
    """A file for tarfile, which reads a header's text at once, however long the header says that it is.

    Args:
        handle: The archive, decompressed as it is read.
        where: Its name, for messages.
        packed: Its size in bytes, compressed.
    """

    def __init__(self, handle: Any, where: object, packed: int) -> None:
        self._handle, self._where, self._packed = handle, where, packed

    def read(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            DataError: More are asked for than a header has, or the archive unpacks to more than is allowed.
        """
        if not 0 <= size <= LARGEST_READ:
            raise DataError(f"{escaped(self._where)}: refused: a header of {size:,} bytes.")
        found: bytes = self._handle.read(size)
        check_ratio(self._where, self._handle.tell(), self._packed)
        return found

    def tell(self) -> int:
        """Return the position of the next byte."""
        return int(self._handle.tell())

    def seek(self, position: int) -> int:
        """Move to a position, and return it.

        Raises:
            DataError: It is beyond what the archive may unpack to.
        """
        check_ratio(self._where, position, self._packed)
        return int(self._handle.seek(position))

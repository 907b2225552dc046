"""How much a file of data may hold, so that one from an untrusted place cannot fill memory or disk.

The bounds are far above what the data sets hold: WMT16 has 4.5 million rows, IMDB's archive 100,000 members. That of a
line is in `grue.files`.
"""

import struct
import tarfile
import zipfile
import zlib
from lzma import LZMAError
from pathlib import Path
from typing import IO

from grue.errors import DataError, escaped

DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, LZMAError, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""What zipfile and tarfile raise, beside errors of the system, for what is no archive, or a damaged one."""
LARGEST = 20 * 1000**3  # bytes that an archive may unpack to
RATIO, SLACK = 200, 16 * 1000**2  # times its packed size that data may have unpacked; text has up to 20 times
MOST_MEMBERS = 300_000  # of an archive
LARGEST_TEXT = 1000**3  # bytes of a file that is read at once
LONGEST_CELL = 1 << 24  # characters; the csv module stops at 131,072, and articles may be longer
MOST_COLUMNS = 4096
MOST_ROWS = 100_000_000
MOST_RESPONSES = 10_000_000  # of a file of scored responses
LARGEST_REWARD = 1e18  # its square fits into single precision, in which rewards are standardised


def check_ratio(where: object, unpacked: int, packed: int) -> None:
    """Refuse data that unpacks to far more than data does.

    Raises:
        DataError: It does.
    """
    if unpacked > LARGEST or unpacked > RATIO * packed + SLACK:
        raise DataError(
            f"{escaped(where)}: refused: {packed:,} bytes unpack to {unpacked:,} or more, more than is allowed."
        )


def check_count(where: object, members: int) -> None:
    """Refuse an archive of too many members.

    Raises:
        DataError: There are more than `MOST_MEMBERS`.
    """
    if members > MOST_MEMBERS:
        raise DataError(f"{escaped(where)}: refused: it has more than {MOST_MEMBERS:,} members.")


def open_zip(handle: IO[bytes] | Path, where: object) -> zipfile.ZipFile:
    """Open a zip archive whose members, as stated, unpack to no more than data does; zipfile reads no more of them.

    Raises:
        DataError: They unpack to more, or there are too many.
        BadZipFile: It is no zip archive, or damaged; zipfile raises others, too.
    """
    archive = zipfile.ZipFile(handle)
    members, packed = archive.infolist(), archive.fp.seek(0, 2) if archive.fp else 0
    check_count(where, len(members))
    check_ratio(where, sum(member.file_size for member in members), packed)
    return archive

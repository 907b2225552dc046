"""Reading members of zip archives, also Zstandard-compressed ones, which zipfile supports from Python 3.14."""

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pyarrow as pa

from grue.data.archives import DAMAGED
from grue.errors import DataError, escaped

ZSTANDARD = 93  # section 4.4.5 of PKWARE's APPNOTE
HEADER = struct.Struct("<26xHH")  # of a member: the lengths of its name and of the extra field, which follow

Reader = Callable[[ZipInfo], bytes]


@contextmanager
def zip_members(path: Path) -> Iterator[tuple[list[ZipInfo], Reader]]:
    """Open a zip archive; yield its members and a function that reads one.

    Raises:
        DataError: It is not a zip archive, or is damaged.
    """
    try:
        with ZipFile(path) as archive:
            yield archive.infolist(), lambda member: _read(path, archive, member)
    except (*DAMAGED, OSError) as error:
        raise DataError(
            f"{path}: not a zip archive, or a damaged one: {escaped(error) or type(error).__name__}."
        ) from error


def _read(path: Path, archive: ZipFile, member: ZipInfo) -> bytes:
    if member.compress_type != ZSTANDARD:
        return archive.read(member)
    with path.open("rb") as handle:
        handle.seek(member.header_offset)
        handle.seek(sum(HEADER.unpack(handle.read(HEADER.size))), 1)
        packed = handle.read(member.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content = bytes(stream.read(member.file_size + 1))
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise ValueError(f"{member.filename} is not what was packed")
    return content

"""Files of a folder, including those in its zip archives: found by name, nearest first, and read line by line.

Archives are read in place, and archives within archives too, which `zipfile.Path` does not search; official files are
unpacked. Members may be Zstandard-compressed, which zipfile supports from Python 3.14.
"""

import csv
import errno
import hashlib
import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO, Any

from grue.data.cache import translate_disk_errors
from grue.data.rows import Row, Rows
from grue.errors import DataError, escaped
from grue.files import MARK, decoded, reason, sha256_file

DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, LZMAError, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)
"""What zipfile and tarfile raise, apart from system errors, for a damaged archive or a file that is none."""
LONGEST_CELL = 1 << 24  # characters; the csv module stops at 131,072, and articles may be longer
DEPTH = 6  # levels of nested folders and archives that are searched
TARS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
DAMAGE = (None, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL)
"""Numbers of system errors that archives cause; errors of gzip and bz2 have none."""
ZSTANDARD = 93  # section 4.4.5 of PKWARE's APPNOTE
HEADER = struct.Struct("<26xHH")  # of a member: the lengths of its name and of the extra field, which follow


@dataclass(frozen=True, slots=True)
class File:
    """A file or folder on disk, or a member of a zip archive.

    Attributes:
        path: The file, folder or outermost archive on disk.
        inside: If `path` is an archive, the member's name in it; one more name for each archive within an archive.
    """

    path: Path
    inside: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the whole path, with archives written like folders."""
        return "/".join((self.path.as_posix(), *self.inside))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(str(self)).name

    def beside(self, name: str) -> "File":
        """Return the file of that name in the same folder or archive, which may not exist."""
        if not self.inside:
            return File(self.path.with_name(name))
        return File(self.path, (*self.inside[:-1], str(PurePosixPath(self.inside[-1]).with_name(name))))


@dataclass(frozen=True, slots=True)
class FolderRows:
    """A split's rows in a folder; iterating reads them.

    Attributes:
        files: All files that the rows depend on, by content or by name; no others are opened.
    """

    files: tuple[File, ...]
    read: Callable[[], Rows]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())

    def sha256(self, folder: Path) -> str:
        """Return a hash of the files' paths in the folder and of their content; archives are hashed whole."""
        digest, contents = hashlib.sha256(), {}
        for file in self.files:
            if file.path not in contents:
                contents[file.path] = sha256_file(file.path)
            place = File(file.path.relative_to(folder), file.inside)
            digest.update(f"{contents[file.path]} {place}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


# --- finding ---------------------------------------------------------------------------------------------------------


def split_names(split: str) -> tuple[str, ...]:
    """Return the spellings of a split in file names."""
    return ("validation", "valid", "val", "dev") if split == "validation" else (split,)


def nearest(folder: Path, *patterns: str) -> list[File]:
    """Return the matching files on the level nearest to the folder; empty if there are none.

    A zip archive is a level like a folder. A pattern is matched from the right: "test/dialogues.txt" includes the
    folder.
    """
    return next((matching for matching in _levels(folder, patterns) if matching), [])


def everywhere(folder: Path, *patterns: str) -> list[File]:
    """Return the matching files of all levels, nearest first."""
    return [file for matching in _levels(folder, patterns) for file in matching]


def nearest_one(folder: Path, *patterns: str) -> File:
    """Return the nearest file that matches; of several on one level, the only one of the first pattern that has any."""
    matching = nearest(folder, *patterns)
    if not matching:
        raise DataError(f"{folder}: no {' and no '.join(patterns)} in it, in its folders or in its zip archives.")
    best = next(fitting for pattern in patterns if (fitting := [file for file in matching if _fits(file, pattern)]))
    if len(best) > 1:
        raise DataError(f"{folder}: both {' and '.join(map(str, best[:2]))} match; give a folder with one of them.")
    return best[0]


def _levels(folder: Path, patterns: tuple[str, ...]) -> Iterator[list[File]]:
    level, entered = [File(folder)], {folder.resolve()}
    for _ in range(DEPTH):
        children = [child for container in level for child in _children(container)]
        children.sort(key=lambda file: (file.path.parts, file.inside))
        yield [file for file in children if any(_fits(file, pattern) for pattern in patterns)]
        level = []
        for file in children:
            if file.name.endswith(".zip"):
                level.append(file)
            elif not file.inside and file.path.is_dir() and (path := file.path.resolve()) not in entered:
                entered.add(path)  # links may lead to a folder several times, or in a circle
                level.append(file)


def _fits(file: File, pattern: str) -> bool:
    return PurePosixPath(str(file)).match(pattern)


def _children(container: File) -> Iterator[File]:
    if not container.inside and container.path.is_dir():
        try:
            yield from (File(path) for path in container.path.iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise DataError(f"{container}: cannot be read: {error.strerror}.") from error
        return
    with opened(container) as handle:
        try:
            names = zipfile.ZipFile(handle).namelist()
        except (*DAMAGED, OSError) as error:
            raise DataError(f"{container}: not a readable zip archive: {error}.") from error
    for name in names:
        # An archive made on a Mac has a second entry for each file that is not data: __MACOSX/._name.
        if not name.endswith("/") and not PurePosixPath(name).name.startswith("."):
            yield File(container.path, (*container.inside, name))


# --- reading ---------------------------------------------------------------------------------------------------------


@contextmanager
def opened(file: File) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, on disk or in archives; damage may show only while it is read."""
    with ExitStack() as stack:
        try:
            handle: IO[bytes] = stack.enter_context(file.path.open("rb"))
            for member in file.inside:
                archive = stack.enter_context(zipfile.ZipFile(handle))
                handle = stack.enter_context(archive.open(member))
            yield handle
        except (*DAMAGED, OSError, KeyError) as error:
            raise DataError(f"{escaped(file)}: cannot be read: {escaped(reason(error))}.") from error


def text(file: File) -> str:
    """Return the content of a UTF-8 file; a DataError if it is missing, damaged or not UTF-8."""
    with opened(file) as handle:
        return decoded(handle.read(), str(file)).removeprefix(MARK)


def lines(file: File) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without their line ends.

    Lines end at "\n" or "\r\n" only: U+0085, U+2028 and the like are part of a text.
    """
    with opened(file) as handle:
        for number, raw in enumerate(handle, start=1):
            line = decoded(raw, f"{file}, line {number}").removesuffix("\n").removesuffix("\r")
            yield line.removeprefix(MARK) if number == 1 else line


def json_lines(file: File) -> Iterator[dict[str, Any]]:
    """Yield the object of each line that is not blank."""
    for where, record in json_values(file):
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected an object, found {record!r:.80}.")
        yield record


def json_values(file: File) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of each line that is not blank; a DataError if one is not JSON, which may have NaN."""
    for number, line in enumerate(lines(file), start=1):
        if line.strip():
            yield (where := f"{file}, line {number}"), parsed(line, where)


def parsed(source: str | bytes, where: str) -> Any:
    """Return the value of a JSON text; a DataError if it is not JSON."""
    try:
        return json.loads(source)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON: {escaped(error)}.") from error


def csv_rows(file: File, *columns: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a csv file, by the column names in its first line.

    Values are separated by commas; if the first line has none, by semicolons, as many spreadsheets write them, or by
    tabs.
    """
    csv.field_size_limit(LONGEST_CELL)
    with opened(file) as handle:
        # A lone carriage return within a line of bytes ends a line of the table, too.
        raw = (part for line in handle for part in io.StringIO(line.decode("utf-8"), newline=""))
        number = 1
        try:
            first = next(raw, "").removeprefix(MARK)
            separator = next((sign for sign in ",;\t" if sign in first), ",")
            reader = csv.DictReader(chain([first], raw), delimiter=separator)
            names = reader.fieldnames or ()
            if missing := [column for column in columns if column not in names]:
                present = escaped(", ".join(names)) or "nothing"
                raise DataError(f"{file}: no column {' and no column '.join(missing)}; found {present}.")
            if twice := [name for name in names if name and names.count(name) > 1]:
                raise DataError(f"{file}: the column {escaped(repr(twice[0]))} is there twice; rename or remove one.")
            number = reader.line_num + 1
            for row in reader:
                if None in row or None in row.values():
                    raise DataError(f"{file}, line {reader.line_num}: more or fewer fields than the first line names.")
                if any(row.values()):  # spreadsheets write rows of nothing but separators
                    yield row
                number = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{file}, line {number}: not a csv file in UTF-8: {error}; save it as one.") from error


# --- archives as a whole ---------------------------------------------------------------------------------------------


class DamagedArchive(DataError):
    """A file that cannot be unpacked as the archive that its name indicates."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive}: the archive is damaged: {reason}. Delete it and fetch it again.")
        self.archive, self.reason = archive, reason


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into a folder; any other file is copied there.

    Archives inside it stay packed: the readers of original layouts read zip files.

    Raises:
        DamagedArchive: It is damaged, or not an archive.
        DataError: A tar archive has a path or a link outside the folder. A zip archive's path is cut to the inside.
    """
    name = archive.name.lower()
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if name.endswith(".zip"):
                with zipfile.ZipFile(archive) as packed:
                    packed.extractall(folder)
            elif name.endswith(TARS):
                with tarfile.open(archive) as tar:
                    tar.extractall(folder, filter="data")
            else:
                shutil.copyfile(archive, folder / archive.name)
        except tarfile.FilterError as error:
            raise DataError(f"{archive}: refused: {escaped(error)}.") from error
        except (*DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGE:
                raise
            raise DamagedArchive(archive, escaped(error) or type(error).__name__) from error


@contextmanager
def zip_members(path: Path) -> Iterator[tuple[list[zipfile.ZipInfo], Callable[[zipfile.ZipInfo], bytes]]]:
    """Open a zip archive; yield its members and a function that reads one."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive.infolist(), lambda member: _member(path, archive, member)
    except (*DAMAGED, OSError) as error:
        raise DataError(
            f"{path}: not a zip archive, or a damaged one: {escaped(error) or type(error).__name__}."
        ) from error


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type != ZSTANDARD:
        return archive.read(member)
    import pyarrow as pa

    with path.open("rb") as handle:
        handle.seek(member.header_offset)
        handle.seek(sum(HEADER.unpack(handle.read(HEADER.size))), 1)
        packed = handle.read(member.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        content = bytes(stream.read(member.file_size + 1))
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise ValueError(f"{member.filename} is not what was packed")
    return content

"""Reading untrusted submissions: no link is followed, and nothing is read or unpacked beyond a size limit.

`scan` looks at every file once and lists the readable ones; every later reader is limited to those.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grue import files
from grue.errors import DataError, GrueError
from grue.evaluation.predictions import unequal_draws
from grue.records import LARGEST_SEED, Prediction, is_seed
from grue.shapes import from_dict
from grue.submissions.folder import CONFIG, MANIFEST, SUBMISSION, nests_too_deep
from grue.submissions.problems import Problem, error

MOST_BYTES = 10_000_000
MOST_BYTES_OF = {SUBMISSION: 20_000, MANIFEST: 1_000_000, ".json": 200_000}
"""Size limits by name or ending, packed and unpacked, where they are below `MOST_BYTES`.

The worst case of a TOML or JSON parser grows with the square of the size.
"""
MOST_CHARACTERS = 100_000  # per line
MOST_LINES = 200_000  # of a file; no split has a tenth as many examples, and blank lines are read, too
MOST_FILES = 2_000  # per system

UNREADABLE = {SUBMISSION: 2, MANIFEST: 12, CONFIG: 70, ".json": 3, ".gz": 7}
"""By name or ending, the check that says that a file cannot be read."""

_MANIFEST_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


@dataclass(frozen=True, slots=True)
class Scan:
    """The content of a system's folder.

    Attributes:
        present: Every file, link and special file, by its path within the folder.
        readable: Those that belong to a submission and are safe to read.
        problems: What is wrong with the others.
        was_entered: False if the folder is a link or holds too many files, and was not read at all.
    """

    present: frozenset[str]
    readable: frozenset[str]
    problems: tuple[Problem, ...]
    was_entered: bool = True


def refuse_strange(path: Path, most: int = MOST_BYTES) -> None:
    """Refuse to read a link, a special file, or one that is too large.

    Raises:
        DataError: It is one.
    """
    if path.is_symlink() or not path.is_file():
        raise DataError(f"{path}: is a link or no file; it is not read.")
    if path.stat().st_size > most:
        raise DataError(f"{path}: has {path.stat().st_size:,} bytes, more than {most:,}; it is not read.")


def scan(system: Path, tasks: list[str], texts: bool = True) -> Scan:
    """List a system's folder without following links, opening special files or unpacking beyond the limit.

    Args:
        texts: Whether files are looked into, for bombs, long lines and nothing.
    """
    links = [path for path in (system.parent, system) if path.is_symlink()]
    if links:  # a link may lead anywhere: nothing is read
        return Scan(frozenset(), frozenset(), tuple(error(13, path, "is a link.") for path in links), was_entered=False)
    shape = re.compile(
        rf"{re.escape(SUBMISSION)}|{MANIFEST}|({'|'.join(map(re.escape, tasks))})"
        r"/(config\.json|seed-(?P<seed>[^/]*)\.(result\.json|predictions\.jsonl\.gz))"
    )
    unread: list[Problem] = []
    entries = list(islice(_entries(system, tasks, unread), MOST_FILES + 1))
    if len(entries) > MOST_FILES:
        too_many = error(14, system, f"holds more than {MOST_FILES:,} files; none of them was read.")
        return Scan(frozenset(), frozenset(), (too_many,), was_entered=False)
    present, readable, problems = set(), set(), unread
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(system).as_posix()
        found = list(_faults(entry, path, _why_foreign(shape.fullmatch(name)), texts))
        problems += found
        if entry.is_symlink() or not entry.is_dir():
            present.add(name)
            if not found:
                readable.add(name)
    return Scan(frozenset(present), frozenset(readable), tuple(problems))


def _entries(system: Path, tasks: list[str], unread: list[Problem]) -> Iterator[os.DirEntry[str]]:
    """Yield the content of the folder and of its task folders, in order; other folders are not entered.

    What is wrong with a folder that cannot be listed goes into `unread`.
    """
    for entry in _listing(system, unread):
        if entry.is_dir(follow_symlinks=False) and entry.name in tasks:
            yield from _listing(Path(entry.path), unread)
        else:
            yield entry


def _listing(folder: Path, unread: list[Problem]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(islice(found, MOST_FILES + 1), key=lambda entry: entry.name)
    except OSError as refusal:
        unread.append(error(1, folder, f"cannot be read: {files.reason(refusal)}."))
        return []


def _why_foreign(match: re.Match[str] | None) -> str:
    """Return why a file does not belong to a submission, given how its name matched; empty if it does."""
    if match is None:
        return "is not a file of a submission."
    if match["seed"] is None or is_seed(match["seed"]):
        return ""
    return f"names no seed, which is a whole number from 0 to {LARGEST_SEED}, without leading zeros."


def _faults(entry: os.DirEntry[str], path: Path, foreign: str, texts: bool) -> Iterator[Problem]:
    """Yield what keeps a file from being read."""
    if entry.is_symlink():
        yield error(13, path, "is a link.")
    elif entry.is_dir(follow_symlinks=False):
        yield error(1, path, "is not a folder of a submission.")
    elif not entry.is_file(follow_symlinks=False):
        yield error(13, path, "is neither a file nor a folder.")
    elif foreign:
        yield error(1, path, foreign)
    else:
        try:
            yield from _too_heavy(path, entry.stat(follow_symlinks=False).st_size, texts)
        except OSError as refusal:
            yield error(_unreadable(path), path, f"cannot be read: {files.reason(refusal)}.")


def _unreadable(path: Path) -> int:
    """Return the check that says that a file cannot be read."""
    return UNREADABLE.get(path.name) or UNREADABLE[path.suffix]


def _too_heavy(path: Path, size: int, texts: bool) -> Iterator[Problem]:
    """Yield why a file is too much, or nothing.

    Raises:
        OSError: It cannot be read.
    """
    most = MOST_BYTES_OF.get(path.name, MOST_BYTES_OF.get(path.suffix, MOST_BYTES))
    if not size:
        yield error(_unreadable(path), path, "is empty.")
        return
    if size > most:
        yield error(14, path, f"has {size:,} bytes, more than {most:,}.")
        return
    if not texts:
        return
    packed = path.suffix == ".gz"
    content = _unpacked(path, most) if packed else path.read_bytes()
    if content is None:  # its reader reports the damage
        return
    if len(content) > most:
        yield error(14, path, f"unpacks to more than {most:,} bytes.")
    elif content.count(b"\n") > MOST_LINES:
        yield error(14, path, f"has more than {MOST_LINES:,} lines.")
    elif not content.strip():
        yield error(_unreadable(path), path, "holds only white space.")
    else:
        yield from _long_lines(path, content)


def _unpacked(path: Path, most: int) -> bytes | None:
    """Return the content of a gzip file, at most one byte more than allowed; None if it is damaged."""
    with suppress(gzip.BadGzipFile, EOFError, zlib.error), gzip.open(path) as handle:
        return handle.read(most + 1)
    return None


def _long_lines(path: Path, content: bytes) -> Iterator[Problem]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if len(line) > MOST_CHARACTERS:  # bytes; there may be fewer characters
            length = len(line.decode("utf-8", errors="replace"))
            if length > MOST_CHARACTERS:
                yield error(14, path, f"line {number} has {length:,} characters, more than {MOST_CHARACTERS:,}.")
                return


# --- the manifest ----------------------------------------------------------------------------------------------------


def check_manifest(system: Path, found: Scan) -> tuple[list[Problem], frozenset[str]]:
    """Return where MANIFEST.sha256 and the files differ, and the files that are others than it lists.

    Names in the manifest are compared, never opened.
    """
    path = system / MANIFEST
    if MANIFEST not in found.readable:
        return ([] if MANIFEST in found.present else [error(12, path, "is missing.")]), frozenset()
    try:
        named = _read_manifest(path)
    except DataError as refusal:
        return [error(12, path, without_path(refusal, path))], frozenset()
    problems = []
    if absent := sorted(set(named) - found.present):
        problems.append(error(12, path, f"lists {_few(absent)}, which {'is' if len(absent) == 1 else 'are'} missing."))
    problems += [error(12, system / n, f"is not in {MANIFEST}.") for n in sorted(found.present - {MANIFEST, *named})]
    listed = sorted(found.readable & set(named))
    others = frozenset(name for name in listed if files.sha256_file(system / name) != named[name])
    problems += [error(12, system / n, f"does not have the sha256 that {MANIFEST} lists.") for n in sorted(others)]
    return problems, others


def _read_manifest(path: Path) -> Mapping[str, str]:
    named: dict[str, str] = {}
    for number, line in enumerate(files.read_text(path).splitlines(), start=1):
        match = _MANIFEST_LINE.fullmatch(line)
        if match is None:
            raise DataError(f"{path}: line {number} is not a sha256, two spaces and a path.")
        if named.setdefault(match[2], match[1]) != match[1]:
            raise DataError(f"{path}: line {number} names {match[2]!r} again, with another sha256.")
    return named


def _few(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# --- predictions -----------------------------------------------------------------------------------------------------


def read_untrusted_predictions(path: Path) -> list[Prediction]:
    """Read predictions that `scan` found readable.

    Raises:
        DataError: A line is not a prediction, or the file is damaged; names the line.
    """
    predictions = []
    for number, record in files.read_jsonl(path):
        where = f"{path}, line {number}"
        if nests_too_deep(record):
            raise DataError(f"{where}: nests too deeply.")
        predictions.append(from_dict(Prediction, record, where, DataError))
        if len(predictions[-1].draws) != len(predictions[0].draws):
            raise DataError(f"{where}: {unequal_draws(predictions[0], predictions[-1])}")
    return predictions


def without_path(refusal: GrueError, path: Path) -> str:
    """Return an error's message without its leading path, which the problem states already."""
    return str(refusal).removeprefix(str(path)).lstrip(":, ")

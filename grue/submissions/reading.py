"""Reading untrusted submissions: no link is followed, and nothing is read or unpacked beyond a size limit.

`scan` looks at every file once and lists the readable ones; every later reader is limited to those.
"""

import gzip
import os
import re
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grue import files
from grue.errors import DataError, GrueError
from grue.records import LARGEST_SEED, is_seed
from grue.submissions.folder import CONFIG, MANIFEST, SUBMISSION
from grue.submissions.problems import Problem, problem

MOST_BYTES = 10_000_000
MOST_BYTES_OF = {SUBMISSION: 20_000, MANIFEST: 1_000_000, ".json": 200_000}
"""Size limits by name or ending, packed and unpacked, where they are below `MOST_BYTES`.

The worst case of a TOML or JSON parser grows with the square of the size.
"""
MOST_CHARACTERS = 100_000  # per line
MOST_LINES = 200_000  # of a file; no split has a tenth as many examples, and blank lines are read, too
MOST_FILES = 2_000  # per system
MOST_UNPACKED = 500_000_000  # bytes of a system's files together; texts of a task are in memory at once
UNREADABLE = {SUBMISSION: 2, MANIFEST: 12, CONFIG: 70, ".json": 3, ".gz": 7}
"""By name or ending, the check that says that a file cannot be read."""
_MANIFEST_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


@dataclass(frozen=True, slots=True)
class Scan:
    """A system's folder: what is wrong with it, the paths in it, and those that are safe to read."""

    problems: tuple[Problem, ...]
    present: frozenset[str] = frozenset()
    readable: frozenset[str] = frozenset()


def refuse_strange(path: Path) -> None:
    """Refuse a link, a special file, or one that is too large, with a DataError."""
    if path.is_symlink() or not path.is_file():
        raise DataError(f"{path}: is a link or no file; it is not read.")
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path}: has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}; it is not read.")


def without_path(refusal: GrueError, path: Path) -> str:
    """Return an error's message without its leading path, which the problem states already."""
    return str(refusal).removeprefix(str(path)).lstrip(":, ")


# --- the folder ------------------------------------------------------------------------------------------------------


def scan(system: Path, tasks: list[str], texts: bool = True) -> Scan:
    """List a system's folder without following links, opening special files or unpacking beyond the limit.

    Args:
        texts: Whether files are looked into, for bombs, long lines and nothing.
    """
    for path in (system.parent, system):
        if path.is_symlink():  # it may lead anywhere: nothing is read
            return Scan((problem(13, path, "is a link."),))
    shape = re.compile(
        rf"{re.escape(SUBMISSION)}|{MANIFEST}|({'|'.join(map(re.escape, tasks))})"
        r"/(config\.json|seed-(?P<seed>[^/]*)\.(result\.json|predictions\.jsonl\.gz))"
    )
    problems: list[Problem] = []
    entries = []
    for entry in _listing(system, problems):
        is_task = entry.is_dir(follow_symlinks=False) and entry.name in tasks
        entries += _listing(Path(entry.path), problems) if is_task else [entry]
    if len(entries) > MOST_FILES:
        return Scan((problem(14, system, f"holds more than {MOST_FILES:,} files; none of them was read."),))
    present, readable, unpacked = set(), set(), 0
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(system).as_posix()
        if not entry.is_dir(follow_symlinks=False):
            present.add(name)
        try:
            fault = _fault(entry, shape.fullmatch(name))
            if fault is None and texts and (content := _unpacked(path)) is not None:
                unpacked += len(content)
                fault = _fault_of_content(path, content)
        except OSError as refusal:
            fault = problem(_unreadable(path), path, f"cannot be read: {files.reason(refusal)}.")
        if fault is None:
            readable.add(name)
        else:
            problems.append(fault)
        if unpacked > MOST_UNPACKED:
            return Scan((problem(14, system, f"unpacks to more than {MOST_UNPACKED:,} bytes; it was not read."),))
    return Scan(tuple(problems), frozenset(present), frozenset(readable))


def _listing(folder: Path, problems: list[Problem]) -> list[os.DirEntry[str]]:
    """Return the content of a folder, or add to `problems` why it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(islice(entries, MOST_FILES + 1), key=lambda entry: entry.name)
    except OSError as refusal:
        problems.append(problem(1, folder, f"cannot be read: {files.reason(refusal)}."))
        return []


def _fault(entry: os.DirEntry[str], match: re.Match[str] | None) -> Problem | None:
    """Return what keeps a file from being opened, given how its name matched that of a submission's."""
    path = Path(entry.path)
    if entry.is_symlink():
        return problem(13, path, "is a link.")
    if entry.is_dir(follow_symlinks=False):
        return problem(1, path, "is not a folder of a submission.")
    if not entry.is_file(follow_symlinks=False):
        return problem(13, path, "is neither a file nor a folder.")
    if match is None:
        return problem(1, path, "is not a file of a submission.")
    if match["seed"] is not None and not is_seed(match["seed"]):
        seeds = f"a whole number from 0 to {LARGEST_SEED}, without leading zeros"
        return problem(1, path, f"names no seed, which is {seeds}.")
    size = entry.stat(follow_symlinks=False).st_size
    if not size:
        return problem(_unreadable(path), path, "is empty.")
    if size > _most(path):
        return problem(14, path, f"has {size:,} bytes, more than {_most(path):,}.")
    return None


def _unreadable(path: Path) -> int:
    return UNREADABLE.get(path.name) or UNREADABLE[path.suffix]


def _most(path: Path) -> int:
    return MOST_BYTES_OF.get(path.name, MOST_BYTES_OF.get(path.suffix, MOST_BYTES))


def _unpacked(path: Path) -> bytes | None:
    """Return a file's content, one byte beyond its limit at most; None if it is damaged, which its reader reports."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as handle:
            return handle.read(_most(path) + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None


def _fault_of_content(path: Path, content: bytes) -> Problem | None:
    if len(content) > _most(path):
        return problem(14, path, f"unpacks to more than {_most(path):,} bytes.")
    if content.count(b"\n") > MOST_LINES:
        return problem(14, path, f"has more than {MOST_LINES:,} lines.")
    if not content.strip():
        return problem(_unreadable(path), path, "holds only white space.")
    for number, line in enumerate(content.split(b"\n"), start=1):
        long = len(line) > MOST_CHARACTERS  # bytes; there may be fewer characters
        if long and (length := len(line.decode("utf-8", errors="replace"))) > MOST_CHARACTERS:
            return problem(14, path, f"line {number} has {length:,} characters, more than {MOST_CHARACTERS:,}.")
    return None


# --- the manifest ----------------------------------------------------------------------------------------------------


def check_manifest(system: Path, scanned: Scan) -> tuple[list[Problem], frozenset[str]]:
    """Return where MANIFEST.sha256 and the files differ, and the files whose hash is another.

    Names in the manifest are compared, never opened.
    """
    path = system / MANIFEST
    if MANIFEST not in scanned.readable:
        return ([] if MANIFEST in scanned.present else [problem(12, path, "is missing.")]), frozenset()
    listed: dict[str, str] = {}  # path → sha256
    try:
        for number, line in enumerate(files.read_text(path).splitlines(), start=1):
            match = _MANIFEST_LINE.fullmatch(line)
            if match is None:
                raise DataError(f"line {number} is not a sha256, two spaces and a path.")
            if listed.setdefault(match[2], match[1]) != match[1]:
                raise DataError(f"line {number} names {match[2]!r} again, with another sha256.")
    except DataError as refusal:
        return [problem(12, path, without_path(refusal, path))], frozenset()
    problems = []
    if absent := sorted(set(listed) - scanned.present):
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        are = "is" if len(absent) == 1 else "are"
        problems.append(problem(12, path, f"lists {', '.join(map(repr, absent[:3]))}{more}, which {are} missing."))
    altered = frozenset(n for n in scanned.readable & set(listed) if files.sha256_file(system / n) != listed[n])
    faults = dict.fromkeys(scanned.present - {MANIFEST, *listed}, f"is not in {MANIFEST}.")
    faults |= dict.fromkeys(altered, f"does not have the sha256 that {MANIFEST} lists.")
    return problems + [problem(12, system / name, fault) for name, fault in faults.items()], altered

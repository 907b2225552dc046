"""Official files: downloaded from their addresses, checked, and unpacked without trusting the archive."""

import email.utils
import http.client
import shutil
import stat
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from grue import __version__, files
from grue.data.cache import telling
from grue.errors import DataError

Progress = Callable[[int, int], None]  # bytes done, bytes in all (0 where not known)

ATTEMPTS = 5
LONGEST_WAIT = 60.0  # seconds; a server that asks for more is given up
TIMEOUT = 30.0
CHUNK = 1 << 20
LARGEST = 20 * 1000**3  # bytes that an archive may unpack to
PASSING = (408, 425, 429, 500, 502, 503, 504)


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


# --- waiting ---------------------------------------------------------------------------------------------------------


def waits() -> Iterator[float]:
    """Yield the seconds to wait after each failed attempt: 1, 2, 4, …; ends when there is no further attempt."""
    yield from (2.0**attempt for attempt in range(ATTEMPTS - 1))


def asked_wait(retry_after: str | None, otherwise: float) -> float:
    """Return the seconds to wait: what the header Retry-After says, in seconds or as a date, else `otherwise`."""
    if not retry_after:
        return otherwise
    if retry_after.strip().isdigit():
        return float(retry_after)
    with suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    return otherwise


# --- downloading -----------------------------------------------------------------------------------------------------


def download(url: str, target: Path, sha256: str = "", progress: Progress = no_progress) -> None:
    """Download a file, going on where an interrupted attempt ended.

    What has come so far lies beside the target as `<name>.part`, with the server's mark of its version in
    `<name>.part.etag`: a file that has changed meanwhile is begun again.

    Raises:
        DataError: The file cannot be had, is not the one the task file names, or the disk is full.
    """
    part = target.with_name(f"{target.name}.part")
    pauses = waits()
    with telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            _receive(url, part, progress)
            break
        except urllib.error.HTTPError as error:
            if error.code not in PASSING:
                raise DataError(f"{url}: the server says {error.code} {error.reason}.") from error
            _pause(url, error, next(pauses, None), error.headers.get("Retry-After"))
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            _pause(url, error, next(pauses, None), None)
    found = files.sha256_file(part)
    if sha256 and found != sha256:
        _discard(part)
        raise DataError(
            f"{url}: the file's sha256 is {found}, the task file says {sha256}. It was damaged on the way or has "
            "changed; the same command tries again."
        )
    part.replace(target)
    _discard(part)


def _pause(url: str, error: Exception, pause: float | None, retry_after: str | None) -> None:
    wait = None if pause is None else asked_wait(retry_after, pause)
    if wait is None or wait > LONGEST_WAIT:
        reason = getattr(error, "reason", None) or error
        later = f" It asks for {wait:.0f} seconds of patience." if wait else ""
        raise DataError(f"{url}: cannot be downloaded: {reason}.{later} What has come is kept; try later.") from error
    time.sleep(wait)


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append what is missing to `part`; the whole of it, should the server not know the version we have a part of."""
    mark = part.with_name(f"{part.name}.etag")
    etag = mark.read_text() if mark.exists() and part.exists() else ""
    headers = {"User-Agent": f"grue/{__version__}", "Accept-Encoding": "identity"}
    if etag:
        headers |= {"Range": f"bytes={part.stat().st_size}-", "If-Range": etag}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not etag:
            raise
        _discard(part)  # nothing is left to come, or the part is longer than the file: begin again
        return _receive(url, part, progress)
    with response:
        whole = response.status != 206
        with telling(part), part.open("wb" if whole else "ab") as handle:
            strong = (response.headers.get("ETag") or "").removeprefix("W/")
            mark.write_text(strong) if strong else mark.unlink(missing_ok=True)
            done = handle.tell()
            total = done + int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(CHUNK):
                handle.write(chunk)
                done += len(chunk)
                progress(done, total)
    if done < total:
        raise http.client.IncompleteRead(b"", total - done)


def _discard(part: Path) -> None:
    for path in (part, part.with_name(f"{part.name}.etag")):
        path.unlink(missing_ok=True)


# --- unpacking -------------------------------------------------------------------------------------------------------


def unpack(archive: Path, folder: Path, largest: int = LARGEST) -> None:
    """Unpack a zip or tar archive into a new folder; another kind of file is copied there.

    Archives within it stay as they are: the readers of layouts look into zip files.

    Raises:
        DataError: The archive is damaged, holds links or places outside the folder, or unpacks to more than `largest`
            bytes.
    """
    with telling(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not archive.name.lower().endswith((".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")):
            shutil.copyfile(archive, folder / archive.name)
            return
        members, left = _zip_members if archive.suffix.lower() == ".zip" else _tar_members, largest
        try:
            for name, content in members(archive):
                left -= _write(content, folder / _safe(archive, name), left)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise DataError(f"{archive}: the archive is damaged: {error}. Delete it and fetch it again.") from error


def _write(content: IO[bytes], target: Path, most: int) -> int:
    """Write a member of an archive, and return its size."""
    size = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as handle:
        while chunk := content.read(CHUNK):
            size += len(chunk)
            if size > most:
                raise DataError(f"{target}: the archive unpacks to more than is allowed; it is refused.")
            handle.write(chunk)
    return size


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                raise DataError(f"{archive}: holds the link {member.filename!r}; it is refused.")
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
                raise DataError(f"{archive}: holds {member.name!r}, which is neither file nor folder; it is refused.")


def _safe(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or not path.parts:
        raise DataError(f"{archive}: holds {name!r}, a place outside its folder; it is refused.")
    return path

"""Official files: downloaded from their addresses, resumed and checked.

The standard library transfers; resuming in another process, If-Range and the limit on Retry-After are ours, since
neither it nor huggingface_hub has them.
"""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from grue import __version__, files
from grue.data.backoff import LONGEST_WAIT, TRANSIENT, requested_wait, waits
from grue.data.cache import translate_disk_errors
from grue.errors import DataError

Progress = Callable[[int, int], None]  # bytes done, bytes in all (0 if unknown)

TIMEOUT = 30.0  # seconds
CHUNK = 1 << 20  # bytes


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


def download(url: str, target: Path, sha256: str = "", progress: Progress = no_progress) -> None:
    """Download a file, resuming an interrupted download.

    What has been received is beside the target as `<name>.part`, with the server's ETag in `<name>.part.etag`: if the
    file has changed since, the download starts over.

    Args:
        sha256: The expected hash; empty means any.
        progress: Called with (bytes done, bytes in all).

    Raises:
        DataError: The file is not available, is not the one that the task file names, or the disk is full.
    """
    part = target.with_name(f"{target.name}.part")
    pauses = waits()
    with translate_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            _receive(url, part, progress)
            break
        except urllib.error.HTTPError as error:
            if error.code not in TRANSIENT:
                raise DataError(f"{url}: the server answered {error.code} {error.reason}.") from error
            _pause(url, error, next(pauses, None), error.headers.get("Retry-After"))
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            _pause(url, error, next(pauses, None), None)
    found = files.sha256_file(part)
    if sha256 and found != sha256:
        _discard(part)
        raise DataError(
            f"{url}: the file's sha256 is {found}, the task file says {sha256}. It was damaged in transfer or has "
            "changed; rerun the command to download it again."
        )
    part.replace(target)
    _discard(part)


def _pause(url: str, error: Exception, pause: float | None, retry_after: str | None) -> None:
    wait = None if pause is None else requested_wait(retry_after, pause)
    if wait is None or wait > LONGEST_WAIT:
        reason = getattr(error, "reason", None) or error
        later = f" The server asked to retry after {wait:.0f} s." if wait else ""
        cure = "What was received is kept; rerun the command later to resume."
        raise DataError(f"{url}: cannot be downloaded: {reason}.{later} {cure}") from error
    time.sleep(wait)


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append what is missing to `part`, or the whole file if the server has another version than the part's."""
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
        _discard(part)  # nothing is missing, or the part is longer than the file: start over
        return _receive(url, part, progress)
    with response:
        whole = response.status != 206
        with translate_disk_errors(part), part.open("wb" if whole else "ab") as handle:
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

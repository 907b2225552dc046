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
from grue.errors import DataError, Unavailable

Progress = Callable[[int, int], None]  # bytes done, bytes in all (0 if unknown)

TIMEOUT = 30.0  # seconds
CHUNK = 1 << 20  # bytes


def _web_opener() -> urllib.request.OpenerDirector:
    """Return what opens http and https alone: no redirect leads to ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


_WEB = _web_opener()


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


def download(
    url: str, target: Path, sha256: str = "", progress: Progress = no_progress, most: int | None = None
) -> None:
    """Download a file by http or https, resuming an interrupted download.

    What has been received is beside the target as `<name>.part`, with the server's ETag in `<name>.part.etag`: if the
    file has changed since, the download starts over.

    Args:
        sha256: The expected hash; empty means any.
        progress: Called with (bytes done, bytes in all).
        most: Bytes that the file may have; None for any number.

    Raises:
        Unavailable: The server cannot be reached, or breaks off again and again.
        DataError: The address is not of the web, the server refuses the file, it is larger than `most` or not the one
            that the task file names, or the disk is full.
    """
    if not url.lower().startswith(("https://", "http://")):
        raise DataError(f"{url}: is not an address that begins with https:// or http://.")
    part = target.with_name(f"{target.name}.part")
    pauses = waits()
    with translate_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            _receive(url, part, progress, most)
            break
        except urllib.error.HTTPError as error:
            if error.code not in TRANSIENT:
                raise DataError(f"{url}: the server answered {error.code} {error.reason}.") from error
            _pause(url, part, error, next(pauses, None), error.headers.get("Retry-After"))
        except (ValueError, http.client.InvalidURL) as error:
            raise DataError(f"{url}: this address, or what it leads to, is malformed: {error}.") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            _pause(url, part, error, next(pauses, None), None)
    found = files.sha256_file(part)
    if sha256 and found != sha256:
        _discard(part)
        raise DataError(
            f"{url}: the file's sha256 is {found}, the task file says {sha256}. It was damaged in transfer or has "
            "changed; rerun the command to download it again."
        )
    part.replace(target)
    _discard(part)


def _pause(url: str, part: Path, error: Exception, pause: float | None, retry_after: str | None) -> None:
    wait = None if pause is None else requested_wait(retry_after, pause)
    if wait is None or wait > LONGEST_WAIT:
        reason = getattr(error, "reason", None) or error
        later = f" The server asked to retry after {wait:.0f} s." if wait else ""
        cure = (
            "What was received is kept; rerun the command later to resume."
            if part.exists()
            else "Rerun the command later."
        )
        raise Unavailable(f"{url}: cannot be downloaded: {reason}.{later} {cure}") from error
    time.sleep(wait)


def _receive(url: str, part: Path, progress: Progress, most: int | None) -> None:
    """Append what is missing to `part`, or the whole file if the server has another version than the part's."""
    mark = part.with_name(f"{part.name}.etag")
    etag = mark.read_text() if mark.exists() and part.exists() else ""
    headers = {"User-Agent": f"grue/{__version__}", "Accept-Encoding": "identity"}
    if etag:
        headers |= {"Range": f"bytes={part.stat().st_size}-", "If-Range": etag}
    try:
        response = _WEB.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not etag:
            raise
        _discard(part)  # nothing is missing, or the part is longer than the file: start over
        return _receive(url, part, progress, most)
    with response:
        whole = response.status != 206
        with translate_disk_errors(part), part.open("wb" if whole else "ab") as handle:
            strong = (response.headers.get("ETag") or "").removeprefix("W/")
            # A header that goes over several lines could not be sent back.
            mark.write_text(strong) if strong and strong.isprintable() else mark.unlink(missing_ok=True)
            done = handle.tell()
            total = done + (response.length or 0)
            _refuse_above(most, max(done, total), url, part)
            while chunk := response.read(CHUNK):
                handle.write(chunk)
                done += len(chunk)
                _refuse_above(most, done, url, part)
                progress(done, total)
    if done < total:
        raise http.client.IncompleteRead(b"", total - done)


def _refuse_above(most: int | None, size: int, url: str, part: Path) -> None:
    if most is not None and size > most:
        _discard(part)
        raise DataError(f"{url}: has more than {most:,} bytes.")


def _discard(part: Path) -> None:
    for path in (part, part.with_name(f"{part.name}.etag")):
        path.unlink(missing_ok=True)

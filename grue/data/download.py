"""Official files: downloaded from their addresses, resumed and checked.

The standard library transfers; resuming in another process, If-Range and the limit on Retry-After are ours, since
neither it nor huggingface_hub has them.
"""

import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

from grue import __version__, files
from grue.data.backoff import LONGEST_WAIT, TRANSIENT, requested_wait, waits
from grue.data.cache import translate_disk_errors
from grue.data.pace import PACE, Pace
from grue.data.rows import Progress, no_progress
from grue.errors import DataError, Unavailable, escaped

CHUNK = 1 << 20  # bytes
LARGEST = 20 * 1000**3  # bytes of a file


def download(
    url: str,
    target: Path,
    sha256: str = "",
    progress: Progress = no_progress,
    size: int = 0,
    pace: Pace = PACE,
    most: int = LARGEST,
) -> None:
    """Download a file over HTTP or HTTPS, resuming an interrupted download.

    What has been received is beside the target as `<name>.part`, with the server's ETag and the size in
    `<name>.part.etag`: if the file has changed since, the download starts over.

    Args:
        sha256: The expected hash; empty means any.
        progress: Called with (bytes done, bytes in all).
        size: The expected number of bytes; 0 means any up to `most`.
        pace: The least speed.
        most: Bytes that the file may have.

    Raises:
        Unavailable: The server cannot be reached, is too slow, or breaks off again and again.
        DataError: The file is not available, is not the one expected, or the disk is full; or the server
            answers with another range, a redirection to what is not HTTP, or what is no file.
    """
    if not url.startswith(("http://", "https://")) or not (url.isascii() and url.isprintable()) or " " in url:
        raise DataError(f"{escaped(url)}: not an address that begins with http:// or https://, in plain ASCII.")
    part = target.with_name(f"{target.name}.part")
    pauses = waits()
    with translate_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            _receive(url, part, size, progress, pace, most)
            break
        except urllib.error.HTTPError as error:
            if error.code not in TRANSIENT:
                raise DataError(f"{url}: the server answered {error.code} {escaped(error.reason)}.") from error
            _pause(url, part, error, next(pauses, None), error.headers.get("Retry-After"))
        except (ValueError, http.client.InvalidURL) as error:
            raise DataError(f"{url}: this address, or what it leads to, is malformed: {escaped(error)}.") from error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if isinstance(getattr(error, "reason", None), str):  # not of the connection: where it led, such as to FTP
                raise DataError(f"{url}: cannot be downloaded: {escaped(error)}.") from error
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
        reason = escaped(getattr(error, "reason", None) or error)
        later = f" The server asked to retry after {wait:.0f} s." if wait else ""
        cure = "What was received is kept; rerun the command later to resume." if part.exists() else "Rerun it later."
        raise Unavailable(f"{url}: cannot be downloaded: {reason}.{later} {cure}") from error
    time.sleep(wait)


def _receive(url: str, part: Path, size: int, progress: Progress, pace: Pace, most: int) -> None:
    """Append what is missing to `part`, or the whole file if the server has another version than the part's."""
    mark = part.with_name(f"{part.name}.etag")
    kept = mark.read_text(encoding="utf-8") if mark.exists() and part.exists() else ""
    tag, _, known = kept.partition("\n")
    had = part.stat().st_size if tag else 0
    headers = {"User-Agent": f"grue/{__version__}", "Accept-Encoding": "identity"}
    if tag:
        headers |= {"Range": f"bytes={had}-", "If-Range": tag}
    try:
        response = _answer(urllib.request.Request(url, headers=headers), pace)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not tag:
            raise
        _discard(part)  # nothing is missing, or the part is longer than the file: start over
        return _receive(url, part, size, progress, pace, most)
    with response:
        done, total = _announced(url, part, response, had if tag else None, tag, int(known or 0))
        _check_length(url, part, total or done, size, most, exact=bool(total))
        with translate_disk_errors(part), part.open("ab" if done else "wb") as handle:
            _keep_tag(mark, response.headers.get("ETag") or "", total)
            for chunk in pace.watch(_chunks(response)):
                done += len(chunk)
                _check_length(url, part, done, size or total, most, exact=False)
                handle.write(chunk)
                progress(done, total)
    if done < total:
        raise http.client.IncompleteRead(b"", total - done)
    _check_length(url, part, done, size, most, exact=True)


def _answer(request: urllib.request.Request, pace: Pace) -> Any:
    """Return the server's answer, once its header is complete.

    A name's look-up has no timeout of its own and a header may drip in for hours, so another thread waits for them.
    """
    found: Future[Any] = Future()

    def ask() -> None:
        try:
            found.set_result(_opener().open(request, timeout=pace.seconds))
        except BaseException as error:  # handed on to who waits
            found.set_exception(error)

    Thread(target=ask, daemon=True).start()
    try:
        return found.result(pace.seconds)
    except TimeoutError as error:
        found.add_done_callback(lambda late: None if late.exception() else late.result().close())
        raise TimeoutError(f"no answer within {pace.seconds:g} s") from error


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS alone: the usual one opens FTP and, at first, local files."""
    request, opener = urllib.request, urllib.request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _announced(url: str, part: Path, response: Any, asked: int | None, tag: str, known: int) -> tuple[int, int]:
    """Return how many bytes of the file precede the answer's, and how many it has in all, 0 if that is unknown.

    Args:
        asked: The first byte of the range that was asked for; None if the whole file was.
        tag, known: ETag and size of the file that `part` is the beginning of; 0 if its size is unknown.

    Raises:
        DataError: The answer is neither the file nor that range.
    """
    length = response.length or 0
    if response.status == 200:
        return 0, length
    if response.status != 206 or asked is None:
        raise DataError(
            f"{url}: the server answered {response.status} {escaped(response.reason)}, and not with a file."
        )
    told, version = response.headers.get("Content-Range") or "", response.headers.get("ETag") or tag
    found = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", told, re.ASCII)
    if found:
        first, last, total = int(found[1]), int(found[2]), int(found[3]) if found[3] != "*" else int(found[2]) + 1
        if first == asked and last + 1 == total and length in (0, total - first):
            if version == tag and total == (known or total):
                return asked, total
            told += f" of {version}, where the file was {tag} of {known or '?'} bytes"
    _discard(part)
    raise DataError(
        f"{url}: asked for the bytes from {asked} on, the server sent {escaped(told) or 'others'}. What was received "
        "before is discarded; rerun the command to start over."
    )


def _chunks(response: Any) -> Iterator[bytes]:
    while chunk := response.read1(CHUNK):
        yield chunk


def _check_length(url: str, part: Path, found: int, expected: int, most: int, exact: bool) -> None:
    """Refuse a file of another length than expected, or one beyond all bounds.

    Raises:
        DataError: It is; what was received is discarded.
    """
    most = expected or most
    if found > most or (exact and expected and found != expected):
        _discard(part)
        bound = "expected are" if expected else "at most allowed are"
        raise DataError(
            f"{url}: the file has {found:,} bytes or more, {bound} {most:,}. It has changed, or is not the one asked "
            "for."
        )


def _keep_tag(mark: Path, tag: str, size: int) -> None:
    """Keep the server's tag of the file's version, and its size; a weak tag may stand for several, and is not kept."""
    if tag and not tag.startswith("W/"):
        mark.write_text(f"{tag}\n{size}", encoding="utf-8")
    else:
        mark.unlink(missing_ok=True)


def _discard(part: Path) -> None:
    for path in (part, part.with_name(f"{part.name}.etag")):
        path.unlink(missing_ok=True)

"""Downloading official files with the hub's library, which retries and resumes, and checking their hashes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from grue import __version__, files
from grue.data.cache import translate_disk_errors
from grue.data.hub.errors import transport_error
from grue.data.rows import Progress, no_progress
from grue.errors import DataError, Unavailable, escaped

PLAIN = re.compile("[!-~]+")  # ASCII without blanks
LARGEST = 20 * 1000**3  # bytes of a file
BUSY = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses that may be temporary


def download(url: str, target: Path, sha256: str = "", progress: Progress = no_progress, most: int = LARGEST) -> None:
    """Download a file over HTTP or HTTPS.

    A partial download of a file whose hash is known stays beside the target as `<name>.part`; the next call resumes it.

    Args:
        sha256: The expected hash; empty means any.
        progress: Called with (bytes done, bytes in all).
        most: Largest size of the file in bytes.

    Raises:
        Unavailable: The server cannot be reached, is busy, or keeps breaking off.
        DataError: The file is not available, is not the one expected, or the disk is full.
    """
    from huggingface_hub.file_download import http_get

    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and PLAIN.fullmatch(url)
    except ValueError:  # an invalid port, an unbalanced bracket
        valid = None
    if not valid:
        raise DataError(f"{escaped(url)}: not an address that begins with http:// or https://, in plain ASCII.")
    part = target.with_name(f"{target.name}.part")
    headers = {"User-Agent": f"grue/{__version__}", "Accept-Encoding": "identity"}
    with translate_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if not sha256:
            part.unlink(missing_ok=True)  # the file may have changed on the server
        with _translated(url, part), part.open("ab") as handle:
            http_get(url, handle, resume_size=handle.tell(), headers=headers, tqdm_class=_meter(url, progress, most))
        actual = files.sha256_file(part)
        if sha256 and actual != sha256:
            part.unlink()
            raise DataError(
                f"{url}: the file's sha256 is {actual}, but the task file says {sha256}. It was damaged in transfer or "
                "has changed; rerun the command to download it again."
            )
        part.replace(target)


def _meter(url: str, progress: Progress, most: int) -> Any:
    """Return a class that the library uses in place of its progress bar."""

    class Meter:
        def __init__(self, *, total: int | None, initial: int, **_: Any) -> None:
            self.done, self.total = initial, total or 0
            self.update(0)

        def __enter__(self) -> "Meter":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, count: int) -> None:
            self.done += count
            if max(self.done, self.total) > most:
                raise DataError(f"{url}: the file has more than the {most:,} bytes that are allowed.")
            progress(self.done, self.total)

    return Meter


@contextmanager
def _translated(url: str, part: Path) -> Iterator[None]:
    """Translate the errors of the hub's library; remove a partial file that cannot be resumed."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    cure = "Rerun the command later; a partial download of a file with a known sha256 is kept."
    try:
        yield
    except OfflineModeIsEnabled as error:
        raise Unavailable(f"{url}: cannot be downloaded: no connection is allowed (HF_HUB_OFFLINE).") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in BUSY:
            raise Unavailable(f"{url}: cannot be downloaded: the server answered {status}. {cure}") from error
        part.unlink(missing_ok=True)
        raise DataError(f"{url}: the server answered {status} {escaped(error.response.reason_phrase)}.") from error
    except (transport_error(), ConnectionError, TimeoutError) as error:
        reason = escaped(error) or type(error).__name__
        raise Unavailable(f"{url}: cannot be downloaded: {reason.rstrip('.')}. {cure}") from error
    except DataError:
        part.unlink(missing_ok=True)
        raise
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's, not the library's
        part.unlink(missing_ok=True)
        raise DataError(f"{url}: {escaped(error)}") from error

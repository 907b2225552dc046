"""A split's parquet files brought to this machine: whole files, or only the byte ranges of the wanted columns."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grue import files
from grue.data.cache import translate_disk_errors
from grue.data.hub.errors import translate_hub_errors
from grue.data.hub.listing import HubFile, Listing
from grue.data.hub.retry import retrying
from grue.data.pace import PACE, Pace
from grue.data.parquet import copy_columns, leaf_columns, open_parquet
from grue.data.rows import Progress
from grue.errors import DataError, escaped
from grue.tasks import Source


def save_columns(source: Source, listing: Listing, file: HubFile, target: Path, progress: Progress) -> None:
    """Write the wanted columns of one of a split's files to a parquet file of its own, atomically.

    If all its columns are wanted, the file is downloaded whole, beside the target, and the download resumes after a
    dropped connection; if some are wanted, only their byte ranges are transferred.

    Args:
        progress: Called with (bytes done, bytes in all).

    Raises:
        DataError: The file is damaged or truncated, has no such column, or cannot be transferred or written.
    """
    what = f"{source.name}/{escaped(file.path)} at {listing.commit[:12]}"
    with translate_hub_errors(what):
        if listing.folder is not None:
            return copy_columns(open_parquet(what, listing.folder / file.path), source.columns, target)
        if source.columns:
            remote = RangeFile(source, listing.commit, file)
            opened = open_parquet(what, remote)
            if len(leaf_columns(opened, source.columns)) < len(opened.leaves()):
                return copy_columns(opened, source.columns, target, lambda: progress(remote.transferred, 0))
        whole = _download(source, listing.commit, file, target.parent / "whole", progress)
        copy_columns(open_parquet(what, whole), source.columns, target)
        whole.unlink()


class RangeFile(io.RawIOBase):
    """A file of the hub, of which only the ranges that are read are transferred.

    The library's own (`HfFileSystem`) does not check that a range arrived complete.

    Attributes:
        transferred: Bytes received so far.
    """

    def __init__(self, source: Source, commit: str, file: HubFile, pace: Pace = PACE) -> None:
        from huggingface_hub import hf_hub_url

        self._url = hf_hub_url(source.name, file.path, repo_type="dataset", revision=commit)
        self._size, self._position, self._pace, self.transferred = file.size, 0, pace, 0
        self._version: str | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, and return it."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, by one request.

        Raises:
            DataError: The answer is not the range that was asked for.
        """
        first, last = self._position, self._size if size < 0 else min(self._size, self._position + size)
        if last <= first:
            return b""
        content = retrying(lambda: self._range(first, last))
        self._position = last
        self.transferred += len(content)
        return content

    def _range(self, first: int, last: int) -> bytes:
        from huggingface_hub import utils

        library: Any = utils  # it does not declare what it exports
        headers = library.build_hf_headers() | {"Range": f"bytes={first}-{last - 1}", "Accept-Encoding": "identity"}
        asked = {"headers": headers, "timeout": 30, "follow_redirects": True, "max_retries": 0}
        content = bytearray()
        with library.http_stream_backoff("GET", self._url, **asked) as response:
            library.hf_raise_for_status(response)
            told, version = response.headers.get("Content-Range", ""), response.headers.get("ETag")
            self._version = self._version or version
            if version not in (None, self._version):
                raise DataError(
                    f"{self._url}: the server sent {escaped(version)} after {escaped(self._version)}: the file has "
                    "changed in between. Rerun the command to start over."
                )
            if response.status_code == 206 and told == f"bytes {first}-{last - 1}/{self._size}":
                for chunk in self._pace.watch(response.iter_raw()):
                    content += chunk
                    if len(content) > last - first:
                        break
        if len(content) != last - first:
            raise DataError(
                f"{self._url}: asked for the bytes {first}-{last - 1}, got {len(content):,} of them (status "
                f"{response.status_code}, {escaped(told) or 'no range'}): the file is truncated, or a proxy does not "
                "support ranges."
            )
        return bytes(content)


def _download(source: Source, commit: str, file: HubFile, folder: Path, progress: Progress) -> Path:
    """Download a whole file, and compare it with the listing: the library compares sizes only."""
    from huggingface_hub import hf_hub_download

    done = 0

    class Meter:
        """What the library calls in place of its progress bar."""

        def __init__(self, *_: Any, initial: int = 0, **__: Any) -> None:
            nonlocal done
            done = initial

        def __enter__(self) -> "Meter":
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def update(self, count: float | None = 1) -> None:
            nonlocal done
            done += int(count or 0)
            progress(done, file.size)

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_, **__: None

    with translate_disk_errors(folder):
        path = Path(
            retrying(
                lambda: hf_hub_download(
                    source.name,
                    file.path,
                    repo_type="dataset",
                    revision=commit,
                    local_dir=folder,
                    tqdm_class=Meter,
                )
            )
        )
    size = path.stat().st_size
    sha256 = files.sha256_file(path) if file.sha256 else ""
    if size != file.size or sha256 != file.sha256:
        path.unlink()
        raise DataError(
            f"{source.name}/{escaped(file.path)}: damaged in transfer: {size} bytes with sha256 {sha256[:12]}, the hub "
            f"says {file.size} and {escaped(file.sha256[:12])}. Rerun the command to download it again."
        )
    return path

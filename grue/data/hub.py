"""The Hugging Face hub: which parquet files a split is, and their wanted columns brought here.

All that differs between the hub's failures is told apart here. HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE and tokens are the
library's own affair and work as everywhere.
"""

import fnmatch
import io
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from grue import files
from grue.data.cache import telling, writing
from grue.data.download import LONGEST_WAIT, PASSING, Progress, asked_wait, waits
from grue.errors import DataError
from grue.tasks import Source

T = TypeVar("T")
BATCH = 4096
# Where the hub keeps a split's parquet files when the task file does not say it.
USUAL = ("{config}/{split}-*.parquet", "data/{split}-*.parquet", "{config}/{split}/*.parquet", "{split}-*.parquet")
COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository; sha256 is empty where the hub does not know it."""

    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a split at a commit; `folder` is where they lie, or None if they are still on the hub."""

    commit: str
    files: tuple[HubFile, ...]
    folder: Path | None = None


# --- failures --------------------------------------------------------------------------------------------------------


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what the hub's library raises into one message: what, why, what to do.

    Raises:
        DataError: Whatever went wrong between here and the hub.
    """
    from huggingface_hub import errors as hub

    try:
        yield
    except hub.GatedRepoError as error:
        cure = f"accept its conditions at {_page(error)}, then log in with `hf auth login` or set HF_TOKEN"
        raise DataError(f"{what} is gated: {cure}.") from error
    except hub.RepositoryNotFoundError as error:
        cure = "it was renamed, or is private: then log in with `hf auth login` or set HF_TOKEN"
        raise DataError(f"{what} is not on the hub ({_page(error)}): {cure}.") from error
    except hub.RevisionNotFoundError as error:
        raise DataError(f"{what}: the hub has no such revision; see {_page(error)}.") from error
    except (hub.OfflineModeIsEnabled, hub.LocalEntryNotFoundError) as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, hub.OfflineModeIsEnabled):
            raise DataError(f"{what}: the hub cannot be reached: {_first_line(error.__cause__)}.") from error
        raise DataError(
            f"{what} is not on this machine. Fetch it with a connection: `grue data fetch`, without --offline and "
            "HF_HUB_OFFLINE."
        ) from error
    except hub.HfHubHTTPError as error:
        status = error.response.status_code
        reason = {401: "asks for a login (`hf auth login` or HF_TOKEN)", 403: "forbids it"}.get(status, "failed")
        raise DataError(f"{what}: the hub {reason}: {_first_line(error)}.") from error
    except (_http_error(), hub.EntryNotFoundError, ConnectionError, TimeoutError) as error:
        raise DataError(f"{what}: the hub cannot be reached: {type(error).__name__}: {_first_line(error)}.") from error
    except OSError as error:
        if error.errno is not None:
            raise  # of the disk, not of the library
        raise DataError(f"{what}: {_first_line(error)}. The same command tries again.") from error


def _http_error() -> type[Exception]:
    """Return the base of the transport's errors: of httpx or requests, as the installed library uses."""
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__[0]


def _page(error: Any) -> str:
    from huggingface_hub import constants

    found = re.search(r"/(?:api/)?(datasets/|models/)?([^/]+/[^/?]+)", error.response.request.url.path)
    kind = "datasets/" if found and found[1] == "datasets/" else ""
    return f"{constants.ENDPOINT}/{kind}{found[2]}" if found else str(constants.ENDPOINT)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def patiently(call: Callable[[], T]) -> T:
    """Return what `call` returns, trying again after dropped connections, 429 and 5xx, as long as the server asks."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    for pause in waits():
        try:
            return call()
        except OfflineModeIsEnabled:
            raise
        except HfHubHTTPError as error:
            wait = asked_wait(error.response.headers.get("Retry-After"), pause)
            if error.response.status_code not in PASSING or wait > LONGEST_WAIT:
                raise
        except (_http_error(), ConnectionError, TimeoutError):
            wait = pause
        time.sleep(wait)
    return call()


# --- what there is ---------------------------------------------------------------------------------------------------


def find_files(source: Source, split: str) -> Listing:
    """Return a split's parquet files as the hub lists them, the revision resolved to a commit.

    Raises:
        DataError: The repository, its revision or the files are not to be had.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    def ask() -> tuple[str, list[HubFile]]:
        api = HfApi()
        commit = api.dataset_info(source.name, revision=source.revision or None, timeout=30).sha
        tree = api.list_repo_tree(source.name, repo_type="dataset", revision=commit, recursive=True)
        found = [HubFile(f.path, f.size, f.lfs.sha256 if f.lfs else "") for f in tree if isinstance(f, RepoFile)]
        return str(commit), found

    with explained(_named(source)):
        commit, found = patiently(ask)
    return Listing(commit, _matching(source, split, found))


def find_local_files(source: Source, split: str) -> Listing:
    """Return a split's parquet files in the hub's cache on this machine; no connection is opened.

    Raises:
        DataError: They are not there.
    """
    from huggingface_hub import snapshot_download

    with explained(_named(source)):
        place = snapshot_download(
            source.name,
            repo_type="dataset",
            revision=source.revision or None,
            allow_patterns=list(_patterns(source, split)),
            local_files_only=True,
        )
    folder = Path(place)
    there = [path for path in sorted(folder.rglob("*.parquet")) if path.is_file()]
    found = [HubFile(path.relative_to(folder).as_posix(), path.stat().st_size) for path in there]
    return Listing(folder.name, _matching(source, split, found), folder)


def _named(source: Source) -> str:
    return f"the data set {source.name}" + (f" at {source.revision}" if source.revision else "")


def _patterns(source: Source, split: str) -> tuple[str, ...]:
    if split in source.files:
        return (source.files[split],)
    return tuple(pattern.format(config=source.config or "default", split=split) for pattern in USUAL)


def _matching(source: Source, split: str, found: list[HubFile]) -> tuple[HubFile, ...]:
    for pattern in _patterns(source, split):
        matching = [
            file
            for file in found
            if fnmatch.fnmatchcase(file.path, pattern) and file.path.count("/") == pattern.count("/")
        ]
        if matching:
            _check_shards(source, matching)
            return tuple(sorted(matching, key=lambda file: file.path))
    patterns = ", ".join(_patterns(source, split))
    parquet = [file.path for file in found if file.path.endswith(".parquet")]
    shown = f"it has {', '.join(parquet[:4])}{' …' if len(parquet) > 4 else ''}" if parquet else "it has none"
    raise DataError(f"{_named(source)} has no parquet file {patterns} for the split {split!r}; {shown}.")


def _check_shards(source: Source, found: list[HubFile]) -> None:
    """Refuse a part of the files `name-00000-of-00003.parquet`, as an interrupted download leaves."""
    for file in found:
        numbered = re.search(r"-of-(\d+)\.parquet$", file.path)
        if numbered and len(found) != int(numbered[1]):
            raise DataError(
                f"{_named(source)}: {len(found)} of the {int(numbered[1])} files like {file.path} are there."
            )


# --- bringing it here ------------------------------------------------------------------------------------------------


class RangeFile(io.RawIOBase):
    """A file of the hub, of which only the ranges that are read are transferred.

    Attributes:
        transferred: Bytes that have come so far.
    """

    def __init__(self, source: Source, commit: str, file: HubFile) -> None:
        from huggingface_hub import hf_hub_url

        self._url = hf_hub_url(source.name, file.path, repo_type="dataset", revision=commit)
        self._size, self._place, self.transferred = file.size, 0, 0

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def seekable(self) -> bool:
        """Whether one can move in it: yes."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, by one request.

        Raises:
            DataError: What came is not the range that was asked for.
        """
        from huggingface_hub import utils

        library: Any = utils  # it does not declare what it exports
        first, last = self._place, self._size if size < 0 else min(self._size, self._place + size)
        if last <= first:
            return b""
        headers = library.build_hf_headers() | {"Range": f"bytes={first}-{last - 1}", "Accept-Encoding": "identity"}
        response = library.http_backoff("GET", self._url, headers=headers, timeout=30, follow_redirects=True)
        library.hf_raise_for_status(response)
        content: bytes = response.content
        if response.status_code != 206 or len(content) != last - first:
            raise DataError(
                f"{self._url}: asked for {last - first} bytes of it, {len(content)} came (status "
                f"{response.status_code}): the file is truncated, or a proxy does not know ranges."
            )
        self._place = last
        self.transferred += len(content)
        return content


def save_columns(source: Source, listing: Listing, file: HubFile, target: Path, progress: Progress) -> None:
    """Write the wanted columns of one of a split's files to a parquet file of its own, atomically.

    Where the columns are all that the file has, it is downloaded whole, beside the target, and goes on after a dropped
    connection; where they are a part, only their ranges are transferred.

    Raises:
        DataError: The file is damaged or truncated, has no such column, or cannot be transferred or written.
    """
    what = f"{source.name}/{file.path} at {listing.commit[:12]}"
    with explained(what):
        if listing.folder is not None:
            return _copy_columns(what, _open(what, listing.folder / file.path), source.columns, target)
        if source.columns:
            remote = RangeFile(source, listing.commit, file)
            opened = _open(what, remote)
            if len(_leaves(what, opened, source.columns)) < len(opened.schema):
                return _copy_columns(what, opened, source.columns, target, lambda: progress(remote.transferred, 0))
        whole = _download(source, listing.commit, file, target.parent / "whole", progress)
        _copy_columns(what, _open(what, whole), source.columns, target)
        whole.unlink()


def _download(source: Source, commit: str, file: HubFile, folder: Path, progress: Progress) -> Path:
    from huggingface_hub import hf_hub_download

    done = [0]

    class Meter:
        """What the library calls in place of its progress bar."""

        def __init__(self, *_: Any, initial: int = 0, **__: Any) -> None:
            done[0] = initial

        def __enter__(self) -> "Meter":
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def update(self, count: float | None = 1) -> None:
            done[0] += int(count or 0)
            progress(done[0], file.size)

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_, **__: None

    def fetch() -> str:
        return hf_hub_download(
            source.name,
            file.path,
            repo_type="dataset",
            revision=commit,
            local_dir=folder,
            tqdm_class=Meter,
        )

    with telling(folder):
        path = Path(patiently(fetch))
    size = path.stat().st_size
    sha256 = files.sha256_file(path) if file.sha256 else ""
    if size != file.size or sha256 != file.sha256:
        path.unlink()
        raise DataError(
            f"{source.name}/{file.path}: damaged on the way: {size} bytes with sha256 {sha256[:12]}, the hub says "
            f"{file.size} and {file.sha256[:12]}. The same command fetches it again."
        )
    return path


def _open(what: str, file: Path | RangeFile) -> pq.ParquetFile:
    with readable(what):
        return pq.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn a parquet reader's complaint into ours.

    Raises:
        DataError: The file is damaged.
    """
    try:
        yield
    except pa.ArrowException as error:
        raise DataError(f"{what}: not a whole parquet file: {_first_line(error)}.") from error


def _leaves(what: str, opened: pq.ParquetFile, columns: tuple[str, ...]) -> list[str]:
    """Return the paths of the leaves under the wanted columns; what parquet calls lists' insides is left out of names.

    Raises:
        DataError: There is no such column.
    """
    paths = [opened.schema.column(i).path for i in range(len(opened.schema))]
    names = {path: re.sub(r"\.(list|bag)\.(element|item|array|array_element)(?=\.|$)", "", path) for path in paths}
    for column in columns:
        if not any(f"{name}.".startswith(f"{column}.") for name in names.values()):
            known = ", ".join(dict.fromkeys(names.values()))
            raise DataError(f"{what}: there is no column {column!r}; it has {known}. The data set has changed.")
    return [path for path, name in names.items() if any(f"{name}.".startswith(f"{column}.") for column in columns)]


def _copy_columns(
    what: str, opened: pq.ParquetFile, columns: tuple[str, ...], target: Path, moved: Callable[[], None] = lambda: None
) -> None:
    leaves = _leaves(what, opened, columns) if columns else None
    with readable(what), writing(target) as temporary:
        schema = opened.read_row_groups([], columns=leaves).schema.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in opened.iter_batches(BATCH, columns=leaves, use_threads=False):
                writer.write_batch(batch.replace_schema_metadata(None))
                moved()

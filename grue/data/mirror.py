"""The mirror: what was fetched, in folders `<data set>/<revision>` that can be copied to machines without a network.

A folder holds `<split>.parquet` with the needed columns, or the official files as they are handed out with what they
unpack to, and `manifest.json`, which says where it all comes from and what it must hash to. Loading from the hub is
fetching into the cache's mirror and reading from there, so that there is one way for data to come in.
"""

import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq

from grue import __version__, files
from grue.data import hub
from grue.data.cache import alone, mirror_folders, telling, writing
from grue.data.download import Progress, download, no_progress, unpack
from grue.data.layouts import read_folder
from grue.data.tables import parquet_rows
from grue.errors import ConfigError, DataError
from grue.tasks import Source

SCHEMA_VERSION = 1
AT_ONCE = 4  # files that are transferred side by side
BATCH = 4096


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file of the mirror: a split's rows, or an official file as it came.

    Attributes:
        origin: Paths in the hub's repository, or the address.
        rows, columns: Of a parquet file.
    """

    bytes: int
    sha256: str
    origin: tuple[str, ...]
    rows: int = 0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder of the mirror holds.

    Attributes:
        kind, name, config: As in the task file's source.
        asked: The revision that the task file named.
        revision: The commit that it was at the time; of official files, the hash of their addresses.
        files: File name → what it is; a split's rows are in `<split>.parquet`.
        unpacked: Hash of names and sizes of all that official files unpack to.
        ids: Task → split → hash of the example ids, as they were after fetching.
        grue: The version that fetched it.
        fetched: When, in UTC.
    """

    schema: int
    kind: str
    name: str
    config: str
    asked: str
    revision: str
    licence: str
    grue: str
    fetched: str
    files: Mapping[str, HeldFile]
    unpacked: str = ""
    ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """One split in the mirror."""

    folder: Path
    manifest: Manifest
    split: str

    @property
    def file(self) -> str:
        """The name of the split's own file; official files have none."""
        return f"{self.split}.parquet"

    @property
    def identity(self) -> str:
        """What tells this content from any other."""
        if self.manifest.kind == "hub":
            return self.manifest.files[self.file].sha256
        return files.sha256_json([self.manifest.unpacked, *(file.sha256 for file in self.manifest.files.values())])

    @property
    def bytes(self) -> int:
        """The size of what is read for the split."""
        held = self.manifest.files
        return held[self.file].bytes if self.manifest.kind == "hub" else sum(file.bytes for file in held.values())


# --- finding and reading ---------------------------------------------------------------------------------------------


def find(source: Source, split: str, roots: list[Path] | None = None) -> Held | None:
    """Return where the mirror holds a split, or None.

    A pinned commit is found under its own name. Of a branch, what was fetched last counts: loading twice gives the same
    rows, until `grue data fetch` asks the hub again.

    Raises:
        DataError: A manifest cannot be read.
    """
    for root in mirror_folders() if roots is None else roots:
        manifests = [_read_manifest(path.parent) for path in sorted(_place(root, source).glob("*/manifest.json"))]
        fitting = [manifest for manifest in manifests if _fits(manifest, source, split)]
        if fitting:
            newest = max(fitting, key=lambda manifest: manifest.fetched)
            return Held(_place(root, source) / newest.revision, newest, split)
    return None


def _place(root: Path, source: Source) -> Path:
    parts = [*source.name.split("/"), *([source.config] if source.config not in ("", "default") else [])]
    return root / ("--".join(parts) if source.kind == "hub" else f"{source.name}--files")


def _read_manifest(folder: Path) -> Manifest:
    manifest = files.load_json(folder / "manifest.json", Manifest)
    if manifest.schema != SCHEMA_VERSION:
        raise DataError(
            f"{folder / 'manifest.json'}: schema {manifest.schema}, this version of grue reads {SCHEMA_VERSION}; fetch "
            "the data again, or upgrade grue."
        )
    return manifest


def _fits(manifest: Manifest, source: Source, split: str) -> bool:
    if source.kind == "files":
        return manifest.revision == _addresses_hash(source)
    held = manifest.files.get(f"{split}.parquet")
    pinned = hub.COMMIT.fullmatch(source.revision)
    same = manifest.revision == source.revision if pinned else manifest.asked == source.revision
    return same and held is not None and held.columns == source.columns


def check(held: Held) -> None:
    """Compare a split's files with the manifest.

    Raises:
        DataError: A file is missing or damaged.
    """
    cure = "Delete the folder and fetch it again with `grue data fetch`."
    names = [held.file] if held.manifest.kind == "hub" else list(held.manifest.files)
    for name in names:
        path, said = held.folder / name, held.manifest.files[name]
        if not path.exists():
            raise DataError(f"{path}: is missing, though manifest.json lists it. {cure}")
        found = files.sha256_file(path)
        if found != said.sha256:
            raise DataError(f"{path}: sha256 is {found}, manifest.json says {said.sha256}: it is damaged. {cure}")
    if held.manifest.kind == "files" and _unpacked_hash(held.folder / "unpacked") != held.manifest.unpacked:
        raise DataError(f"{held.folder / 'unpacked'}: not what the official files unpack to. {cure}")


def rows(held: Held) -> Iterator[Mapping[str, Any]]:
    """Yield a split's rows as they are read.

    Raises:
        DataError: The file is damaged.
    """
    if held.manifest.kind == "files":
        yield from read_folder(held.manifest.name, held.folder / "unpacked", held.split)
        return
    yield from parquet_rows(held.folder / held.file)


# --- fetching --------------------------------------------------------------------------------------------------------


def fetch(
    source: Source, split: str, root: Path, licence: str, offline: bool = False, progress: Progress = no_progress
) -> Held:
    """Bring a split into a mirror; one that is there and whole is left as it is.

    A revision that is no commit is looked up anew.

    Args:
        offline: Take it from the hub's cache on this machine or not at all.

    Raises:
        DataError: It cannot be had, or not be written.
    """
    if source.kind == "files":
        return _fetch_files(source, split, root, licence, offline, progress)
    there = find(source, split, [root]) if hub.COMMIT.fullmatch(source.revision) else None
    if there is not None and _whole(there):
        return there
    listing = hub.find_local_files(source, split) if offline else hub.find_files(source, split)
    folder = _place(root, source) / listing.commit
    with alone(folder / ".lock"):
        there = find(replace(source, revision=listing.commit), split, [root])
        if there is None or not _whole(there):
            held = _fetch_columns(source, split, listing, folder, progress)
            there = Held(folder, _record(folder, source, listing.commit, licence, {f"{split}.parquet": held}), split)
        elif there.manifest.asked != source.revision:
            there = Held(folder, _record(folder, source, listing.commit, licence, {}), split)
    return there


def _whole(held: Held) -> bool:
    try:
        check(held)
    except DataError:
        return False  # it is fetched again
    return True


def _record(
    folder: Path, source: Source, revision: str, licence: str, added: Mapping[str, HeldFile], unpacked: str = ""
) -> Manifest:
    """Write the folder's manifest, with files added to what it says already."""
    path = folder / "manifest.json"
    before = _read_manifest(folder) if path.exists() else None
    manifest = Manifest(
        schema=SCHEMA_VERSION,
        kind=source.kind,
        name=source.name,
        config=source.config,
        asked=source.revision,
        revision=revision,
        licence=licence,
        grue=__version__,
        fetched=datetime.now(UTC).isoformat(timespec="milliseconds"),
        files={**(before.files if before else {}), **added},
        unpacked=unpacked,
        ids=before.ids if before else {},
    )
    files.write_json(path, manifest)
    return manifest


def record_ids(held: Held, task: str, split: str, ids_sha256: str) -> None:
    """Note in the manifest what the ids of a task's split, made of these rows, hash to."""
    with alone(held.folder / ".lock"):
        manifest = _read_manifest(held.folder)
        ids = {**manifest.ids, task: {**manifest.ids.get(task, {}), split: ids_sha256}}
        if ids != manifest.ids:
            files.write_json(held.folder / "manifest.json", replace(manifest, ids=ids))


def _fetch_columns(source: Source, split: str, listing: hub.Listing, folder: Path, progress: Progress) -> HeldFile:
    """Transfer the files of a split side by side, and join them; the finished ones stay for the next attempt."""
    waiting = folder / f".{split}.parts"
    shutil.rmtree(waiting / "whole", ignore_errors=True)  # what a killed process had begun; the library starts anew
    parts = {file: waiting / f"{files.sha256_json([file, source.columns])[:16]}.parquet" for file in listing.files}
    done = {file: file.size if part.exists() else 0 for file, part in parts.items()}
    total, lock, failed = sum(file.size for file in listing.files), threading.Lock(), threading.Event()

    def bring(file: hub.HubFile) -> None:
        def moved(count: int, _: int) -> None:
            if failed.is_set():
                raise DataError(f"{file.path}: stopped, because another file failed.")
            with lock:
                done[file] = count
                progress(sum(done.values()), total)

        if not parts[file].exists():
            hub.save_columns(source, listing, file, parts[file], moved)
        moved(file.size, file.size)

    with ThreadPoolExecutor(AT_ONCE) as workers:
        for future in [workers.submit(bring, file) for file in listing.files]:
            try:
                future.result()
            except BaseException:
                failed.set()
                workers.shutdown(wait=False, cancel_futures=True)
                raise
    target = folder / f"{split}.parquet"
    rows = _join(list(parts.values()), target)
    shutil.rmtree(waiting)
    origin = tuple(file.path for file in listing.files)
    return HeldFile(target.stat().st_size, files.sha256_file(target), origin, rows, source.columns)


def _join(parts: list[Path], target: Path) -> int:
    """Write the rows of several parquet files into one, and return how many they are."""
    opened = [pq.ParquetFile(part) for part in parts]
    schema = opened[0].schema_arrow
    if len(opened) == 1:
        with telling(target):
            parts[0].replace(target)
        return int(opened[0].metadata.num_rows)
    with (
        writing(target) as temporary,
        hub.readable(str(target)),
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for part in opened:
            for batch in part.iter_batches(BATCH, use_threads=False):
                writer.write_batch(batch.cast(schema) if batch.schema != schema else batch)
    return sum(part.metadata.num_rows for part in opened)


# --- official files --------------------------------------------------------------------------------------------------


def _addresses_hash(source: Source) -> str:
    return files.sha256_json([source.urls, source.sha256])[:16]


def _fetch_files(source: Source, split: str, root: Path, licence: str, offline: bool, progress: Progress) -> Held:
    """Download the official files, all splits at once, and unpack them."""
    revision = _addresses_hash(source)
    folder = _place(root, source) / revision
    if offline:
        raise DataError(
            f"the official files of {source.name} are not in the mirror. Fetch them with a connection: "
            "`grue data fetch`, without --offline and HF_HUB_OFFLINE."
        )
    if not source.urls:
        raise ConfigError(f'the source {source.name!r} of kind "files" has no urls; add them to the task file.')
    with alone(folder / ".lock"):
        there = find(source, split, [root])
        if there is not None and _whole(there):
            return there
        held = {}
        for url in source.urls:
            path = folder / PurePosixPath(urlsplit(url).path).name
            said = source.sha256.get(url, "")
            if not path.exists() or (said and files.sha256_file(path) != said):
                download(url, path, said, progress)
            held[path.name] = HeldFile(path.stat().st_size, files.sha256_file(path), (url,))
        unpacked = folder / "unpacked"
        _unpack_anew([folder / name for name in held], unpacked)
        manifest = _record(folder, source, revision, licence, held, _unpacked_hash(unpacked))
    return Held(folder, manifest, split)


def _unpack_anew(archives: list[Path], folder: Path) -> None:
    """Unpack into a temporary neighbour, which takes the folder's place."""
    temporary = folder.with_name(".unpacking")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        for archive in archives:
            unpack(archive, temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpacked_hash(folder: Path) -> str:
    found = sorted(
        (path.relative_to(folder).as_posix(), path.stat().st_size) for path in folder.rglob("*") if path.is_file()
    )
    return files.sha256_json(found)

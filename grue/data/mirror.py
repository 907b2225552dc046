"""The mirror: fetched data, in folders `<data set>/<revision>` that can be copied to machines without a network.

A folder holds `<split>.parquet` with the needed columns, or the official files and what they unpack to, and
`manifest.json` with their origin and hashes. Data of the hub is always fetched into the cache's mirror and read from
there.
"""

import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from grue import __version__, files
from grue.data.archives import DamagedArchive, unpack
from grue.data.cache import locked, mirror_folders
from grue.data.download import download
from grue.data.formats import read_folder
from grue.data.hub.listing import COMMIT, HubFile, Listing, find_files, find_local_files, save_columns
from grue.data.rows import Progress, no_progress
from grue.data.tables import join_parquet, parquet_rows
from grue.errors import ConfigError, DataError, escaped
from grue.tasks import Source

SCHEMA_VERSION = 1
PARALLEL = 4  # files transferred at once


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file of the mirror: a split's rows, or an official file.

    Attributes:
        origin: Paths in the hub's repository, or the address.
    """

    bytes: int
    sha256: str
    origin: tuple[str, ...]
    rows: int = 0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MirrorManifest:
    """The content of `manifest.json`, which describes a folder of the mirror.

    Attributes:
        kind, name, config: As in the task file's source.
        asked: The revision in the task file.
        revision: The commit that it resolved to; for official files, the hash of their addresses.
        files: File name → file; a split's rows are in `<split>.parquet`.
        fetched: In UTC.
        contents: Hash of the names and sha256s of the unpacked official files. It pins files without a sha256 in the
            task file: fetched again, they must have the same contents.
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
    contents: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """One split in the mirror."""

    folder: Path
    manifest: MirrorManifest
    split: str

    @property
    def file(self) -> str:
        """The name of the split's own file; official files have none."""
        return f"{self.split}.parquet"

    @property
    def path(self) -> Path:
        """The path that the split is read from: its own file, or the folder of unpacked official files."""
        return self.folder / (self.file if self.manifest.kind == "hub" else "unpacked")

    @property
    def identity(self) -> str:
        """A hash of the content."""
        if self.manifest.kind == "hub":
            return self.manifest.files[self.file].sha256
        return files.sha256_json([self.manifest.contents, *(file.sha256 for file in self.manifest.files.values())])

    @property
    def bytes(self) -> int:
        """The size of the files that are read for the split."""
        held = self.manifest.files
        return held[self.file].bytes if self.manifest.kind == "hub" else sum(file.bytes for file in held.values())


# --- finding and reading ---------------------------------------------------------------------------------------------


def find(source: Source, split: str, roots: list[Path] | None = None) -> Held | None:
    """Return a split in the mirror, or None.

    A pinned commit is found under its own name. For a branch, the last fetched commit is used: loading twice gives the
    same rows until `grue data fetch` asks the hub again.
    """
    for root in mirror_folders() if roots is None else roots:
        manifests = [_read_manifest(path.parent) for path in sorted(_folder_of(root, source).glob("*/manifest.json"))]
        matching = [manifest for manifest in manifests if _matches(manifest, source, split)]
        if matching:
            newest = max(matching, key=lambda manifest: manifest.fetched)
            return Held(_folder_of(root, source) / newest.revision, newest, split)
    return None


def _folder_of(root: Path, source: Source) -> Path:
    parts = [*source.name.split("/"), *([source.config] if source.config not in ("", "default") else [])]
    return root / ("--".join(parts) if source.kind == "hub" else f"{source.name}--files")


def _read_manifest(folder: Path) -> MirrorManifest:
    manifest = files.load_json(folder / "manifest.json", MirrorManifest)
    if manifest.revision != folder.name:
        fault = f"its revision is {escaped(manifest.revision)}, not that of its folder; fetch the data again."
        raise DataError(f"{folder / 'manifest.json'}: {fault}")
    if manifest.schema != SCHEMA_VERSION:
        fault = f"schema {manifest.schema}, but this version of grue reads {SCHEMA_VERSION}"
        raise DataError(f"{folder / 'manifest.json'}: {fault}; fetch the data again, or upgrade grue.")
    return manifest


def _matches(manifest: MirrorManifest, source: Source, split: str) -> bool:
    if source.kind == "files":
        return manifest.revision == _addresses_hash(source)
    held = manifest.files.get(f"{split}.parquet")
    pinned = COMMIT.fullmatch(source.revision)
    same = manifest.revision == source.revision if pinned else manifest.asked == source.revision
    return same and held is not None and held.columns == source.columns


def check(held: Held) -> None:
    """Compare a split's files with the manifest; a DataError if a file is missing or damaged."""
    cure = "Delete the folder and fetch it again with `grue data fetch`."
    for name in [held.file] if held.manifest.kind == "hub" else held.manifest.files:
        path, listed = held.folder / name, held.manifest.files[name].sha256
        if not path.exists():
            raise DataError(f"{path}: is missing, though manifest.json lists it. {cure}")
        sha256 = files.sha256_file(path)
        if sha256 != listed:
            raise DataError(f"{path}: sha256 is {sha256}, but manifest.json says {listed}: it is damaged. {cure}")
    if held.manifest.kind == "files" and _contents_hash(held.path) != held.manifest.contents:
        raise DataError(f"{held.path}: differs from what the official files unpack to. {cure}")


def rows(held: Held) -> Iterator[Mapping[str, Any]]:
    """Yield a split's rows, one batch in memory at a time; a DataError if the file is damaged."""
    if held.manifest.kind == "files":
        yield from read_folder(held.manifest.name, held.path, held.split)
    else:
        yield from parquet_rows(held.path)


# --- fetching --------------------------------------------------------------------------------------------------------


def fetch(
    source: Source, split: str, root: Path, licence: str, offline: bool = False, progress: Progress = no_progress
) -> Held:
    """Fetch a split into a mirror, unless it is there and undamaged.

    A revision that is not a commit is resolved again.
    """
    if source.kind == "files":
        return _fetch_files(source, split, root, licence, offline, progress)
    if COMMIT.fullmatch(source.revision) and (held := _undamaged(source, split, root)):
        return held
    listing = find_local_files(source, split) if offline else find_files(source, split)
    folder = _folder_of(root, source) / listing.commit
    with locked(folder / ".lock"):
        held = _undamaged(replace(source, revision=listing.commit), split, root)
        if held is None:
            fetched = {f"{split}.parquet": _fetch_columns(source, split, listing, folder, progress)}
            return Held(folder, _record(folder, source, listing.commit, licence, fetched), split)
        if held.manifest.asked != source.revision:
            return Held(folder, _record(folder, source, listing.commit, licence, {}), split)
    return held


def _undamaged(source: Source, split: str, root: Path) -> Held | None:
    """Return what a mirror has of a split; None if it is damaged, and then fetched again."""
    held = find(source, split, [root])
    try:
        if held is not None:
            check(held)
    except DataError:
        return None
    return held


def _record(
    folder: Path, source: Source, revision: str, licence: str, added: Mapping[str, HeldFile], contents: str = ""
) -> MirrorManifest:
    """Write the folder's manifest, with files added to those already listed."""
    before = _manifest_before(folder)
    manifest = MirrorManifest(
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
        contents=contents,
    )
    files.write_json(folder / "manifest.json", manifest)
    return manifest


def _manifest_before(folder: Path) -> MirrorManifest | None:
    return _read_manifest(folder) if (folder / "manifest.json").exists() else None


def _fetch_columns(source: Source, split: str, listing: Listing, folder: Path, progress: Progress) -> HeldFile:
    """Transfer the files of a split in parallel, and join them; finished files are kept for the next attempt."""
    pending = folder / f".{split}.parts"
    parts = {file: pending / f"{files.sha256_json([file, source.columns])[:16]}.parquet" for file in listing.files}
    total, done, lock = sum(file.size for file in listing.files), dict.fromkeys(parts, 0), threading.Lock()

    def transfer(file: HubFile) -> None:
        def advance(count: int, _: int) -> None:
            with lock:
                done[file] = count
                progress(sum(done.values()), total)

        if not parts[file].exists():
            save_columns(source, listing, file, parts[file], advance)
        advance(file.size, file.size)

    with ThreadPoolExecutor(PARALLEL) as workers:
        list(workers.map(transfer, listing.files))
    target = folder / f"{split}.parquet"
    rows = join_parquet(list(parts.values()), target)
    shutil.rmtree(pending)
    origin = tuple(file.path for file in listing.files)
    return HeldFile(target.stat().st_size, files.sha256_file(target), origin, rows, source.columns)


# --- official files --------------------------------------------------------------------------------------------------


def _addresses_hash(source: Source) -> str:
    return files.sha256_json([source.urls, source.sha256])[:16]


def _fetch_files(source: Source, split: str, root: Path, licence: str, offline: bool, progress: Progress) -> Held:
    """Download the official files, all splits at once, and unpack them."""
    revision = _addresses_hash(source)
    folder = _folder_of(root, source) / revision
    if offline:
        if held := _undamaged(source, split, root):
            return held
        raise DataError(
            f"the official files of {source.name} are not in the mirror. Fetch them with a connection: "
            "`grue data fetch`, without --offline and HF_HUB_OFFLINE."
        )
    if not source.urls:
        raise ConfigError(f'the source {source.name!r} of kind "files" has no urls; add them to the task file.')
    with locked(folder / ".lock"):
        if held := _undamaged(source, split, root):
            return held
        before = _manifest_before(folder)
        fetched, fresh = {}, set()
        for name, url in _names(source).items():
            path = folder / name
            expected = source.sha256.get(url, "")
            pinned = expected or (before.files[name].sha256 if before and name in before.files else "")
            if not path.exists() or (pinned and files.sha256_file(path) != pinned):
                download(url, path, expected, progress)
                fresh.add(path)
            fetched[name] = HeldFile(path.stat().st_size, files.sha256_file(path), (url,))
        unpacked = folder / "unpacked"
        try:
            with files.replacing_folder(unpacked, flush=False) as new:
                for name in fetched:
                    unpack(folder / name, new)
                if before is not None and _contents_hash(new) != before.contents:
                    raise DataError(
                        f"{unpacked}: the official files have changed since they were first fetched, {before.fetched}. "
                        f"If that is intended, delete {folder} and fetch them again."
                    )
        except DamagedArchive as error:
            if error.archive not in fresh:
                raise
            error.archive.unlink()  # else it would never be fetched again
            raise DataError(
                f"{fetched[error.archive.name].origin[0]}: the server sent a damaged archive, or something "
                f"else: {error.reason}. It was deleted: check the address, and rerun the command to download it again."
            ) from error
        manifest = _record(folder, source, revision, licence, fetched, _contents_hash(unpacked))
    return Held(folder, manifest, split)


def _names(source: Source) -> dict[str, str]:
    """Return the official files' names in the mirror, with their addresses."""
    named = {PurePosixPath(urlsplit(url).path).name: url for url in source.urls}
    strange = [name for name in named if not name or name.startswith(".") or name in ("manifest.json", "unpacked")]
    if strange or len(named) < len(source.urls):
        raise ConfigError(
            f"the source {source.name!r}: each of its urls must end in a file name of its own, not in manifest.json."
        )
    return named


def _contents_hash(folder: Path) -> str:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return files.sha256_json([(path.relative_to(folder).as_posix(), files.sha256_file(path)) for path in paths])

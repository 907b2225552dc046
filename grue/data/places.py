"""The places that a task's data can come from, and fetching it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue.data import load, mirror
from grue.data.formats import read_folder
from grue.data.hub.listing import find_files, find_local_files
from grue.data.rows import Progress, no_progress
from grue.errors import DataError
from grue.mini import assets
from grue.tasks import Source, Task


@dataclass(frozen=True, slots=True)
class DataLocation:
    """A place that a split could come from.

    Attributes:
        kind: "cache" is the cached file of examples; "mirror" is fetched data; the others as in task files.
        where: A path, an address, or a data set and its revision.
        available: Whether it can be read now.
        bytes: What would be read or, from the hub, transferred at most; None if unknown.
        note: Why it is not available, or another remark.
    """

    kind: Literal["mini", "cache", "mirror", "hub", "files", "local"]
    where: str
    available: bool
    bytes: int | None = None
    note: str = ""


def places(task: Task, split: str, offline: bool = False) -> Iterator[DataLocation]:
    """Yield the places of a split in the order in which they are tried; the first that is available is used."""
    name, folder = task.data.splits[split].source, load.laid_out(task)
    for source in task.data.sources:
        held = mirror.find(source, name) if source.kind in ("hub", "files") else None
        if held is not None:
            yield from _held_places(task, split, held)
        if source.kind in ("hub", "files") and folder is not None:
            yield _folder_place(task, name, folder)
            folder = None
        yield _place(task, source, name, load.is_offline(offline))


def _held_places(task: Task, split: str, held: mirror.Held) -> Iterator[DataLocation]:
    try:
        path = load.examples_path(task, split, load.held_rows(held), None, offline=True)
    except DataError:
        path = None  # the splits that it leaves out are missing, so its examples are not cached either
    if path is not None and load.about_path(path).exists():
        yield DataLocation("cache", str(path), True, path.stat().st_size)
    exists = held.path.exists()
    note = "" if exists else "listed in manifest.json, but missing"
    yield DataLocation("mirror", str(held.path), exists, held.bytes, note)


def _folder_place(task: Task, name: str, folder: Path) -> DataLocation:
    try:
        read_folder(task.data.format, folder, name)
    except DataError as error:
        return DataLocation("local", str(folder), False, None, str(error))
    return DataLocation("local", str(folder), True)


def _place(task: Task, source: Source, name: str, offline: bool) -> DataLocation:
    if source.kind == "files":
        note = "offline" if offline else "not checked until needed"
        return DataLocation("files", ", ".join(source.urls), not offline, None, note)
    revision = {"mini": f", revision {source.revision}", "hub": f"@{source.revision or 'newest'}"}.get(source.kind, "")
    try:
        if source.kind == "mini":
            assets.read_rows(source.name, name, source.revision)
            return DataLocation("mini", f"{source.name}{revision}", True)
        if source.kind == "local":
            path = load.local_path(task, source, name)
            return DataLocation("local", str(path), True, path.stat().st_size if path.is_file() else None)
        listing = find_local_files(source, name) if offline else find_files(source, name)
    except DataError as error:
        return DataLocation(source.kind, f"{source.name}{revision}", False, None, str(error))
    where = str(listing.folder or f"{source.name}@{listing.commit}")
    note = f"{len(listing.files)} file{'s'[: len(listing.files) - 1]}"
    return DataLocation("hub", where, True, sum(file.size for file in listing.files), note)


def fetch_split(
    task: Task, split: str, offline: bool = False, progress: Progress = no_progress
) -> tuple[load.Loaded, load.LocalRows]:
    """Fetch a split into the mirror, resolving a revision that is not a commit again, and load it from there."""
    origin = load.obtain(task, split, None, offline, progress, renew=True)
    return load.load_examples(task, split, None, offline, progress), origin


def read_uncached(task: Task, split: str, offline: bool = False, progress: Progress = no_progress) -> load.Loaded:
    """Load a split without the cache of examples, and without comparing it with the task file."""
    origin = load.obtain(task, split, None, offline, progress)
    load.about_path(load.examples_path(task, split, origin, None, offline)).unlink(missing_ok=True)
    return load.read_split(task, split, None, offline, progress)

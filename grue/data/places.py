"""The places that a task's data can come from, and fetching it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from grue.data import mirror
from grue.data.hub.listing import find_files, find_local_files
from grue.data.load import (
    Loaded,
    LocalRows,
    about_path,
    examples_path,
    fetch_from,
    first_source,
    held_rows,
    is_offline,
    load_examples,
    local_folder,
    local_path,
    obtain,
    read_split,
)
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
    name = task.data.splits[split].source
    for source in task.data.sources:
        if source.kind == "mini":
            yield _mini_place(source, name)
            continue
        if source.kind == "local":
            yield _local_place(task, source, name)
            continue
        held = mirror.find(source, name)
        if held is not None:
            yield from _held_places(task, split, held)
        yield _remote_place(source, name, is_offline(offline))


def _mini_place(source: Source, name: str) -> DataLocation:
    where = f"{source.name}, revision {source.revision}"
    try:
        assets.read_rows(source.name, name, source.revision)
    except DataError as error:
        return DataLocation("mini", where, False, None, str(error))
    return DataLocation("mini", where, True)


def _local_place(task: Task, source: Source, name: str) -> DataLocation:
    try:
        path = local_folder(task, source) if source.folder else local_path(task, source, name)
    except DataError as error:
        return DataLocation("local", source.name, False, None, str(error))
    return DataLocation("local", str(path), True, None if source.folder else path.stat().st_size)


def _held_places(task: Task, split: str, held: mirror.Held) -> Iterator[DataLocation]:
    try:
        path = examples_path(task, split, held_rows(held), None, offline=True)
    except DataError:
        path = None  # the splits that it leaves out are missing, so its examples are not cached either
    if path is not None and about_path(path).exists():
        yield DataLocation("cache", str(path), True, path.stat().st_size)
    exists = held.path.exists()
    note = "" if exists else "listed in manifest.json, but missing"
    yield DataLocation("mirror", str(held.path), exists, held.bytes, note)


def _remote_place(source: Source, name: str, offline: bool) -> DataLocation:
    if source.kind == "files":
        note = "offline" if offline else "not checked until needed"
        return DataLocation("files", ", ".join(source.urls), not offline, None, note)
    where = f"{source.name}@{source.revision or 'newest'}"
    try:
        listing = find_local_files(source, name) if offline else find_files(source, name)
    except DataError as error:
        return DataLocation("hub", where, False, None, str(error))
    where = str(listing.folder or f"{source.name}@{listing.commit}")
    note = f"{len(listing.files)} file{'s'[: len(listing.files) - 1]}"
    return DataLocation("hub", where, True, sum(file.size for file in listing.files), note)


def fetch_split(
    task: Task, split: str, offline: bool = False, progress: Progress = no_progress
) -> tuple[Loaded, LocalRows]:
    """Fetch a split into the mirror, resolving a revision that is not a commit again, and load it from there.

    Raises:
        DataError: No source has it, or it differs from what the task file says.
    """

    def attempt(source: Source) -> LocalRows:
        if source.kind in ("mini", "local"):
            return obtain(task, split, None, offline)
        return fetch_from(source, task, split, offline, progress)

    origin = first_source(task, split, attempt)
    return load_examples(task, split, None, offline, progress), origin


def read_uncached(task: Task, split: str, offline: bool = False, progress: Progress = no_progress) -> Loaded:
    """Load a split without the cache of examples, and without comparing it with the task file.

    Raises:
        DataError: No source has it, or the mirror is damaged.
    """
    origin = obtain(task, split, None, offline, progress)
    about_path(examples_path(task, split, origin, None, offline)).unlink(missing_ok=True)
    return read_split(task, split, None, offline, progress)

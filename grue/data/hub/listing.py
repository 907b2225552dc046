"""A split's parquet files in a repository of the hub, or in the hub's cache on this machine: found, and transferred.

Of the files only the byte ranges of the needed columns are transferred.
"""

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue.data.hub.errors import translate_hub_errors
from grue.data.rows import Progress
from grue.data.tables import copy_columns
from grue.errors import DataError, escaped
from grue.tasks import Source

# Where the hub keeps a split's parquet files unless the task file says so.
PATTERNS = ("{config}/{split}-*.parquet", "data/{split}-*.parquet", "{config}/{split}/*.parquet", "{split}-*.parquet")
BLOCK = 1 << 14  # bytes that are read ahead
COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a split at a commit; `folder` is where they are on this machine, or None if they are on the hub."""

    commit: str
    files: tuple[HubFile, ...]
    folder: Path | None = None


def find_files(source: Source, split: str) -> Listing:
    """Return a split's parquet files as the hub lists them, with the revision resolved to a commit."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi()
    with translate_hub_errors(_named(source)):
        info = api.dataset_info(source.name, revision=source.revision or None, timeout=30)
        tree = api.list_repo_tree(source.name, repo_type="dataset", revision=info.sha, recursive=True)
        listed = [HubFile(file.path, file.size) for file in tree if isinstance(file, RepoFile)]
    commit = str(info.sha)
    if not COMMIT.fullmatch(commit):  # it becomes the name of a folder
        raise DataError(f"{_named(source)}: the hub gives its commit as {escaped(commit)}, which is not a commit hash.")
    return Listing(commit, _matching(source, split, listed))


def find_local_files(source: Source, split: str) -> Listing:
    """Return a split's parquet files in the hub's cache on this machine; opens no connection."""
    from huggingface_hub import snapshot_download

    with translate_hub_errors(_named(source)):
        snapshot = snapshot_download(
            source.name,
            repo_type="dataset",
            revision=source.revision or None,
            allow_patterns=list(_patterns(source, split)),
            local_files_only=True,
        )
    folder = Path(snapshot)
    paths = [path for path in sorted(folder.rglob("*.parquet")) if path.is_file()]
    listed = [HubFile(path.relative_to(folder).as_posix(), path.stat().st_size) for path in paths]
    return Listing(folder.name, _matching(source, split, listed), folder)


def _named(source: Source) -> str:
    return f"the data set {source.name}" + (f" at {source.revision}" if source.revision else "")


def _patterns(source: Source, split: str) -> tuple[str, ...]:
    if split in source.files:
        return (source.files[split],)
    return tuple(pattern.format(config=source.config or "default", split=split) for pattern in PATTERNS)


def _matching(source: Source, split: str, listed: list[HubFile]) -> tuple[HubFile, ...]:
    for pattern in _patterns(source, split):
        level = [file for file in listed if file.path.count("/") == pattern.count("/")]
        matching = [file for file in level if fnmatch.fnmatchcase(file.path, pattern)]
        for file in matching:  # fewer shards than their names say, as left by an interrupted download
            numbered = re.search(r"-of-(\d+)\.parquet$", file.path)
            if numbered and len(matching) != int(numbered[1]):
                counts = f"only {len(matching)} of the {int(numbered[1])}"
                raise DataError(f"{_named(source)}: {counts} files like {escaped(file.path)} exist.")
        if matching:
            return tuple(sorted(matching, key=lambda file: file.path))
    patterns = ", ".join(_patterns(source, split))
    parquet = [file.path for file in listed if file.path.endswith(".parquet")]
    shown = f"it has {escaped(', '.join(parquet[:4]))}{' …' if len(parquet) > 4 else ''}" if parquet else "it has none"
    raise DataError(f"{_named(source)} has no parquet file {patterns} for the split {split!r}; {shown}.")


def save_columns(source: Source, listing: Listing, file: HubFile, target: Path, progress: Progress) -> None:
    """Write the needed columns of one of a split's files to a parquet file of its own, atomically."""
    name = f"{source.name}/{escaped(file.path)} at {listing.commit[:12]}"
    if listing.folder is not None:
        return copy_columns(listing.folder / file.path, name, source.columns, target)
    from huggingface_hub import HfFileSystem

    library: Any = HfFileSystem(skip_instance_cache=True)
    path = f"datasets/{source.name}@{listing.commit}/{file.path}"
    with translate_hub_errors(name), library.open(path, size=file.size, block_size=BLOCK) as remote:
        copy_columns(remote, name, source.columns, target, lambda: progress(remote.tell(), file.size))

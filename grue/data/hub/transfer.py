"""Transferring a split's parquet files: only the byte ranges of the needed columns."""

from pathlib import Path
from typing import IO, Any, cast

from grue.data.hub.errors import translate_hub_errors
from grue.data.hub.listing import HubFile, Listing
from grue.data.parquet import copy_columns
from grue.data.rows import Progress
from grue.errors import escaped
from grue.tasks import Source

BLOCK = 1 << 14  # bytes that are read ahead


def save_columns(source: Source, listing: Listing, file: HubFile, target: Path, progress: Progress) -> None:
    """Write the needed columns of one of a split's files to a parquet file of its own, atomically.

    Raises:
        DataError: The file is damaged or truncated, has no such column, or cannot be transferred or written.
    """
    name = f"{source.name}/{escaped(file.path)} at {listing.commit[:12]}"
    with translate_hub_errors(name):
        if listing.folder is not None:
            return copy_columns(listing.folder / file.path, name, source.columns, target)
        with _remote(f"datasets/{source.name}@{listing.commit}/{file.path}", file.size) as remote:
            copy_columns(remote, name, source.columns, target, lambda: progress(remote.tell(), file.size))


def _remote(path: str, size: int) -> IO[bytes]:
    from huggingface_hub import HfFileSystem

    library: Any = HfFileSystem(skip_instance_cache=True)
    return cast(IO[bytes], library.open(path, size=size, block_size=BLOCK))

"""Parquet files: their rows, a selection of their columns, and several of them joined."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from grue.data.cache import writing
from grue.data.limits import MOST_COLUMNS, MOST_ROWS, check_ratio
from grue.data.rows import Row
from grue.errors import DataError, escaped

BATCH = 4096  # rows in memory at a time
WITHOUT_LISTS = re.compile(r"\.(list|bag)\.(element|item|array|array_element)(?=\.|$)")


@contextmanager
def translate_parquet_errors(name: str) -> Iterator[None]:
    """Raise pyarrow's errors as one that names the file.

    Raises:
        DataError: The file is damaged.
    """
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; pyarrow's own have no number
        reason = escaped(str(error).strip().split("\n")[0].rstrip("."))
        raise DataError(f"{name}: not a complete parquet file: {reason}.") from error


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a parquet file, a batch in memory at a time.

    Raises:
        DataError: The file is damaged, or unpacks to far more than data does.
    """
    with translate_parquet_errors(str(path)):
        for batch in _batches(_opened(path, str(path)), str(path), path.stat().st_size):
            yield from batch.to_pylist()


def _opened(file: Path | IO[bytes], name: str) -> pq.ParquetFile:
    """Open a parquet file with its checksums verified.

    Raises:
        DataError: It has more rows or columns than any table of data.
    """
    local = isinstance(file, Path)
    opened = pq.ParquetFile(file, page_checksum_verification=True, memory_map=local, pre_buffer=not local)
    about = opened.metadata
    if about.num_rows > MOST_ROWS or about.num_columns > MOST_COLUMNS:
        raise DataError(
            f"{name}: refused: {about.num_rows:,} rows of {about.num_columns:,} columns, at most {MOST_ROWS:,} of "
            f"{MOST_COLUMNS:,} are read."
        )
    return opened


def _batches(
    opened: pq.ParquetFile, name: str, size: int, leaves: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a parquet file of `size` bytes; `leaves` are paths of columns, None means all."""
    groups = map(opened.metadata.row_group, range(opened.metadata.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    wanted = (chunk for chunk in chunks if leaves is None or chunk.path_in_schema in leaves)
    check_ratio(name, sum(chunk.total_uncompressed_size for chunk in wanted), size)
    unpacked = 0
    for batch in opened.iter_batches(BATCH, columns=leaves, use_threads=False):
        unpacked += batch.nbytes
        check_ratio(name, unpacked, size)
        yield batch


def _leaf_columns(opened: pq.ParquetFile, columns: Sequence[str], name: str) -> list[str]:
    """Return the paths of the leaf columns under the wanted columns.

    A wanted column is written without what parquet adds for lists: "answers.text" means "answers.list.element.text".

    Raises:
        DataError: There is no such column.
    """
    paths = [opened.schema.column(number).path for number in range(len(opened.schema))]
    names = {path: WITHOUT_LISTS.sub("", path) for path in paths}
    for column in columns:
        if not any(f"{each}.".startswith(f"{column}.") for each in names.values()):
            known = ", ".join(dict.fromkeys(names.values()))
            raise DataError(f"{name}: there is no column {column!r}; it has {known}. The data set has changed.")
    return [path for path in paths if any(f"{names[path]}.".startswith(f"{column}.") for column in columns)]


def copy_columns(
    file: Path | IO[bytes],
    name: str,
    size: int,
    columns: Sequence[str],
    target: Path,
    after_batch: Callable[[], None] = lambda: None,
) -> None:
    """Write the wanted columns of a parquet file to a file of their own, atomically; no columns means all.

    Args:
        name: The file's name, for messages.
        size: Of the file in bytes.
        after_batch: Called after each batch of rows.

    Raises:
        DataError: There is no such column, the file is damaged, or the target cannot be written.
    """
    with translate_parquet_errors(name), writing(target) as temporary:
        opened = _opened(file, name)
        leaves = _leaf_columns(opened, columns, name) if columns else None
        schema = opened.read_row_groups([], columns=leaves).schema.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in _batches(opened, name, size, leaves):
                writer.write_batch(batch.replace_schema_metadata(None))
                after_batch()


def join_parquet(parts: Sequence[Path], target: Path) -> int:
    """Write the rows of several parquet files into one, atomically, and return the number of rows.

    Raises:
        DataError: A part is damaged, or the target cannot be written.
    """
    with translate_parquet_errors(str(target)), writing(target) as temporary:
        opened = [_opened(part, str(part)) for part in parts]
        schema = opened[0].schema_arrow.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for path, part in zip(parts, opened, strict=True):
                for batch in _batches(part, str(path), path.stat().st_size):
                    writer.write_batch(batch.cast(schema))
    return sum(part.metadata.num_rows for part in opened)

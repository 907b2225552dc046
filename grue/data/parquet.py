"""Parquet files: their rows, a selection of their columns, and several of them joined."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from grue.data.cache import writing
from grue.data.limits import LARGEST_BATCH, MOST_COLUMNS, MOST_ROWS
from grue.data.rows import Row
from grue.errors import DataError, escaped

BATCH = 4096  # rows in memory at a time


@contextmanager
def translate_parquet_errors(what: str) -> Iterator[None]:
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
        raise DataError(f"{what}: not a complete parquet file: {reason}.") from error


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a parquet file, a batch in memory at a time.

    Raises:
        DataError: The file is damaged.
    """
    with translate_parquet_errors(str(path)), pq.ParquetFile(path, memory_map=True) as opened:
        for batch in batches(str(path), opened):
            yield from batch.to_pylist()


def batches(what: str, opened: pq.ParquetFile, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a parquet file, a bounded number and size of them at a time.

    Args:
        what: The file's name, for messages.
        columns: Paths of the leaf columns; None means all.

    Raises:
        DataError: It has more rows or columns, or larger rows, than any table of data.
    """
    about = opened.metadata
    if about.num_rows > MOST_ROWS or about.num_columns > MOST_COLUMNS:
        raise DataError(
            f"{what}: refused: {about.num_rows:,} rows of {about.num_columns:,} columns, at most {MOST_ROWS:,} of "
            f"{MOST_COLUMNS:,} are read."
        )
    for batch in opened.iter_batches(BATCH, columns=columns, use_threads=False):
        if batch.nbytes > LARGEST_BATCH:
            raise DataError(f"{what}: refused: {batch.num_rows:,} of its rows take {batch.nbytes:,} bytes.")
        yield batch


def open_parquet(what: str, file: Path | io.RawIOBase) -> pq.ParquetFile:
    """Open a parquet file, given by its path or as a readable file, with its checksums verified.

    Args:
        what: The file's name, for messages.

    Raises:
        DataError: The file is damaged.
    """
    with translate_parquet_errors(what):
        return pq.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)


def leaf_columns(what: str, opened: pq.ParquetFile, columns: Sequence[str]) -> list[str]:
    """Return the paths of the leaf columns under the wanted columns.

    A wanted column is written without what parquet adds for lists: "answers.text" means "answers.list.element.text".

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


def copy_columns(
    what: str,
    opened: pq.ParquetFile,
    columns: Sequence[str],
    target: Path,
    after_batch: Callable[[], None] = lambda: None,
) -> None:
    """Write the wanted columns of a parquet file to a file of their own, atomically; no columns means all.

    Args:
        after_batch: Called after each batch of rows.

    Raises:
        DataError: There is no such column, the file is damaged, or the target cannot be written.
    """
    leaves = leaf_columns(what, opened, columns) if columns else None
    with translate_parquet_errors(what), writing(target) as temporary:
        schema = opened.read_row_groups([], columns=leaves).schema.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in batches(what, opened, leaves):
                writer.write_batch(batch.replace_schema_metadata(None))
                after_batch()


def join_parquet(parts: Sequence[Path], target: Path) -> int:
    """Write the rows of several parquet files into one, atomically, and return the number of rows.

    Raises:
        DataError: A part is damaged, or the target cannot be written.
    """
    with translate_parquet_errors(str(target)), writing(target) as temporary:
        opened = [pq.ParquetFile(part) for part in parts]
        schema = opened[0].schema_arrow
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for part in opened:
                for batch in batches(str(target), part):
                    writer.write_batch(batch.cast(schema) if batch.schema != schema else batch)
    return sum(part.metadata.num_rows for part in opened)

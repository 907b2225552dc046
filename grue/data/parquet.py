"""Parquet files: their rows, a selection of their columns, and several of them joined."""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from grue.data.cache import writing
from grue.data.limits import LARGEST_BATCH, MOST_COLUMNS, MOST_ROWS, RATIO, bounded_memory, check_ratio
from grue.data.rows import Row
from grue.errors import DataError, escaped

BATCH = 4096  # rows in memory at a time
MEMORY = 500 * 1000**2  # bytes that reading a batch may take beside what its file can unpack to: threads, buffers
TEXTS = (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
DELTAS = {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
"""Encodings of texts that pyarrow cannot read as dictionaries."""


@dataclass(frozen=True, slots=True)
class Parquet:
    """An open parquet file.

    Attributes:
        name: Of the file, for messages.
        opened: Reads it, texts as dictionaries.
        size: Of the file in bytes.
    """

    name: str
    opened: pq.ParquetFile
    size: int

    def leaves(self) -> list[str]:
        """Return the paths of the leaf columns."""
        return [self.opened.schema.column(i).path for i in range(len(self.opened.schema))]

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns without their dictionaries; None means all.

        Raises:
            DataError: A dictionary is within a list or a table, where nobody writes one.
        """
        found = self.opened.read_row_groups([], columns=columns).schema.remove_metadata()
        for place, column in enumerate(found):
            if pa.types.is_dictionary(column.type):
                found = found.set(place, column.with_type(column.type.value_type))
            elif "dictionary<" in str(column.type):
                raise DataError(f"{self.name}: refused: {escaped(column.name)!r} is of type {escaped(column.type)}.")
        return found


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
    with translate_parquet_errors(str(path)):
        for batch in batches(open_parquet(str(path), path)):
            yield from batch.to_pylist()


def batches(parquet: Parquet, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a parquet file, a bounded number and size of them at a time.

    Args:
        columns: Paths of the leaf columns; None means all.

    Raises:
        DataError: It has more rows or columns, or larger rows, than any table of data; or it unpacks to far more than
            its size.
    """
    about, name = parquet.opened.metadata, parquet.name
    if about.num_rows > MOST_ROWS or about.num_columns > MOST_COLUMNS:
        raise DataError(
            f"{name}: refused: {about.num_rows:,} rows of {about.num_columns:,} columns, at most {MOST_ROWS:,} of "
            f"{MOST_COLUMNS:,} are read."
        )
    _check_stated(parquet, columns)
    schema, unpacked = parquet.schema(columns), 0
    most = MEMORY + min(RATIO * parquet.size, 2 * LARGEST_BATCH)  # what a file states of itself need not be true
    found = parquet.opened.iter_batches(BATCH, columns=columns, use_threads=False)
    while True:
        with bounded_memory(name, most):
            batch = next(found, None)
        if batch is None:
            return
        size = sum(map(_decoded_bytes, batch.columns))
        unpacked += size
        if size > LARGEST_BATCH:
            raise DataError(f"{name}: refused: {batch.num_rows:,} of its rows take {size:,} bytes.")
        check_ratio(name, unpacked, parquet.size)
        batch = batch.replace_schema_metadata(None)
        yield batch if batch.schema == schema else batch.cast(schema)


def _check_stated(parquet: Parquet, columns: Sequence[str] | None) -> None:
    """Refuse a file that states to unpack to far more than data does."""
    about, unpacked = parquet.opened.metadata, 0
    wanted = [i for i, path in enumerate(parquet.leaves()) if columns is None or path in columns]
    for group in map(about.row_group, range(about.num_row_groups)):
        for i in wanted:
            stated, column = group.column(i), parquet.opened.schema.column(i)
            values = stated.num_values * (column.length or 1)  # a length of bytes is stated where it is fixed
            repeated = column.max_repetition_level or column.length
            unpacked += max(stated.total_uncompressed_size, values if repeated else 0)
    check_ratio(parquet.name, unpacked, parquet.size)


def _decoded_bytes(column: pa.Array) -> int:
    """Return how many bytes a column takes without its dictionary; computed before it is resolved."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)
    return int(column.indices.nbytes + (pc.sum(lengths).as_py() or 0))


def open_parquet(name: str, file: Path | io.RawIOBase) -> Parquet:
    """Open a parquet file, given by its path or as a readable file, with its checksums verified.

    Args:
        name: The file's name, for messages.

    Raises:
        DataError: The file is damaged.
    """
    options: dict[str, Any] = {"page_checksum_verification": True}
    options |= {"memory_map": True} if isinstance(file, Path) else {"pre_buffer": True}
    with translate_parquet_errors(name):
        size = file.stat().st_size if isinstance(file, Path) else file.seek(0, io.SEEK_END)
        opened = pq.ParquetFile(file, **options)
        about = opened.metadata
        chunks = [about.row_group(i).column(j) for i in range(about.num_row_groups) for j in range(about.num_columns)]
        deltas = {chunk.path_in_schema for chunk in chunks if DELTAS.intersection(chunk.encodings)}
        texts = [column.name for column in opened.schema_arrow if column.type in TEXTS and column.name not in deltas]
        return Parquet(name, pq.ParquetFile(file, metadata=about, read_dictionary=texts, **options), size)


def leaf_columns(parquet: Parquet, columns: Sequence[str]) -> list[str]:
    """Return the paths of the leaf columns under the wanted columns.

    A wanted column is written without what parquet adds for lists: "answers.text" means "answers.list.element.text".

    Raises:
        DataError: There is no such column.
    """
    paths = parquet.leaves()
    names = {path: re.sub(r"\.(list|bag)\.(element|item|array|array_element)(?=\.|$)", "", path) for path in paths}
    for column in columns:
        if not any(f"{name}.".startswith(f"{column}.") for name in names.values()):
            known = ", ".join(dict.fromkeys(names.values()))
            raise DataError(f"{parquet.name}: there is no column {column!r}; it has {known}. The data set has changed.")
    return [path for path, name in names.items() if any(f"{name}.".startswith(f"{column}.") for column in columns)]


def copy_columns(
    parquet: Parquet, columns: Sequence[str], target: Path, after_batch: Callable[[], None] = lambda: None
) -> None:
    """Write the wanted columns of a parquet file to a file of their own, atomically; no columns means all.

    Args:
        after_batch: Called after each batch of rows.

    Raises:
        DataError: There is no such column, the file is damaged, or the target cannot be written.
    """
    leaves = leaf_columns(parquet, columns) if columns else None
    with translate_parquet_errors(parquet.name), writing(target) as temporary:
        schema = parquet.schema(leaves)
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in batches(parquet, leaves):
                writer.write_batch(batch)
                after_batch()


def join_parquet(parts: Sequence[Path], target: Path) -> int:
    """Write the rows of several parquet files into one, atomically, and return the number of rows.

    Raises:
        DataError: A part is damaged, or the target cannot be written.
    """
    with translate_parquet_errors(str(target)), writing(target) as temporary:
        opened = [open_parquet(str(part), part) for part in parts]
        schema = opened[0].schema()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for part in opened:
                for batch in batches(part):
                    writer.write_batch(batch.cast(schema) if batch.schema != schema else batch)
    return sum(part.opened.metadata.num_rows for part in opened)

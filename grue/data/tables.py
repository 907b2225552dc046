"""Tables of rows, read by their file endings; the columns of parquet files selected, and such files joined."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from grue import files
from grue.data.archives import File, csv_rows
from grue.data.cache import writing
from grue.data.rows import Row
from grue.errors import DataError, escaped

BATCH = 4096  # rows in memory at a time
WITHOUT_LISTS = re.compile(r"\.(list|bag)\.(element|item|array|array_element)(?=\.|$)")


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Translate pyarrow's errors into a DataError that names the file."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's; pyarrow's own have no number
        reason = escaped(str(error).strip().split("\n")[0].rstrip("."))
        raise DataError(f"{name}: not a complete parquet file: {reason}.") from error


def read_rows(path: Path) -> Iterable[Row]:
    """Yield the rows of a file with one of the endings of `TABLES`."""
    for ending, read in TABLES.items():
        if path.name.endswith(ending):
            return read(path)
    raise DataError(f"{path}: unknown file type; use a name that ends in {', '.join(TABLES)}.")


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a parquet file, one batch in memory at a time; a DataError if the file is damaged."""
    with _translate_errors(str(path)):
        for batch in _batches(_opened(path)):
            yield from batch.to_pylist()


TABLES: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": lambda path: (row for _, row in files.read_jsonl(path)),
    ".jsonl.gz": lambda path: (row for _, row in files.read_jsonl(path)),
    ".csv": lambda path: csv_rows(File(path)),
    ".parquet": parquet_rows,
}


def _opened(file: Path | IO[bytes]) -> pq.ParquetFile:
    """Open a parquet file with its checksums verified."""
    local = isinstance(file, Path)
    return pq.ParquetFile(file, page_checksum_verification=True, memory_map=local, pre_buffer=not local)


def _batches(opened: pq.ParquetFile, leaves: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a parquet file; `leaves` are paths of columns, None means all."""
    return opened.iter_batches(BATCH, columns=leaves, use_threads=False)  # type: ignore[no-any-return]


def _leaf_columns(opened: pq.ParquetFile, columns: Sequence[str], name: str) -> list[str]:
    """Return the paths of the leaf columns under some columns.

    A column is written without what parquet adds for lists: "answers.text" means "answers.list.element.text".
    """
    paths = [opened.schema.column(number).path for number in range(len(opened.schema))]
    names = {path: WITHOUT_LISTS.sub("", path) for path in paths}
    for column in columns:
        if not any(f"{each}.".startswith(f"{column}.") for each in names.values()):
            available = ", ".join(dict.fromkeys(names.values()))
            raise DataError(f"{name}: there is no column {column!r}; it has {available}. The data set has changed.")
    return [path for path in paths if any(f"{names[path]}.".startswith(f"{column}.") for column in columns)]


def copy_columns(
    file: Path | IO[bytes],
    name: str,
    columns: Sequence[str],
    target: Path,
    after_batch: Callable[[], None] = lambda: None,
) -> None:
    """Write some columns of a parquet file to a file of their own, atomically; no columns means all."""
    with _translate_errors(name), writing(target) as temporary:
        opened = _opened(file)
        leaves = _leaf_columns(opened, columns, name) if columns else None
        schema = opened.read_row_groups([], columns=leaves).schema.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in _batches(opened, leaves):
                writer.write_batch(batch.replace_schema_metadata(None))
                after_batch()


def join_parquet(parts: Sequence[Path], target: Path) -> int:
    """Write the rows of several parquet files into one, atomically, and return the number of rows."""
    with _translate_errors(str(target)), writing(target) as temporary:
        opened = [_opened(part) for part in parts]
        schema = opened[0].schema_arrow.remove_metadata()
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for part in opened:
                for batch in _batches(part):
                    writer.write_batch(batch.cast(schema))
    return sum(part.metadata.num_rows for part in opened)

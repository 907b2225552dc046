"""Tables of one's own: the rows of a .jsonl, .csv or .parquet file."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from grue import files
from grue.data import hub
from grue.data.archives import File, csv_rows
from grue.data.rows import Row
from grue.errors import DataError

BATCH = 4096


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a parquet file as they are read.

    Raises:
        DataError: The file is damaged.
    """
    with hub.readable(str(path)), pq.ParquetFile(path, memory_map=True) as opened:
        for batch in opened.iter_batches(BATCH, use_threads=False):
            yield from batch.to_pylist()


TABLES: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": lambda path: (row for _, row in files.read_jsonl(path)),
    ".jsonl.gz": lambda path: (row for _, row in files.read_jsonl(path)),
    ".csv": lambda path: csv_rows(File(path)),
    ".parquet": parquet_rows,
}


def read_rows(path: Path) -> Iterable[Row]:
    """Yield the rows of a file whose name ends as one of `TABLES`.

    Raises:
        DataError: The name ends otherwise, or the file is missing or damaged.
    """
    for ending, read in TABLES.items():
        if path.name.endswith(ending):
            return read(path)
    raise DataError(f"{path}: cannot be read by its name; let it end in {', '.join(TABLES)}.")

"""Tables of rows by their file endings: .jsonl, .jsonl.gz, .csv and .parquet."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from grue import files
from grue.data.archives import File, csv_rows
from grue.data.parquet import parquet_rows
from grue.data.rows import Row
from grue.errors import DataError

TABLES: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    ".jsonl": lambda path: (row for _, row in files.read_jsonl(path)),
    ".jsonl.gz": lambda path: (row for _, row in files.read_jsonl(path)),
    ".csv": lambda path: csv_rows(File(path)),
    ".parquet": parquet_rows,
}


def read_rows(path: Path) -> Iterable[Row]:
    """Yield the rows of a file with one of the endings of `TABLES`.

    Raises:
        DataError: The name has another ending, or the file is missing or damaged.
    """
    for ending, read in TABLES.items():
        if path.name.endswith(ending):
            return read(path)
    raise DataError(f"{path}: unknown file type; use a name that ends in {', '.join(TABLES)}.")

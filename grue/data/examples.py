"""Examples in a file: a memory-mapped sequence, so that millions of them need no memory and load instantly.

The file is Arrow's IPC format with the columns id, prompt, references and meta (JSON).
"""

import json
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from grue import files
from grue.data.cache import writing
from grue.errors import DataError, escaped
from grue.records import Example, as_scored

BATCH = 2048
SCHEMA = pa.schema(
    [("id", pa.string()), ("prompt", pa.string()), ("references", pa.list_(pa.string())), ("meta", pa.string())]
)


class ExampleFile(Sequence[Example]):
    """The examples of a file, or a range of them, each read when accessed.

    A slice of step 1 is such a range, too. It can be pickled and forked: only the path is copied.
    """

    def __init__(self, path: Path, start: int = 0, stop: int | None = None) -> None:
        self.path = path
        try:
            self._table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path}: cannot be read: {error}. Delete it; it will be rebuilt from the data.") from error
        self._start, self._stop, _ = slice(start, stop).indices(self._table.num_rows)

    def __len__(self) -> int:
        return max(0, self._stop - self._start)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | Sequence[Example]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return ExampleFile(self.path, self._start + start, self._start + max(start, stop))
            return tuple(self[i] for i in range(start, stop, step))
        index = operator.index(index)  # a TypeError for any other, such as a field's name
        if not -len(self) <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        return _example(self._table.slice(self._start + index % len(self), 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Example]:
        for batch in self._table.slice(self._start, len(self)).to_batches(max_chunksize=BATCH):
            yield from map(_example, batch.to_pylist())

    def __repr__(self) -> str:
        if not len(self):
            return "<no examples>"
        return f"<{len(self):,} examples, the first {self[0].id!r}: {escaped(repr(self[0].prompt), 80)}>"

    def __reduce__(self) -> tuple[type["ExampleFile"], tuple[Path, int, int]]:
        return ExampleFile, (self.path, self._start, self._stop)

    def table(self) -> pa.Table:
        """Return all columns, memory-mapped."""
        return self._table.slice(self._start, len(self))

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of `SCHEMA`, memory-mapped."""
        return self._table.column(name).slice(self._start, len(self))


class ScoredExamples(Sequence[Example]):
    """Examples `as_scored`, each made when accessed, so that millions of them need no memory."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | Sequence[Example]:
        chosen = self._examples[index]
        return as_scored(chosen) if isinstance(chosen, Example) else ScoredExamples(chosen)

    def __iter__(self) -> Iterator[Example]:
        return map(as_scored, self._examples)


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write examples to a file atomically, one batch in memory at a time."""
    with writing(path) as temporary, pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        stream = iter(examples)
        while part := list(islice(stream, BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist([record_of(example) for example in part], schema=SCHEMA))


def record_of(example: Example) -> dict[str, Any]:
    """Return an example as a row of `SCHEMA`."""
    meta = files.canonical_json(example.meta) if example.meta else None
    return {"id": example.id, "prompt": example.prompt, "references": example.references, "meta": meta}


def _example(row: Mapping[str, Any]) -> Example:
    meta = json.loads(row["meta"]) if row["meta"] else {}
    return Example(row["id"], row["prompt"], tuple(row["references"]), meta)

"""The format of a user's own files: prompt, references, id and meta."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from grue.data.archives import File, FolderRows, parsed, split_names
from grue.data.rows import Row, numbered, short_hash, text_of, texts_of
from grue.data.tables import TABLES, read_rows
from grue.errors import DataError, did_you_mean
from grue.files import canonical_json
from grue.records import Example
from grue.shapes import id_cure

COLUMNS = ("prompt", "references", "reference", "id", "meta")


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per row: {"prompt": …, "references": […], "id": …, "meta": {…}}.

    Every column but the prompt may be missing or empty. A single reference may be in a column `reference`; `references`
    and `meta` may be JSON text, as a csv or an exported parquet file has them. Without an id, the id is the hash of the
    row, numbered if the row is repeated.
    """
    times: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        if unknown := [column for column in row if column not in COLUMNS]:
            known = f"{did_you_mean(str(unknown[0]), COLUMNS)} Known: {', '.join(COLUMNS)}"
            raise DataError(f"{where}: unknown column {unknown[0]!r}.{known}; put other values into meta.")
        if "prompt" not in row:
            raise DataError(f"{where}: the column 'prompt' is missing; found {', '.join(row) or 'nothing'}.")
        prompt = text_of(row["prompt"], "prompt", where)
        references, meta = _references_of(row, where), _meta_of(row, where)
        if row.get("id") in (None, ""):
            identity = numbered(f"example-{short_hash(canonical_json([prompt, references, meta]))}", times)
        else:
            if cure := id_cure(row["id"]):
                raise DataError(f"{where}: id should be a string, found {row['id']}.{cure}")
            identity = text_of(row["id"], "id", where)
            if numbered(identity, times) != identity:
                raise DataError(f"{where}: the id {identity!r} is repeated; give every example its own id.")
        yield Example(identity, prompt, references, meta)


def _references_of(row: Row, where: str) -> tuple[str, ...]:
    single, several = (None if row.get(column) == "" else row.get(column) for column in ("reference", "references"))
    if isinstance(several, str) and several.startswith("["):
        several = parsed(several, f"{where}: references")
    if single is None:
        return texts_of(() if several is None else several, "references", where)
    if several:
        raise DataError(f"{where}: has both a reference and references; keep one.")
    return (text_of(single, "reference", where),)


def _meta_of(row: Row, where: str) -> dict[str, Any]:
    meta = row.get("meta") or {}
    if isinstance(meta, str):
        meta = parsed(meta, f"{where}: meta")
    if not isinstance(meta, Mapping):
        raise DataError(f"{where}: meta should be an object, found {meta!r:.80}.")
    try:
        canonical_json(meta).encode("utf-8")
    except (ValueError, TypeError) as error:  # a date, NaN, half of a surrogate pair
        raise DataError(f"{where}: meta cannot be written as JSON: {error}.") from error
    return dict(meta)


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of `<split>.jsonl`, `.jsonl.gz`, `.csv` or `.parquet`."""
    paths = [folder / f"{name}{ending}" for name in split_names(split) for ending in TABLES]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise DataError(f"{folder}: no {split}{f', no {split}'.join(TABLES)} in it.")
    return FolderRows((File(path),), lambda: read_rows(path))

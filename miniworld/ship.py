"""Writing what ships with the package: the rows of the tasks, and the manifest that covers rows and models."""

import gzip
import hashlib
import json
import lzma
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from grue import files
from grue.data.cache import writing
from grue.errors import ConfigError
from grue.mini.assets import rows_path
from grue.mini.manifest import MANIFEST, SCHEMA, MiniManifest, SmallModel, SplitRows, TaskRows, read_manifest
from grue.tasks import FILE_ENDINGS
from miniworld.draw import TASKS, held_back
from miniworld.world import REVISION, SEEDS


def write_rows(folder: Path, log: Callable[[str], None], only: Collection[str] = ()) -> None:
    """Draw the rows of the tasks and write them and their manifest.

    Args:
        folder: Where to write: `rows/<task>/<split>.jsonl.xz` and `manifest.json`.
        log: Takes one line of progress at a time.
        only: The tasks to draw; none means all. The manifest's other entries stay as they are.
    """
    made = dict(recorded(folder).rows) if only else {}
    for task in only or TASKS:
        splits = {
            name: _write_split(rows_path(task, name, folder), rows) for name, rows in TASKS[task](REVISION).items()
        }
        made[task] = TaskRows(REVISION, SEEDS[REVISION], splits)
        log(f"{task}: {', '.join(f'{split.rows} {name}' for name, split in splits.items())}")
    record(folder, rows=made)


def write_held_back(path: Path, task: str, seed: int, count: int, force: bool = False) -> int:
    """Draw fresh test examples of a task, write their rows to a file and return the number of rows.

    The file is compressed if its name ends in .gz. A row of DailyDialog can hold several examples.

    Raises:
        ConfigError: The name has an ending that `grue evaluate --split` does not read, or the file is there and `force`
            is false.
        DataError: The file cannot be written.
    """
    if not path.name.endswith(FILE_ENDINGS):
        raise ConfigError(f"--out {path}: use a name that ends in {' or '.join(FILE_ENDINGS)}.")
    files.refuse_there(path, force)
    rows = held_back(task, seed, count)
    if path.suffix == ".gz":
        _write(path, gzip.compress(_lines(rows), mtime=0))
    else:
        files.write_text(path, _lines(rows).decode())
    return len(rows)


def _write_split(path: Path, rows: Collection[Mapping[str, Any]]) -> SplitRows:
    content = _lines(rows)
    _write(path, lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    return SplitRows(len(rows), hashlib.sha256(content).hexdigest())


def _lines(rows: Collection[Mapping[str, Any]]) -> bytes:
    """Return the rows as JSON lines, their columns in order."""
    return "".join(f"{_line(row)}\n" for row in rows).encode()


def _write(path: Path, packed: bytes) -> None:
    with writing(path) as temporary:
        temporary.write_bytes(packed)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def recorded(folder: Path) -> MiniManifest:
    """Return the manifest of a folder, an empty one where there is none."""
    return read_manifest(folder) if (folder / MANIFEST).exists() else MiniManifest(SCHEMA, {}, {})


def record(
    folder: Path,
    rows: Mapping[str, TaskRows] | None = None,
    models: Mapping[str, SmallModel] | None = None,
) -> None:
    """Write the manifest with these rows or models, sorted by name; what is not given stays as it is."""
    known = recorded(folder)
    rows, models = known.rows if rows is None else rows, known.models if models is None else models
    manifest = MiniManifest(SCHEMA, _by_name(rows), _by_name(models))
    files.write_json(folder / MANIFEST, manifest)


def _by_name(entries: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(entries.items()))

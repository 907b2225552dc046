"""Writing what ships with the package: the rows of the tasks, and the manifest that covers rows and models."""

import gzip
import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from grue import files
from grue.mini.assets import rows_path
from grue.mini.manifest import MANIFEST, SCHEMA, MiniManifest, SmallModel, SplitRows, TaskRows, read_manifest
from miniworld.draw import TASKS
from miniworld.world import REVISION, SEEDS


def write_rows(folder: Path, log: Callable[[str], None], only: Collection[str] = ()) -> None:
    """Draw the rows of the tasks and write them and their manifest.

    Args:
        folder: Where to write: `rows/<task>/<split>.jsonl.gz` and `manifest.json`.
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


def _write_split(path: Path, rows: Collection[Mapping[str, Any]]) -> SplitRows:
    """Write the rows with their columns in order; equal rows give equal bytes, whenever they are written."""
    content = "".join(f"{_line(row)}\n" for row in rows).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as handle, gzip.GzipFile("", "wb", 9, handle, mtime=0) as packed:
        packed.write(content)
    return SplitRows(len(rows), hashlib.sha256(content).hexdigest())


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

"""Reading what ships with the mini suite; a file that is missing or not the one in the manifest is refused."""

import hashlib
import json
import lzma
import os
from functools import cache
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import DataError, UnknownName, instead
from grue.mini.manifest import HERE, SplitRows, read_manifest

MODELS = "GRUE_MINI_MODELS"
"""The environment variable that names a folder of models that are not part of the package."""

# --- rows ------------------------------------------------------------------------------------------------------------


def rows_path(task: str, split: str, folder: Path = HERE) -> Path:
    """Return the file of a split's rows: a JSON object a line, compressed."""
    return folder / "rows" / task / f"{split}.jsonl.xz"


def describe_rows(task: str, split: str, revision: str, folder: Path = HERE) -> SplitRows:
    """Return what the manifest lists for a split.

    Raises:
        UnknownName: The mini suite has no such task, or the task no such split.
        DataError: The rows that ship are of another revision, or the manifest cannot be read.
    """
    tasks = read_manifest(folder).rows
    if task not in tasks:
        raise UnknownName(f"The mini suite has no rows of a task {task!r}.{instead(task, tasks)}")
    found = tasks[task]
    if split not in found.splits:
        raise UnknownName(f"The rows of mini/{task} have no split {split!r}.{instead(split, found.splits)}")
    if revision != found.revision:
        raise DataError(
            f"The rows of mini/{task} that ship are of revision {found.revision!r}, not {revision!r}. Correct the task "
            "file or upgrade grue."
        )
    return found.splits[split]


def read_rows(task: str, split: str, revision: str, folder: Path = HERE) -> list[dict[str, Any]]:
    """Return the rows of a split, checked against the manifest; errors as for `describe_rows`."""
    expected, path = describe_rows(task, split, revision, folder), rows_path(task, split, folder)
    try:
        content = lzma.decompress(path.read_bytes())
    except FileNotFoundError as error:
        raise _damaged_rows(task, f"{path} is missing") from error
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise _damaged_rows(task, f"{path} cannot be read ({error})") from error
    if hashlib.sha256(content).hexdigest() != expected.sha256:
        raise _damaged_rows(task, f"the sha256 of the rows in {path} is not the manifest's")
    return [json.loads(line) for line in content.split(b"\n") if line]


def _damaged_rows(task: str, what: str) -> DataError:
    return DataError(
        f"The rows of mini/{task} are damaged: {what}. Reinstall grue, or in a checkout draw the same rows again: "
        f"`python -m miniworld rows --only {task}`."
    )


# --- models ----------------------------------------------------------------------------------------------------------


def locate(name: str, folder: Path = HERE) -> Path:
    """Return the folder of a small model; its files are checked against the manifest once per process.

    It is looked for in the package, then in the folder that `GRUE_MINI_MODELS` names.

    Raises:
        UnknownName: The manifest has no such model.
        DataError: It is not there, or a file is missing or is not the one in the manifest.
    """
    known = read_manifest(folder).models
    if name not in known:
        raise UnknownName(f"There is no small model {name!r}.{instead(name, sorted(known))}")
    places = [folder / "models" / name, *(Path(other) / name for other in (os.environ.get(MODELS),) if other)]
    where = next((place for place in places if place.is_dir()), None)
    if where is None and not known[name].ships:
        time = f" in about {known[name].minutes:.0f} minutes" if known[name].minutes else ""
        raise DataError(
            f"The small model {name!r} is not part of the package and is not in {' or '.join(map(str, places))}. A "
            f"checkout of grue has it in grue/mini/models: name that folder with {MODELS}. There, `python -m miniworld "
            f"models --only {name}` trains a new one{time}, whose scores do not compare with published ones."
        )
    _check_model(name, where or places[0], folder)
    return where or places[0]


@cache
def _check_model(name: str, where: Path, folder: Path) -> None:
    model = read_manifest(folder).models[name]
    fault, cure, trains = "damaged", "Reinstall grue to get the shipped weights back", "new ones"
    if not model.ships:
        fault, trains = "not the one that published scores were made with", "a new one"
        cure = f"Get that one, and name its folder with {MODELS}"
    for file, expected in model.files.items():
        path = where / file
        if not path.is_file() or files.sha256_file(path) != expected:
            what = f"the sha256 of {path} is not the manifest's" if path.is_file() else f"{path} is missing"
            raise DataError(
                f"The small model {name!r} is {fault}: {what}. {cure}. In a checkout, `python -m miniworld models "
                f"--only {name}` trains {trains}, whose scores do not compare with published ones."
            )

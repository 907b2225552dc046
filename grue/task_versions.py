"""Versions of the tasks that ship: the record of their hashes, and what differs between two states of a task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.task_files import task_folder
from grue.tasks import PROSE, Task, without_defaults


def versions_file() -> Path:
    """Return the file with the hash of every version of the tasks that ship."""
    return task_folder() / "versions.json"


def check_version(task: Task) -> None:
    """Compare a task's hash with the one on record for its version.

    Raises:
        ConfigError: The version is recorded with another hash, or not at all.
    """
    where = f"{task.suite}/{task.name}, version {task.version}"
    known = files.read_json(versions_file()).get(f"{task.suite}/{task.name}", {}).get(str(task.version))
    if known is None:
        raise ConfigError(f"{where}: not recorded in {versions_file()}; record it with `grue tasks freeze`.")
    if known != task.hash:
        raise ConfigError(
            f"{where}: its hash is {task.hash}, but {known} is recorded: something that affects scores has changed "
            "(`grue tasks diff HEAD` shows what). Raise the version, give the reason in the changelog, and record it "
            "with `grue tasks freeze`."
        )


def freeze_version(task: Task) -> bool:
    """Record a task's version; return whether it is new.

    Raises:
        ConfigError: The version is recorded with another hash, which stays.
    """
    path = versions_file()
    record = files.read_json(path) if path.exists() else {}
    versions = record.setdefault(f"{task.suite}/{task.name}", {})
    if str(task.version) in versions:
        check_version(task)
        return False
    versions[str(task.version)] = task.hash
    files.write_json(path, dict(sorted(record.items())))
    return True


@dataclass(frozen=True, slots=True)
class Change:
    """A key in which two states of a task differ.

    Attributes:
        key: Dotted path of the key; a metric is named: "metrics[rouge1].range[0]".
        old, new: Its values; None where it is absent.
        scores: Whether it can change a score.
    """

    key: str
    old: Any
    new: Any
    scores: bool


def changes(old: Task, new: Task) -> list[Change]:
    """Return what differs between two states of a task, sorted by key."""
    before, after = _flat(without_defaults(old)), _flat(without_defaults(new))
    prose = tuple(".".join(path) for path in PROSE)
    return [
        Change(key, before.get(key), after.get(key), not key.startswith(prose))
        for key in sorted(before | after)
        if before.get(key) != after.get(key)
    ]


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Return nested tables and lists as one table with dotted keys; a list's item is named if it has a name."""
    if isinstance(value, Mapping):
        items = [(f"{key}.{name}" if key else str(name), item) for name, item in value.items()]
    elif isinstance(value, list):
        names = [item["name"] if isinstance(item, Mapping) and "name" in item else i for i, item in enumerate(value)]
        items = [(f"{key}[{name}]", item) for name, item in zip(names, value, strict=True)]
    else:
        return {key: value}
    return {name: leaf for place, item in items for name, leaf in _flat(item, place).items()}

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


def chat_versions_file() -> Path:
    """Return the file with the hash of every version of their chat prompts, which change without the tasks."""
    return task_folder() / "chat-versions.json"


def check_version(task: Task) -> None:
    """Compare a task's hash, and that of its chat prompt, with those on record for their versions.

    Raises:
        ConfigError: A version is recorded with another hash, or not at all.
    """
    _check(task, versions_file(), str(task.version), task.hash, "version", "something that affects scores has changed")
    if task.prompt.chat is not None:
        number, what = str(task.prompt.chat.version), "the chat prompt has changed"
        _check(task, chat_versions_file(), number, task.chat_hash, "prompt.chat.version", what)


def _check(task: Task, path: Path, version: str, found: str, key: str, what: str) -> None:
    where = f"{task.suite}/{task.name}, {key.replace('prompt.chat.', 'chat prompt ')} {version}"
    known = _record(path).get(f"{task.suite}/{task.name}", {}).get(version)
    if known is None:
        raise ConfigError(f"{where}: not recorded in {path}; record it with `grue tasks freeze`.")
    if known != found:
        raise ConfigError(
            f"{where}: its hash is {found}, but {known} is recorded: {what} "
            f"(`grue tasks diff HEAD` shows what). Raise the {key}, give the reason in the changelog, and record it "
            "with `grue tasks freeze`."
        )


def freeze_version(task: Task) -> bool:
    """Record a task's version and that of its chat prompt; return whether either is new.

    Raises:
        ConfigError: A version is recorded with another hash, which stays.
    """
    found = [_freeze(task, versions_file(), task.version, task.hash)]
    if task.prompt.chat is not None:
        found.append(_freeze(task, chat_versions_file(), task.prompt.chat.version, task.chat_hash))
    check_version(task)
    return any(found)


def _freeze(task: Task, path: Path, version: int, found: str) -> bool:
    record = _record(path)
    versions = record.setdefault(f"{task.suite}/{task.name}", {})
    if str(version) in versions:
        return False
    versions[str(version)] = found
    files.write_json(path, dict(sorted(record.items())))
    return True


def _record(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = files.read_json(path) if path.exists() else {}
    return found


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

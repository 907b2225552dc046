"""The recorded hashes of the versions of built-in tasks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.task_files import task_folder
from grue.tasks import Task


def _versions(task: Task) -> Iterator[tuple[Path, str, str, str, str]]:
    """Yield the file, the number, the hash, the key and what a change of the hash means: of the task, of its prompt."""
    change = "something that affects scores has changed"
    yield task_folder() / "versions.json", str(task.version), task.hash, "version", change
    if task.prompt.chat is not None:
        number, change = str(task.prompt.chat.version), "the chat prompt has changed"
        yield task_folder() / "chat-versions.json", number, task.chat_hash, "prompt.chat.version", change


def check_version(task: Task) -> None:
    """Compare a task's hash, and that of its chat prompt, with the recorded ones of their versions.

    Raises:
        ConfigError: A version is recorded with another hash, or not at all.
    """
    for path, version, actual, key, change in _versions(task):
        where = f"{task.suite}/{task.name}, {key.replace('prompt.chat.', 'chat prompt ')} {version}"
        recorded = _record(path).get(f"{task.suite}/{task.name}", {}).get(version)
        if recorded is None:
            raise ConfigError(f"{where}: not recorded in {path}; record it with `grue tasks freeze`.")
        if recorded != actual:
            raise ConfigError(
                f"{where}: its hash is {actual}, but {recorded} is recorded: {change} "
                f"(`git diff` shows what). Raise the {key}, give the reason in the changelog, and record it "
                "with `grue tasks freeze`."
            )


def freeze_version(task: Task) -> bool:
    """Record a task's version and that of its chat prompt; return whether either is new.

    Raises:
        ConfigError: A version is recorded with another hash, which is kept.
    """
    added = False
    for path, version, digest, *_ in _versions(task):
        record = _record(path)
        versions = record.setdefault(f"{task.suite}/{task.name}", {})
        if version not in versions:
            versions[version], added = digest, True
            files.write_json(path, dict(sorted(record.items())))
    check_version(task)
    return added


def _record(path: Path) -> dict[str, Any]:
    return dict(files.read_json(path)) if path.exists() else {}

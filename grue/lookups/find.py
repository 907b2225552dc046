"""The lookups of a task: those of its data format's file, or without one the generic `nearest`."""

import pkgutil
from collections.abc import Mapping

from grue import lookups
from grue.data import sets
from grue.errors import ConfigError
from grue.lookups.nearest import Lookup, nearest
from grue.registry import Registry
from grue.tasks import Task

_SETS = {module.name for module in pkgutil.iter_modules(sets.__path__)}
_FILES = [module.name for module in pkgutil.iter_modules(lookups.__path__) if module.name in _SETS]
LOOKUPS_OF: Registry[Mapping[str, Lookup]] = Registry(
    "data format with lookups", modules={name: f"{lookups.__name__}.{name}:LOOKUPS" for name in _FILES}
)


def lookups_of(task: Task) -> Mapping[str, Lookup]:
    """Return the lookups that a task has, name → lookup."""
    if task.data.format not in LOOKUPS_OF:
        return {"nearest": nearest}
    return LOOKUPS_OF[task.data.format]


def find_lookup(task: Task, name: str) -> Lookup:
    """Return a lookup of a task.

    Raises:
        ConfigError: The task has none of that name; the message lists those that it has.
    """
    lookups_by_name = lookups_of(task)
    if name not in lookups_by_name:
        raise ConfigError(
            f"{task.suite}/{task.name} has no lookup {name!r}: its data format, {task.data.format}, has "
            f"{', '.join(lookups_by_name)}."
        )
    return lookups_by_name[name]

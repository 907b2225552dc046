"""The tasks of the mini suite and the functions that draw their rows."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from miniworld import cnn_dailymail, commongen, dailydialog, imdb, narrativeqa, totto, wmt16
from miniworld.world import REVISION

Rows = tuple[dict[str, Any], ...]

MODULES: Mapping[str, ModuleType] = {
    "cnn_dailymail": cnn_dailymail,
    "commongen": commongen,
    "dailydialog": dailydialog,
    "imdb": imdb,
    "narrativeqa": narrativeqa,
    "totto": totto,
    "wmt16": wmt16,
}
"""Task → its module, which defines `rows` and `held_back`."""
TASKS: Mapping[str, Callable[[str], Mapping[str, Rows]]] = {name: module.rows for name, module in MODULES.items()}


def rows(task: str, split: str, revision: str = REVISION) -> Rows:
    """Return the rows of one split of a task, drawn from the world of that revision, in the data set's columns."""
    return TASKS[task](revision)[split]


def held_back(task: str, seed: int, count: int, revision: str = REVISION) -> Rows:
    """Return fresh rows by the rules of a task's test split, none of which is in a split that ships."""
    drawn: Rows = MODULES[task].held_back(revision, seed, count)
    return drawn

"""The one entrance to the mini world's task data."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from grue.errors import DataError, UnknownName, did_you_mean
from grue.mini import cnn_dailymail, commongen, dailydialog, imdb, narrativeqa, totto, wmt16
from grue.mini.world import SEEDS

TASKS: Mapping[str, Callable[[str], Mapping[str, tuple[dict[str, Any], ...]]]] = {
    "cnn_dailymail": cnn_dailymail.rows,
    "commongen": commongen.rows,
    "dailydialog": dailydialog.rows,
    "imdb": imdb.rows,
    "narrativeqa": narrativeqa.rows,
    "totto": totto.rows,
    "wmt16": wmt16.rows,
}


def rows(task: str, split: str, revision: str) -> list[dict[str, Any]]:
    """Return the rows of one split of a task, drawn from the world of that revision.

    Raises:
        UnknownName: The world has no such task, or the task no such split.
        DataError: This version of grue does not know the revision.
    """
    if task not in TASKS:
        raise UnknownName(f"The mini world has no task {task!r}.{did_you_mean(task, TASKS)} Known: {', '.join(TASKS)}.")
    if revision not in SEEDS:
        known = ", ".join(SEEDS)
        cure = "Correct the task file or upgrade grue."
        raise DataError(f"The mini world has no revision {revision!r}; known: {known}. {cure}")
    splits = TASKS[task](revision)
    if split not in splits:
        known = ", ".join(splits)
        close = did_you_mean(split, splits)
        raise UnknownName(f"The mini task {task!r} has no split {split!r}.{close} Known: {known}.")
    return deepcopy(list(splits[split]))

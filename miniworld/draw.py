"""The tasks of the mini suite and the functions that draw their rows."""

from collections.abc import Callable, Mapping
from typing import Any

from miniworld import cnn_dailymail, commongen, dailydialog, imdb, narrativeqa, totto, wmt16
from miniworld.world import REVISION

TASKS: Mapping[str, Callable[[str], Mapping[str, tuple[dict[str, Any], ...]]]] = {
    "cnn_dailymail": cnn_dailymail.rows,
    "commongen": commongen.rows,
    "dailydialog": dailydialog.rows,
    "imdb": imdb.rows,
    "narrativeqa": narrativeqa.rows,
    "totto": totto.rows,
    "wmt16": wmt16.rows,
}


def rows(task: str, split: str, revision: str = REVISION) -> tuple[dict[str, Any], ...]:
    """Return the rows of one split of a task, drawn from the world of that revision, in the data set's columns."""
    return TASKS[task](revision)[split]

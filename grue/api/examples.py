"""Tasks as arguments, and their examples."""

from collections.abc import Sequence
from pathlib import Path

from grue.records import Example
from grue.task_files import load_task
from grue.tasks import Task

AnyTask = Task | str | Path
"""A task, its name in a suite, or the path of its file."""


def examples(
    task: AnyTask,
    split: str | None = None,
    *,
    suite: str = "mini",
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> Sequence[Example]:
    """Return the examples of a split: id, prompt, references, meta.

    Args:
        split: The split, or the path of a file of rows. [default: the task's evaluation split]

    Raises:
        DataError: There is no such split, or its data is not available.
    """
    from grue.data.load import load_examples

    of_task = as_task(task, suite)
    return load_examples(of_task, split or of_task.data.evaluation, optional_path(data_dir), offline).examples


def as_task(task: AnyTask, suite: str = "mini") -> Task:
    """Return a task by its name in a suite or the path of its file; a task is returned as it is."""
    return task if isinstance(task, Task) else load_task(str(task), suite)


def optional_path(given: str | Path | None) -> Path | None:
    """Return a path that may be left out."""
    return None if given is None else Path(given)

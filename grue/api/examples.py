"""Tasks as arguments, and their examples."""

from collections.abc import Sequence
from pathlib import Path

from grue.data.load import load_examples
from grue.errors import ConfigError, escaped
from grue.records import Example
from grue.task_files import load_task
from grue.tasks import Task

AnyTask = Task | str | Path
"""A task, its name in a suite, or the path of its file."""


def examples(
    task: AnyTask,
    split: str | Path | None = None,
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
    of_task = as_task(task, suite)
    return load_examples(of_task, str(split or of_task.data.evaluation), optional_path(data_dir), offline).examples


def as_task(task: AnyTask, suite: str = "mini") -> Task:
    """Return a task by its name in a suite or the path of its file; a task is returned as it is.

    Raises:
        ConfigError: It is something else, such as a list of rows.
        UnknownName: There is no such task.
    """
    if not isinstance(task, Task | str | Path):
        raise ConfigError(
            f"task={escaped(task, 80)}: give the name of a task, or the path of a task file. Rows are a .jsonl file "
            "that a task file names; see docs/how-to/your-own.md."
        )
    return task if isinstance(task, Task) else load_task(str(task), suite)


def optional_path(path: str | Path | None) -> Path | None:
    """Return an optional path as a `Path`."""
    return None if path is None else Path(path)


def refuse_text(**lists: object) -> None:
    """Raise a ConfigError for a single name or path in place of a list: a text is a list of its letters."""
    for name, value in lists.items():
        if isinstance(value, str | Path):
            raise ConfigError(f"{name}={str(value)!r}: give a list of names, such as [{str(value)!r}].")


def refuse_model(name: str, value: object) -> None:
    """Raise a ConfigError for a model object, or any other, in place of its folder or name.

    `name` is the argument's, for the message.
    """
    if not isinstance(value, str | Path | None):
        raise ConfigError(
            f"{name}: found an object of {type(value).__name__}, and a run is known by files. Save it, "
            'model.save_pretrained("DIR") and tokenizer.save_pretrained("DIR"), and pass "DIR".'
        )

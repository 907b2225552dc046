"""How a result says that its texts were drawn, against what its task prescribes."""

from typing import Any

from grue import files
from grue.evaluation.by_endpoint import settings_for
from grue.evaluation.prompting import is_by_endpoint, prompting_of
from grue.records import Result
from grue.tasks import Task

BESIDE = ("decoding", "best_of", "prompting")
"""What `generation` says beside the settings."""


def of_another_decoding(result: Result, task: Task) -> str | None:
    """Return which settings a result states that are not the task's; None if all are, or if it states none."""
    usual = _prescribed(result, task)
    others = {key: said for key, said in result.generation.items() if key not in BESIDE and said != usual.get(key)}
    told = [f"{key} {said!r} (the task's: {usual.get(key)!r})" for key, said in others.items()]
    return f"generation: states {', '.join(told)}." if told else None


def _prescribed(result: Result, task: Task) -> dict[str, Any]:
    """Return the settings that `grue evaluate` states of a system that is asked as this one was."""
    if is_by_endpoint(result):
        return settings_for(task, result.seed, prompting_of(result) == "chat")
    if "best_of" in result.generation:
        from grue.evaluation.best_of import sampling  # loads torch

        return dict(files.plain(sampling(task)))
    if prompting_of(result) == "chat":
        from grue.evaluation.chat import unbounded  # loads torch

        return dict(files.plain(unbounded(task.decoding)))
    return dict(files.plain(task.decoding))

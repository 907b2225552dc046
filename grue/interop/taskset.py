"""A task as a taskset of verifiers 0.4.0 (`verifiers.v1`), which prime-rl trains on."""

import asyncio
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from grue.errors import Unavailable
from grue.interop.scorer import Scorer


def verifiers() -> Any:
    """Return the module `verifiers.v1`; Unavailable without it."""
    try:
        return import_module("verifiers.v1")
    except ModuleNotFoundError as error:
        raise Unavailable(f"verifiers 0.4 or newer is not installed ({error}): pip install verifiers") from error


def make_taskset(scorer: Scorer) -> type[Any]:
    """Return a subclass of `verifiers.v1.Taskset` with a task for each example; Unavailable without verifiers."""
    vf: Any = verifiers()

    class GrueData(vf.TaskData):  # type: ignore[misc]
        """What identifies an example: servers make a task from this alone."""

        split: str

    class GrueTask(vf.Task[GrueData]):  # type: ignore[misc]
        """An example: its prompt, and the reward of the last reply."""

        @vf.reward  # type: ignore[untyped-decorator]
        async def reward(self, trace: Any) -> float:
            """Return the reward of the last reply; its terms are recorded as metrics."""
            example = scorer.lookup.by_id(self.data.id, self.data.split)
            value, terms = await asyncio.to_thread(scorer.number, example, trace.last_reply, "verifiers")
            trace.record_metrics(terms)
            return value

    class GrueConfig(vf.TasksetConfig):  # type: ignore[misc]
        """Whose prompts are asked."""

        split: str | None = None

    class GrueTaskset(vf.Taskset[GrueTask, GrueConfig]):  # type: ignore[misc]
        """The examples of one of the task's splits."""

        def load(self) -> Iterable[Any]:
            split = self.config.split or scorer.lookup.splits[0]
            for example in scorer.lookup.of(split):
                data = GrueData(id=example.id, name=scorer.lookup.source, prompt=example.prompt, split=split)
                yield GrueTask(data, self.config.task)

    return GrueTaskset

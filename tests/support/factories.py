"""Small tasks and results, spelt out once for the tests of boards and submissions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grue.records import Axis, Direction, Entry, Result, Score, Status
from grue.tasks import Backbone, Data, Generation, MetricSpec, Prompt, Source, Split, Task

LIKED = MetricSpec("liked", "preference", range=(0.0, 1.0))
FLUENT = MetricSpec("fluent", "naturalness", reference=20.0)


def a_task(name: str = "stories", metrics: tuple[MetricSpec, ...] = (LIKED, FLUENT), **changes: Any) -> Task:
    values: dict[str, Any] = {
        "schema": 1,
        "name": name,
        "suite": "mini",
        "version": 1,
        "title": f"The task {name}",
        "description": "Write.",
        "data": Data(
            format="imdb",
            language="en",
            licence="Apache-2.0",
            sources=(Source("mini", "imdb", revision="2"),),
            splits={"train": Split("train"), "test": Split("test")},
            evaluation="test",
        ),
        "prompt": Prompt(8, "left"),
        "rollout": Generation(8),
        "decoding": Generation(8),
        "backbone": Backbone("causal", "mini:causal"),
        "reward": "liked",
        "metrics": metrics,
        "recipes": {},
    }
    return Task(**(values | changes))


def a_score(metric: str, value: float, axis: Axis = "preference", direction: Direction = "higher") -> Score:
    return Score(metric, axis, value, None if axis == "diversity" else 100 * value, 4, direction, f"{metric}|v1")


def a_result(
    task: Task, system: str, seed: int, preference: float | None, naturalness: float | None = 50.0, **changes: Any
) -> Result:
    """A complete result whose raw metrics follow from the two axes."""
    scores = []
    if preference is not None:
        scores.append(a_score("liked", preference / 100))
    if naturalness is not None:
        scores.append(Score("fluent", "naturalness", 2000 / naturalness, naturalness, 4, "lower", "fluent|v1"))
    values: dict[str, Any] = {
        "schema": 1,
        "status": "complete",
        "grue": {"version": "0"},
        "suite": task.suite,
        "task": task.name,
        "task_version": task.version,
        "task_hash": task.hash,
        "split": "test",
        "seed": seed,
        "system": {"name": system},
        "data": {},
        "generation": {},
        "determinism": {},
        "scores": tuple(scores),
        "preference": preference,
        "naturalness": naturalness,
        "hashes": {},
        "counts": {},
        "timing": {},
        "packages": {},
        "limited": False,
    }
    return Result(**(values | changes))


def entries(
    task: Task, system: str, preferences: Mapping[int, float], status: Status = "local", **changes: Any
) -> list[Entry]:
    """One entry for each seed of a system on a task."""
    folder = Path(f"runs/{task.suite}/{task.name}/{system}")
    return [
        Entry(a_result(task, system, seed, value, **changes), folder / f"seed-{seed}/result.json", status)
        for seed, value in preferences.items()
    ]

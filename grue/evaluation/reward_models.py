"""The reward models that a reward or a metric names: which they are, and whether they are of the task."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from grue.errors import ConfigError
from grue.evaluation.rewards import GIVEN, MODEL_OPTION, check_model, parse_reward
from grue.lm.reward_folder import read_reward_manifest
from grue.metrics.card import MODEL
from grue.tasks import MetricSpec, Task

Recorded = dict[str, str]


def named_in(expression: str) -> list[str]:
    """Return the names of the reward models in a reward, `model:DIR`, each once; none in what cannot be read as one."""
    try:
        names = [] if expression in GIVEN else [name for _, name in parse_reward(expression)]
    except ConfigError:
        return []
    return [name for name in dict.fromkeys(names) if name.startswith(MODEL)]


def recorded(expression: str, task: Task | None = None) -> list[Recorded]:
    """Return what a run's record and its result say of the reward models in a reward.

    Each has its name; `sha256`, which identifies it; `judge`, the reward that its pairs were judged by, or "people";
    and `split`, whose prompts it has seen.

    Args:
        task: Where the reward names the metric `model` of a task file, that task.

    Raises:
        DataError: One is not there, or is damaged.
    """
    found = []
    for name in [*named_in(expression), *_of_task_file(expression, task)]:
        manifest = read_reward_manifest(Path(name.removeprefix(MODEL)))
        found.append({"name": name, "sha256": manifest.sha256, "judge": manifest.judge, "split": manifest.split})
    return found


def _of_task_file(expression: str, task: Task | None) -> Iterator[str]:
    if task is None or expression in GIVEN:
        return
    options: Mapping[str, Any] = next((spec.options for spec in task.metrics if spec.name == "model"), {})
    if MODEL_OPTION in options and any(name == "model" for _, name in parse_reward(expression)):
        yield f"{MODEL}{options[MODEL_OPTION]}"


def check_metrics(specs: Sequence[MetricSpec], task: Task) -> None:
    """Refuse metrics of which one is a reward model of another task.

    Raises:
        DataError: One is, is not there, or is damaged.
    """
    for spec in specs:
        check_model(spec.name, spec.options, task)

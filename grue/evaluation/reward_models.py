"""The reward models that a reward or a metric names, and whether they are of the task."""

from grue.errors import ConfigError
from grue.evaluation.rewards import MODEL_OPTION, PASSED, parse_reward
from grue.evaluation.rewriter import REWRITER, recorded_rewriter
from grue.lm.reward_folder import members, read_reward_manifest
from grue.metrics.card import MODEL
from grue.tasks import Task

Recorded = dict[str, str]


def named_in(expression: str, prefix: str = MODEL) -> list[str]:
    """Return the terms of a reward that begin so, each once: its reward models; none if it cannot be parsed."""
    try:
        names = [] if expression in PASSED else [name for _, name in parse_reward(expression)]
    except ConfigError:
        return []
    return [name for name in dict.fromkeys(names) if name.startswith(prefix)]


def recorded(expression: str, task: Task | None = None) -> list[Recorded]:
    """Return what a run and its result record of the reward models in a reward.

    Each has its name; `sha256`, which identifies it; `judge`, the reward that its pairs were judged by, or "people";
    and `split`, the split of its pairs' prompts.

    Args:
        task: The task whose file defines the metric `model`, if the reward names it.
    """
    models, names = [], named_in(expression)
    specs = () if task is None or expression in PASSED else task.metrics
    options = next((spec.options for spec in specs if spec.name == "model"), {})
    if MODEL_OPTION in options and any(name == "model" for _, name in parse_reward(expression)):
        names.append(f"{MODEL}{options[MODEL_OPTION]}")
    for name in names:
        for folder in members(name.removeprefix(MODEL)):
            manifest = read_reward_manifest(folder)
            known = {"sha256": manifest.sha256, "judge": manifest.judge, "split": manifest.split}
            models.append({"name": f"{MODEL}{folder}", **known})
    return [*models, *(recorded_rewriter(name, task) for name in named_in(expression, REWRITER) if task is not None)]

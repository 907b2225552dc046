"""Which models a task needs, so that they can be downloaded in advance."""

from pathlib import Path
from typing import Any

from grue.metrics.registry import metric_parameters
from grue.tasks import Task


def needed_models(task: Task) -> list[tuple[str, str]]:
    """Return the hub models that a task trains and scores with, as (name, revision)."""
    found = [(task.backbone.model, task.backbone.revision)]
    for spec in task.metrics:
        parameters = metric_parameters(spec.name, task.folder)
        options: dict[str, Any] = {name: known.default for name, known in parameters.items()} | dict(spec.options)
        if isinstance(options.get("model"), str):
            found.append((options["model"], options.get("revision") or ""))
    return [pair for pair in dict.fromkeys(found) if not pair[0].startswith("mini:") and not Path(pair[0]).is_dir()]

"""Which models a task needs, to download them in advance, and which of them are wrong or missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grue.lm import packaged
from grue.lm.folder import check_name
from grue.lm.load import check_language_model, is_here
from grue.metrics.registry import metric_parameters
from grue.tasks import Task


def needed_models(task: Task) -> list[tuple[str, str]]:
    """Return the models that a task trains and scores with and that have to be fetched, as (name, revision).

    They come from the hub or from packages, `small:<model>`; the latter have no revision.
    """
    models = [(task.backbone.model, task.backbone.revision), *_scoring(task)]
    return [pair for pair in dict.fromkeys(models) if not pair[0].startswith("mini:") and not Path(pair[0]).exists()]


def _scoring(task: Task) -> Iterator[tuple[str, str]]:
    for spec in task.metrics:
        defaults = {name: parameter.default for name, parameter in metric_parameters(spec.name, task.folder).items()}
        options: dict[str, Any] = {**defaults, **spec.options}
        if isinstance(options.get("model"), str):
            yield options["model"], options.get("revision") or ""


def check_models(task: Task) -> None:
    """Refuse invalid names of models, and a backbone on this machine that is not a model of its family."""
    backbone = task.backbone
    check_name(backbone.model)
    if not backbone.model.startswith(packaged.PREFIX) and is_here(backbone.model, backbone.revision):
        check_language_model(backbone.family, backbone.model, backbone.revision)
    for name, _ in _scoring(task):
        check_name(name)


def absent_models(task: Task) -> Iterator[str]:
    """Yield a sentence for each model that a task needs and this machine does not have."""
    for name, revision in needed_models(task):
        if name.startswith(packaged.PREFIX):
            if problem := packaged.problem(name):
                yield problem
        elif not is_here(name, revision):
            yield f"{name} is not on this machine: `grue data fetch … --models` fetches it, from the hub."

"""Metrics by name: those of the package, of installed packages, of the library `evaluate`, and the user's own.

A built-in metric has a card in `cards.toml`, which names the module of this folder whose `METRICS` has its factory.
The module is imported when the metric is looked up; a metric that uses a model imports torch when it is made.
"""

import inspect
from collections.abc import Iterable, Mapping
from functools import partial, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from grue.errors import ConfigError, instead
from grue.metrics.card import CARDS, EVALUATE, MODEL
from grue.metrics.metric import Metric, MetricFactory, OfCorpusOnly
from grue.records import SCORED, Direction
from grue.registry import Registry
from grue.tasks import MetricSpec

DIVERSITY = tuple("msttr distinct1 distinct2 entropy1 entropy2 unique1 unique2 vocabulary mean_length".split())
"""The set that describes every system's texts; reported with each result, outside the score."""

PARTS = ("direction", "signature", "prepare", "statistics", "per_example", "corpus")
"""What a metric has."""

_KINDS: Mapping[Any, tuple[str, type | tuple[type, ...]]] = {
    str: ("a string", str),
    bool: ("true or false", bool),
    int: ("a whole number", int),
    float: ("a number", (int, float)),
    Mapping: ("a table", Mapping),
}
"""Type of an option → its name in messages, and the accepted types; true and false are not numbers."""


METRICS: Registry[MetricFactory] = Registry(
    "metric",
    modules={name: f"grue.metrics.{card.module}:METRICS[{name}]" for name, card in CARDS.items()},
    entry_points="grue.metrics",
    listed_by="grue metrics list",
)
"""Registered metrics: built-in, or offered by an installed package."""


def is_metric(name: str) -> bool:
    """Whether `name` is a registered metric, a reward model, or a metric of the library `evaluate`."""
    return name in METRICS or name.startswith((EVALUATE, MODEL))


def own_code(names: Iterable[str], folder: str = "") -> dict[str, str]:
    """Return the metrics that are the user's own, each with the sha256 of its module's file; as `metric_factory`."""
    from grue.metrics.own import code_sha256

    folders = [Path(folder)] if folder else []
    return {name: code_sha256(name, "metric", folders) for name in names if ":" in name and not is_metric(name)}


def make_metric(name: str, /, **options: Any) -> Metric:
    """Return a fresh metric by name; `options` are those of the task file. Errors as for `metric_factory`."""
    return metric_factory(name, options)(**options)


def metric_factory(name: str, options: Mapping[str, Any], folder: str = "") -> MetricFactory:
    """Return the factory of the metric `name`, its options checked, without making it (which may load a model).

    Args:
        name: A registered metric, `evaluate:` and a metric of that library, `model:` and the folder of a reward model,
            or `module:function`, a function of (examples, texts) that the user wrote. The latter imports the module:
            never pass a name that a stranger chose.
        options: Option → value.
        folder: Where such a module is looked up besides the working directory: the task file's folder.

    Raises:
        UnknownName: There is no metric of that name.
        ConfigError: The metric does not have one of the options, lacks one, or needs another type; or the user's
            function cannot be imported.
    """
    factory = _factory(name, folder)
    parameters = inspect.signature(factory).parameters
    for option, value in options.items():
        if option not in parameters:
            hint = instead(option, parameters) if parameters else " It has no options."
            raise ConfigError(f"The metric {name!r} has no option {option!r}.{hint}")
        _check_option(name, parameters[option], value)
    needed = [option for option, parameter in parameters.items() if parameter.default is parameter.empty]
    if missing := [option for option in needed if option not in options]:
        plural = len(missing) > 1
        raise ConfigError(
            f"The metric {name!r} needs the option{'s' if plural else ''} {' and '.join(map(repr, missing))}; set "
            f"{'them' if plural else 'it'} in the task file's options, or in `grue score` with "
            f"--set {name}.{missing[0]}=VALUE."
        )
    return factory


def factory_of(spec: MetricSpec, folder: str) -> MetricFactory:
    """Return the factory of a task's metric. Errors as for `metric_factory`, `require_single` and `check_direction`."""
    factory = metric_factory(spec.name, spec.options, folder)
    if spec.axis in SCORED and (card := CARDS.get(spec.name)):
        require_single(spec.name)
        check_direction(spec, card.direction)
    return factory


def require_single(name: str) -> None:
    """Raise OfCorpusOnly if a metric's card says that it has no value for a single text."""
    if (card := CARDS.get(name)) and not card.single:
        raise OfCorpusOnly(name)


def check_direction(spec: MetricSpec, direction: Direction) -> None:
    """Raise a ConfigError if a task scales a metric against its direction."""
    if spec.axis in SCORED and direction != spec.direction:
        raise ConfigError(
            f"The task file scales {spec.name!r} as if {spec.direction} were better, but {direction} is; swap the ends "
            "of its range."
        )


def _check_option(metric: str, parameter: inspect.Parameter, value: Any) -> None:
    """Raise a ConfigError if a value is not of an option's type, where that is a Literal, one of `_KINDS`, or None."""
    annotation = parameter.annotation
    alternatives = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    types = [get_origin(kind) or kind for kind in alternatives if kind is not NoneType]
    if types == [Literal]:
        description, fits = " or ".join(map(repr, get_args(annotation))), value in get_args(annotation)
    elif len(types) != 1 or types[0] not in _KINDS or (value is None and NoneType in alternatives):
        return
    else:
        description, accepted = _KINDS[types[0]]
        fits = isinstance(value, accepted) and (accepted is bool or not isinstance(value, bool))
    if not fits:
        raise ConfigError(
            f"The metric {metric!r}: the option {parameter.name!r} must be {description}, found {value!r}."
        )


def metric_parameters(name: str, folder: str = "") -> Mapping[str, inspect.Parameter]:
    """Return the options of a metric; arguments and errors as for `metric_factory`."""
    return inspect.signature(_factory(name, folder)).parameters


def _factory(name: str, folder: str) -> MetricFactory:
    if name.startswith(EVALUATE):
        from grue.metrics.evaluate_library import evaluate_metric

        return evaluate_metric(name)
    if name.startswith(MODEL):
        from grue.metrics.reward_model import reward_model

        return partial(reward_model, name.removeprefix(MODEL))
    if name not in METRICS and ":" in name:
        from grue.metrics.own import function_metric

        return function_metric(name, [Path(folder)] if folder else [], suggestions=METRICS.names())
    return METRICS[name] if name in CARDS else _offered(name, METRICS[name])


def _offered(name: str, offered: MetricFactory) -> MetricFactory:
    """Return what an installed package offers as a metric, where what it makes is checked to be one."""
    rule = f"The metric {name!r} must be a function of its options that returns a grue.metrics.metric.Metric"
    if not callable(offered):
        raise ConfigError(f"{rule}, found {type(offered).__name__}.")

    @wraps(offered)
    def make(**options: Any) -> Metric:
        made = offered(**options)
        if lacking := [part for part in PARTS if not hasattr(made, part)]:
            raise ConfigError(f"{rule}; what it returned has no {', '.join(lacking)}.")
        return made

    return make

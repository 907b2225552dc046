"""Metrics as rewards: one value a text, higher is better.

A reward is written as the task file writes it: a metric's name, one of `COMBINATIONS`, a function that is not a metric
(`REWARDS`, `module:function`), or a weighted sum of such terms, "0.25*meteor + 0.75*coverage - 0.01*mean_length".
Values keep the metric's own scale: sacreBLEU counts to 100, CIDEr to 10. Where lower is better they are negated.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from grue.errors import ConfigError, TrainingError, did_you_mean
from grue.metrics.base import is_metric, make_metric
from grue.records import Example
from grue.registry import Registry
from grue.tasks import Task

Reward = Callable[[Sequence[Example], Sequence[str]], list[float]]

REWARDS: Registry[Reward] = Registry("reward", entry_points="grue.rewards")
"""Rewards that are no metrics: functions of (examples, texts) that return one number a text."""

COMBINATIONS: dict[str, tuple[tuple[float, str], ...]] = {
    "spider": ((0.5, "spice"), (0.5, "cider")),
    "spider_lite": ((0.5, "spice_lite"), (0.5, "cider")),
    "rouge_combined": ((1 / 3, "rouge1"), (1 / 3, "rouge2"), (1 / 3, "rougeL")),
    "meteor_parent": ((0.5, "meteor"), (0.5, "parent")),
}
"""Sums that have a name: SPIDEr (Liu et al. 2017), RL4LMs' rouge_combined and ToTTo's METEOR + PARENT."""

TERM = re.compile(
    r"\s*(?P<sign>[+-])?\s*(?:(?P<weight>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\*\s*)?(?P<name>[A-Za-z_][\w.:]*)\s*"
)


def make_reward(expression: str, task: Task, examples: Sequence[Example]) -> Reward:
    """Return the reward that `expression` names.

    Args:
        expression: A metric, `module:function`, or a weighted sum of such terms.
        task: Gives a metric the options it has in the task file, if it is listed there.
        examples: The training examples; metrics are prepared on them.

    Returns:
        A function of (examples, texts) that checks its own values: a TrainingError names the first example whose
        value is missing or not finite.

    Raises:
        UnknownName: No metric has that name.
        ConfigError: The expression cannot be read, or names a function that cannot be imported.
    """
    terms = [(weight, _reward_of(name, task, examples)) for weight, name in parse_reward(expression)]

    def reward(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        columns = [[weight * value for value in term(examples, texts)] for weight, term in terms]
        return [math.fsum(values) for values in zip(*columns, strict=True)]

    return reward


def parse_reward(expression: str) -> list[tuple[float, str]]:
    """Return the (weight, name) pairs of a weighted sum; a combination is replaced by its terms.

    Raises:
        ConfigError: It is not a weighted sum; the message shows where reading stopped.
    """
    terms: list[tuple[float, str]] = []
    position = 0
    while position < len(expression) or not terms:
        term = TERM.match(expression, position)
        if term is None or (terms and term["sign"] is None):
            raise ConfigError(
                f"The reward {expression!r} cannot be read at {expression[position:]!r}; "
                "write a metric, module:function, or a sum such as '0.25*meteor + 0.75*coverage'."
            )
        sign = -1.0 if term["sign"] == "-" else 1.0
        weight = sign * float(term["weight"] or 1)
        terms += [(weight * share, name) for share, name in COMBINATIONS.get(term["name"], ((1.0, term["name"]),))]
        position = term.end()
    return terms


def metric_reward(name: str, options: Mapping[str, Any], examples: Sequence[Example]) -> Reward:
    """Return a metric as a reward, prepared on `examples`; where lower is better, values are negated.

    Raises:
        ConfigError: The metric has no value for a single text.
    """
    metric = make_metric(name, **options)
    metric.prepare(examples)
    sign = 1.0 if metric.direction == "higher" else -1.0
    metric.per_example(metric.statistics(examples[:1], [""] * len(examples[:1])))  # a metric of whole corpora refuses

    def reward(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [sign * float(value) for value in metric.per_example(metric.statistics(examples, texts))]

    return checked(name, reward)


def imported_reward(path: str) -> Reward:
    """Return the function `path`, "module:function", that takes (examples, texts) and returns one number a text.

    Raises:
        ConfigError: There is no such module or function.
    """
    module, _, attribute = path.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"The reward {path!r}: the module {module!r} cannot be imported: {error}; is it installed or in PYTHONPATH?"
        ) from error
    function = getattr(found, attribute, None)
    if not callable(function):
        known = did_you_mean(attribute, [name for name, thing in vars(found).items() if callable(thing)])
        raise ConfigError(f"The reward {path!r}: {found.__name__} has no function {attribute!r}.{known}")
    return checked(path, function)


def checked(name: str, reward: Callable[[Sequence[Example], Sequence[str]], Sequence[float]]) -> Reward:
    """Return `reward` with its values checked: as many as texts, each a finite number."""

    def check(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        values = reward(examples, texts)
        if not hasattr(values, "__len__") or len(values) != len(texts):
            found = f"{len(values)} values" if hasattr(values, "__len__") else f"{values!r}"
            raise TrainingError(f"The reward {name!r} gave {found} for {len(texts)} texts; return one number a text.")
        for example, text, value in zip(examples, texts, values, strict=True):
            if not _is_finite(value):
                raise TrainingError(
                    f"The reward {name!r} gave {value!r} for the example {example.id!r}; "
                    f"a reward must be a finite number. The text was {text[:80]!r}."
                )
        return [float(value) for value in values]

    return check


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return False


@REWARDS.register("repeat_penalty")
def repeat_penalty(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
    """Return −1 for a text that repeats the task instead of doing it, else 0 (RL4LMs' common_gen_repeat_penalty).

    It does if the concepts stand in it as in the prompt, or if "generate" or "sentence" does. Letters are compared, so
    that "the dog runs" repeats the concepts dog and run. Meant to be added to a metric: "meteor + repeat_penalty".
    """

    def repeats(example: Example, text: str) -> bool:
        listed = " ".join(str(concept).lower() for concept in example.meta.get("concepts", ()))
        said = text.lower()
        return "generate" in said or "sentence" in said or (bool(listed) and listed in said)

    return [-1.0 if repeats(example, text) else 0.0 for example, text in zip(examples, texts, strict=True)]


def _reward_of(name: str, task: Task, examples: Sequence[Example]) -> Reward:
    if name in REWARDS:
        return checked(name, REWARDS[name])
    if not is_metric(name) and ":" in name:
        return imported_reward(name)
    options = next((spec.options for spec in task.metrics if spec.name == name), {})
    return metric_reward(name, options, examples)

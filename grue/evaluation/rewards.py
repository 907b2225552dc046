"""Metrics as rewards: one value per text, higher is better.

A reward is written as in a task file: a metric's name, one of `COMBINATIONS`, a function that is not a metric
(`REWARDS`, `module:function`), or a weighted sum of such terms, "0.25*meteor + 0.75*coverage - 0.01*mean_length".
Values keep the metric's own scale: sacreBLEU counts to 100, CIDEr to 10. Where lower is better they are negated.
"""

import inspect
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grue.errors import ConfigError
from grue.files import sha256_json
from grue.metrics.own import Checked, TextFunction, attribute_of, checked_function, checked_values, import_from
from grue.metrics.registry import is_metric, make_metric
from grue.records import Example
from grue.registry import Registry
from grue.tasks import Task

RewardFunction = TextFunction
Reward = Checked

REWARDS: Registry[Reward] = Registry("reward", entry_points="grue.rewards")
"""Rewards that are no metrics: functions of (examples, texts) that return one number per text."""

COMBINATIONS: dict[str, tuple[tuple[float, str], ...]] = {
    "spider": ((0.5, "spice"), (0.5, "cider")),
    "spider_lite": ((0.5, "spice_lite"), (0.5, "cider")),
    "rouge_combined": ((1 / 3, "rouge1"), (1 / 3, "rouge2"), (1 / 3, "rougeL")),
    "meteor_parent": ((0.5, "meteor"), (0.5, "parent")),
}
"""Named sums: SPIDEr (Liu et al. 2017), RL4LMs' rouge_combined and ToTTo's METEOR + PARENT."""

TERM = re.compile(
    r"\s*(?P<sign>[+-])?\s*(?:(?P<weight>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\*\s*)?(?P<name>[A-Za-z_][\w.:]*)\s*"
)


def make_reward(expression: str, task: Task, examples: Sequence[Example]) -> Reward:
    """Return the reward that `expression` names.

    Args:
        expression: A metric, `module:function`, or a weighted sum of such terms; or what `give_name` returned.
        task: Gives a metric the options it has in the task file, if it is listed there.
        examples: The training examples; metrics are prepared on them.

    Returns:
        A function of (examples, texts) that checks its own values: a TrainingError names the first example whose
        value is missing or not finite.

    Raises:
        UnknownName: No metric has that name.
        ConfigError: The expression cannot be read, or names a function that cannot be imported.
    """
    if expression in GIVEN:
        return function_reward(expression, GIVEN[expression])
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
    metric.per_example(metric.statistics(examples[:1], [""] * len(examples[:1])))  # a metric of whole corpora raises

    def reward(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [sign * float(value) for value in metric.per_example(metric.statistics(examples, texts))]

    return checked_values("reward", name, reward)


def imported_reward(path: str, folders: Sequence[Path] = ()) -> Reward:
    """Return the function `path`, "module:function", of (examples, texts), which returns one number per text.

    A module that is not installed is looked up in the working directory, then in `folders`.

    Raises:
        ConfigError: There is no such module or function, importing it fails, or it does not take two arguments.
    """
    return function_reward(path, attribute_of(import_from(path, "reward", folders), path, "reward"))


def function_reward(name: str, function: RewardFunction) -> Reward:
    """Return a user's function as a reward, its calls and values checked.

    Raises:
        ConfigError: It cannot be called with (examples, texts).
    """
    return checked_function("reward", name, function)


# --- functions without a name ----------------------------------------------------------------------------------------


GIVEN: dict[str, RewardFunction] = {}
"""Functions that were passed as objects, by the names that `give_name` gave them."""


def give_name(function: RewardFunction) -> str:
    """Keep a function as a reward and return the name that a run's record gives it.

    The name is "module:function" and the sha256 of its source and of the values it captured, so that a run resumes
    only with the same function. What it calls is not covered. Where source or values cannot be read (a callable object,
    a captured model), the name has a random part instead: no other process can resume such a run.
    """
    module, qualname = (str(getattr(function, key, "")) for key in ("__module__", "__qualname__"))
    name = f"{module}:{qualname or type(function).__qualname__} ({_fingerprint(function)})"
    GIVEN[name] = function
    return name


def _fingerprint(function: RewardFunction) -> str:
    known = next((name for name, given in GIVEN.items() if given is function), None)
    try:
        code = inspect.unwrap(function).__code__  # what has none is no plain function
        captured = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        defaults = [getattr(function, key, None) for key in ("__defaults__", "__kwdefaults__")]
        return f"sha256 {sha256_json([inspect.getsource(code), captured, defaults])[:16]}"
    except (AttributeError, OSError, TypeError, ValueError):
        return known.rpartition("(")[2].removesuffix(")") if known else f"unknown {secrets.token_hex(8)}"


@REWARDS.register("repeat_penalty")
def repeat_penalty(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
    """Return −1 for a text that repeats the task instead of doing it, else 0 (RL4LMs' common_gen_repeat_penalty).

    It does if it contains the concepts as the prompt lists them, or "generate" or "sentence". Letters are compared, so
    that "the dog runs" repeats the concepts dog and run. Meant to be added to a metric: "meteor + repeat_penalty".
    """

    def repeats(example: Example, text: str) -> bool:
        listed = " ".join(str(concept).lower() for concept in example.meta.get("concepts", ()))
        said = text.lower()
        return "generate" in said or "sentence" in said or (bool(listed) and listed in said)

    return [-1.0 if repeats(example, text) else 0.0 for example, text in zip(examples, texts, strict=True)]


def _reward_of(name: str, task: Task, examples: Sequence[Example]) -> Reward:
    if name in REWARDS:
        return function_reward(name, REWARDS[name])
    if not is_metric(name) and ":" in name:
        return imported_reward(name, [Path(task.folder)] if task.folder else [])
    options = next((spec.options for spec in task.metrics if spec.name == name), {})
    return metric_reward(name, options, examples)

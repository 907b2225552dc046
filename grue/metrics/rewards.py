"""Metrics as rewards: one value a text, higher is better.

A reward is written as the task file writes it: a metric's name, one of `COMBINATIONS`, a function that is not a metric
(`REWARDS`, `module:function`), or a weighted sum of such terms, "0.25*meteor + 0.75*coverage - 0.01*mean_length".
Values keep the metric's own scale: sacreBLEU counts to 100, CIDEr to 10. Where lower is better they are negated.
"""

import importlib
import inspect
import math
import re
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grue.errors import ConfigError, GrueError, TrainingError, did_you_mean
from grue.files import sha256_json
from grue.metrics.metric import is_metric, make_metric
from grue.records import Example
from grue.registry import Registry
from grue.tasks import Task

RewardFunction = Callable[[Sequence[Example], Sequence[str]], Sequence[float]]
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
    metric.per_example(metric.statistics(examples[:1], [""] * len(examples[:1])))  # a metric of whole corpora refuses

    def reward(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [sign * float(value) for value in metric.per_example(metric.statistics(examples, texts))]

    return checked(name, reward)


def imported_reward(path: str, folders: Sequence[Path] = ()) -> Reward:
    """Return the function `path`, "module:function", that takes (examples, texts) and returns one number a text.

    A module that is not installed is looked for in the working directory, then in `folders`.

    Raises:
        ConfigError: There is no such module or function, importing it fails, or it does not take two arguments.
    """
    module, _, attribute = path.partition(":")
    searched = [Path.cwd(), *folders]
    for folder in map(str, searched):
        if folder not in sys.path:
            sys.path.append(folder)  # it stays there: a reward may import its neighbours when it is first called
    importlib.invalidate_caches()  # the file may be younger than what the finders remember of its folder
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or f"{module}.".startswith(f"{error.name}."):
            places = " nor in ".join(map(str, searched))
            raise ConfigError(
                f"The reward {path!r}: the module {module!r} cannot be imported: it is not installed, nor in {places}."
            ) from error
        raise ConfigError(f"The reward {path!r}: {module} needs the module {error.name!r}; install it.") from error
    except Exception as error:
        raise ConfigError(f"The reward {path!r}: importing {module} fails: {_told(error)}.") from error
    function = getattr(found, attribute, None)
    if not callable(function):
        known = did_you_mean(attribute, [name for name, thing in vars(found).items() if callable(thing)])
        where = getattr(found, "__file__", None) or "built in"
        raise ConfigError(f"The reward {path!r}: {module} has no function {attribute!r}.{known} The module is {where}.")
    return function_reward(path, function)


def function_reward(name: str, function: RewardFunction) -> Reward:
    """Return a function of one's own as a reward, its calls and values checked.

    Raises:
        ConfigError: It cannot be called with (examples, texts).
    """
    try:
        inspect.signature(function).bind((), ())
    except TypeError as error:
        raise ConfigError(f"The reward {name!r} must be a function of (examples, texts): {error}.") from error
    except ValueError:
        pass  # a function without a signature, as some written in C
    return checked(name, guarded(name, function))


def guarded(name: str, function: RewardFunction) -> RewardFunction:
    """Return `function` so that what it raises becomes a TrainingError that names the example it raises for."""

    def guard(examples: Sequence[Example], texts: Sequence[str]) -> Sequence[float]:
        try:
            return function(examples, texts)
        except GrueError:
            raise
        except Exception as error:
            culprit, cause = f"a batch of {len(texts)} texts, but for none of them alone", error
            for example, text in zip(examples, texts, strict=True):
                try:
                    function([example], [text])
                except Exception as alone:
                    culprit, cause = f"the example {example.id!r}; the text was {text[:80]!r}", alone
                    break
            raise TrainingError(f"The reward {name!r} raised {_told(cause)} for {culprit}.") from cause

    return guard


def _told(error: BaseException) -> str:
    """Return an exception in a line: its class, its message and the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def checked(name: str, reward: RewardFunction) -> Reward:
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
        return not isinstance(value, str) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last two: a tensor of several numbers
        return False


# --- functions that have no name of their own -------------------------------------------------------------------------


GIVEN: dict[str, RewardFunction] = {}
"""The functions that were handed over as they are, by the names that `give_name` gave them."""


def give_name(function: RewardFunction) -> str:
    """Keep a function as a reward and return its name, under which a run's record speaks of it.

    The name is "module:function" and the sha256 of its source and of the values that it captured, so that a run goes
    on only with the same function. What it calls is not part of it. Where source or values cannot be read (a callable
    object, a captured model), the name has a random part instead: such a run cannot be gone on with by another process.
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
        return function_reward(name, REWARDS[name])
    if not is_metric(name) and ":" in name:
        return imported_reward(name, [Path(task.folder)] if task.folder else [])
    options = next((spec.options for spec in task.metrics if spec.name == name), {})
    return metric_reward(name, options, examples)

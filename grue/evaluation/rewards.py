"""Rewards: a text's value as a weighted sum of terms; higher is better.

A reward is written as in a task file: a metric's name, one of `COMBINATIONS`, a reward model, a rewriter or a metric of
the library `evaluate` (`model:DIR`, `rewriter:DIR`, `evaluate:NAME`, which a blank ends), a function that is not a
metric (`REWARDS`, `module:function`), or a weighted sum of them, "0.25*meteor + 0.75*coverage - 0.01*mean_length".
Values keep the metric's own scale: sacreBLEU counts to 100, CIDEr to 10. Where lower is better they are negated.

A function takes (examples, texts), and parameters named as in `INPUTS` if it has them. It returns for each text a
number; None where it does not apply; or a number for each token of the response, the end token included.
"""

import inspect
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from grue.data.examples import ScoredExamples
from grue.data.scored_lines import LARGEST_REWARD
from grue.errors import ConfigError, TrainingError
from grue.evaluation.rewriter import REWRITER, check_rewriter, rewriter_feedback
from grue.files import sha256_json
from grue.lm.reward_folder import check_reward_task, members, read_reward_manifest
from grue.metrics.card import MODEL
from grue.metrics.own import (
    NO_SOURCE,
    attribute_of,
    check_count,
    check_signature,
    checked_values,
    code_sha256,
    guarded,
    import_from,
    is_finite,
    source_of,
)
from grue.metrics.registry import is_metric, make_metric, metric_factory, require_single
from grue.records import Example, as_scored
from grue.registry import Registry
from grue.tasks import Task

INPUTS = ("token_ids", "truncated", "step")
"""Further inputs that a function gets if it has parameters of these names.

`token_ids` has for each text the ids of its response as they were drawn, with the end token unless it never ended;
`truncated` for each text whether it never ended; `step` is the number of updates that the policy has had.
"""

# Of a text: a number, one for each of its tokens, or None if the term does not apply.
Value = float | list[float] | None
# (examples, texts), and by keyword the known `INPUTS` → a checked value for each text.
TermFunction = Callable[..., list[Value]]
# The same as a user writes it: with the inputs it wants, and unchecked.
RewardFunction = Callable[..., Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a reward."""

    weight: float
    name: str
    values: TermFunction


@dataclass(frozen=True, slots=True)
class Reward:
    """A weighted sum of terms, called with examples, a text for each, and the known `INPUTS`.

    Calling it gives the sum for each text: a number, or None where no term applies. A TrainingError names the first
    example whose value cannot be used, a ConfigError a term that needs an unknown input.
    """

    terms: tuple[Term, ...]

    def __call__(self, examples: Sequence[Example], texts: Sequence[str], **inputs: Any) -> list[float | None]:
        """Return the reward of each text."""
        return self.sums(self.parts(examples, texts, **inputs))

    def parts(
        self,
        examples: Sequence[Example],
        texts: Sequence[str],
        *,
        token_ids: Sequence[Sequence[int]] | None = None,
        truncated: Sequence[bool] | None = None,
        step: int | None = None,
    ) -> list[list[Value]]:
        """Return the values of each term for all texts, not weighted."""
        inputs = {"token_ids": token_ids, "truncated": truncated, "step": step}
        examples = list(map(as_scored, examples))
        parts = [term.values(examples, texts, **inputs) for term in self.terms]
        for example, text, values in zip(examples, texts, zip(*parts, strict=True), strict=True):
            self._check_size(example, text, values)
        return parts

    def _check_size(self, example: Example, text: str, values: Sequence[Value]) -> None:
        sizes = [abs(term.weight) * _size(value) for term, value in zip(self.terms, values, strict=True)]
        if not sum(sizes) <= LARGEST_REWARD:
            terms = " and ".join(f"{term.name!r} with {size:g}" for term, size in zip(self.terms, sizes, strict=True))
            raise TrainingError(
                f"The reward for the example {example.id!r} is larger than {LARGEST_REWARD:g}: {terms}. Weigh its "
                f"terms less. The text was {text[:80]!r}."
            )

    def sums(self, parts: Sequence[Sequence[Value]]) -> list[float | None]:
        """Return the reward of each text from the `parts`: the weighted sum of the terms that apply."""
        weights, sums = [term.weight for term in self.terms], list[float | None]()
        for values in zip(*([total(value) for value in column] for column in parts), strict=True):
            weighed = [weight * value for weight, value in zip(weights, values, strict=True) if value is not None]
            sums.append(math.fsum(weighed) if weighed else None)
        return sums


def total(value: Value) -> float | None:
    """Return a text's value of a term: the sum over its tokens, if it has a value for each."""
    return math.fsum(value) if isinstance(value, list) else value


def _size(value: Value) -> float:
    """Return the sum of a value's magnitudes, which may be infinite."""
    return sum(map(abs, value)) if isinstance(value, list) else abs(value or 0.0)


def mean(values: Sequence[Value]) -> float | None:
    """Return the mean over the texts that have a value; None if none has."""
    totals = [value for value in map(total, values) if value is not None]
    return sum(totals) / len(totals) if totals else None


REWARDS: Registry[RewardFunction] = Registry(
    "reward", modules={"repeat_penalty": f"{__name__}:repeat_penalty"}, entry_points="grue.rewards", functions=True
)
"""Rewards that are not metrics: functions of (examples, texts)."""

COMBINATIONS: dict[str, tuple[tuple[float, str], ...]] = {
    "spider": ((0.5, "spice"), (0.5, "cider")),
    "spider_lite": ((0.5, "spice_lite"), (0.5, "cider")),
    "rouge_combined": ((1 / 3, "rouge1"), (1 / 3, "rouge2"), (1 / 3, "rougeL")),
    "meteor_parent": ((0.5, "meteor"), (0.5, "parent")),
}
"""Named sums: SPIDEr (Liu et al. 2017), RL4LMs' rouge_combined and ToTTo's METEOR + PARENT."""

TERM = re.compile(
    r"\s*(?P<sign>[+-])?\s*(?:(?P<weight>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*\*\s*)?(?P<name>(?:model|evaluate|rewriter):\S+|[A-Za-z_][\w.:]*)\s*"
)
MODEL_OPTION = "dir"
"""The option of the metric `model` that names a reward model's folder."""


def make_reward(expression: str, task: Task, examples: Sequence[Example]) -> Reward:
    """Return the reward that `expression` names.

    Args:
        expression: A metric, `module:function`, or a weighted sum of such terms; or what `give_name` returned.
        task: Gives a metric the options it has in the task file, if it is listed there.
        examples: The training examples; metrics are prepared on them.

    Raises:
        UnknownName: No metric has that name.
        ConfigError: The expression cannot be read, or names a function that cannot be imported.
    """
    examples = ScoredExamples(examples)
    terms = parse_reward(expression)
    return Reward(tuple(Term(weight, name, _values_of(name, task, examples)) for weight, name in terms))


def check_reward(expression: str, task: Task) -> None:
    """Check the terms of an expression without loading a model; errors as for `make_reward`."""
    for _, name in parse_reward(expression):
        if name.startswith(REWRITER):
            check_rewriter(name, task)
        elif _is_imported(name):
            imported_reward(name, _folders(task))
        elif name not in PASSED and name not in REWARDS:
            require_single(name)
            metric_factory(name, _options(name, task), task.folder)
            check_model(name, _options(name, task), task)


def code_of(expression: str, task: Task) -> dict[str, str]:
    """Return the user's own terms of a reward, each with the sha256 of its module's file.

    A function that was passed as an object has the hash of its source in its name.
    """
    own = (name for _, name in parse_reward(expression) if _is_imported(name))
    return {name: code_sha256(name, "reward", _folders(task)) for name in own}


def _is_imported(name: str) -> bool:
    """Whether a term is a function of the user's that has to be imported."""
    return ":" in name and not (name in PASSED or name in REWARDS or name.startswith(REWRITER) or is_metric(name))


def parse_reward(expression: str) -> list[tuple[float, str]]:
    """Return the (weight, name) pairs of a weighted sum; a combination is replaced by its terms.

    What `give_name` returned is a single term.
    """
    if expression in PASSED:
        return [(1.0, expression)]
    terms: list[tuple[float, str]] = []
    position = 0
    while position < len(expression) or not terms:
        term = TERM.match(expression, position)
        if term is None or (terms and term["sign"] is None):
            cure = "write a metric, module:function, or a sum such as '0.25*meteor + 0.75*coverage'."
            if terms and terms[-1][1].startswith((MODEL, REWRITER)):
                cure = (
                    "a blank ends the name of a folder, also of those that hold it: rename what has one, or in a task "
                    "file name the metric model with options = { dir = … }, and the reward model."
                )
            raise ConfigError(f"The reward {expression!r} cannot be read at {expression[position:]!r}; {cure}")
        sign = -1.0 if term["sign"] == "-" else 1.0
        weight = sign * float(term["weight"] or 1)
        if not math.isfinite(weight):
            raise ConfigError(f"The reward {expression!r}: the weight {term['weight']} is too large.")
        terms += [(weight * share, name) for share, name in COMBINATIONS.get(term["name"], ((1.0, term["name"]),))]
        position = term.end()
    return terms


def metric_reward(name: str, options: Mapping[str, Any], examples: Sequence[Example]) -> TermFunction:
    """Return a metric as a term, prepared on `examples`; where lower is better, values are negated."""
    metric = make_metric(name, **options)
    metric.prepare(examples)
    sign = 1.0 if metric.direction == "higher" else -1.0
    metric.per_example(metric.statistics(examples[:1], [""] * len(examples[:1])))  # a metric of whole corpora raises

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [sign * float(value) for value in metric.per_example(metric.statistics(examples, texts))]

    checked = checked_values("reward", name, values)
    return lambda examples, texts, **inputs: [*checked(examples, texts)]


def imported_reward(path: str, folders: Sequence[Path] = ()) -> TermFunction:
    """Return the function `path`, "module:function", as a term.

    A module that is not installed is looked up in the working directory, then in `folders`.
    """
    return function_reward(path, attribute_of(import_from(path, "reward", folders), path, "reward"))


def function_reward(name: str, function: RewardFunction) -> TermFunction:
    """Return a user's function as a term, its calls and values checked."""
    parameters = _inputs_of(function)
    check_signature("reward", name, function, parameters)

    def values(examples: Sequence[Example], texts: Sequence[str], **inputs: Any) -> list[Value]:
        arguments = {key: inputs[key] for key in parameters if inputs.get(key) is not None}
        missing = next((key for key, required in parameters.items() if required and key not in arguments), None)
        if missing is not None:
            raise ConfigError(
                f"The reward {name!r} asks for {missing}, which is not known here: step is known in training only, "
                "token_ids and truncated where the responses come from a model. Give the parameter a default."
            )
        call = partial(function, step=arguments.pop("step")) if "step" in arguments else function
        results = guarded("reward", name, call)(examples, texts, **arguments)
        check_count("reward", name, results, len(texts))
        lengths = [None] * len(texts) if inputs.get("token_ids") is None else list(map(len, inputs["token_ids"]))
        return [_checked(name, *each) for each in zip(examples, texts, results, lengths, strict=True)]

    return values


def _inputs_of(function: RewardFunction) -> dict[str, bool]:
    """Return the parameters after the first two that `INPUTS` names, and whether each is required."""
    try:
        more = list(inspect.signature(function).parameters.values())[2:]
    except (TypeError, ValueError):
        return {}  # a function without a signature, as some written in C
    return {parameter.name: parameter.default is parameter.empty for parameter in more if parameter.name in INPUTS}


def _checked(name: str, example: Example, text: str, value: Any, tokens: int | None) -> Value:
    """Return a function's result for a text of `tokens` tokens as a checked value."""
    value = value.tolist() if hasattr(value, "tolist") else value  # of numpy or torch
    if value is None:
        return None
    if is_finite(value):
        return float(value)
    where, cited = f"the example {example.id!r}", f"The text was {text[:80]!r}."
    if not isinstance(value, list | tuple):
        raise TrainingError(
            f"The reward {name!r} gave {value!r} for {where}; a reward must be a finite number. {cited}"
        )
    if tokens is None:
        raise TrainingError(
            f"The reward {name!r} gave {len(value)} values for {where}, whose tokens are not known. {cited}"
        )
    if len(value) != tokens:
        raise TrainingError(
            f"The reward {name!r} gave {len(value)} values for {where}, whose response has {tokens} tokens; return one "
            f"for each of its token_ids, the end token included. {cited}"
        )
    for place, number in enumerate(value):
        if not is_finite(number):
            raise TrainingError(
                f"The reward {name!r} gave {number!r} for token {place} of {where}; it must be a finite number. {cited}"
            )
    return [float(number) for number in value]


# --- functions without a name ----------------------------------------------------------------------------------------


PASSED: dict[str, RewardFunction] = {}
"""Functions that were passed as objects, by the names that `give_name` gave them."""


def give_name(function: RewardFunction) -> str:
    """Register a function as a reward and return its name in a run's record.

    The name is "module:function" and the sha256 of its source, of the values it captured and of the global numbers and
    texts it reads, so that a run resumes only with the same function. What it calls is not covered. If source or
    values cannot be read (a callable object, a method, a captured model), the name has a random part instead: no other
    process can resume such a run.
    """
    module, qualname = (str(getattr(function, key, "")) for key in ("__module__", "__qualname__"))
    name = f"{module}:{qualname or type(function).__qualname__} ({_fingerprint(function)})"
    PASSED[name] = function
    return name


def _fingerprint(function: RewardFunction) -> str:
    earlier_name = next((name for name, value in PASSED.items() if value is function), None)
    try:
        return f"sha256 {sha256_json(source_of(function))[:16]}"
    except NO_SOURCE:
        return earlier_name.rpartition("(")[2].removesuffix(")") if earlier_name else f"unknown {secrets.token_hex(8)}"


def repeat_penalty(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
    """Return −1 for a text that repeats the task instead of doing it, else 0 (RL4LMs' common_gen_repeat_penalty).

    It does if it contains the concepts as the prompt lists them, or "generate" or "sentence". Letters are compared, so
    that "the dog runs" repeats the concepts dog and run. Meant to be added to a metric: "meteor + repeat_penalty".
    """

    def repeats(example: Example, text: str) -> bool:
        listed = " ".join(str(concept).lower() for concept in example.meta.get("concepts", ()))
        lowered = text.lower()
        return "generate" in lowered or "sentence" in lowered or (bool(listed) and listed in lowered)

    return [-1.0 if repeats(example, text) else 0.0 for example, text in zip(examples, texts, strict=True)]


def _values_of(name: str, task: Task, examples: Sequence[Example]) -> TermFunction:
    if name in PASSED:
        return function_reward(name, PASSED[name])
    if name in REWARDS:
        return function_reward(name, REWARDS[name])
    if name.startswith(REWRITER):
        return function_reward(name, rewriter_feedback(name, task))
    if _is_imported(name):
        return imported_reward(name, _folders(task))
    options = _options(name, task)
    check_model(name, options, task)
    return metric_reward(name, options, examples)


def check_model(name: str, options: Mapping[str, Any], task: Task) -> None:
    """Refuse a reward model of another task; any other metric passes."""
    place = name.removeprefix(MODEL) if name.startswith(MODEL) else options.get(MODEL_OPTION)
    if name.startswith(MODEL) or (name == "model" and isinstance(place, str)):
        for folder in members(str(place)):
            check_reward_task(read_reward_manifest(folder), folder, task)


def _folders(task: Task) -> list[Path]:
    return [Path(task.folder)] if task.folder else []


def _options(name: str, task: Task) -> Mapping[str, Any]:
    return next((spec.options for spec in task.metrics if spec.name == name), {})

"""How long texts are: quantiles of a data set's tokens, and what padding makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grue.tasks import Task

QUANTILES = 21  # 0 %, 5 %, …, 100 %


@dataclass(frozen=True, slots=True)
class Lengths:
    """What was measured of a task's texts, or its limits.

    Attributes:
        prompt: Quantiles of prompts' tokens, cut to the task's limit.
        response: Quantiles of references' tokens, the end token included, cut to the task's limit.
        references: Of an example, on average.
        document: Tokens of a whole document, on average; the prompt's where nothing else is read.
        pairs: Pairs of a sentence of the document and one of its reference, on average.
        pair: Tokens of such a pair, on average.
        words: Seconds of one core to score a text by all metrics that ask no model.
        reward: The same by the reward.
    """

    prompt: tuple[float, ...]
    response: tuple[float, ...]
    references: float = 1.0
    document: float = 0.0
    pairs: float = 0.0
    pair: float = 0.0
    words: float = 0.0
    reward: float = 0.0


def quantiles(values: Sequence[int]) -> list[float]:
    """Return the quantiles of some lengths, evenly spaced from the shortest to the longest."""
    return [round(float(value), 1) for value in np.quantile(values, np.linspace(0, 1, QUANTILES))]


def read_lengths(measured: Mapping[str, Any]) -> Lengths:
    """Return what a file of results says of a task."""
    known = {key: value for key, value in measured.items() if key in Lengths.__dataclass_fields__}
    return Lengths(**{**known, "prompt": tuple(known["prompt"]), "response": tuple(known["response"])})


def longest(of: Sequence[float], count: float) -> float:
    """Return how long the longest of `count` texts is on average: what a batch of them is padded to.

    The longest of n lies at the quantile u^(1/n), where u is uniform.
    """
    places = (np.arange(400) + 0.5) / 400
    return float(np.interp(places ** (1 / count), np.linspace(0, 1, len(of)), of).mean())


def mean(of: Sequence[float]) -> float:
    """Return the mean length."""
    return longest(of, 1)


def drawn(task: Task, lengths: Lengths) -> tuple[float, ...]:
    """Return quantiles of what a policy writes: as long as the references are, within the task's limits."""
    rollout = task.rollout
    return tuple(float(np.clip(length, rollout.min_new_tokens, rollout.max_new_tokens)) for length in lengths.response)


def at_limits(task: Task, lengths: Lengths) -> Lengths:
    """Return lengths as if every prompt and every response reached its limit: an upper bound."""
    prompt, response = float(task.prompt.max_tokens), float(task.rollout.max_new_tokens)
    rest = {name: getattr(lengths, name) for name in Lengths.__slots__ if name not in ("prompt", "response")}
    return Lengths((prompt, prompt), (response, response), **rest)

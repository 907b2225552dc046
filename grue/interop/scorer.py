"""A reward as other trainers call it: thread-safe, and with texts cleaned like GRUE's own."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock

from grue.data.load import load_examples
from grue.errors import ConfigError, TrainingError, did_you_mean
from grue.evaluation.rewards import (
    Reward,
    RewardFunction,
    Term,
    Value,
    give_name,
    make_reward,
    mean,
    metric_reward,
    parse_reward,
)
from grue.interop.lookup import Lookup
from grue.metrics.card import CARDS
from grue.records import Example, legible
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class Rewards:
    """The rewards of B texts.

    Attributes:
        sums: [B], None if no term applies.
        terms: "reward/NAME" → [B] values, not weighted, None if the term does not apply.
    """

    sums: list[float | None]
    terms: Mapping[str, Sequence[float | None]]

    def means(self) -> dict[str, float]:
        """Return the mean of each term over the texts that it applies to, without terms that apply to none."""
        means = {name: mean(values) for name, values in self.terms.items()}
        return {name: value for name, value in means.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Scorer:
    """A reward and its examples.

    Attributes:
        name: Its name in a trainer's log: the expression without blanks, or the function's name.
        terms: The names of the terms in the log.
        made_by: The call that made it, by which it is pickled.
    """

    reward: Reward
    name: str
    terms: tuple[str, ...]
    lookup: Lookup
    made_by: Callable[[], "Scorer"]
    _locks: dict[int, Lock] = field(default_factory=dict, init=False)  # verl and OpenRLHF call from pools of threads

    def __reduce__(self) -> tuple[Callable[[], "Scorer"], tuple[()]]:
        """Be made again where it is unpickled."""
        return self.made_by, ()

    def rewards(
        self,
        examples: Sequence[Example],
        texts: Sequence[str],
        token_ids: Sequence[Sequence[int]] | None = None,
        step: int | None = None,
    ) -> Rewards:
        """Return the rewards of texts, after removing invisible characters and surrounding white space, as GRUE does.

        Raises:
            TrainingError: A term gave no usable number, or numbers for single tokens, which are not supported.
            ConfigError: A term needs an unknown input.
        """
        with self._locks.setdefault(os.getpid(), Lock()):  # that of a process which forks may be held for ever
            cleaned = [legible(text).strip() for text in texts]
            parts = self.reward.parts(examples, cleaned, token_ids=token_ids, step=step)
        whole = {
            f"reward/{name}": [_whole(name, *pair) for pair in zip(examples, values, strict=True)]
            for name, values in zip(self.terms, parts, strict=True)
        }
        return Rewards(self.reward.sums(parts), whole)

    def number(self, example: Example, text: str, trainer: str) -> tuple[float, dict[str, float]]:
        """Return the reward of one text, for a trainer that needs a number, and its terms; NaN for None.

        It is a TrainingError as for `rewards`, or if no term applies.
        """
        (value,), terms = self.numbers([example], [text], trainer)
        return value, {name: term for name, (term,) in terms.items()}

    def numbers(
        self, examples: Sequence[Example], texts: Sequence[str], trainer: str
    ) -> tuple[list[float], dict[str, list[float]]]:
        """Return the rewards of B texts, [B], for a trainer that needs numbers, and each term, [B].

        The reward is called once for all of them. A term that does not apply is NaN; a text to which none does is a
        TrainingError.
        """
        rewards = self.rewards(examples, texts)
        values = [math.nan if value is None else value for value in rewards.sums]
        for example, value in zip(examples, rewards.sums, strict=True):
            if value is None:
                raise TrainingError(
                    f"The reward {self.name!r} does not apply to the example {example.id!r}, but {trainer} wants a "
                    "number for every response; add a term that applies to all."
                )
        terms = {name: [math.nan if value is None else value for value in term] for name, term in rewards.terms.items()}
        return values, terms


def make_scorer(
    reward: str | RewardFunction | None,
    task: Task,
    splits: Sequence[str],
    data_dir: Path | None = None,
    offline: bool = False,
) -> Scorer:
    """Return the reward of a task for the examples of some splits; None is the task's own.

    Metrics are prepared on the split that `grue train` takes prompts from, or without it on the first of `splits`.
    """
    made_by = partial(make_scorer, reward, task, splits, data_dir, offline)
    chosen = task.reward if reward is None else reward
    prepared_on = task.data.reward_split if task.data.reward_split in task.data.splits else splits[0]
    examples = load_examples(task, prepared_on, data_dir, offline).examples
    found = [load_examples(task, split, data_dir, offline).examples for split in splits]
    lookup = Lookup(f"{task.suite}/{task.name}", splits, found)
    if isinstance(chosen, str):
        made_reward = make_reward(chosen, task, examples)
        terms = tuple(term.name for term in made_reward.terms)
        return Scorer(made_reward, "".join(chosen.split()), terms, lookup, made_by)
    name = getattr(chosen, "__name__", type(chosen).__name__)
    return Scorer(make_reward(give_name(chosen), task, examples), name, (name,), lookup, made_by)


def make_scorer_of_references(reward: str | RewardFunction | None) -> Scorer:
    """Return a reward, of metrics that need nothing else, for examples of no task, which have references alone."""
    if not isinstance(reward, str):
        raise ConfigError("Without a task, name metrics as the reward, such as 'meteor'; or name the task with task=….")
    terms = parse_reward(reward)
    for _, name in terms:
        if name not in OF_REFERENCES:
            raise ConfigError(
                f"The reward {name!r} is no metric that needs references alone; name the task that has what it needs "
                f"with task=….{did_you_mean(name, OF_REFERENCES)} Without a task: {', '.join(OF_REFERENCES)}."
            )
    made = Reward(tuple(Term(weight, name, metric_reward(name, {}, [])) for weight, name in terms))
    made_by = partial(make_scorer_of_references, reward)
    return Scorer(made, "".join(reward.split()), tuple(name for _, name in terms), Lookup("", (), ()), made_by)


OF_REFERENCES = [
    name
    for name, card in CARDS.items()
    if card.needs == "references" and card.family in ("overlap", "captions") and name != "cider"
]
"""Metrics of a text and its references alone, without a model; CIDEr weighs n-grams by a training split."""


def _whole(name: str, example: Example, value: Value) -> float | None:
    """Return a term's value of a whole text."""
    if isinstance(value, list):
        raise TrainingError(
            f"The reward {name!r} gave a number for each token of the response to the example {example.id!r}; here a "
            "response has one reward: return their sum."
        )
    return value

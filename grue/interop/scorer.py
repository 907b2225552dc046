"""A reward as other trainers call it: from their threads, for texts that are cleaned as grue's own are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from grue.data.load import load_examples
from grue.errors import TrainingError
from grue.evaluation.rewards import Reward, RewardFunction, Value, give_name, make_reward, mean
from grue.interop.lookup import Lookup
from grue.records import Example, legible
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class Rewards:
    """What B texts are worth.

    Attributes:
        sums: [B], None where no term applies.
        terms: "reward/NAME" → [B] values, not weighted, None where the term does not apply.
    """

    sums: list[float | None]
    terms: Mapping[str, Sequence[float | None]]

    def means(self) -> dict[str, float]:
        """Return the mean of each term over the texts that it applies to; without the terms that apply to none."""
        found = {name: mean(values) for name, values in self.terms.items()}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Scorer:
    """A reward and the examples that it is asked about.

    Attributes:
        name: What a trainer's log calls it: the expression without blanks, or the function's name.
        terms: What it calls the terms.
    """

    reward: Reward
    name: str
    terms: tuple[str, ...]
    lookup: Lookup
    _one_at_a_time: Lock = field(default_factory=Lock, init=False)  # verl and OpenRLHF call from pools of threads

    def rewards(
        self,
        examples: Sequence[Example],
        texts: Sequence[str],
        token_ids: Sequence[Sequence[int]] | None = None,
        step: int | None = None,
    ) -> Rewards:
        """Return what texts are worth, without what grue itself leaves out: unseen characters, surrounding white space.

        Raises:
            TrainingError: A term gave no usable number, or numbers for single tokens, which has no place here.
            ConfigError: A term asks for what is not known.
        """
        with self._one_at_a_time:
            cleaned = [legible(text).strip() for text in texts]
            parts = self.reward.parts(examples, cleaned, token_ids=token_ids, step=step)
        whole = {
            f"reward/{name}": [_whole(name, *pair) for pair in zip(examples, values, strict=True)]
            for name, values in zip(self.terms, parts, strict=True)
        }
        return Rewards(self.reward.sums(parts), whole)

    def number(self, example: Example, text: str, trainer: str) -> tuple[float, dict[str, float]]:
        """Return what one text is worth, for a trainer that wants a number for each, and its terms; NaN for None.

        Raises:
            TrainingError: As `rewards`, or no term applies.
        """
        (value,), terms = self.numbers([example], [text], trainer)
        return value, {name: one for name, (one,) in terms.items()}

    def numbers(
        self, examples: Sequence[Example], texts: Sequence[str], trainer: str
    ) -> tuple[list[float], dict[str, list[float]]]:
        """Return what B texts are worth, [B], for a trainer that wants a number for each, and each term, [B].

        The reward is asked about all of them at once. Where a term does not apply, it is NaN.

        Raises:
            TrainingError: As `rewards`, or no term applies to a text.
        """
        found = self.rewards(examples, texts)
        values = [self._known(*pair, trainer) for pair in zip(examples, found.sums, strict=True)]
        terms = {name: [math.nan if one is None else one for one in term] for name, term in found.terms.items()}
        return values, terms

    def _known(self, example: Example, value: float | None, trainer: str) -> float:
        if value is None:
            raise TrainingError(
                f"The reward {self.name!r} does not apply to the example {example.id!r}, but {trainer} wants a number "
                "for every response; add a term that applies to all."
            )
        return value


def make_scorer(
    reward: str | RewardFunction | None,
    task: Task,
    splits: Sequence[str],
    data_dir: Path | None = None,
    offline: bool = False,
) -> Scorer:
    """Return the reward of a task for the examples of some splits; None is the task's own.

    Metrics are prepared on the training split, as in `grue train`, or on the first of `splits` where there is none.

    Raises:
        UnknownName, ConfigError, DataError: As `make_reward` and `load_examples`.
    """
    given = task.reward if reward is None else reward
    prepared_on = "train" if "train" in task.data.splits else splits[0]
    examples = load_examples(task, prepared_on, data_dir, offline).examples
    lookup = Lookup(task, splits, data_dir, offline)
    if isinstance(given, str):
        made = make_reward(given, task, examples)
        return Scorer(made, "".join(given.split()), tuple(term.name for term in made.terms), lookup)
    name = getattr(given, "__name__", type(given).__name__)
    return Scorer(make_reward(give_name(given), task, examples), name, (name,), lookup)


def _whole(name: str, example: Example, value: Value) -> float | None:
    """Return a term's value of a whole text."""
    if isinstance(value, list):
        raise TrainingError(
            f"The reward {name!r} gave a number for each token of the response to the example {example.id!r}; here a "
            "response has one reward: return their sum."
        )
    return value

"""Synthetic annotators, which say which of two texts is better by a reward, and err at a stated rate."""

import math
from dataclasses import dataclass
from typing import Literal

from grue.errors import ConfigError

Kind = Literal["none", "flip", "bradley-terry"]
WRITTEN = "none, flip:P with P from 0 to 0.5, or bradley-terry:T with a temperature T above 0"


@dataclass(frozen=True, slots=True)
class SyntheticAnnotator:
    """A synthetic annotator.

    Attributes:
        kind: "none" never errs; "flip" errs with probability `value`, whatever the difference; "bradley-terry" prefers
            a text with probability σ(difference of the rewards / `value`): nearly equal texts are a coin toss.
    """

    kind: Kind
    value: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.value:g}"

    def prefers_first(self, first: float, second: float) -> float:
        """Return the probability that the first of two texts is preferred, by their rewards, which differ."""
        if self.kind == "bradley-terry":
            return 0.5 * (1.0 + math.tanh(0.5 * (first - second) / self.value))
        return 1.0 - self.value if first > second else self.value


def parse_noise(text: str) -> SyntheticAnnotator:
    """Return the annotator that `--noise` names.

    Raises:
        ConfigError: It is invalid.
    """
    kind, colon, value = text.partition(":")
    if text == "none":
        return SyntheticAnnotator("none")
    try:
        number = float(value) if colon else math.nan
    except ValueError:
        number = math.nan
    if kind == "flip" and 0 <= number <= 0.5:
        return SyntheticAnnotator("flip", number)
    if kind == "bradley-terry" and 0 < number < math.inf:
        return SyntheticAnnotator("bradley-terry", number)
    raise ConfigError(f"noise {text!r}: write {WRITTEN}.")

"""The card of a metric in `cards.toml`: definition, range, source, needs. Lists and the metrics' page print it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files
from grue.records import Direction

Family = Literal["overlap", "captions", "tables", "models", "diversity", "rl4lms"]
FAMILIES: dict[Family, str] = {
    "overlap": "Words and n-grams shared with references",
    "captions": "Descriptions of scenes",
    "tables": "Descriptions of tables",
    "models": "Metrics that use a model",
    "diversity": "How varied the texts are, regardless of references",
    "rl4lms": "What RL4LMs actually computed, to compare with published numbers; never a default",
}
"""Family → the heading its metrics are listed under."""


EVALUATE = "evaluate:"
"""Prefix of a metric of the library evaluate: `evaluate:exact_match`."""

MODEL = "model:"
"""Prefix of a reward model; its folder follows."""


@dataclass(frozen=True, slots=True)
class Card:
    """A metric and its description.

    Attributes:
        module: The module of this folder whose `METRICS` has its factory.
        family: The heading it is listed under.
        range: Lowest and highest value.
        definition: What it computes, in one or two sentences.
        source: Where it was defined, and the implementation that ours reproduces.
        needs: What an example must have besides a prompt, or what must be installed; empty if nothing.
        direction: Whether higher or lower values are better.
        single: Whether one text has a value; a metric of all texts together is neither scored nor a reward.
    """

    module: str
    family: Family
    range: tuple[float, float]
    definition: str
    source: str
    needs: str = "references"
    direction: Direction = "higher"
    single: bool = True

    @property
    def terms(self) -> list[str]:
        """The items of `needs`: references, meta.table, a program."""
        return re.split(r"[,;]\s*", self.needs)

    @property
    def arrow(self) -> str:
        """↑ where higher is better, else ↓."""
        return "↑" if self.direction == "higher" else "↓"

    @property
    def bounds(self) -> str:
        """The range, for people: 0–1, 1–∞."""
        low, high = (f"{end:g}".replace("inf", "∞").replace("-", "−") for end in self.range)
        return f"{low}–{high}"


CARDS = {
    name: Card(**{**card, "range": tuple(card["range"])})
    for name, card in files.read_toml(Path(__file__).with_name("cards.toml")).items()
}
"""Built-in metric → its card, in the order of lists."""

"""Notes on the fields of settings and records: `gamma: Annotated[float, UNIT, Paper("0.99")] = 0.99`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

T = TypeVar("T")

LARGEST = 2**31 - 1
"""Largest whole number, since libraries use 32 bits."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The allowed values of a number.

    Attributes:
        above: Exclusive lower bound.
        least: Inclusive lower bound.
        most: Inclusive upper bound.
        below: Exclusive upper bound.
    """

    above: float | None = None
    least: float | None = None
    most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        """Whether a number lies within."""
        return not (
            (self.above is not None and value <= self.above)
            or (self.least is not None and value < self.least)
            or (self.most is not None and value > self.most)
            or (self.below is not None and value >= self.below)
        )

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return pydantic's schema of a number, or of one that may be missing, within the bounds."""
        schema = handler(source)
        number = schema["schema"] if schema["type"] == "nullable" else schema
        kind = int if number["type"] == "int" else float
        limits = {"gt": self.above, "ge": self.least, "le": self.most, "lt": self.below}
        if kind is int and self.most is None:
            limits["le"] = LARGEST
        number |= {key: kind(limit) for key, limit in limits.items() if limit is not None}
        return schema

    def __str__(self) -> str:
        parts = {"above": self.above, "at least": self.least, "at most": self.most, "below": self.below}
        return " and ".join(f"{word} {bound:g}" for word, bound in parts.items() if bound is not None)


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper's value of a setting (from its tables, or the defaults that it names), as text."""

    value: str


POSITIVE = Bounds(above=0.0)
NON_NEGATIVE = Bounds(least=0.0)
UNIT = Bounds(least=0.0, most=1.0)
SHARE = Bounds(above=0.0, most=1.0)
RATE = Bounds(least=0.0, below=1.0)
PERCENT = Bounds(least=0.0, most=100.0)
FIGURE = Bounds(least=-1e15, most=1e15)
"""A figure whose mean and standard deviation can be computed, and that fits into a table."""
COUNT = Bounds(least=1)
SEVERAL = Bounds(least=2)


def note_of(settings: type, kind: type[T]) -> Mapping[str, T]:
    """Return the notes of one kind by field; a field without one is left out."""
    hints = get_type_hints(settings, include_extras=True)
    matching = {name: [part for part in get_args(hint) if isinstance(part, kind)] for name, hint in hints.items()}
    return {name: notes[0] for name, notes in matching.items() if notes}


@cache
def bounds_of(settings: type) -> Mapping[str, Bounds]:
    """Return the bounds of a settings class by field."""
    return note_of(settings, Bounds)

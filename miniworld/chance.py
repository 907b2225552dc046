"""Random choices that are the same on every Python version.

Only `random.Random.random` keeps its sequence between versions, so every choice is arithmetic on it.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Choices drawn from one seed."""

    __slots__ = ("random",)

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.random() < probability

    def pick(self, things: Sequence[T]) -> T:
        """Return one of the things, each as likely as the others."""
        return things[int(self.random() * len(things))]

    def favour(self, things: Sequence[T]) -> T:
        """Return one of the things, the first the likeliest, as words of a language are used unevenly."""
        point = self.random()
        return things[int(point * point * len(things))]  # a product, not a power: the same on every machine

    def weighted(self, things: Sequence[tuple[float, T]]) -> T:
        """Return one of the (weight, thing) pairs' things; the weights need not add up to one."""
        total = 0.0
        for weight, _ in things:
            total += weight
        point = self.random() * total
        for weight, thing in things:
            point -= weight
            if point < 0:
                return thing
        return things[-1][1]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        """Return the things in a random order."""
        mixed = list(things)
        for last in range(len(mixed) - 1, 0, -1):
            other = int(self.random() * (last + 1))
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """Return the things at `count` different positions, in a random order."""
        return self.shuffled(things)[:count]

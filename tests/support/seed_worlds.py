"""Worlds in which the true score of a system is known, to count how often an interval holds it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

TRUTHS = np.linspace(20, 60, 7)  # seven tasks whose scores lie apart
UNEQUAL = (0.3, 0.5, 0.8, 1.0, 1.0, 1.5, 2.0)  # as noisy as seeds make them, and not alike
ONE_NOISY = (0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 5.0)
SEEDS = {
    "3": (3,) * 7,
    "5": (5,) * 7,
    "10": (10,) * 7,
    "3 to 10, noisy tasks most": (3, 3, 4, 5, 5, 8, 10),
    "3 to 10, noisy tasks fewest": (10, 8, 5, 5, 4, 3, 3),
}

Generator = np.random.Generator
Shape = tuple[int, int]


@dataclass(frozen=True)
class World:
    """How a seed moves a score: `noise` has mean 0, and `spreads` scale it by task.

    `holds` bounds what share of the default 95 % intervals holds the truth, whatever the seeds.
    """

    noise: Callable[[Generator, Shape], np.ndarray]
    holds: tuple[float, float] = (0.93, 0.97)
    spreads: tuple[float, ...] = UNEQUAL

    def systems(self, generator: Generator, seeds: tuple[int, ...], count: int) -> Iterator[Mapping[str, list[float]]]:
        """Yield `count` systems that are equally good: task → its seeds' scores."""
        by_task = [
            (truth + spread * self.noise(generator, (count, n))).tolist()
            for truth, spread, n in zip(TRUTHS, self.spreads, seeds, strict=True)
        ]
        for scores in zip(*by_task, strict=True):
            yield {f"task {i}": values for i, values in enumerate(scores)}


def normal(generator: Generator, shape: Shape) -> np.ndarray:
    return generator.normal(size=shape)


def heavy_tails(generator: Generator, shape: Shape) -> np.ndarray:
    return generator.standard_t(5, size=shape)


def near_a_ceiling(generator: Generator, shape: Shape) -> np.ndarray:
    """Bounded, with most runs near the top and a tail below: Beta(4, 1), skewness -1.05, sd 1."""
    return (generator.beta(4, 1, size=shape) - 4 / 5) / np.sqrt(4 / 150)


def collapse(generator: Generator, shape: Shape) -> np.ndarray:
    """One run in ten ends ten spreads below the others."""
    return generator.normal(size=shape) - 10 * (generator.random(shape) < 0.1) + 1


WORLDS = {
    "normal": World(normal),
    "heavy tails": World(heavy_tails),
    "near a ceiling": World(near_a_ceiling),
    "one noisy task": World(normal, spreads=ONE_NOISY),
    "one run in ten collapses": World(collapse, holds=(0.82, 0.94)),
}

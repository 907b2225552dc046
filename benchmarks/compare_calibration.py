"""The error rate and the power of `grue compare` and of the ranks on the board, by simulation.

    python benchmarks/compare_calibration.py                 # everything
    python benchmarks/compare_calibration.py --only ranks    # the ranks: about two minutes on one core

Each simulated task has 200 examples that differ in difficulty (for both systems) and in which system they suit, seeds
with a common effect on all examples, and seeds with effects on single examples. Two naive tests are shown for
comparison: (seed, example) pairs pooled as if they were independent, and Welch's test of the seeds' scores, which
treats the examples as the whole population. A table is of systems that began from the same weights, seed by seed.

The last table is of boards on which all systems are equally good: how often is any system ranked above another? Ranks
take the examples as fixed, so that only seeds are drawn.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from grue.stats.paired import (
    Contrast,
    FloatArray,
    contrast,
    difference,
    draw,
    holm,
    judge_mean,
    judge_seeds,
)

EXAMPLES = 200
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class World:
    """Standard deviations, in points of the score.

    Attributes:
        seeds: Of a seed's score, all examples alike.
        examples: Of how much better an example suits A than B.
        both: Of a seed's value on a single example.
    """

    name: str
    seeds: float
    examples: float
    both: float


WORLDS = (
    World("seeds and examples", 1.0, 14.0, 10.0),
    World("mostly seeds", 1.0, 1.0, 1.0),
    World("mostly examples", 0.05, 20.0, 10.0),
    World("mostly sampling", 0.0, 0.0, 20.0),
)


def simulate(world: World, seeds: int, gap: float, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return [seeds, examples] values of A and B, of which A is better by `gap`."""
    hard = generator.normal(40, 20, EXAMPLES)
    suits = generator.normal(0, world.examples, EXAMPLES)

    def values(shift: FloatArray) -> FloatArray:
        of_seeds = generator.normal(0, world.seeds, (seeds, 1))
        return hard + shift + of_seeds + generator.normal(0, world.both, (seeds, EXAMPLES))

    return values(gap + suits / 2), values(-suits / 2)


def p_values(a: FloatArray, b: FloatArray, draws: int, generator: np.random.Generator) -> tuple[float, float, float]:
    """Return the p value of our test, of pooled pairs and of Welch's test of the seeds."""
    scores_a, scores_b = a.mean(axis=1), b.mean(axis=1)
    ours = difference(a, b, scores_a.tolist(), scores_b.tolist(), generator, draws).p
    pooled = stats.ttest_1samp((a - b).ravel(), 0.0).pvalue
    return ours, float(pooled), float(stats.ttest_ind(scores_a, scores_b, equal_var=False).pvalue)


def rejection_rates(
    world: World, seeds: int, gap: float, repetitions: int, draws: int, generator: np.random.Generator
) -> FloatArray:
    """Return [3] shares of repetitions in which each test finds a difference at the 5 % level."""
    found = np.zeros(3)
    for _ in range(repetitions):
        found += np.array(p_values(*simulate(world, seeds, gap, generator), draws, generator)) < ALPHA
    return found / repetitions


def rows(repetitions: int, draws: int, generator: np.random.Generator) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| what differs | seeds | true difference | `grue compare` | pooled pairs | Welch over seeds |"
    yield "|:--|--:|--:|--:|--:|--:|"
    cells = [(world, seeds, 0.0) for world in WORLDS for seeds in (3, 5, 10)]
    cells += [(WORLDS[0], seeds, gap) for gap in (2.0, 4.0, 6.0) for seeds in (3, 5, 10)]
    for world, seeds, gap in cells:
        rates = rejection_rates(world, seeds, gap, repetitions, draws, generator)
        shown = " | ".join(f"{100 * rate:.1f} %" for rate in rates)
        yield f"| {world.name} | {seeds} | {gap:g} | {shown} |"


def rows_of_means(repetitions: int, draws: int, generator: np.random.Generator) -> Iterator[str]:
    """Yield the lines of a Markdown table: how often the mean over seven tasks seems to differ where nothing does.

    A repetition is seven times the work, so that there are half as many.
    """
    yield "| what differs | seeds | `grue compare`, mean over 7 tasks |"
    yield "|:--|--:|--:|"

    def compared(world: World, seeds: int) -> Contrast:
        a, b = simulate(world, seeds, 0.0, generator)
        return contrast(a, b, a.mean(axis=1).tolist(), b.mean(axis=1).tolist())

    for world, seeds in ((world, seeds) for world in WORLDS[:2] for seeds in (3, 5)):
        found = 0
        for _ in range(repetitions // 2):
            tasks = [compared(world, seeds) for _ in range(7)]
            found += judge_mean(tasks, [draw(task, generator, draws) for task in tasks], generator).p < ALPHA
        yield f"| {world.name} | {seeds} | {100 * found / (repetitions // 2):.1f} % |"


def rows_of_pairs(repetitions: int, draws: int, generator: np.random.Generator) -> Iterator[str]:
    """Yield the lines of a Markdown table: seeds that began from the same weights, taken as pairs or not."""
    yield "| weights that pairs began from differ by | seeds | true difference | pairs | not paired |"
    yield "|:--|--:|--:|--:|--:|"
    world = WORLDS[0]
    for of_starts, seeds, gap in [(s, n, g) for s in (0.0, 3.0) for g in (0.0, 2.0) for n in (3, 5, 10)]:
        found = np.zeros(2)
        for _ in range(repetitions):
            starts = generator.normal(0, of_starts, (seeds, 1)) + generator.normal(0, 2 * of_starts, (seeds, EXAMPLES))
            a, b = (values + starts for values in simulate(world, seeds, gap, generator))
            of_a, of_b = a.mean(axis=1).tolist(), b.mean(axis=1).tolist()
            found += [difference(a, b, of_a, of_b, generator, draws, paired=p).p < ALPHA for p in (True, False)]
        shown = " | ".join(f"{100 * share:.1f} %" for share in found / repetitions)
        yield f"| {of_starts:g} | {seeds} | {gap:g} | {shown} |"


SPREADS = (0.3, 0.5, 0.8, 1.0, 1.0, 1.5, 2.0)  # of a task's seeds, in points


def anyone_above(scores: FloatArray, paired: bool) -> bool:
    """Whether the ranks of a table differ.

    Args:
        scores: [systems, tasks, seeds].
        paired: Whether seed k of all systems began from the same weights.
    """
    by_system = [[tuple(of_task) for of_task in system] for system in scores.tolist()]
    found = [
        judge_seeds([Contrast(a, b, paired=paired) for a, b in zip(one, other, strict=True)]).p
        for one, other in combinations(by_system, 2)
    ]
    return min(holm(found)) < ALPHA


def rows_of_ranks(repetitions: int, draws: int, generator: np.random.Generator) -> Iterator[str]:
    """Yield the lines of a Markdown table: how often equally good systems get different ranks."""
    del draws  # the p values of ranks are exact
    yield "| systems | tasks | seeds | Welch | pairs |"
    yield "|--:|--:|--:|--:|--:|"
    for systems, tasks, seeds in [(s, t, n) for n in (5, 10) for s in (3, 10) for t in (1, 7)]:
        spreads = np.array(SPREADS if tasks == 7 else (1.0,))[:, None]
        found = np.zeros(2)
        for _ in range(repetitions):
            own = spreads * generator.normal(size=(systems, tasks, seeds))
            starts = 3 * spreads * generator.normal(size=(tasks, seeds))
            found += [anyone_above(own, paired=False), anyone_above(own + starts, paired=True)]
        shown = " | ".join(f"{100 * share:.1f} %" for share in found / repetitions)
        yield f"| {systems} | {tasks} | {seeds} | {shown} |"


TABLES = {"examples": (rows, rows_of_means, rows_of_pairs), "ranks": (rows_of_ranks,)}


def main() -> None:
    """Print the tables of docs/background/statistics.md on `grue compare` and on ranks."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=tuple(TABLES))
    chosen = parser.parse_args()
    for table in (table for name, tables in TABLES.items() if chosen.only in (None, name) for table in tables):
        for line in table(chosen.repetitions, chosen.draws, np.random.default_rng(chosen.seed)):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()

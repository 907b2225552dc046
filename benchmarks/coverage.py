"""Count how often the intervals hold a known truth: docs/background/statistics.md shows its tables.

The worlds are those of tests/support/seed_worlds.py: seven tasks, unequally noisy unless a world says otherwise. It
takes about five minutes on one core and is deterministic.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from grue.stats.intervals import Interval, satterthwaite_interval
from grue.stats.robust import iqm

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.seed_worlds import SEEDS, TRUTHS, WORLDS

T_INTERVALS = 20_000  # a share near 95 % is then known to ± 0.3 points (two standard errors)
BOOTSTRAPS = 4_000  # ± 1.1 points near 85 %
TRUTH = float(TRUTHS.mean())

Scores = Mapping[str, list[float]]


def systems(world: str, seeds: str, count: int, stream: int = 0) -> Iterator[Scores]:
    """Yield systems of a world; another stream draws others."""
    return WORLDS[world].systems(np.random.default_rng([1, stream]), SEEDS[seeds], count)


def share_that_holds(intervals: Iterable[Interval | None], truth: float) -> float:
    return float(np.mean([interval is not None and interval.low <= truth <= interval.high for interval in intervals]))


def bootstrap_interval(scores: Scores, generator: np.random.Generator, draws: int = 2000) -> Interval:
    """Return the 95 % percentile interval of the mean over tasks by the stratified bootstrap over seeds.

    Agarwal et al., "Deep reinforcement learning at the edge of the statistical precipice" (2021), section 4.1.
    """
    resampled = [generator.choice(scores[task], (draws, len(scores[task]))).mean(1) for task in sorted(scores)]
    low, high = np.quantile(np.mean(resampled, axis=0), [0.025, 0.975])
    return Interval(float(low), float(high))


def headline_coverage() -> None:
    """Print the share of 95 % intervals of the mean over tasks that hold the true mean: t, then the bootstrap."""
    print("| seeds a task | " + " | ".join(WORLDS) + " |")
    print("|---" * (len(WORLDS) + 1) + "|")
    for seeds in SEEDS:
        cells = []
        for world in WORLDS:
            t = map(satterthwaite_interval, systems(world, seeds, T_INTERVALS))
            generator = np.random.default_rng(2)
            bootstrap = (bootstrap_interval(scores, generator) for scores in systems(world, seeds, BOOTSTRAPS))
            cells.append(f"**{share_that_holds(t, TRUTH):.1%}** {share_that_holds(bootstrap, TRUTH):.1%}")
        print(f"| {seeds} | " + " | ".join(cells) + " |", flush=True)


def iqm_weights() -> None:
    """Print how far the interquartile mean of seven tasks that lie apart moves when one of them moves by 1."""
    scores = {f"task {i}": [10.0 * i + seed for seed in range(5)] for i in range(7)}
    moved = [scores | {task: [value + 1 for value in values]} for task, values in scores.items()]
    weights = [iqm(other) - iqm(scores) for other in moved]
    print("worst to best task: " + ", ".join(f"{abs(weight):.3f}" for weight in weights))


TABLES: dict[str, Callable[[], None]] = {
    "95 % intervals of the mean over tasks that hold the true mean: **Student's t**, bootstrap": headline_coverage,
    "Weight of each of seven tasks in the interquartile mean; in the mean each has 0.143": iqm_weights,
}

if __name__ == "__main__":
    for title, table in TABLES.items():
        print(f"\n{title}\n")
        table()

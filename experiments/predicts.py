"""Whether one board predicts another: `python experiments/predicts.py [--axis naturalness]`, mini beside small.

For every task and every pair of trained systems that both boards have: the difference in points on each, with its 95 %
interval over seeds, and whether the signs agree. Intervals are of single pairs, not corrected for their number. A
system that begins from another backbone than the task's counts as the one of its name without that backbone's.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from grue.leaderboard.board import Board, Row
from grue.leaderboard.lineage import are_pairs, starts_on
from grue.leaderboard.places import contrast
from grue.leaderboard.published import read_board
from grue.records import Axis, with_backbone
from grue.stats.paired import MeanDifference, judge_seeds

BOARDS = Path(__file__).parent.parent / "leaderboard"


def main() -> None:
    """Print the pairs of every task that both boards have."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--boards", type=Path, nargs=2, default=[BOARDS / "mini.json", BOARDS / "small.json"])
    parser.add_argument("--axis", choices=["preference", "naturalness"], default="preference")
    asked = parser.parse_args()
    first, second = map(read_board, asked.boards)
    print(*compared(first, second, asked.axis, [path.stem for path in asked.boards]), sep="\n")


def compared(first: Board, second: Board, axis: Axis, names: Sequence[str]) -> Iterator[str]:
    """Yield a table of the pairs of each task, and how many of them have one sign."""
    for task in [task.name for task in first.tasks]:
        one, other = systems(first, task, axis), systems(second, task, axis)
        pairs = list(combinations([name for name in one if name in other], 2))
        if not pairs:
            continue
        yield f"| {task}: {axis} | {' | '.join(names)} | |"
        yield "|---|---|---|---|"
        verdicts = []
        for b, a in pairs:
            found = difference(first, one[a], one[b], task, axis), difference(second, other[a], other[b], task, axis)
            verdicts.append(verdict(*found))
            yield f"| {a} − {b} | {' | '.join(map(shown, found))} | {verdicts[-1]} |"
        yield f"\n{task}: {'; '.join(f'{verdicts.count(kind)} × {kind}' for kind in dict.fromkeys(verdicts))}.\n"


def systems(board: Board, task: str, axis: Axis) -> dict[str, Row]:
    """Return method → row of the trained systems that have results on a task, the lowest first."""
    rows = [row for row in board.rows if row.standing in ("ranked", "partial") and task in row.cells]
    scored = [(estimate.mean, row) for row in rows if (estimate := getattr(row.cells[task], axis)) is not None]
    return {_method(row): row for _, row in sorted(scored, key=lambda pair: pair[0])}


def _method(row: Row) -> str:
    return row.system.removesuffix(with_backbone("", row.about.backbone))


def difference(board: Board, a: Row, b: Row, task: str, axis: Axis) -> MeanDifference:
    """Return how far `a` is above `b`; seeds that began from the same weights are pairs."""
    cells = a.cells[task], b.cells[task]
    first, second = (getattr(cell, axis).by_seed for cell in cells)
    return judge_seeds([contrast(first, second, are_pairs(*cells, starts_on(board.rows).get(task, {})))])


def verdict(one: MeanDifference, other: MeanDifference) -> str:
    """Say whether two differences have one sign, and on how many boards it is clear."""
    clear = sum(each.interval.low > 0 or each.interval.high < 0 for each in (one, other))
    sign = "same sign" if math.copysign(1, one.value) == math.copysign(1, other.value) else "other sign"
    return f"{sign}, {('clear on neither', 'clear on one', 'clear on both')[clear]}"


def shown(found: MeanDifference) -> str:
    return f"{found.value:+.1f} [{found.interval.low:.1f}, {found.interval.high:.1f}]"


if __name__ == "__main__":
    main()

"""The weights that systems began from, which make the seeds of two systems pairs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from grue.leaderboard.board import Cell, Row
from grue.records import Result

DIGITS = 16  # of a hash, on a board


def line(result: Result) -> tuple[str, ...]:
    """Return the hashes that a result records: the weights of its system, then those that training began from.

    Empty if the first are missing: the start's weights would then be mistaken for them.
    """
    weights, start = (result.system.get(key) for key in ("weights", "start"))
    if not (isinstance(weights, str) and weights):
        return ()
    return (weights, start) if isinstance(start, str) and start else (weights,)


def share_starts(a: Mapping[int, Set[str]], b: Mapping[int, Set[str]]) -> bool:
    """Whether seed k of one system and seed k of the other began from the same weights, different ones for each k.

    One may itself be the start of the other. Results that do not state their start are not paired.

    Args:
        a: Seed → the weights of the system, and those that it began from. Likewise `b`.
    """
    if a.keys() != b.keys() or len(a) < 2:
        return False
    shared = [a[seed] & b[seed] for seed in a]
    return all(shared) and not any(weights & other for weights, other in combinations(shared, 2))


Starts = Mapping[str, Mapping[int, Set[str]]]
"""Task → seed → the weights of the systems on a board whose scores were computed from predictions."""


def starts_on(rows: Iterable[Row]) -> Starts:
    """Return the weights that the runs of a board made, the only starts that make pairs."""
    starts: dict[str, dict[int, set[str]]] = {}
    for row in rows:
        if row.status != "reported":
            for task, cell in row.cells.items():
                for seed, (weights, *_) in cell.lineage.items():
                    starts.setdefault(task, {}).setdefault(seed, set()).add(weights)
    return starts


def are_pairs(a: Cell, b: Cell, starts: Mapping[int, Set[str]]) -> bool:
    """Whether the seeds of two cells of a task are pairs, by starts that a run of the board made with that seed.

    Args:
        starts: Seed → weights, of that task.
    """
    return share_starts(_known(a, starts), _known(b, starts))


def pairs_of(cells: Sequence[Cell], starts: Mapping[int, Set[str]]) -> NDArray[np.bool_]:
    """Return [cells, cells], whether the seeds of every two cells of a task are pairs (`are_pairs`).

    Only weights that two cells share can make pairs. Without the others, few distinct lineages are left to compare,
    since the systems of a board have few starts.
    """
    made_by_seed = [_known(cell, starts) for cell in cells]
    owners = Counter(
        (seed, weights) for by_seed in made_by_seed for seed, shared in by_seed.items() for weights in shared
    )
    lineage_of = [
        tuple((seed, frozenset(w for w in by_seed[seed] if owners[seed, w] > 1)) for seed in sorted(by_seed))
        for by_seed in made_by_seed
    ]
    lineages = list(dict.fromkeys(lineage_of))
    alike = np.array([[share_starts(dict(a), dict(b)) for b in lineages] for a in lineages], dtype=np.bool_)
    number = {lineage: i for i, lineage in enumerate(lineages)}
    places = np.array([number[lineage] for lineage in lineage_of], dtype=np.intp)
    return alike[np.ix_(places, places)] if len(cells) else np.zeros((0, 0), dtype=np.bool_)


def _known(cell: Cell, starts: Mapping[int, Set[str]]) -> dict[int, Set[str]]:
    return {seed: starts.get(seed, set()) & set(cell.lineage.get(seed, ())) for seed in cell.seeds}

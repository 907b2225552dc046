"""The weights that systems began from, which make the seeds of two systems pairs."""

from collections.abc import Iterable, Mapping, Set
from itertools import combinations

from grue.leaderboard.board import Cell, Row
from grue.records import Result

DIGITS = 16  # of a hash, on a board


def line(result: Result) -> tuple[str, ...]:
    """Return the hashes that a result records: the weights of its system, then those that training began from.

    Empty if the first are missing: the start's weights would then be mistaken for them.
    """
    weights, start = (result.system.get(key) for key in ("weights", "start"))
    return tuple(filter(None, (weights, start))) if weights else ()


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


def _known(cell: Cell, starts: Mapping[int, Set[str]]) -> dict[int, Set[str]]:
    return {seed: starts.get(seed, set()) & set(cell.lineage.get(seed, ())) for seed in cell.seeds}

"""How a system's results were made: the cost of training, the kept update, the decoding, the code.

Results of submissions are untrusted: an impossible figure, see `grue.submissions.checks.claims.amount`,
counts as not stated.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grue.evaluation.prompting import is_by_endpoint
from grue.leaderboard.board import Cell, Row
from grue.records import COSTS, Cost, Entry, Result
from grue.submissions.checks.claims import MOST, amounts, costs_of, last_of

COMMIT = re.compile(r"[0-9a-f]{7,64}")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,30}")
ALGORITHM = re.compile(r"[\w+.-]{1,80}", re.ASCII)
MACHINE = re.compile(r"[\w .,:()@/+-]{1,120}", re.ASCII)


def training_of(results: Iterable[Result]) -> dict[Cost, dict[int, float]]:
    """Return the cost of training until the kept update: cost → seed → value, without costs that no result states."""
    return _by_seed((result.seed, costs_of(result)[0]) for result in results)


def whole_of(results: Iterable[Result]) -> dict[Cost, dict[int, float]]:
    """Return the same for the whole run, with the updates after the kept one."""
    return _by_seed((result.seed, costs_of(result)[1]) for result in results)


def _by_seed(costs_by_seed: Iterable[tuple[int, Mapping[Cost, Any]]]) -> dict[Cost, dict[int, float]]:
    spent: dict[Cost, dict[int, float]] = {}
    for seed, costs in costs_by_seed:
        for cost, value in amounts(costs).items():
            spent.setdefault(cost, {})[seed] = value
    return {cost: spent[cost] for cost in COSTS if cost in spent}


def reward_calls(rows: Sequence[Row], task: str) -> dict[int, dict[int, float]]:
    """Return place of a row → seed → the texts rewarded on a task until the kept update, as far as it is known.

    A result's own statement counts. Results of older versions state only episodes, with those of the start. These
    are subtracted if a run of the board made the start and states them; for a start from other weights the number is
    unknown.
    """
    cells = {i: cell for i, row in enumerate(rows) if (cell := row.cells.get(task)) is not None}
    episodes_of_start = {
        (seed, line[0]): cell.training.get("episodes", {}).get(seed)
        for cell in cells.values()
        for seed, line in cell.lineage.items()
        if len(line) == 1 or not cell.rewards
    }
    calls: dict[int, dict[int, float]] = {}
    for i, cell in cells.items():
        for seed, episodes in cell.training.get("episodes", {}).items():
            start = cell.lineage.get(seed, ())[1:]
            before = episodes_of_start.get((seed, start[0])) if start else 0.0
            if not cell.rewards:
                calls.setdefault(i, {})[seed] = 0.0
            elif before is not None and before <= episodes:
                calls.setdefault(i, {})[seed] = episodes - before
        if stated := cell.training.get("reward_calls"):
            calls[i] = {**calls.get(i, {}), **stated}
    return calls


def whole_calls(cell: Cell, until_kept: Mapping[int, float]) -> dict[int, float]:
    """Return seed → the texts rewarded in the whole run, as far as it is known, to compare runs by.

    Results of older versions state it only until the kept update. Their updates are equal for all seeds of a
    task, so the last update gives the total.

    Args:
        until_kept: Of the cell, by `reward_calls`.
    """
    calls = dict(cell.whole.get("reward_calls", {}))
    rates = {until_kept[seed] / update for seed, update in cell.updates.items() if update and seed in until_kept}
    if len(rates) == 1:
        (rate,) = rates
        calls = {seed: rate * update for seed, update in cell.last_updates.items() if seed in until_kept} | calls
    return calls


def kept_updates(results: Iterable[Result]) -> dict[int, int]:
    """Return seed → the update that was kept, for the results that state one."""
    return _updates((result.seed, result.system) for result in results)


def last_updates(results: Iterable[Result]) -> dict[int, int]:
    """Return seed → the last update of the run, for the results that state one."""
    return _updates((result.seed, last_of(result)) for result in results)


def _updates(stated: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[int, int]:
    return {seed: update for seed, part in stated if (update := _count(part.get("update"))) is not None}


def parameters_of(results: Iterable[Result]) -> int | None:
    """Return the highest number of parameters that the results state."""
    return max((n for result in results if (n := _count(result.system.get("parameters")))), default=None)


def code_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the versions of grue that made the results, as "0.1.0 (09d6de5)", sorted; + marks uncommitted changes."""
    return tuple(sorted({text for result in results if (text := _code(result.grue))}))


def algorithms_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the algorithms that the results state, sorted."""
    stated = (result.system.get("algorithm") for result in results)
    return tuple(sorted({text for text in stated if isinstance(text, str) and ALGORITHM.fullmatch(text)}))


def backbones_of(entries: Iterable[Entry], own: str) -> tuple[str, ...]:
    """Return the models that results were trained from, sorted, without `own`, the task's.

    Outputs that are published elsewhere, or answers of a server, do not name models in a comparable way.
    """
    results = [entry.result for entry in entries if entry.status != "recomputed" and not is_by_endpoint(entry.result)]
    models = {model for result in results if isinstance(model := result.system.get("backbone"), str)}
    return tuple(sorted(models - {"", "none", own}))


def machines_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the kinds of machines that trained the systems and wrote their answers, as far as results state them."""
    stated = (source.get("machine") for result in results for source in (result.system, result.determinism))
    return tuple(sorted({text for text in stated if isinstance(text, str) and MACHINE.fullmatch(text)}))


def _code(made_by: Mapping[str, Any]) -> str:
    version, commit = str(made_by.get("version", "")), str(made_by.get("commit", ""))
    if not VERSION.fullmatch(version):
        return ""
    changed = "+" if made_by.get("dirty") is True else ""
    return f"{version} ({commit[:7]}{changed})" if COMMIT.fullmatch(commit) else version


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None

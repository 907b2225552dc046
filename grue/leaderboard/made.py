"""How a system's results were made: what training took, which update was kept, how texts are drawn, by which code.

Results of submissions are what strangers write: a figure that is no finite number from 0 on counts as not stated.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grue.leaderboard.board import COSTS, Cost, Row
from grue.records import Result
from grue.tasks import Generation

COMMIT = re.compile(r"[0-9a-f]{7,64}")
VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,30}")
MOST = 2**53  # beyond, not every whole number is a number of JSON


def training_of(results: Iterable[Result]) -> dict[Cost, dict[int, float]]:
    """Return what training took: cost → seed → value, without the costs that no result states."""
    spent: dict[Cost, dict[int, float]] = {}
    for result in results:
        stated = result.system.get("training")
        for cost in COSTS:
            value = _amount(stated.get(cost)) if isinstance(stated, Mapping) else None
            if value is not None:
                spent.setdefault(cost, {})[result.seed] = value
    return {cost: spent[cost] for cost in COSTS if cost in spent}


def reward_calls(rows: Sequence[Row], task: str) -> dict[int, dict[int, float]]:
    """Return place of a row → seed → how many texts were rewarded in training on a task, as far as that is known.

    Episodes count those of the start too. They are left out by what the board's run that made the start states; what
    began from weights of no run of the board has no known number.
    """
    cells = {i: cell for i, row in enumerate(rows) if (cell := row.cells.get(task)) is not None}
    made = {
        (seed, line[0]): cell.training.get("episodes", {}).get(seed)
        for cell in cells.values()
        for seed, line in cell.lineage.items()
        if len(line) == 1 or not cell.rewards
    }
    calls: dict[int, dict[int, float]] = {}
    for i, cell in cells.items():
        for seed, episodes in cell.training.get("episodes", {}).items():
            start = cell.lineage.get(seed, ())[1:]
            before = made.get((seed, start[0])) if start else 0.0
            if not cell.rewards:
                calls.setdefault(i, {})[seed] = 0.0
            elif before is not None and before <= episodes:
                calls.setdefault(i, {})[seed] = episodes - before
    return calls


def kept_updates(results: Iterable[Result]) -> dict[int, int]:
    """Return seed → the update that was kept, for the results that state one."""
    found = {result.seed: _count(result.system.get("update")) for result in results}
    return {seed: update for seed, update in found.items() if update is not None}


def parameters_of(results: Iterable[Result]) -> int | None:
    """Return the highest number of parameters that the results state."""
    return max((n for result in results if (n := _count(result.system.get("parameters")))), default=None)


def code_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the versions of grue that made the results, as "0.1.0 (09d6de5)", sorted; + marks uncommitted changes."""
    return tuple(sorted({text for result in results if (text := _code(result.grue))}))


def _code(made_by: Mapping[str, Any]) -> str:
    version, commit = str(made_by.get("version", "")), str(made_by.get("commit", ""))
    if not VERSION.fullmatch(version):
        return ""
    changed = "+" if made_by.get("dirty") is True else ""
    return f"{version} ({commit[:7]}{changed})" if COMMIT.fullmatch(commit) else version


def _amount(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MOST and math.isfinite(value) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def in_words(decoding: Generation) -> str:
    """Return how a task draws texts: "sampling at temperature 0.7, up to 52 tokens"."""
    if decoding.do_sample:
        cuts = [f"the {decoding.top_k} likeliest tokens"] if decoding.top_k else []
        cuts += [f"the likeliest tokens that make up {decoding.top_p:g}"] if decoding.top_p < 1 else []
        way = f"sampling at temperature {decoding.temperature:g}" + "".join(f", from {cut}" for cut in cuts)
    elif decoding.num_beams > 1:
        penalty = f" and a length penalty of {decoding.length_penalty:g}" if decoding.length_penalty != 1 else ""
        way = f"beam search with {decoding.num_beams} beams{penalty}"
    else:
        way = "the likeliest token at each step"
    most, least = decoding.max_new_tokens, decoding.min_new_tokens
    length = f"exactly {most}" if most == least else f"{least} to {most}" if least else f"up to {most}"
    return f"{way}, {length} tokens"

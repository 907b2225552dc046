"""`rewards.jsonl` of a run: the mean reward of the responses to each prompt, a line per update.

If an update has two lines, as an interrupted run may leave it, the last counts; a torn last line is ignored.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grue import files
from grue.errors import DataError
from grue.shapes import from_dict

NAME = "rewards.jsonl"


@dataclass(frozen=True, slots=True)
class PromptRewards:
    """The line of an update.

    Attributes:
        update: From 1.
        examples: How many training examples the run learns from.
        rewards: Example id → mean reward of the responses to it, in the reward's own unit; those without one left out.
    """

    update: int
    examples: int
    rewards: Mapping[str, float]


def means(rewards: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean of the rewards of each prompt; NaN stands for a response without one."""
    scored = {key: [value for value in values if not math.isnan(value)] for key, values in rewards.items()}
    return {key: math.fsum(values) / len(values) for key, values in scored.items() if values}


def rewind(path: Path, done: int) -> None:
    """Cut the file back to its lines of the first `done` updates; a torn last line goes, too.

    Raises:
        DataError: A line is damaged; nothing is cut.
    """
    if not path.exists():
        return
    try:
        last_line = max((number for number, line in _lines(path) if line.update <= done), default=0)
    except DataError as error:
        raise DataError(f"{error} Restore the file, or remove it: training goes on without it.") from error
    size = sum(len(line) + 1 for line in path.read_bytes().split(b"\n")[:last_line])
    if size < path.stat().st_size:
        os.truncate(path, size)


def read(path: Path) -> list[PromptRewards]:
    """Return the updates of a run, in order.

    Raises:
        DataError: The file cannot be read, a line is damaged, or those of some updates are missing.
    """
    lines = {line.update: line for _, line in _lines(path)}
    for update in range(1, max(lines, default=1) + 1):
        if update not in lines:
            raise DataError(f"{path}: has no line of update {update}: lines were lost. Train that run again.")
    return [lines[update] for update in sorted(lines)]


def _lines(path: Path) -> list[tuple[int, PromptRewards]]:
    lines, _ = files.read_growing_jsonl(path)
    return [(number, from_dict(PromptRewards, line, f"{path}, line {number}", DataError)) for number, line in lines]

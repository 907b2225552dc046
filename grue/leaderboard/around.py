"""Where a score stands: the rows of a board next to it."""

from collections.abc import Mapping
from typing import Literal

from grue.leaderboard.board import Board
from grue.records import other_examples
from grue.tasks import Task


def where_it_stands(
    board: Board, task: Task, axis: Literal["preference", "naturalness"], score: float, hashes: Mapping[str, str]
) -> str | None:
    """Return which rows of a board a score is between: "between mbr 52.6 and supervised+grpo 67.2".

    References count. Scores that are printed alike are level. One of other examples is between none, which is said.

    Args:
        board: The board of the task's suite.
        score: A run's preference or naturalness, 0–100.
        hashes: Of the examples that it was scored on, as in a result.

    Returns:
        None if the board shows no row, or only rows of another version, on this axis of the task.
    """
    of_board = next((known for known in board.tasks if (known.name, known.hash) == (task.name, task.hash)), None)
    if of_board is None:
        return None
    if other := other_examples(hashes, of_board.data):
        return f"on other examples than the board's rows ({other})"
    reached = sorted(
        (estimate.mean, row.system)
        for row in board.rows
        if row.standing != "limited" and task.name in row.cells
        if (estimate := getattr(row.cells[task.name], axis)) is not None
    )
    here = round(score, 1)
    level = [system for mean, system in reached if round(mean, 1) == here]
    below = [f"{system} {mean:.1f}" for mean, system in reached if round(mean, 1) < here]
    above = [f"{system} {mean:.1f}" for mean, system in reached if round(mean, 1) > here]
    if level:
        return f"level with {' and '.join(level)}"
    if below and above:
        return f"between {below[-1]} and {above[0]}"
    return f"above all, next {below[-1]}" if below else f"below all, next {above[0]}" if above else None

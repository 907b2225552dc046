"""The rows next to a score on a board."""

from collections.abc import Mapping

from grue.leaderboard.board import Board
from grue.records import ScoredAxis, other_examples
from grue.tasks import Task


def neighbours(board: Board, task: Task, axis: ScoredAxis, score: float, hashes: Mapping[str, str]) -> str | None:
    """Return which rows of a board a score is between: "between mbr 52.6 and supervised+grpo 67.2".

    References count. Scores that are printed alike are level. A score on other examples is not placed; this is said.

    Returns:
        None if the board shows no row, or only rows of another version, on this axis of the task.
    """
    on_board = next((t for t in board.tasks if (t.name, t.hash) == (task.name, task.hash)), None)
    if on_board is None:
        return None
    if difference := other_examples(hashes, on_board.data):
        return f"on other examples than the board's rows ({difference})"
    standing = [row for row in board.rows if row.standing != "limited" and task.name in row.cells]
    estimates = [(getattr(row.cells[task.name], axis), row.system) for row in standing]
    reached = sorted((estimate.mean, system) for estimate, system in estimates if estimate is not None)
    shown = round(score, 1)
    level = [system for mean, system in reached if round(mean, 1) == shown]
    below = [f"{system} {mean:.1f}" for mean, system in reached if round(mean, 1) < shown]
    above = [f"{system} {mean:.1f}" for mean, system in reached if round(mean, 1) > shown]
    if level:
        return f"level with {' and '.join(level)}"
    if below and above:
        return f"between {below[-1]} and {above[0]}"
    return f"above all, next {below[-1]}" if below else f"below all, next {above[0]}" if above else None

"""The legend of a board: what its numbers mean, for every format."""

from collections.abc import Iterator

from grue.leaderboard.board import Board, BoardTask, Column
from grue.render.text import UNKNOWN
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS

_SCORES = {
    "grue-1": "Preference and naturalness go from 0 to 100, higher is better (scoring grue-1).",
    "paper": "Preference and naturalness are on the scale of the paper's Figure 2, higher is better (scoring paper).",
}
HONESTY = (
    "Anyone can draw the test answers of mini from its generator: a row is worth what its checks and its authors' word "
    "are worth, and maintainers can ask for its results on a held-back draw (`python -m miniworld held-back`)."
)
_WAYS = {"t": "Student's t", "bootstrap": "bootstrap"}


def legend(board: Board) -> tuple[str, ...]:
    """Return the sentences: scores, ± and ranks first, then those that only some boards need."""
    return (_SCORES[board.scoring], _spread(board), *_others(board))


def _spread(board: Board) -> str:
    if board.interval_kind == "none":
        return f"± is the standard deviation over seeds. {UNKNOWN} is unknown."
    interval = f"half the width of the {100 * board.level:g} % interval over seeds ({_WAYS[board.interval_kind]})"
    where = "a preference" if len(board.tasks) == 1 else "a mean over tasks and for a preference"
    return f"± is {interval} for {where}, and the standard deviation over seeds elsewhere. {UNKNOWN} is unknown."


def _others(board: Board) -> Iterator[str]:
    one = len(board.tasks) == 1
    if board.interval_kind == "none":
        yield "Without intervals there are no ranks."
    else:
        condition = f"{RANKED_SEEDS} seeds" if one else f"{RANKED_SEEDS} seeds on every task"
        yield (
            "A rank is 1 + the number of systems whose interval is wholly above; = marks a shared rank. "
            f"It takes {condition}; with {PRELIMINARY_SEEDS} or more a system is preliminary."
        )
    if any(sum(task.name in row.task_ranks for row in board.rows) > 1 for task in board.tasks):
        yield "Bold is the best ranked system, with all that cannot be distinguished from it."
    if any(row.standing == "reference" for row in board.rows):
        yield (
            "References do not compete: a constant, a copy of the prompt, its lead, lookups (answers from the training "
            "split, without learning), the backbone as it is, the references themselves, or what has seen the "
            "references."
        )
    if board.suite == "mini":
        yield HONESTY
    if any(row.iqm is not None for row in board.rows):
        yield "IQM is the interquartile mean of the preference over tasks and seeds; it decides no rank."
    without = [task.name for task in board.tasks if not task.has("naturalness")]
    if without and len(without) < len(board.tasks):
        yield f"The mean naturalness leaves out {', '.join(without)}, which has no metric of it."
    versions = ", ".join(f"{task.name} version {task.version} ({task.hash[:12]})" for task in board.tasks)
    yield f"Tasks: {versions}." if not one else f"Task: {versions}."
    if one and board.scoring == "grue-1" and (scales := list(_scales(board.tasks[0]))):
        yield f"Scaled to 0 to 100: {'; '.join(scales)}."


def _scales(task: BoardTask) -> Iterator[str]:
    for column in task.columns:
        if column.range is not None:
            yield _range(column, *column.range)
        elif column.reference is not None:
            yield f"{column.metric} as 100 × {column.reference:g} / value, at most 100"


def _range(column: Column, worst: float, best: float) -> str:
    return f"{column.metric} from {worst:g} to {best:g}"

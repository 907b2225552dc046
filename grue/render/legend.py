"""The legend of a board, for every format: the meaning of its numbers."""

from collections.abc import Iterator, Sequence

from grue.leaderboard.board import Board, BoardTask, Column
from grue.leaderboard.trained_on import held_out_on
from grue.render.text import BY_CHAT, BY_ENDPOINT, TRAINED_ON, UNKNOWN, UNLEARNED, variants
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS

_SCORES = "Preference and naturalness go from 0 to 100, higher is better (scoring grue-1)."
HONESTY = (
    "Anyone can draw the test answers of mini from its generator: a row is worth what its checks and its authors' word "
    "are worth, and maintainers can ask for its results on a held-back draw (`python -m miniworld held-back`)."
)
RANKS = (
    "A rank is 1 + the number of systems significantly above, and never better than that of a higher mean: every two "
    "by a t test over seeds (paired where both began from the same weights of a run of the board, else Welch's), Holm "
    "over all pairs of a table, 5 %"
)
PROMPTINGS = {
    "chat": "asked by the tasks' chat prompts",
    "shots": "shown examples of the training split before each prompt",
}
BOLD = "Bold"
HELD_OUT = (
    "Held-out is the mean of the preference metrics that are neither in the task's reward nor of the family of one of "
    "its metrics (in the task file); what was trained on another reward has no value in that column"
)
SEARCHED = (
    "Searched answers are decoded by beams or the likeliest tokens, as the task's [search] says. Their preference is "
    "what the results state, outside every score and test; nothing of it is recomputed"
)
IQM = "IQM is the interquartile mean of the preference over tasks and seeds; it decides no rank"
VARIANTS = (
    "In parentheses after a system, where its name does not say it: the preset of its settings (grue algorithms show "
    "NAME), and a backbone that is not the task's"
)


def legend(board: Board) -> tuple[str, ...]:
    """Return its sentences: scores, ± and ranks first, then those that only some boards need."""
    return (_SCORES, _spread(board), *_sentences(board))


def _spread(board: Board) -> str:
    interval = f"half the width of the {100 * board.level:g} % interval over seeds (Student's t)"
    where = "a preference" if len(board.tasks) == 1 else "a mean over tasks and for a preference"
    return f"± is {interval} for {where}, and the standard deviation over seeds elsewhere. {UNKNOWN} is unknown."


def _sentences(board: Board) -> Iterator[str]:
    single = board.tasks[0] if len(board.tasks) == 1 else None
    condition = f"{RANKED_SEEDS} seeds" if single else f"{RANKED_SEEDS} seeds on every task"
    yield (
        f"{RANKS}; = marks a shared rank. It takes {condition}; with {PRELIMINARY_SEEDS} or more a system is "
        "preliminary."
    )
    if any(sum(task.name in row.task_ranks for row in board.rows) > 1 for task in board.tasks):
        yield f"{BOLD}: no ranked system is significantly better, by the same test."
    if sentence := unlearned_in_words(board.tasks):
        rest = f' "Without {UNLEARNED}" is the mean over the other tasks; it decides no rank.'
        yield f"{UNLEARNED} {sentence}{rest if any(row.learned is not None for row in board.rows) else ''}"
    cells = [cell for row in board.rows for cell in row.cells.values()]
    if single and any(held_out_on(row, single) for row in board.rows):
        yield f"{HELD_OUT}."
    if single and any(cell.rewards for cell in cells):
        yield f"{TRAINED_ON} marks a metric that the row was trained on or picked by, as its result states."
    if any(cell.searched for cell in cells):
        yield f"{SEARCHED}."
    if any(variants(row) for row in board.rows):
        yield f"{VARIANTS}."
    promptings = {row.prompting for row in board.rows} - {"plain"}
    if promptings:
        how = [words for kind, words in PROMPTINGS.items() if kind in promptings]
        yield f"{BY_CHAT} was {' or '.join(how)}, the other systems by the plain prompts of training."
    if any(row.by_endpoint for row in board.rows):
        yield (
            f"{BY_ENDPOINT} was answered by a server: its weights and its training are unknown here, its decoding is "
            "its own, and nobody can draw the same texts again for certain."
        )
    if any(row.standing == "reference" for row in board.rows):
        yield (
            "References do not compete: a constant, a copy of the prompt, its lead, lookups (answers from the training "
            "split, without learning), the backbone as it is, the references themselves, or what has seen the "
            "references."
        )
    if board.suite == "mini":
        yield HONESTY
    if any(row.iqm is not None for row in board.rows):
        yield f"{IQM}."
    without = [task.name for task in board.tasks if not task.has("naturalness")]
    if without and len(without) < len(board.tasks):
        yield f"The mean naturalness leaves out {', '.join(without)}, which has no metric of it."
    versions = ", ".join(f"{task.name} version {task.version} ({task.hash[:12]})" for task in board.tasks)
    yield f"Task{'' if single else 's'}: {versions}."
    if single and (scales := [f"{c.metric} {words}" for c in single.columns if (words := scale_in_words(c))]):
        yield f"Scaled to 0 to 100: {'; '.join(scales)}."


def scale_in_words(column: Column) -> str:
    """Return how a metric is scaled to 0–100; empty for one outside the score."""
    if column.range is not None:
        return f"from {column.range[0]:g} to {column.range[1]:g}"
    return "" if column.reference is None else f"as 100 × {column.reference:g} / value, at most 100"


def unlearned_in_words(tasks: Sequence[BoardTask]) -> str:
    """Return a sentence on where a system without learning is above every competing one; empty if nowhere."""
    tops = [f"{task.unlearned} on {task.name}" for task in tasks if task.unlearned]
    if not tops:
        return ""
    listed = f"{', '.join(tops[:-1])} and {tops[-1]}" if len(tops) > 1 else tops[0]
    which_tasks = "these tasks as differences" if len(tops) > 1 else "this task as a difference"
    return f"A system without learning is above every trained one, {listed}: read {which_tasks} from a start."

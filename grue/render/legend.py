"""The legend of a board, for every format: the meaning of its numbers."""

from collections.abc import Iterator, Mapping, Sequence

from grue.leaderboard.board import Board, BoardTask, Column, Row
from grue.leaderboard.trained_on import held_out_on
from grue.records import Status
from grue.render.text import BY_CHAT, BY_ENDPOINT, TRAINED_ON, UNKNOWN, UNLEARNED, listed, named, variants
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS
from grue.submissions.trust.draw import GENERATED

_SCORES = "Preference and naturalness go from 0 to 100, higher is better (scoring grue-1)."
HONESTY = (
    "Anyone can draw the test answers of mini from its generator, so a rank takes checkpoints that held their lead on "
    "test rows which were drawn after the row was handed in."
)
RANKS = (
    "A rank is 1 + the number of systems significantly above, and never better than that of a system with a higher "
    "mean. Every two systems are compared by a t test over seeds (paired where both began from the same weights of a "
    "run of the board, else Welch's), with Holm's correction over all pairs of a table, at 5 %"
)
SHARED = (
    "= marks a shared rank, which does not show that systems are equal, nor do two ranks show that every two systems "
    "differ: if A is close to B, and B to C, while A is significantly above C, their ranks are 1, 1, 2"
)
STATUSES: Mapping[Status, str] = {
    "local": "run on this machine, unchecked",
    "reported": "figures as published, without predictions",
    "recomputed": "scored here from outputs that are published elsewhere",
    "rescored": "every score was recomputed from the submitted predictions",
    "reproduced": "rescored, and checkpoints gave the predictions again",
    "verified": "reproduced, and the checkpoints held their lead on test examples that did not exist at submission",
}
PROMPTINGS = {
    "chat": "the tasks' chat prompts",
    "shots": "prompts with examples of the training split",
}
BOLD = "Bold"
HELD_OUT = (
    "Held-out is the mean of the preference metrics that are neither in the task's reward nor in a family (of the task "
    "file) with one of its metrics; systems trained on another reward have no value in that column"
)
SEARCHED = (
    "Searched answers are decoded by beam search or by the likeliest token at each step, as the task's [search] says. "
    "Their preference is as the results state it: it is not recomputed, and counts in no score or test"
)
UNMOVED = (
    "‖ In most seeds no update was better than the start on validation: update 0 was kept, and these are the start's "
    "figures"
)
IQM = "IQM is the interquartile mean of the preference over tasks and seeds; it decides no rank"
VARIANTS = (
    "In parentheses after a system's name, unless the name says it: the preset of its settings (grue algorithms show "
    "NAME), and any backbone other than the task's"
)


def legend(board: Board) -> Iterator[str]:
    """Yield its sentences: scores, ± and ranks first, then those that only some boards need."""
    single = board.tasks[0] if len(board.tasks) == 1 else None
    yield _SCORES
    interval = f"half the width of the {100 * board.level:g} % interval over seeds (Student's t)"
    where = "a preference" if single else "a mean over tasks and for a preference"
    yield f"± is {interval} for {where}, and the standard deviation over seeds elsewhere. {UNKNOWN} is unknown."
    condition = f"{RANKED_SEEDS} seeds" if single else f"{RANKED_SEEDS} seeds on every task"
    yield f"{RANKS}. {SHARED}. A rank takes {condition}; with {PRELIMINARY_SEEDS} or more a system is preliminary."
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
    yield from prompting_in_words(board.rows)
    if any(row.standing == "reference" for row in board.rows):
        yield (
            "References do not compete: a constant, a copy of the prompt, its lead, lookups (answers from the training "
            "split, without learning), the untrained backbone, the references themselves, and whatever has seen them."
        )
    yield from filter(None, (unverified_in_words(board), reruns_in_words(board)))
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


def prompting_in_words(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what the marks beside the names of some rows mean."""
    promptings = {row.prompting for row in rows} - {"plain"}
    if promptings:
        how = [words for kind, words in PROMPTINGS.items() if kind in promptings]
        yield f"{BY_CHAT} got {' or '.join(how)}, the other systems the plain prompts of training."
    if any(row.by_endpoint for row in rows):
        yield (
            f"{BY_ENDPOINT} was answered by a server: its weights and its training are unknown here, its decoding is "
            "its own, and the same texts may not come out again."
        )


def unverified_in_words(board: Board) -> str:
    """Return which submitted rows are ranked without verification, and why; empty if there is none."""
    earlier = [named(row) for row in board.rows if row.rank is not None and row.status not in ("local", "verified")]
    if not earlier or board.suite not in GENERATED:
        return ""
    return (
        f"Ranked without verification: {', '.join(earlier)}. These rows are from before verification, and keep a rank "
        f"until {board.suite}'s next edition or a change of their files; no other submission is ranked until it is "
        "verified."
    )


def reruns_in_words(board: Board) -> str:
    """Return how many runs of which rows gave their predictions again; empty if no record says so."""
    systems: dict[str, list[str]] = {}
    for row in board.rows:
        if row.reruns:
            runs = sum(len(cell.seeds) for cell in row.cells.values())
            systems.setdefault(f"{row.reruns} of {runs} runs", []).append(named(row))
    drawn = "; ".join(f"{runs} of each of {', '.join(names)}" for runs, names in systems.items())
    return f"Predictions drawn again from checkpoints: {drawn}." if drawn else ""


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
    where = "these tasks" if len(tops) > 1 else "this task"
    return f"A system without learning is above every trained one, {listed(tops)}: read {where} as gains over a start."

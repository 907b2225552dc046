"""What results on mini can show, from the rows of its board: `python experiments/validity.py`.

Four tables. *What can be told apart*: for every two systems that learned, the difference of their preference, and the
smallest true difference that seeds as noisy as theirs would show four times in five; and how far two seeds rank the
systems as the others do. *The paper's signs*: which of two
systems is higher on a task by the means that the paper prints (it prints no variances of them), and here. *The paper's
questions*: those of its Table 2 that automatic scores and the board's PPO answer. *Rewarded and held out*: what a
reward added to the metrics of a task that it is one of, or akin to, and to the others.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from grue.leaderboard.board import Board, Cell, Estimate, Row
from grue.leaderboard.lineage import are_pairs, starts_on
from grue.leaderboard.pairs import smallest_difference
from grue.leaderboard.places import contrast
from grue.leaderboard.published import read_board
from grue.render.figure_2 import paper_scores
from grue.stats.correlation import kendall
from grue.stats.intervals import mean
from grue.stats.paired import Contrast, MeanDifference, holm, judge_seeds
from grue.submissions.reported import read_reported

ROOT = Path(__file__).parent.parent
SEEDS = (5, 10)
PAPERS = {
    "zero-shot": "Zero-Shot",
    "supervised": "Supervised",
    "ppo": "PPO",
    "supervised+ppo": "Supervised + PPO",
}
"""Systems that the paper has, by its names. The board's NLPO is not the paper's: its preset is `stable`."""
Tasks = Mapping[str, Contrast]
Axis = Literal["preference", "held_out", "naturalness"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--board", type=Path, default=ROOT / "leaderboard" / "mini.json")
    board = read_board(parser.parse_args().board)
    print(*told_apart(board), sep="\n")
    print(halves(board))
    print()
    print(*signs(board), sep="\n")
    print()
    print(*questions(board), sep="\n")
    print()
    print(*parted(board), sep="\n")


# --- what can be told apart ------------------------------------------------------------------------------------------


def contrasts(board: Board, a: Row, b: Row, axis: Axis = "preference") -> Tasks:
    """Return what the seeds of two rows say, by task; seeds that began from the same weights are pairs."""
    made = starts_on(board.rows)
    shared = [task.name for task in board.tasks if all(_has(row.cells.get(task.name), axis) for row in (a, b))]
    found = {}
    for name in shared:
        ours, theirs = a.cells[name], b.cells[name]
        paired = are_pairs(ours, theirs, made.get(name, {}))
        found[name] = contrast(getattr(ours, axis).by_seed, getattr(theirs, axis).by_seed, paired)
    return found


def _has(cell: Cell | None, axis: Axis) -> bool:
    return cell is not None and getattr(cell, axis) is not None


def told_apart(board: Board) -> Iterator[str]:
    """Yield the table of ranked pairs with the same kind of start, and how many pairs of all are told apart."""
    ranked = [row for row in board.rows if row.standing == "ranked"]
    names = [task.name for task in board.tasks]
    pairs = list(combinations(ranked, 2))
    by_task = [contrasts(board, a, b) for a, b in pairs]
    means = [judge_seeds(list(compared.values())) for compared in by_task]
    sure = [p < 0.05 for p in holm([found.p for found in means])]
    yield from _head("systems", "difference", "told apart", *(f"smallest, {n} seeds" for n in SEEDS), *names)
    for (a, b), compared, found, told in zip(pairs, by_task, means, sure, strict=True):
        if a.system.startswith("supervised") != b.system.startswith("supervised"):
            continue
        sizes = [f"{smallest_difference(list(compared.values()), n):.2f}" for n in SEEDS]
        each = [f"{smallest_difference([compared[name]], SEEDS[0]):.1f}" for name in names]
        yield _line(f"`{a.system}` − `{b.system}`", _written(found), "yes" if told else "no", *sizes, *each)
    yield f"\nTold apart: {sum(sure)} of {len(pairs)} pairs of {len(ranked)} systems."


def halves(board: Board) -> str:
    """Say how far ranks by two seeds are those by the other seeds, over all ways to choose the two."""
    ranked = [row for row in board.rows if row.standing == "ranked"]
    warm = [row for row in ranked if row.system.startswith("supervised")]
    every, among = agreements(ranked), agreements(warm)
    return (
        f"Ranks by two seeds agree with those by the others with a Kendall's τ of {mean(every):.2f} on average over "
        f"{len(every)} choices, {min(every):.2f} at least; among the {len(warm)} with a supervised start "
        f"{mean(among):.2f} and {min(among):.2f}."
    )


def agreements(rows: Sequence[Row]) -> list[float]:
    """Return Kendall's τ of the rows' mean preference by two seeds and by the others, for every choice of the two."""
    scores = np.array([np.mean([_by_seed(cell) for cell in row.cells.values()], axis=0) for row in rows])
    return [agreement(scores, chosen) for chosen in combinations(range(scores.shape[1]), 2)]


def agreement(scores: np.ndarray, chosen: Sequence[int]) -> float:
    """Return Kendall's τ of the ranks by some seeds and by the others.

    Args:
        scores: [systems, seeds].
        chosen: Places of the seeds.
    """
    others = [place for place in range(scores.shape[1]) if place not in chosen]
    both = scores[:, list(chosen)].mean(axis=1), scores[:, others].mean(axis=1)
    return float(kendall(*both, np.ones((1, len(scores))))[0])


def _by_seed(cell: Cell, axis: Axis = "preference") -> list[float]:
    estimate: Estimate = getattr(cell, axis)
    return [score for _, score in sorted(estimate.by_seed.items())]


def _written(found: MeanDifference) -> str:
    return f"{found.value:+.2f} ± {found.interval.half_width:.2f}"


# --- the paper's signs -----------------------------------------------------------------------------------------------


def signs(board: Board) -> Iterator[str]:
    """Yield the table of the comparisons that both have, and how many agree.

    A cell has the paper's difference and ours, bold if seeds decide it, with ✗ if it is against the paper.
    """
    rows = {row.system: row for row in board.rows if row.system in PAPERS}
    printed = {
        (score.task, score.algorithm): 100 * score.score
        for reported in read_reported(ROOT / "submissions", "grue")
        for score in paper_scores(reported)
    }
    names = [task.name for task in board.tasks]
    yield from _head("comparison", *names)
    agree: list[bool] = []
    pairs = list(combinations([name for name in PAPERS if name in rows], 2))
    for low, high in pairs:
        cells = []
        for name, compared in contrasts(board, rows[high], rows[low]).items():
            paper = printed[name, PAPERS[high]] - printed[name, PAPERS[low]]
            found = judge_seeds([compared])
            here = f"{found.value:+.1f}"
            if found.p < 0.05:
                agree.append((found.value > 0) == (paper > 0))
                here = f"**{here}**" + ("" if agree[-1] else " ✗")
            cells.append(f"{paper:+.1f}, {here}")
        yield _line(f"`{high}` − `{low}`", *cells)
    yield f"\nOf {len(pairs) * len(names)} comparisons mini decides {len(agree)}, {sum(agree)} with the paper's sign."


# --- the paper's questions -------------------------------------------------------------------------------------------

TASKS = ("imdb", "commongen", "cnn_dailymail", "totto", "wmt16", "narrativeqa", "dailydialog")
QUESTIONS: Mapping[str, tuple[str, str, str]] = {
    "needs a warm start?": ("supervised+ppo", "ppo", "✗✓✗✓✗✓✗"),
    "RL > Sup?": ("ppo", "supervised", "✓✗✗✗✗✗✓"),
    "Sup+RL > Sup?": ("supervised+ppo", "supervised", "✓✓✓✓✓✓✗"),
}
"""Question → a system, the one that it should be above, and the paper's marks in the order of `TASKS`."""


def questions(board: Board) -> Iterator[str]:
    """Yield the table of the paper's questions that the board's rows answer, with the mark that the paper gives.

    Where seeds do not decide, the smallest difference that they would show four times in five stands in brackets.
    """
    rows = {row.system: row for row in board.rows}
    asked = {text: one for text, one in QUESTIONS.items() if {*one[:2]} <= rows.keys()}
    yield from _head("task", *asked)
    answers = []
    for above, below, marks in asked.values():
        paper = dict(zip(TASKS, marks, strict=True))
        compared = contrasts(board, rows[above], rows[below])
        answers.append([f"{_answer(one)}; paper {paper[task]}" for task, one in compared.items()])
    for task, *cells in zip([task.name for task in board.tasks], *answers, strict=True):
        yield _line(task, *cells)


def _answer(compared: Contrast) -> str:
    found = judge_seeds([compared])
    sure = "yes" if found.value > 0 else "no"
    word = sure if found.p < 0.05 else f"cannot be told ({smallest_difference([compared], len(compared.scores_a)):.1f})"
    return f"{word}, {found.value:+.1f} ± {found.interval.half_width:.1f}"


# --- what was rewarded, and what was not -----------------------------------------------------------------------------


def parted(board: Board) -> Iterator[str]:
    """Yield the table of what rewards added, on the tasks that have preference metrics other than them and their kin.

    A difference is to the supervised models that the row began from, or to the backbone, and bold if seeds decide it.
    """
    axes: tuple[Axis, ...] = ("preference", "held_out", "naturalness")
    rows = {row.system: row for row in board.rows}
    yield from _head("task", "systems", "preference", "held-out preference", "naturalness")
    for task in board.tasks:
        for row in board.rows:
            cell = row.cells.get(task.name)
            if row.standing != "ranked" or cell is None or not cell.rewards or cell.held_out is None:
                continue
            start = rows["supervised" if row.system.startswith("supervised+") else "zero-shot"]
            found = [judge_seeds([contrasts(board, row, start, axis)[task.name]]) for axis in axes]
            cells = [f"**{_written(one)}**" if one.p < 0.05 else _written(one) for one in found]
            yield _line(task.name, f"`{row.system}` − `{start.system}`", *cells)


def _head(*cells: str) -> Iterator[str]:
    yield _line(*cells)
    yield "|" + "---|" * len(cells)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

"""The board of a suite as a user sees it: what was submitted or ships, and the results of their own runs."""

from collections.abc import Iterable
from pathlib import Path

from grue.leaderboard.board import Board
from grue.leaderboard.entries import LeftOut, find_results, find_submitted, incomplete
from grue.leaderboard.notes import LEFT_OUT
from grue.leaderboard.published import shipped_beside
from grue.leaderboard.rank import rank
from grue.submissions.entries import recomputed
from grue.submissions.reported import read_reported
from grue.task_files import load_task, task_names


def board_beside(
    suite: str,
    task: str | None,
    runs: Path | None,
    submissions: Path,
    *,
    chosen: bool = False,
    iqm: bool = False,
) -> tuple[Board, list[LeftOut]]:
    """Return the board, and the results that it leaves out.

    Args:
        task: The only task, by name or file; None for all.
        runs: Folder of the user's runs, shown as local rows; None for none.
        submissions: Read if it exists, or if it was `chosen`; then no row that ships stands beside it.
    """
    tasks = [load_task(name, suite) for name in ([task] if task else task_names(suite))]
    of_suite = tasks[0].suite if tasks else suite
    has_submissions = chosen or submissions.is_dir()
    local, out = ([], []) if runs is None else find_results(runs, of_suite)
    out += incomplete(local, tasks)
    unfit = {left_out.path for left_out in out}
    submitted, unread = find_submitted(submissions, of_suite) if has_submissions else ([], [])
    submitted += recomputed(submissions, of_suite) if has_submissions else []
    ships = None if chosen else shipped_beside(submissions, submitted, of_suite)
    board = rank(
        [*submitted, *(entry for entry in local if entry.path not in unfit)],
        tasks,
        reported=read_reported(submissions, of_suite) if has_submissions else () if ships is None else ships.reported,
        iqm=iqm,
        shipped=ships,
    )
    return board, [*unread, *out]


def omissions(board: Board, out: Iterable[LeftOut]) -> list[str]:
    """Return which results a board and the given ones leave out, for what shows no notes: a frame, CSV, a plot."""
    return [*(note for note in board.notes if LEFT_OUT in note), *(left_out.note for left_out in out)]

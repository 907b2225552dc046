"""The board as a pandas frame."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from grue.errors import ConfigError
from grue.leaderboard.local import board_beside, omissions

if TYPE_CHECKING:
    from grue.render.as_csv import Frame

RUNS, SUBMISSIONS = "runs", "submissions"
"""The default folders, which need not exist."""


def board(
    suite: str = "mini",
    *,
    task: str | Path | None = None,
    runs: str | Path | None = RUNS,
    submissions: str | Path = SUBMISSIONS,
    warn: Callable[[str], None] = warnings.warn,
) -> "Frame":
    """Return the board with your runs as local rows, as `grue leaderboard --format csv` prints it.

    Args:
        task: Only this task, by name or file.
        runs: Folder of your runs; None leaves them out.
        submissions: Folder of submissions; then no row that ships stands beside them. [default: ./submissions, or the
            rows that ship without one]
        warn: Called for each result or submission that the board leaves out, with the reason.

    Returns:
        One line for each system, task, seed and metric; `metric` is also "preference" and "naturalness".

    Raises:
        UnknownName: No suite or task has the name.
        ConfigError, DataError: A folder that is named is not there, or the board cannot be read.
    """
    from grue.render.as_csv import frame

    folder, chosen = None if runs is None else Path(runs), str(submissions) != SUBMISSIONS
    if folder is not None and folder != Path(RUNS) and not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder; runs= names the folder of all runs.")
    name = None if task is None else str(task)
    found, out = board_beside(suite, name, folder, Path(submissions), chosen=chosen)
    for note in omissions(found, out):
        warn(note)
    return frame(found)

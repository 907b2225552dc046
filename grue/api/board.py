"""The board as a pandas frame."""

from pathlib import Path
from typing import TYPE_CHECKING

from grue.leaderboard.local import board_beside

if TYPE_CHECKING:
    from grue.render.as_csv import Frame


def board(
    suite: str = "mini",
    *,
    task: str | None = None,
    runs: str | Path | None = "runs",
    submissions: str | Path = "submissions",
) -> "Frame":
    """Return the board with your runs as local rows, as `grue leaderboard --format csv` prints it.

    Args:
        task: Only this task, by name or file.
        runs: Folder of your runs; None leaves them out.
        submissions: Folder of submissions; without one, the rows that ship are shown.

    Returns:
        One line for each system, task, seed and metric; `metric` is also "preference" and "naturalness".

    Raises:
        UnknownName: No suite or task has the name.
        DataError: The board or a submission cannot be read.
    """
    from grue.render.as_csv import frame

    found, _ = board_beside(suite, task, None if runs is None else Path(runs), Path(submissions))
    return frame(found)

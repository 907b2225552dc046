"""Read the boards in the package, `leaderboard/<suite>.json`, and merge them into a new board."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

from grue.errors import DataError
from grue.files import read_json
from grue.leaderboard.board import Board, Row
from grue.leaderboard.notes import LEFT_OUT, UNMOVED
from grue.records import BOARD_SCHEMA, Entry
from grue.shapes import from_dict


def board_folder() -> Path:
    """Return the folder of boards: `leaderboard/` of a checkout, or the package's own copy of it."""
    packaged = Path(str(resources.files("grue") / "_leaderboard"))
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "leaderboard"


def shipped(suite: str) -> Board | None:
    """Return the package's board of a suite; None if it has none."""
    path = board_folder() / f"{suite}.json"
    return read_board(path) if path.is_file() else None


def shipped_beside(submissions: Path, submitted: Iterable[Entry], suite: str) -> Board | None:
    """Return the package's board to show beside submissions, without their systems; None in a clone.

    Args:
        submissions: Their folder. In a clone, the board is made from it, so it is complete.
    """
    if submissions.resolve() == board_folder().with_name("submissions").resolve():
        return None
    board, systems = shipped(suite), {str(entry.result.system["name"]) for entry in submitted}
    if board is None:
        return None
    mentions = [re.compile(rf"(?<![\w.+-]){re.escape(name)}(?![\w.+-])") for name in systems]
    return replace(
        board,
        rows=tuple(row for row in board.rows if row.system not in systems),
        notes=tuple(note for note in board.notes if not any(name.search(note) for name in mentions)),
    )


def read_board(path: Path) -> Board:
    """Read a board that was written as JSON."""
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != BOARD_SCHEMA:
        raise DataError(f"{path}: not a board of schema {BOARD_SCHEMA}, which this version of grue reads: {schema}.")
    return from_dict(Board, data, str(path), DataError)


# --- into a new board ------------------------------------------------------------------------------------------------


def rows_on(shipped: Board, hashes: Mapping[str, str]) -> list[Row]:
    """Return the rows of a shipped board with their scores on some tasks, to be ranked again.

    Args:
        hashes: Task → its current hash. Scores of another version of a task are left out.
    """
    current = _kept(shipped, hashes)
    left = ((row, {name: cell for name, cell in row.cells.items() if name in current}) for row in shipped.rows)
    # a record has as many runs of one task as of another
    return [replace(row, cells=c, reruns=row.reruns * len(c) // len(row.cells)) for row, c in left if c]


def notes_on_shipped(shipped: Board, hashes: Mapping[str, str]) -> Iterator[str]:
    """Yield notes on the rows of a shipped board: its own, and what was left out."""
    current = _kept(shipped, hashes)
    for note in shipped.notes:
        if note.partition(": ")[0] in current and not note.endswith(UNMOVED):  # made anew for all rows
            yield note
    for task in shipped.tasks:
        if task.name in hashes and task.name not in current:
            systems = ", ".join(sorted({row.system for row in shipped.rows if task.name in row.cells}))
            if systems:
                why = f"{LEFT_OUT} for another version of the task"
                yield f"{task.name}: {systems} of the board that ships with grue {why}."


def _kept(shipped: Board, hashes: Mapping[str, str]) -> set[str]:
    return {task.name for task in shipped.tasks if hashes.get(task.name) == task.hash}

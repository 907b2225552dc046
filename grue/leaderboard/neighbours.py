"""The boards in the package, `leaderboard/<suite>.json`, as JSON, and the rows next to a score on one."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from grue.errors import DataError
from grue.files import read_json
from grue.records import BOARD_SCHEMA, other_examples
from grue.tasks import Task


def board_folder() -> Path:
    """Return the folder of boards: `leaderboard/` of a checkout, or the package's own copy of it."""
    packaged = Path(str(resources.files("grue") / "_leaderboard"))
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "leaderboard"


def read_document(path: Path) -> dict[str, Any]:
    """Return a board's JSON."""
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != BOARD_SCHEMA:
        raise DataError(f"{path}: not a board of schema {BOARD_SCHEMA}, which this version of grue reads: {schema}.")
    return dict(data)


def neighbours(board: Mapping[str, Any], task: Task, axis: str, score: float, hashes: Mapping[str, str]) -> str | None:
    """Return which rows of a board a score is between: "between mbr 52.6 and supervised+grpo 67.2".

    References count. Scores that are printed alike are level. A score on other examples is not placed; this is said.

    Returns:
        None if the board shows no row, or only rows of another version, on this axis of the task.
    """
    on_board = next((t for t in board["tasks"] if (t["name"], t["hash"]) == (task.name, task.hash)), None)
    if on_board is None:
        return None
    if difference := other_examples(hashes, on_board["data"]):
        return f"on other examples than the board's rows ({difference})"
    reached = sorted(
        (row["cells"][task.name][axis]["mean"], row["system"])
        for row in board["rows"]
        if row["standing"] != "limited" and task.name in row["cells"] and row["cells"][task.name][axis] is not None
    )
    shown = round(score, 1)
    level = [system for mean, system in reached if round(mean, 1) == shown]
    below = [f"{system} {mean:.1f}" for mean, system in reached if round(mean, 1) < shown]
    above = [f"{system} {mean:.1f}" for mean, system in reached if round(mean, 1) > shown]
    if level:
        return f"level with {' and '.join(level)}"
    if below and above:
        return f"between {below[-1]} and {above[0]}"
    return f"above all, next {below[-1]}" if below else f"below all, next {above[0]}" if above else None

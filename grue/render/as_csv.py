"""The board as a long table, one line per seed and metric: as CSV, and as a pandas frame."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pandas as pd

from grue.leaderboard.board import Board, BoardTask, Cell
from grue.leaderboard.pairs import SystemPair
from grue.render.text import printable, prompting_marks

Frame: TypeAlias = pd.DataFrame
COLUMNS = {
    **{"suite": "str", "task": "str", "task_version": "int64", "task_hash": "str"},
    **{"system": "str", "status": "str", "standing": "str", "rank": "Int64", "task_rank": "Int64"},
    **{"rank_test": "str", "preset": "str", "backbone": "str"},
    **{"axis": "str", "metric": "str", "direction": "str", "seed": "int64", "failed": "bool", "trained_on": "bool"},
    **{"value": "float64", "scaled": "float64"},
}
"""Name → type, in the order of the table."""

_FORMULA = (*"=+-@\t\r", *"＝＋－＠")  # first characters of a formula; some spreadsheets accept the wide ones


def render(board: Board) -> str:
    """Return `frame(board)` as CSV, in full precision.

    Text that a spreadsheet would run as a formula gets an apostrophe before it, and invisible characters are replaced;
    the JSON has both unchanged. Papers' figures have no seeds and are only in the JSON.
    """
    table = frame(board)
    for name in (name for name, kind in COLUMNS.items() if kind == "str"):
        table[name] = table[name].map({text: _harmless(text) for text in table[name].unique()})
    return str(table.to_csv(index=False, lineterminator="\n"))


def frame(board: Board) -> pd.DataFrame:
    """Return the board as a tidy table with the columns `COLUMNS`: one row per system, task, seed and metric.

    The two axes and the held-out preference ("held_out") have rows like the metrics, under their own names. `rank` is
    the system's on the board, `task_rank` on the task, both by `rank_test`; `task_hash` is the first 12 digits. `value`
    is raw; `scaled` is on 0–100, missing for metrics outside the score. A failed
    seed has its axes, at 0, and no metric. `trained_on`: whether the metric was part of the row's reward.
    `preset` is that of the algorithm's settings, and `backbone` the one that it began from if that is not the task's.
    """
    table = pd.DataFrame(_lines(board), columns=list(COLUMNS))
    return table.astype(COLUMNS)


def pairs_frame(pairs: Sequence[SystemPair]) -> pd.DataFrame:
    """Return differences as a table, one row for every two systems."""
    columns = ("a", "b", "difference", "low", "high", "p", "p_holm", "is_decided", "seeds_to_decide")
    lines = [(p.a, p.b, p.value, p.interval.low, p.interval.high, p.p, p.p_holm, p.is_decided, p.seeds) for p in pairs]
    return pd.DataFrame(lines, columns=columns).astype({"seeds_to_decide": "Int64"})


def _lines(board: Board) -> Iterator[tuple[object, ...]]:
    tasks = {task.name: task for task in board.tasks}
    for row in board.rows:
        for name, cell in row.cells.items():
            task = tasks[name]
            marked = " ".join([row.system, *prompting_marks(row)])
            system = (marked, row.status, row.standing, row.rank, row.task_ranks.get(name), board.rank_test)
            variants = (", ".join(cell.presets), ", ".join(cell.backbones))
            for values in _values(task, cell):
                yield (board.suite, name, task.version, task.hash[:12], *system, *variants, *values)


def _values(task: BoardTask, cell: Cell) -> Iterator[tuple[object, ...]]:
    """Yield axis, metric, direction, seed, failed, trained_on, value, scaled."""
    axes = {"preference": cell.preference, "held_out": cell.held_out, "naturalness": cell.naturalness}
    axes |= {"searched": cell.searched} if cell.searched else {}
    for axis, reached in axes.items():
        for seed, value in reached.by_seed.items() if reached else ():
            yield axis, axis, "higher", seed, seed in cell.failed, False, value, value
    for column in task.columns:
        estimate = cell.metrics.get(column.metric)
        metric = (column.axis, column.metric, column.direction)
        for seed, value in estimate.by_seed.items() if estimate else ():
            yield *metric, seed, False, column.metric in cell.rewards, value, column.scale(value)


def _harmless(text: str) -> str:
    shown = printable(text)
    return f"'{shown}" if text.startswith(_FORMULA) else shown

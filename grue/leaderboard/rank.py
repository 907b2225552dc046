"""From results to a board: means, intervals and ranks.

A row is one system. Only its ranks depend on other rows, and nothing depends on the order of the results.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from grue.errors import ConfigError
from grue.leaderboard.board import Board, BoardTask, Row, Standing
from grue.leaderboard.cells import board_task, row_of
from grue.leaderboard.entries import of_suite, refuse_twins, row_key
from grue.leaderboard.headline import ELSEWHERE, LEVEL, NEVER_RANKED, unlearned, with_headline, with_learned
from grue.leaderboard.notes import misfit, notes_on
from grue.leaderboard.places import Scores, shared_ranks
from grue.leaderboard.published import notes_on_shipped, rows_on
from grue.leaderboard.same_data import Hashes, on_the_same_data
from grue.records import BASELINES, BOARD_SCHEMA, Entry
from grue.stats.intervals import mean
from grue.submissions.folder import RANKED_SEEDS
from grue.submissions.reported import Reported
from grue.tasks import Task

_STANDINGS: tuple[Standing, ...] = ("ranked", "preliminary", "too few seeds", "partial", *NEVER_RANKED)


def rank(
    entries: Iterable[Entry],
    tasks: Sequence[Task],
    *,
    reported: Sequence[Reported] = (),
    iqm: bool = False,
    shipped: Board | None = None,
) -> Board:
    """Build the board of `tasks`, those of one suite or some of them.

    Results of other tasks are ignored. Results for another version of one of these tasks, or on other examples, are
    left out with a note.

    Args:
        entries: Results, in any order.
        tasks: In any order.
        reported: Papers' figures; those of these tasks are shown beside the board.
        shipped: A board whose rows are ranked together with those of the entries.

    Raises:
        ConfigError: The tasks are of different suites, or there are none.
        DataError: Two results claim the same system, task and seed, or a result lacks a score of its task.
    """
    suite, by_name = _suite(tasks), {task.name: task for task in sorted(tasks, key=lambda task: task.name)}
    ours = of_suite(entries, suite, by_name)
    hashes = {name: task.hash for name, task in by_name.items()}
    reasons = [misfit(e.result, by_name[e.result.task], hashes[e.result.task]) for e in ours]
    current = [entry for entry, reason in zip(ours, reasons, strict=True) if reason is None]
    misfits = [(entry, reason) for entry, reason in zip(ours, reasons, strict=True) if reason is not None]
    refuse_twins(current)
    on_board = {task.name: task.data for task in shipped.tasks if hashes.get(task.name) == task.hash} if shipped else {}
    current, elsewhere, data = on_the_same_data(current, on_board)
    misfits += elsewhere
    columns = tuple(_columns(by_name, current, shipped, data))
    rows = [row_of(list(group), columns) for _, group in groupby(current, key=row_key)]
    if shipped is not None:
        rows += rows_on(shipped, hashes)
    notes = [*(notes_on_shipped(shipped, hashes) if shipped else ()), *notes_on(misfits, current, rows)]
    rows = [with_headline(row, columns, iqm) for row in rows]
    columns = tuple(replace(task, unlearned=unlearned(rows, task.name)) for task in columns)
    rows = [with_learned(row, columns) for row in rows]
    return Board(
        schema=BOARD_SCHEMA,
        suite=suite,
        scoring="grue-1",
        interval_kind="t",
        level=LEVEL,
        tasks=columns,
        rows=_with_ranks(rows, columns),
        notes=tuple(dict.fromkeys(notes)),
        reported=tuple(_reported_on(reported, by_name)),
    )


def _suite(tasks: Sequence[Task]) -> str:
    suites = sorted({task.suite for task in tasks})
    if len(suites) != 1:
        raise ConfigError(f"A board shows the tasks of one suite, not of {len(suites)}: {', '.join(suites) or 'none'}.")
    return suites[0]


def _columns(
    tasks: Mapping[str, Task], entries: Sequence[Entry], shipped: Board | None, data: Mapping[str, Hashes]
) -> Iterator[BoardTask]:
    shipped_columns = {task.hash: task.columns for task in shipped.tasks} if shipped else {}
    for task in tasks.values():
        yield board_task(task, entries, shipped_columns.get(task.hash, ()), data.get(task.name, {}))


def _reported_on(reported: Sequence[Reported], tasks: Mapping[str, Task]) -> Iterator[Reported]:
    """Yield the papers' figures on the tasks, with only the tables of those tasks."""
    for paper in reported:
        tables = tuple(table for table in paper.tables if table.task in tasks)
        if tables:
            yield replace(paper, tables=tables)


# --- rows into an order ----------------------------------------------------------------------------------------------


def _with_ranks(rows: Sequence[Row], tasks: Sequence[BoardTask]) -> tuple[Row, ...]:
    """Return the rows ranked and sorted: by rank and preference, then the others by standing, references last."""
    names = [task.name for task in tasks if task.has("preference")]
    ranks = shared_ranks(rows, [_scores(row, names) if row.standing == "ranked" else None for row in rows])
    by_task = {name: shared_ranks(rows, [_on_task(row, name) for row in rows]) for name in names}
    ranked = [
        replace(row, rank=ranks[i], task_ranks={name: place for name in by_task if (place := by_task[name][i])})
        for i, row in enumerate(rows)
    ]
    return tuple(sorted(ranked, key=_place))


def _scores(row: Row, tasks: Sequence[str]) -> Scores | None:
    """Return a system's preference by task and seed; None if it has none, or not on all of the tasks."""
    reached = {name: cell.preference for name in tasks if (cell := row.cells.get(name)) is not None}
    by_seed = {name: estimate.by_seed for name, estimate in reached.items() if estimate is not None}
    return by_seed if by_seed and len(by_seed) == len(tasks) else None


def _on_task(row: Row, task: str) -> Scores | None:
    """Return a system's preference on a task, by seed; None if it is not ranked there."""
    cell = row.cells.get(task)
    unranked = row.standing in NEVER_RANKED or row.status == ELSEWHERE
    if cell is None or len(cell.seeds) < RANKED_SEEDS or unranked:
        return None
    return _scores(row, [task])


def _place(row: Row) -> tuple[int, float, int, float, str, str]:
    reached = [cell.preference.mean for cell in row.cells.values() if cell.preference]
    preference = mean(reached) if reached else 0.0
    standing = _STANDINGS.index(row.standing)
    within = _among_references(row) if row.standing == "reference" else row.rank or 0
    return standing, within, -len(row.cells), -preference, row.system, row.status


def _among_references(row: Row) -> float:
    """Return the place of a reference: in the order of `BASELINES`, with any other before the oracle."""
    order = {name: place for place, name in enumerate(BASELINES)}
    return order.get(row.system, order["oracle"] - 0.5)

"""From results to a board: means, intervals and ranks.

A row is one system. Only its ranks depend on other rows, and nothing depends on the order of the results.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from grue.records import BASELINES, BOARD_SCHEMA, Entry, other_examples
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
    suites = sorted({task.suite for task in tasks})
    if len(suites) != 1:
        raise ConfigError(f"A board shows the tasks of one suite, not of {len(suites)}: {', '.join(suites) or 'none'}.")
    by_name = {task.name: task for task in sorted(tasks, key=lambda task: task.name)}
    ours = of_suite(entries, suites[0], by_name)
    hashes = {name: task.hash for name, task in by_name.items()}
    judged = [(entry, misfit(entry.result, by_name[entry.result.task], hashes[entry.result.task])) for entry in ours]
    current = [entry for entry, reason in judged if reason is None]
    misfits = [(entry, reason) for entry, reason in judged if reason is not None]
    refuse_twins(current)
    on_board = {task.name: task.data for task in shipped.tasks if hashes.get(task.name) == task.hash} if shipped else {}
    current, elsewhere, data = _on_the_same_data(current, on_board)
    misfits += elsewhere
    more = {task.hash: task.columns for task in shipped.tasks} if shipped else {}
    columns = tuple(board_task(t, current, more.get(t.hash, ()), data.get(t.name, {})) for t in by_name.values())
    rows = [row_of(list(group), columns) for _, group in groupby(current, key=row_key)]
    if shipped is not None:
        rows += rows_on(shipped, hashes)
    notes = [*(notes_on_shipped(shipped, hashes) if shipped else ()), *notes_on(misfits, current, rows)]
    rows = [with_headline(row, columns, iqm) for row in rows]
    columns = tuple(replace(task, unlearned=unlearned(rows, task.name)) for task in columns)
    rows = [with_learned(row, columns) for row in rows]
    return Board(
        schema=BOARD_SCHEMA,
        suite=suites[0],
        scoring="grue-1",
        interval_kind="t",
        level=LEVEL,
        tasks=columns,
        rows=_with_ranks(rows, columns),
        notes=tuple(dict.fromkeys(notes)),
        reported=tuple(
            replace(paper, tables=tables)
            for paper in reported
            if (tables := tuple(table for table in paper.tables if table.task in by_name))
        ),
    )


# --- the same examples -----------------------------------------------------------------------------------------------


def _on_the_same_data(
    entries: Sequence[Entry], on_board: Mapping[str, Mapping[str, str]]
) -> tuple[list[Entry], list[tuple[Entry, str]], dict[str, Mapping[str, str]]]:
    """Split results of the current tasks by the examples that they were scored on.

    The examples of a task are those of the package's rows, or else those of most submitted results, or else of most
    local ones. For results on a part of a split, only the seeds of a row must agree.

    Args:
        entries: Results, in the order of `of_suite`.
        on_board: Task → the hashes of the examples of the package's rows.

    Returns:
        The results on these examples; the others, each with the reason that it is left out; and task → its hashes.
    """
    groups: dict[tuple[str, object], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.result.task, entry.result.limited and row_key(entry)), []).append(entry)
    out: dict[int, str] = {}
    data: dict[str, Mapping[str, str]] = {}
    for (task, part), group in groups.items():
        hashes = {} if part else dict(on_board.get(task, {}))
        for deciding in ([entry for entry in group if entry.status != "local"], group):
            for key in ("references", "examples"):  # those that fit the first decide the second
                fitting = [entry.result.hashes for entry in deciding if not other_examples(entry.result.hashes, hashes)]
                counts = Counter(hashes_of_entry[key] for hashes_of_entry in fitting if key in hashes_of_entry)
                for common, _ in counts.most_common(1):
                    hashes.setdefault(key, common)
        for entry in group:
            if difference := other_examples(entry.result.hashes, hashes):
                cure = "`data` in each result says from where; one version of the data is to be used for all"
                out[id(entry)] = f"on other examples than the others ({difference}; {cure})"
        if not part:
            data[task] = hashes
    fitting_entries = [entry for entry in entries if id(entry) not in out]
    return fitting_entries, [(entry, out[id(entry)]) for entry in entries if id(entry) in out], {**on_board, **data}


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
    order = {name: place for place, name in enumerate(BASELINES)}  # with any other before the oracle
    within = order.get(row.system, order["oracle"] - 0.5) if row.standing == "reference" else row.rank or 0
    return standing, within, -len(row.cells), -preference, row.system, row.status

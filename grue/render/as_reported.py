"""Papers' figures as tables: as printed, with deviations of their metrics in footnotes."""

from collections.abc import Iterator, Sequence

from grue.leaderboard.board import Board
from grue.metrics.registry import DIVERSITY
from grue.render.layout import Series, TextTable
from grue.render.text import ARROWS, in_line, printable
from grue.submissions.reported import Figure, Publication, Reported, ReportedColumn, ReportedTable

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def reported_tables(board: Board) -> tuple[TextTable, ...]:
    """Return the tables to show beside a board.

    All tables for a single task; the quality on each task for a suite without rows, or with only recomputed rows,
    which are shown above them; else none.
    """
    if len(board.tasks) == 1:
        return tuple(_table(table, reported.source) for reported, table in _of(board))
    if _has_runs(board):
        return ()
    return tuple(
        _table(quality[0], reported.source, without=DIVERSITY)
        for reported in board.reported
        for task in board.tasks
        if (quality := [t for t in reported.tables if t.task == task.name and _kept(t, DIVERSITY)])
    )


def about_reported(board: Board) -> tuple[str, ...]:
    """Return notes on the tables and their sources, or the command that shows them."""
    tables = list(_of(board))
    if not tables:
        return ()
    many = f"{len(tables)} table{'s' if len(tables) > 1 else ''} of papers' figures"
    command = f"`grue leaderboard --suite {board.suite} --task {tables[0][1].task}`"
    if len(board.tasks) > 1 and _has_runs(board):
        return (f"{many}, task by task: {command}.",)
    lines = ["Figures as printed, not recomputed here: compare them with each other, not with other tables."]
    if len(board.tasks) > 1:
        lines.append(f"Of {many}, one a task stands here; {command} shows all of a task.")
    for source in dict.fromkeys(reported.source for reported, _ in tables):
        version = f", {source.version}" if source.version else ""
        where = f"{source.venue}, {source.year}{version}. {source.url}"
        lines.append(printable(f"{source.key}: {source.authors}. {source.title}. {where}"))
    return tuple(lines)


def _has_runs(board: Board) -> bool:
    return any(row.status != "recomputed" for row in board.rows)


def _of(board: Board) -> Iterator[tuple[Reported, ReportedTable]]:
    names = {task.name for task in board.tasks}
    yield from ((reported, table) for reported in board.reported for table in reported.tables if table.task in names)


def _kept(table: ReportedTable, without: Sequence[str]) -> list[ReportedColumn]:
    return [column for column in table.columns if column.name not in without]


def _table(table: ReportedTable, source: Publication, without: Sequence[str] = ()) -> TextTable:
    columns = _kept(table, without)
    deviations = list(dict.fromkeys(column.deviation for column in columns if column.deviation))
    algorithms = [printable(", ".join(filter(None, (row.algorithm, row.variant)))) for row in table.rows]
    series = [Series("algorithm", algorithms, is_number=False)]
    if any(row.reward for row in table.rows):
        series.append(Series("reward", [printable(row.reward) for row in table.rows], is_number=False))
    for column in columns:
        footnote = _number(deviations.index(column.deviation) + 1) if column.deviation else ""
        header = f"{printable(column.name)} {ARROWS[column.direction]}".rstrip() + footnote
        figures = [row.figures.get(column.name) for row in table.rows]
        series.append(Series(header, in_line([_digits(figure) if figure else None for figure in figures])))
    seeds = "seeds not stated" if table.seeds is None else f"{table.seeds} seed{'s' if table.seeds > 1 else ''}"
    about = f"{source.key}, {table.table}, split {table.split}, {seeds}. {table.note}".rstrip()
    footnotes = (f"{_number(i)} {deviation}" for i, deviation in enumerate(deviations, start=1))
    lines = tuple(map(printable, (about, *footnotes)))
    return TextTable(f"{table.task}, as reported in {table.table}", tuple(series), lines)


def _number(footnote: int) -> str:
    return str(footnote).translate(_SUPERSCRIPTS)


def _digits(figure: Figure) -> tuple[str, str | None]:
    """Return a mean and its ± with the printed digits, except trailing zeros."""
    return repr(figure.mean).removesuffix(".0"), None if figure.sd is None else repr(figure.sd).removesuffix(".0")

"""`grue leaderboard`."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from grue import files
from grue.cli import options
from grue.errors import ConfigError, SubmissionError, UnknownName, instead
from grue.render.formats import FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from grue.leaderboard.board import Board, Row
    from grue.leaderboard.entries import LeftOut
    from grue.render.layout import TextTable


@click.command()
@options.suite
@options.option("--task", "task_name", help="Show one task with all its metrics, ordered by it alone.")
@options.option(
    "--format",
    "form",
    type=click.Choice(["rich", *FORMATS]),
    help="[default: rich on a terminal, else markdown]",
)
@options.option(
    "--pairs",
    metavar="A,B,…",
    help="Compare every two of these systems instead, tests over seeds corrected for their number; `ranked` names all "
    "that have a rank. With --format json as JSON.",
)
@options.option("--iqm", is_flag=True, help="Show the interquartile mean too; it decides no rank.")
@options.runs
@options.submissions
@options.option("--no-local", is_flag=True, help="Leave out the results under --runs.")
@options.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write instead of printing; without --format, its ending gives the format.",
)
@options.option(
    "--publish",
    type=click.Path(path_type=Path),
    help="Folder to write the boards of all suites to, in every format and without local rows, and what systems wrote.",
)
@options.option(
    "--check",
    is_flag=True,
    help="Write nothing, and fail if a file of --publish (or --output) is not current. [default: those of leaderboard]",
)
@click.pass_context
def leaderboard(
    context: click.Context,
    /,
    publish: Path | None,
    output: Path | None,
    check: bool,
    form: str | None,
    pairs: str | None,
    **choices: Any,
) -> None:
    """Print the board: submissions, and the results of this folder's runs as local rows."""
    if publish is not None or (check and output is None):
        _refuse_beside_publish(context)
        _publish(publish or Path("leaderboard"), choices["submissions"], check)
        return
    from grue.render.publish import is_current, render

    board, out = board_of(context, **choices)
    if pairs is not None:
        if output is not None or check or form not in (None, "rich", "json"):
            raise ConfigError("--pairs prints a table, or JSON with --format json; leave out other formats and files.")
        from grue.cli.pairs_view import show_pairs

        show_pairs(board, _chosen(board, pairs), as_json=form == "json")
        return
    board = replace(board, notes=(*board.notes, *(left_out.note for left_out in out)))
    form = form or _of_ending(output) or ("rich" if output is None and sys.stdout.isatty() else "markdown")
    if form == "rich":
        if output is not None:
            raise ConfigError(f"--format rich is for a terminal, not for a file; choose one of {_listed(FORMATS)}.")
        _print_tables(board)
    elif output is None:
        click.echo(render(board, form), nl=False)
    elif not check:
        files.write_text(output, render(board, form))
        click.echo(str(output))
    elif not is_current(output, render(board, form)):
        raise SubmissionError(f"{output} does not match the results; run `make leaderboard` and commit it.")


def _chosen(board: "Board", names: str) -> "list[Row]":
    """Return the rows of the given systems, or all that are ranked.

    Raises:
        UnknownName: The board has no such system.
        ConfigError: There are fewer than two, or no task that all of them have.
    """
    from grue.leaderboard.pairs import common_tasks

    rows = {row.system: row for row in board.rows}
    systems = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if systems == ["ranked"]:
        systems = [row.system for row in board.rows if row.rank is not None]
    for name in systems:
        if name not in rows:
            raise UnknownName(f"The board has no system {name!r}.{instead(name, rows)}")
    if len(systems) < 2:
        raise ConfigError(f"--pairs {names!r}: name at least two systems, separated by commas.")
    chosen = [rows[name] for name in systems]
    if not common_tasks(chosen):
        raise ConfigError(f"--pairs {names!r}: there is no task on which all of them have a preference.")
    return chosen


def _of_ending(output: Path | None) -> str | None:
    """Return the format of a file's ending; None if there is no file or no ending.

    Raises:
        ConfigError: No format has that ending.
    """
    endings = {f".{ending}": form for form, ending in FORMATS.items()}
    if output is None or not output.suffix:
        return None
    if output.suffix.lower() not in endings:
        raise ConfigError(f"{output}: its ending gives no format; take {_listed(endings)}, or name one with --format.")
    return endings[output.suffix.lower()]


def board_of(
    context: click.Context,
    suite: str,
    task_name: str | None,
    runs: Path,
    submissions: Path,
    no_local: bool,
    iqm: bool = False,
) -> "tuple[Board, list[LeftOut]]":
    """Return the board for the options, and the results that it leaves out."""
    from grue.leaderboard.local import board_beside

    if not no_local and context.get_parameter_source("runs") is ParameterSource.COMMANDLINE and not runs.is_dir():
        raise ConfigError(f"{runs}: there is no such folder; --runs names the folder of all runs.")
    chosen = context.get_parameter_source("submissions") is not ParameterSource.DEFAULT
    return board_beside(suite, task_name, None if no_local else runs, submissions, chosen=chosen, iqm=iqm)


# --- the files of leaderboard/ ---------------------------------------------------------------------------------------


def _refuse_beside_publish(context: click.Context) -> None:
    """Refuse options that change the published boards, which are always complete.

    Raises:
        ConfigError: Another option than --submissions was given with --publish.
    """
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    strays = [
        option
        for name, option in names.items()
        if name not in ("publish", "check", "submissions", "no_local")
        and context.get_parameter_source(str(name)) is ParameterSource.COMMANDLINE
    ]
    if strays:
        raise ConfigError(
            f"Published boards are complete: all suites in every format, without local rows. Leave out "
            f"{_listed(strays)}, or name one file with --output."
        )


def _publish(folder: Path, submissions: Path, check: bool) -> None:
    """Write the boards of all suites, or check that the folder holds them and nothing else.

    Raises:
        SubmissionError: Files are not current, or do not belong there; the message names each.
        DataError: A file to write is a link.
    """
    from grue.render.publish import published, stale, strays

    texts = published(folder, submissions)
    old = stale(texts)
    count = sum(text is not None for text in texts.values())
    if check:
        if unknown := strays(folder, texts):
            raise SubmissionError(f"{_listed(unknown)}: no part of the boards of {submissions}; remove it.")
        if old:
            raise SubmissionError(
                f"{_listed(old)} {'is' if len(old) == 1 else 'are'} not current with {submissions}; run "
                f"`grue leaderboard --publish {folder}` and commit {'it' if len(old) == 1 else 'them'}."
            )
        click.echo(f"The {count} files of {folder} are current with {submissions}.", err=True)
        return
    for path in old:
        text = texts[path]
        if text is None:
            path.unlink()
        else:
            files.write_text(path, text)
        click.echo(str(path) if text is not None else f"{path} (removed)")
    if not old:
        click.echo(f"The {count} files of {folder} are already current with {submissions}.", err=True)


def _listed(items: Iterable[object]) -> str:
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


# --- the terminal ----------------------------------------------------------------------------------------------------


def _print_tables(board: "Board") -> None:
    from rich.console import Console
    from rich.text import Text

    from grue.render.tables import page

    content = page(board)
    console = Console(highlight=False)
    console.print(Text(content.title, style="bold"))
    for whole in content.tables:
        _print_table(console, whole)
    _print_lines(console, (*content.legend, *content.notes))
    if len(board.tasks) == 1:
        _print_lines(console, content.sources)
        for whole in content.reported:
            _print_table(console, whole)
    elif board.reported:
        tables = [table for reported in board.reported for table in reported.tables]
        many = "table of papers' figures is" if len(tables) == 1 else "tables of papers' figures are"
        _print_lines(console, [f"{len(tables)} {many} shown with a single task: --task {tables[0].task}."])


def _print_table(console: "Console", whole: "TextTable") -> None:
    from rich.table import Table
    from rich.text import Text

    from grue.render.layout import narrow

    for table in narrow(whole, console.width):
        if table.title:  # rich would wrap the title at the table's width
            console.print(Text(table.title, style="italic"))
        shown = Table()
        for column in table.columns:
            shown.add_column(Text(column.header), justify="right" if column.is_number else "left")
        for i, row in enumerate(table.rows):
            shown.add_row(*(Text(cell, "bold" if (i, j) in table.strong else "") for j, cell in enumerate(row)))
        console.print(shown)
        _print_lines(console, table.lines)


def _print_lines(console: "Console", lines: Iterable[str]) -> None:
    from rich.text import Text

    for line in lines:
        console.print(Text(f"· {line}", style="dim"))

"""`grue leaderboard` and `grue view`."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grue import files
from grue.cli import options
from grue.cli.console import data_console, print_json, printable, table
from grue.errors import ConfigError, SubmissionError, UnknownName, instead
from grue.leaderboard.board import Board, Row
from grue.leaderboard.local import board_beside, omissions
from grue.leaderboard.pairs import POWER, all_pairs, common_tasks, rank_ranges
from grue.render import publish as publishing
from grue.render.figures import ends, figure, p_value
from grue.render.layout import TextTable, narrow
from grue.render.publish import FORMATS
from grue.render.tables import page
from grue.render.text import listed


@click.command()
@options.suite
@options.option("--task", "task_name", help="Show one task with all its metrics, ordered by it alone.")
@options.option(
    "--format", "form", type=click.Choice(["rich", *FORMATS]), help="[default: rich on a terminal, else markdown]"
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
@options.no_local
@options.output("File to write instead of printing; without --format, its ending gives the format.")
@options.option(
    "--publish",
    type=options.PATH,
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
        if strays := options.given(context, "publish", "check", "submissions", "no_local"):
            raise ConfigError(
                f"Published boards are complete: all suites in every format, without local rows. Leave out "
                f"{listed(strays)}, or name one file with --output."
            )
        _publish(publish or Path("leaderboard"), choices["submissions"], check)
        return

    board, left_out = board_of(context, **choices)
    if pairs is not None:
        if output is not None or check or form not in (None, "rich", "json"):
            raise ConfigError("--pairs prints a table, or JSON with --format json; leave out other formats and files.")
        _report(left_out)
        show_pairs(board, _chosen(board, pairs), as_json=form == "json")
        return
    form = form or _of_ending(output) or ("rich" if output is None and sys.stdout.isatty() else "markdown")
    if form == "rich" and output is not None:
        raise ConfigError(f"--format rich is for a terminal, not for a file; choose one of {listed(FORMATS)}.")
    if form == "rich":
        _print_tables(board)
        return
    text = publishing.render(board, form)
    if form == "csv":  # has no place for notes
        _report(left_out)
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        files.write_text(output, text)
        click.echo(str(output))
    elif not publishing.is_current(output, text):
        raise SubmissionError(f"{output} does not match the results; run `make leaderboard` and commit it.")


def _report(left_out: Iterable[str]) -> None:
    for note in left_out:
        click.echo(note, err=True)


def _chosen(board: Board, names: str) -> list[Row]:
    """Return the rows of the given systems, or all that are ranked: two at least, with a common task.

    Rows of one name are told apart as for `grue compare`, and are then called so.
    """
    systems = list(dict.fromkeys(options.names_of(names)))
    if systems == ["ranked"]:
        chosen = [row for row in board.rows if row.rank is not None]
    else:
        chosen = [_row(board, name) for name in systems]
    if len(chosen) < 2:
        raise ConfigError(f"--pairs {names!r}: name at least two systems, separated by commas.")
    if not common_tasks(chosen):
        raise ConfigError(f"--pairs {names!r}: there is no task on which all of them have a preference.")
    times = Counter(row.system for row in board.rows)
    return [replace(row, system=_placed(row)) if times[row.system] > 1 else row for row in chosen]


def _row(board: Board, name: str) -> Row:
    """Return the row of a system, which may be written submissions:NAME or runs:NAME."""
    found = [row for row in board.rows if name in (row.system, _placed(row))]
    if not found:
        raise UnknownName(
            f"The board has no system {name!r}.{instead(name, dict.fromkeys(row.system for row in board.rows))}"
        )
    if len(found) > 1:
        known = dict.fromkeys(map(_placed, found))
        cure = f"write {' or '.join(known)}" if len(known) > 1 else "leave out one, or evaluate it under another name"
        raise ConfigError(f"--pairs: {name} is the name of {len(found)} rows; {cure}.")
    if found[0].standing == "limited":
        raise ConfigError(f"--pairs: {name} was scored on other examples than the rest; evaluate it without --limit.")
    return found[0]


def _placed(row: Row) -> str:
    """Return a row's system with where its results are, as `grue compare` takes it."""
    return f"{'runs' if row.status == 'local' else 'submissions'}:{row.system}"


def _of_ending(output: Path | None) -> str | None:
    """Return the format of a file's ending, which must have one; None if there is no file or no ending."""
    endings = {f".{ending}": form for form, ending in FORMATS.items()}
    if output is None or not output.suffix:
        return None
    if output.suffix.lower() not in endings:
        raise ConfigError(f"{output}: its ending gives no format; take {listed(endings)}, or name one with --format.")
    return endings[output.suffix.lower()]


def board_of(
    context: click.Context,
    suite: str,
    task_name: str | None,
    runs: Path,
    submissions: Path,
    no_local: bool,
    iqm: bool = False,
) -> tuple[Board, list[str]]:
    """Return the board for the options, and which results it leaves out, which its notes say, too."""
    if not no_local and context.get_parameter_source("runs") is ParameterSource.COMMANDLINE and not runs.is_dir():
        raise ConfigError(f"{runs}: there is no such folder; --runs names the folder of all runs.")
    chosen = context.get_parameter_source("submissions") is not ParameterSource.DEFAULT
    board, out = board_beside(suite, task_name, None if no_local else runs, submissions, chosen=chosen, iqm=iqm)
    return replace(board, notes=(*board.notes, *(left_out.note for left_out in out))), omissions(board, out)


# --- the files of leaderboard/ ---------------------------------------------------------------------------------------


def _publish(folder: Path, submissions: Path, check: bool) -> None:
    """Write the boards of all suites, or check that the folder holds them, all current, and nothing else."""
    texts = publishing.published(folder, submissions)
    old = publishing.stale(texts)
    count = sum(text is not None for text in texts.values())
    if check:
        if unknown := publishing.strays(folder, texts):
            raise SubmissionError(f"{listed(unknown)}: no part of the boards of {submissions}; remove it.")
        if old:
            raise SubmissionError(
                f"{listed(old)} {'is' if len(old) == 1 else 'are'} not current with {submissions}; run "
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


# --- every two of several systems -------------------------------------------------------------------------------------


def show_pairs(board: Board, rows: Sequence[Row], as_json: bool) -> None:
    """Print how every two of the rows differ on the tasks that all have, and how firm their order is."""
    pairs, ranges, tasks = all_pairs(board.rows, rows), rank_ranges(rows), common_tasks(rows)
    if as_json:
        listed = [files.plain(pair) | {"decided": pair.is_decided} for pair in pairs]
        print_json({"suite": board.suite, "tasks": tasks, "pairs": listed, "ranks": ranges})
        return
    console = data_console()
    console.print(Text(f"GRUE pairs: suite {board.suite}, preference (0–100), {', '.join(tasks)}", style="bold"))
    console.print()
    shown = table("A", "B", "A − B", "95% interval", "p", "p, signs", "Holm p", "seeds to decide", left=(0, 1))
    for pair in pairs:
        names, difference = (printable(pair.a), printable(pair.b)), (f"{pair.value:+.1f}", ends(pair.interval, "+.1f"))
        p = map(p_value, (pair.p, pair.p_signs, pair.p_holm))
        shown.add_row(*names, *difference, *p, figure(pair.seeds, ""), style="bold" if pair.is_decided else "")
    console.print(shown)
    console.print()
    decided = sum(pair.is_decided for pair in pairs)
    lines = [
        f"{decided} of {len(pairs)} pairs are decided (bold): Holm p, corrected for all of them, is below .05.",
        "p: Student's t over seeds, the examples as given. p, signs: the exact sign-flip test where seeds are pairs.",
        f"Seeds to decide: with so many, a true difference of this size is decided {POWER:.0%} of the time.",
    ]
    if len(tasks) > 1:
        shown = table("system", "mean", "rank by mean", "without one task", "with other tasks", left=(0,))
        for place in sorted(ranges, key=lambda each: each.rank):
            without = _span(min(place.without.values()), max(place.without.values()))
            mean = f"{place.mean:.1f}"
            shown.add_row(printable(place.system), mean, str(place.rank), without, _span(place.low, place.high))
        console.print(shown)
        console.print()
        lines.append("With other tasks: in 95% of draws of as many tasks, with replacement.")
    _print_lines(console, lines)


def _span(low: int | None, high: int | None) -> str:
    return figure(low, "") if low == high else f"{low}–{high}"


# --- a page in a browser ---------------------------------------------------------------------------------------------


@click.command()
@click.argument("folder", type=options.FOLDER, default=Path("runs"), envvar="GRUE_RUNS", required=False)
@options.option("--suite", help="As for `grue leaderboard`. [default: that of the runs]")
@options.option("--task", "task_name", help="Show one task; a task of your own is named by its file.")
@options.submissions
@options.option("--no-open", is_flag=True, help="Only write the page and print its path.")
@click.pass_context
def view(
    context: click.Context, folder: Path, suite: str | None, task_name: str | None, submissions: Path, no_open: bool
) -> None:
    """Open the board with the runs in FOLDER [default: runs], or the report of `grue bench` in FOLDER.

    \b
    grue view
    grue view bench
    grue view --task mine.toml
    """  # noqa: D301 (click reads the escape)
    from grue.sweep.bench import PAGE

    page = folder / PAGE
    if not page.is_file():
        page = _local_page(context, folder, suite, task_name, submissions)
    click.echo(str(page))
    if not no_open:
        import webbrowser

        if not webbrowser.open(page.absolute().as_uri()):
            click.echo("There is no browser here; open the file in one.", err=True)


def _local_page(
    context: click.Context, runs: Path, suite: str | None, task_name: str | None, submissions: Path
) -> Path:
    """Write the page of the board with local rows, of one suite or task; return its path."""
    suites = sorted({path.parts[-5] for path in runs.glob("*/*/*/seed-*/result.json")})
    if not suites:
        raise ConfigError(f"{runs}: holds no results of `grue evaluate` and no report of `grue bench`.")
    if suite is None and len(suites) > 1 and not (task_name or "").endswith(".toml"):
        raise ConfigError(f"{runs}: holds results of several suites; add --suite, one of {', '.join(suites)}.")
    board, _ = board_of(context, suite or suites[0], task_name, runs, submissions, no_local=False)
    page = runs / board.suite / (board.tasks[0].name if task_name else "") / "board.html"
    files.write_text(page, publishing.render(board, "html"))
    return page


# --- the terminal ----------------------------------------------------------------------------------------------------


def _print_tables(board: Board) -> None:
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


def _print_table(console: Console, whole: TextTable) -> None:
    for part in narrow(whole, console.width):
        if part.title:  # rich would wrap the title at the table's width
            console.print(Text(part.title, style="italic"))
        shown = Table()
        for column in part.columns:
            shown.add_column(Text(column.header), justify="right" if column.is_number else "left")
        for i, row in enumerate(part.rows):
            strong = ["bold" if i in column.strong else "" for column in part.columns]
            shown.add_row(*map(Text, row, strong))
        console.print(shown)
        _print_lines(console, part.lines)


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Text(f"· {line}", style="dim"))

"""`grue leaderboard`."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from grue import files
from grue.cli import options
from grue.errors import ConfigError, SubmissionError

if TYPE_CHECKING:
    from rich.console import Console

    from grue.leaderboard.board import Board
    from grue.records import Entry, Example
    from grue.render.layout import TextTable
    from grue.tasks import Task

PUBLISHED = {
    "markdown": "md",
    "json": "json",
    "csv": "csv",
    "latex": "tex",
    "html": "html",
}  # format → ending of the file name
BOOTSTRAP_SEED = 0  # of --ci bootstrap, so that equal results have equal intervals


@click.command()
@options.suite
@options.option("--task", "task_name", help="Show one task with all its metrics, ordered by it alone.")
@options.option(
    "--format",
    "form",
    type=click.Choice(["rich", *PUBLISHED]),
    help="[default: rich on a terminal, else markdown]",
)
@options.option(
    "--sort",
    "column",
    default="rank",
    help="Column to order by: rank, system, preference, naturalness, a task, or task.metric.",
)
@options.option(
    "--ci",
    "interval_kind",
    type=click.Choice(["t", "bootstrap", "none"]),
    default="t",
    help="Method of the 95 % intervals; ranks do not depend on it.",
)
@options.option("--compat", type=click.Choice(["paper"]), help="Score by plain means of raw metrics, as in the paper.")
@options.option("--iqm", is_flag=True, help="Show the interquartile mean too; it decides no rank.")
@options.runs
@options.option(
    "--submissions",
    type=click.Path(path_type=Path),
    default=Path("submissions"),
    help="Folder of submitted results; if it is missing, the rows that ship with grue.",
)
@options.option("--no-local", is_flag=True, help="Leave out the results under --runs.")
@options.option("--output", type=click.Path(path_type=Path), help="File to write instead of printing.")
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
    context: click.Context, /, publish: Path | None, output: Path | None, check: bool, form: str | None, **asked: Any
) -> None:
    """Print the board: submissions, and the results of this folder's runs as local rows."""
    if publish is not None or (check and output is None):
        _refuse_beside_publish(context)
        _publish(publish or Path("leaderboard"), asked["submissions"], check)
        return
    board = board_of(context, **asked)
    form = form or ("rich" if output is None and sys.stdout.isatty() else "markdown")
    if form == "rich":
        if output is not None:
            raise ConfigError(f"--format rich is for a terminal, not for a file; choose {_listed(PUBLISHED)}.")
        _print_tables(board)
    elif output is None:
        click.echo(_render(board, form), nl=False)
    elif not check:
        files.write_text(output, _render(board, form))
        click.echo(str(output))
    elif not _is(output, _render(board, form)):
        raise SubmissionError(f"{output} does not match the results; run `make leaderboard` and commit it.")


def board_of(
    context: click.Context,
    suite: str,
    task_name: str | None,
    column: str,
    interval_kind: Any,
    compat: str | None,
    iqm: bool,
    runs: Path,
    submissions: Path,
    no_local: bool,
) -> "Board":
    """Return the board for the options."""
    import numpy as np

    from grue.leaderboard.entries import find_results
    from grue.leaderboard.order import sorted_by
    from grue.leaderboard.published import shipped
    from grue.leaderboard.rank import rank
    from grue.submissions.folder import results
    from grue.submissions.reported import read_reported
    from grue.task_files import load_task, task_names

    tasks = [load_task(name, suite) for name in ([task_name] if task_name else task_names(suite))]
    of_suite = tasks[0].suite if tasks else suite
    chosen = context.get_parameter_source("submissions") is not ParameterSource.DEFAULT
    here = chosen or submissions.is_dir()
    board = rank(
        [
            *(results(submissions, of_suite) if here else ()),
            *(() if no_local else find_results(runs, of_suite)),
        ],
        tasks,
        interval_kind=interval_kind,
        scoring="paper" if compat else "grue-1",
        reported=read_reported(submissions, of_suite) if here else (),
        generator=np.random.default_rng(BOOTSTRAP_SEED),
        iqm=iqm,
        shipped=None if here else shipped(of_suite),
    )
    return sorted_by(board, column)


def _render(board: "Board", form: str, shown: Collection[str] = ()) -> str:
    """Return the board in a format; `shown` are the tasks with a file of examples beside the page."""
    from importlib import import_module

    if form == "html":
        from grue.render import html

        return html.render(board, _illustrations(board), shown)
    module = {"json": "as_json", "csv": "as_csv"}.get(form, form)
    text: str = import_module(f"grue.render.{module}").render(board)
    return text


def _illustrations(board: "Board") -> dict[str, "Example"]:
    """Return an example of each task whose data ships with grue: a page must not depend on what else a machine has."""
    from grue.leaderboard.examples import illustration
    from grue.task_files import SUITES, load_task, task_names

    known = set(task_names(board.suite)) if board.suite in SUITES else set()
    tasks = [load_task(task.name, board.suite) for task in board.tasks if task.name in known]
    loaded = {task.name: _examples_of(task) for task in tasks if _is_embedded(task)}
    return {name: found for name, examples in loaded.items() if examples and (found := illustration(examples))}


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
    """Write the boards of all suites, or check that the existing files are current.

    Raises:
        SubmissionError: Files are not current; names each.
    """
    texts = dict(_published(folder, submissions))
    stale = [path for path, text in texts.items() if (path.exists() if text is None else not _is(path, text))]
    if check and stale:
        raise SubmissionError(
            f"{_listed(stale)} {'is' if len(stale) == 1 else 'are'} not current with {submissions}; run "
            f"`grue leaderboard --publish {folder}` and commit {'it' if len(stale) == 1 else 'them'}."
        )
    count = sum(text is not None for text in texts.values())
    if check:
        click.echo(f"The {count} files of {folder} are current with {submissions}.", err=True)
        return
    for path in stale:
        text = texts[path]
        if text is None:
            path.unlink()
        else:
            files.write_text(path, text)
        click.echo(str(path) if text is not None else f"{path} (removed)")
    if not stale:
        click.echo(f"The {count} files of {folder} are already current with {submissions}.", err=True)


def _published(folder: Path, submissions: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the path and the text of every file of the published boards; None for a file that is not to be there."""
    from grue.leaderboard.rank import rank
    from grue.submissions.folder import results
    from grue.submissions.reported import read_reported
    from grue.task_files import SUITES, load_task, task_names

    for suite in sorted(SUITES):
        tasks = [load_task(name, suite) for name in task_names(suite)]
        entries = results(submissions, suite)
        board = rank(entries, tasks, reported=read_reported(submissions, suite))
        place = folder / "examples" / suite
        beside = {place / f"{task.name}.js": _example_file(place, task, board, entries) for task in tasks}
        shown = [path.stem for path, text in beside.items() if text is not None]
        gone = [path for path in sorted(place.glob("*.js")) if beside.get(path) is None]
        yield from ((path, text) for path, text in beside.items() if text not in (None, KEPT))
        yield from ((path, None) for path in gone)
        for form, ending in PUBLISHED.items():
            yield folder / f"{suite}.{ending}", _render(board, form, shown)


KEPT = ""  # of a file that stays what it is


def _example_file(place: Path, task: "Task", board: "Board", entries: "Sequence[Entry]") -> str | None:
    """Return the text of a task's file of examples; None if there is to be none.

    A file stays what it is where the task's data is not on this machine.
    """
    from grue.leaderboard.examples import task_examples
    from grue.render import as_examples

    if all(task.name not in row.cells for row in board.rows):
        return None
    examples = _examples_of(task)
    if examples is None:
        return KEPT if (place / f"{task.name}.js").is_file() else None
    found = task_examples(task, board, entries, examples)
    return None if found is None else as_examples.render(found)


def _examples_of(task: "Task") -> "Sequence[Example] | None":
    """Return the examples of a task's evaluation split; None if its data is not on this machine."""
    from grue.data.load import load_examples
    from grue.errors import DataError

    try:
        return load_examples(task, task.data.evaluation, offline=True).examples
    except DataError:
        if _is_embedded(task):  # it is damaged, not missing
            raise
        return None


def _is_embedded(task: "Task") -> bool:
    return any(source.kind == "mini" for source in task.data.sources)


def _is(path: Path, text: str) -> bool:
    """Whether a file has this content, byte for byte."""
    return path.is_file() and path.read_bytes() == text.encode("utf-8")


def _listed(things: Iterable[object]) -> str:
    *first, last = map(str, things)
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
        tables = [table for one in board.reported for table in one.tables]
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

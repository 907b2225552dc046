"""`grue leaderboard`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options
from grue.errors import SubmissionError

if TYPE_CHECKING:
    from grue.leaderboard.board import Board


@click.command()
@options.suite
@options.option("--task", "task_name", help="Show one task with all its metrics, ordered by it alone.")
@options.option(
    "--format",
    "form",
    type=click.Choice(["rich", "markdown", "json"]),
    help="[default: rich on a terminal, else markdown]",
)
@options.runs
@options.option(
    "--submissions", type=click.Path(path_type=Path), default=Path("submissions"), help="Folder of submitted results."
)
@options.option("--no-local", is_flag=True, help="Leave out the results under --runs.")
@options.option("--output", type=click.Path(path_type=Path), help="File to write instead of printing.")
@options.option("--check", is_flag=True, help="Fail if the file of --output is not what would be written.")
def leaderboard(
    suite: str,
    task_name: str | None,
    form: str | None,
    runs: Path,
    submissions: Path,
    no_local: bool,
    output: Path | None,
    check: bool,
) -> None:
    """Print the board: submissions, and the results of this folder's runs as local rows."""
    from grue.leaderboard.rank import find_results, rank
    from grue.submissions import folder as submitted
    from grue.tasks import load_task, task_names

    tasks = [load_task(name, suite) for name in ([task_name] if task_name else task_names(suite))]
    entries = submitted.results(submissions) if submissions.is_dir() else []
    if not no_local:
        entries += find_results(runs)
    board = rank(entries, tasks)
    form = form or ("rich" if output is None and sys.stdout.isatty() else "markdown")
    if form == "rich":
        _print_tables(board)
        return
    text = _render(board, form)
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        files.write_text(output, text)
        click.echo(str(output))
    elif not output.is_file() or output.read_text(encoding="utf-8") != text:
        raise SubmissionError(f"{output} is not what the results give; run `make leaderboard` and commit it.")


def _render(board: "Board", form: str) -> str:
    from grue.render import as_json, markdown

    return markdown.render(board) if form == "markdown" else as_json.render(board)


def _print_tables(board: "Board") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from grue.render.tables import narrow, page

    content = page(board)
    console = Console(highlight=False)
    console.print(Text(content.title, style="bold"))
    for table in (part for whole in content.tables for part in narrow(whole, console.width)):
        shown = Table(title=table.title or None, title_justify="left")
        for column in table.columns:
            shown.add_column(Text(column.header), justify="right" if column.is_number else "left")
        for row in table.rows:
            shown.add_row(*map(Text, row))
        console.print(shown)
    for line in (*content.legend, *content.notes):
        console.print(Text(f"· {line}", style="dim"))

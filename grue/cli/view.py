"""`grue view`: the board with this folder's runs, or the report of a comparison, in a browser."""

from pathlib import Path

import click

from grue import files
from grue.cli import options
from grue.errors import ConfigError


@click.command()
@click.argument(
    "folder", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), envvar="GRUE_RUNS", required=False
)
@options.option("--suite", help="As for `grue leaderboard`. [default: that of the runs]")
@options.submissions
@options.option("--no-open", is_flag=True, help="Only write the page and print its path.")
@click.pass_context
def view(context: click.Context, folder: Path, suite: str | None, submissions: Path, no_open: bool) -> None:
    """Open the board with the runs in FOLDER [default: runs], or the report of `grue bench` in FOLDER.

    \b
    grue view
    grue view bench
    """  # noqa: D301 (click reads the escape)
    from grue.sweep.bench import PAGE

    page = folder / PAGE
    if not page.is_file():
        page = _board(context, folder, suite, submissions)
    click.echo(str(page))
    if not no_open:
        import webbrowser

        if not webbrowser.open(page.absolute().as_uri()):
            click.echo("There is no browser here; open the file in one.", err=True)


def _board(context: click.Context, runs: Path, suite: str | None, submissions: Path) -> Path:
    """Write the page of the board with local rows; return its path.

    Raises:
        ConfigError: There is no result, or there are results of several suites and none is named.
    """
    from grue.cli.board import board_of
    from grue.render.publish import render

    suites = sorted({path.parts[-5] for path in runs.glob("*/*/*/seed-*/result.json")})
    if not suites:
        raise ConfigError(f"{runs}: holds no results of `grue evaluate` and no report of `grue bench`.")
    if suite is None and len(suites) > 1:
        raise ConfigError(f"{runs}: holds results of several suites; add --suite, one of {', '.join(suites)}.")
    chosen = suite or suites[0]
    board, _ = board_of(context, suite=chosen, task_name=None, runs=runs, submissions=submissions, no_local=False)
    page = runs / board.suite / "board.html"
    files.write_text(page, render(board, "html"))
    return page

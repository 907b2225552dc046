"""`grue submit`."""

import json
from pathlib import Path

import click

from grue import files
from grue.cli import options
from grue.errors import SubmissionError


@click.group()
def submit() -> None:
    """Check submissions."""


@submit.command("check")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@options.option("--report", type=click.Choice(["text", "json"]), default="text", help="How to report.")
def check_submissions(paths: tuple[Path, ...], report: str) -> None:
    """Check submissions: structure, frozen ids, and every score recomputed from the predictions.

    PATHS are folders of submissions, `submissions` if none is given.
    """
    from grue.submissions.checks import check

    problems = [problem for path in paths or (Path("submissions"),) for problem in check(path)]
    if report == "json":
        click.echo(json.dumps([files.plain(problem) for problem in problems], indent=2))
    for problem in problems if report == "text" else ():
        click.echo(f"{problem.id} {problem.severity}: {problem.path}: {problem.message} {problem.cure}")
    errors = sum(problem.severity == "error" for problem in problems)
    if errors:
        raise SubmissionError(f"{errors} problem{'s' if errors > 1 else ''} to mend before this can be merged.")
    click.echo("All submissions are fine.", err=True)

"""`grue tools schema` and `grue tools doctor`."""

import click

from grue.cli.console import print_json
from grue.data.scored_lines import scored_schema
from grue.doctor import examine
from grue.leaderboard.board import Board
from grue.records import Example, Prediction, Result
from grue.shapes import json_schema
from grue.submissions.entries import Recomputed
from grue.submissions.folder import Submission
from grue.submissions.reported import Reported
from grue.task_files import task_schema


@click.command()
@click.argument(
    "kind",
    type=click.Choice(
        ["result", "submission", "task", "example", "prediction", "scored", "board", "reported", "recomputed"]
    ),
)
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file; submission and task are in TOML."""
    classes = {
        **{"result": Result, "submission": Submission, "example": Example, "prediction": Prediction},
        **{"board": Board, "reported": Reported, "recomputed": Recomputed},
    }
    composed = {"task": task_schema, "scored": scored_schema}
    print_json(composed[kind]() if kind in composed else json_schema(classes[kind]))


@click.command()
def doctor() -> None:
    """Check what grue runs on, what is installed, and what is missing."""
    problems = 0
    for finding in examine():
        click.echo(f"  {'ok ' if finding.fine else '-- '} {finding.subject:<30}{finding.state}")
        problems += not finding.fine and finding.needed
    if problems:
        click.echo("A required part of grue is missing; `pip install --force-reinstall grue` installs it.", err=True)
        raise SystemExit(3)

"""`grue schema`, `grue doctor` and `grue mini build`."""

import json
from pathlib import Path

import click

from grue.cli import options


@click.command()
@click.argument(
    "kind", type=click.Choice(["result", "submission", "task", "example", "prediction", "board", "reported"])
)
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file; submission and task are written in TOML."""
    from grue.leaderboard.board import Board
    from grue.records import Example, Prediction, Result
    from grue.shapes import json_schema
    from grue.submissions.folder import Submission
    from grue.submissions.reported import Reported
    from grue.task_files import task_schema

    classes = {
        **{"result": Result, "submission": Submission, "example": Example, "prediction": Prediction},
        **{"board": Board, "reported": Reported},
    }
    click.echo(json.dumps(task_schema() if kind == "task" else json_schema(classes[kind]), indent=2))


@click.command()
def doctor() -> None:
    """List what is installed, what is missing and what needs it."""
    from grue.doctor import examine

    problems = 0
    for finding in examine():
        click.echo(f"  {'ok ' if finding.fine else '-- '} {finding.what:<24}{finding.state}")
        problems += not finding.fine and finding.needed
    if problems:
        click.echo(
            "A required part of grue is missing; `pip install --force-reinstall grue` installs it.",
            err=True,
        )
        raise SystemExit(3)


@click.group()
def mini() -> None:
    """The embedded suite."""


@mini.command()
@options.option("--output", type=click.Path(path_type=Path), help="Folder to write to. [default: the package's own]")
@options.option("--only", multiple=True, help="Build only this model; repeat for several.")
def build(output: Path | None, only: tuple[str, ...]) -> None:
    """Train the small models of the mini suite again, from nothing."""
    from grue.lm.load import quiet
    from grue.mini.assets import MODELS
    from grue.mini.build import build as build_models

    with quiet():
        build_models(output or MODELS, only=only or None, log=lambda line: click.echo(line, err=True))

"""`python -m miniworld`: write what ships in `grue/mini/`, the rows of the tasks and the small models; draw others."""

from pathlib import Path

import click

from grue.errors import GrueError
from grue.mini.manifest import HERE
from miniworld.draw import TASKS
from miniworld.recipes import RECIPES
from miniworld.ship import write_held_back, write_rows

to_folder = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=HERE,
    help="Folder to write to. [default: grue/mini]",
)


def _log(line: str) -> None:
    click.echo(line, err=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Write what ships in grue/mini: the rows of the tasks and the small models."""


@main.command()
@click.option("--only", type=click.Choice(list(TASKS)), multiple=True, help="Draw only this task; repeat for several.")
@to_folder
def rows(only: tuple[str, ...], out: Path) -> None:
    """Draw the rows of the mini tasks: seconds, and the same bytes everywhere."""
    write_rows(out, _log, only)


@main.command("held-back")
@click.option("--task", type=click.Choice(list(TASKS)), required=True, help="Task to draw rows of.")
@click.option("--seed", type=int, required=True, help="Seed of the draw; keep it to yourself until results are in.")
@click.option("--count", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of examples.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write, .jsonl or .jsonl.gz; then: grue evaluate --split FILE.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def held_back(task: str, seed: int, count: int, out: Path, force: bool) -> None:
    """Draw fresh test examples of a task, which nobody has who does not know the seed.

    They follow the rules of the test split, and none is in a split that ships.
    """
    _log(f"{out}: {count} examples in {write_held_back(out, task, seed, count, force)} rows")


@main.command()
@click.option(
    "--only", type=click.Choice(list(RECIPES)), multiple=True, help="Train only this model; repeat for several."
)
@to_folder
def models(only: tuple[str, ...], out: Path) -> None:
    """Train the small models from nothing: the same bytes only with the same machine, libraries and threads."""
    from grue.lm.quiet import quiet
    from miniworld.build import build

    with quiet():
        build(out, _log, only)


if __name__ == "__main__":
    try:
        main(prog_name="python -m miniworld", standalone_mode=True)
    except GrueError as error:
        raise SystemExit(f"Error: {error}") from None

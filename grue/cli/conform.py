"""`grue tools conform`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from grue import files
from grue.cli import options
from grue.cli.console import data_console, print_json, table
from grue.cli.curves import seen
from grue.cli.curves import show as show_curves
from grue.render.figures import figure, p_value

if TYPE_CHECKING:
    from grue.conform import Conformance


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@options.option("--algo", "method", default="grpo", help="grpo or rloo.")
@options.option("--task", "task_name", default="imdb", help="A task with a causal backbone, by name or file.")
@options.suite
@options.option("--seeds", default="1-5", help="1-5, or 1,2,7.")
@options.option(
    "--theirs",
    type=click.Path(path_type=Path),
    help="Figures of another trainer, a log a seed as grue.callbacks writes them. [default: TRL trains]",
)
@options.option("--updates", type=click.IntRange(min=2), default=16, help="Optimiser steps.")
@options.option("--batch", type=click.IntRange(min=2), default=64, help="Responses of a step.")
@options.option("--every", type=click.IntRange(min=1), default=4, help="Steps between measurements.")
@options.option("--examples", type=click.IntRange(min=2), default=200, help="Validation prompts of a measurement.")
@options.option(
    "--learning-rate",
    type=click.FloatRange(min=0, min_open=True),
    default=3e-4,
    help="Constant; AdamW without decay.",
)
@options.as_json
def conform(
    folder: Path,
    method: str,
    task_name: str,
    suite: str,
    seeds: str,
    theirs: Path | None,
    updates: int,
    batch: int,
    every: int,
    examples: int,
    learning_rate: float,
    as_json: bool,
) -> None:
    """Say whether grue's trainer and another, TRL's by default, learn the same, and where their first updates differ.

    Both begin from the same weights, on the same data, with the same reward and budget; FOLDER gets the runs, and the
    same command resumes it. Exit code 1: they differ beyond what seeds explain.

    \b
    grue tools conform same --algo grpo
    grue tools conform mine --algo rloo --theirs my_trainer/    # seeds' figures.jsonl
    """  # noqa: D301 (click reads the escape)
    from grue.conform import Stated
    from grue.conform import conform as compared
    from grue.runs.request import parse_seeds
    from grue.task_files import load_task

    stated = Stated(method, updates, batch, learning_rate=learning_rate, every=every, examples=examples)
    found = compared(load_task(task_name, suite), stated, parse_seeds(seeds), folder, theirs)
    if as_json:
        print_json({**files.plain(found), "differs": found.differs})
    else:
        show(found)
    if found.differs:
        raise click.exceptions.Exit(1)


def show(found: "Conformance") -> None:
    """Print the curves, the first update, and what may explain a difference there."""
    console = data_console()
    for curves in found.curves:
        show_curves(curves, "grue", found.theirs)
        console.print(f"{seen(curves)}\n", soft_wrap=True)
    if found.first:
        rows = table("first update", "grue", found.theirs, "ratio", "p", "Holm p")
        for one in found.first:
            values = (f"{one.ours:.4g}", f"{one.theirs:.4g}", figure(one.ratio, ".3g"))
            rows.add_row(one.name, *values, p_value(one.p), p_value(one.p_holm))
        console.print(rows)
        for cause in found.causes:
            console.print(f"· {cause}", soft_wrap=True)
    old, new = len(found.curves[0].old), len(found.curves[0].new)
    verdict = "they differ" if found.differs else "no difference found"
    console.print(
        Text.assemble((verdict, "bold"), f" between {old} seeds of grue and {new} of {found.theirs}."), soft_wrap=True
    )

"""`grue tools reward`: train a reward model on pairs, and evaluate it."""

from pathlib import Path
from typing import Any

import click

from grue.api import preferences as api
from grue.cli import options
from grue.cli.console import error_console, print_json, stop_on_signal
from grue.preferences.card import bins, figures
from grue.preferences.settings import reward_settings


@click.group()
def reward() -> None:
    """Train a reward model on pairs, and judge it; it is then a metric and a reward, model:DIR."""


@reward.command()
@click.argument("pairs", type=options.PATH)
@options.output("Folder to write.", required=True)
@options.option("--backbone", help="A folder, a hub id, or mini:encoder, say. [default: the task's]")
@options.option("--task", "task_name", help="Task whose prompts are answered. [default: the file's]")
@options.suite
@options.option("--split", help="Whose prompts are answered. [default: the file's, or rl or train]")
@options.option("--seed", type=int, default=1, help="Seed of the head's initial weights and the order of the pairs.")
@options.changes("One setting, such as epochs=2; repeat for several.")
@options.data
def train(pairs: Path, output: Path, task_name: str | None, settings: tuple[str, ...], **arguments: Any) -> None:
    """Train a reward model on a file of pairs.

    The same command resumes an interrupted training and leaves a finished folder alone.

    \b
    grue tools reward train pairs.jsonl --backbone mini:causal -o reward-model
    grue train --task imdb --algo ppo --reward model:reward-model
    """  # noqa: D301 (click reads the escape)
    chosen = options.parse_settings(settings)
    reward_settings(chosen)  # refuses what is no setting, which would be taken for an argument
    console = error_console()

    def progress(done: int, total: int, validation: str) -> None:
        if validation:
            console.print(f"step {done}/{total}  {validation}", soft_wrap=True, markup=False)

    with stop_on_signal("Stopping after this step; press Ctrl-C again to stop at once.") as stop:
        manifest = api.train_reward(
            pairs, output, task_name, progress=progress, stop=lambda: bool(stop), **arguments, **chosen
        )
    click.echo(str(output))
    if manifest.held_out is None:
        unknown = "unknown: the file has no pairs in the part test, which nothing learns from"
        click.echo(f"  {'accuracy':<18}{unknown}", err=True)
    else:
        for name, value in figures(manifest.held_out):
            click.echo(f"  {name:<18}{value}", err=True)


@reward.command()
@click.argument("folder", metavar="DIR", type=options.PATH)
@click.argument("pairs", type=options.PATH)
@options.option(
    "--part",
    type=click.Choice(["train", "validation", "test", "all"]),
    help="Part of the file. [default: test, if the file says which that is; else all]",
)
@options.option("--task", "task_name", help="Task whose prompts are answered. [default: the file's, or the model's]")
@options.suite
@options.option("--split", help="Whose prompts are answered. [default: the file's, or rl or train]")
@options.data
@options.as_json
def evaluate(folder: Path, pairs: Path, task_name: str | None, as_json: bool, **arguments: Any) -> None:
    """Judge a reward model by the pairs of a file: accuracy, log-loss and calibration."""
    evaluation = api.evaluate_reward(folder, pairs, task_name, **arguments)
    if as_json:
        print_json(evaluation)
        return
    click.echo(f"{folder} on {pairs}, part {evaluation.part}")
    for name, value in figures(evaluation.found):
        click.echo(f"  {name:<18}{value}")
    for confidence, count, right in bins(evaluation.found):
        click.echo(f"  {confidence:<18}{count} pairs, {right} right")
    if evaluation.seen:
        click.echo(
            f"{evaluation.seen:,} of the prompts were learned from: this is not what it does on new ones.", err=True
        )

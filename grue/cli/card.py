"""`grue tools card`."""

from pathlib import Path
from typing import Any

import click

from grue import files
from grue.cli import options
from grue.cli.console import evaluation_progress, print_json
from grue.task_files import load_task


@click.command()
@click.argument("task_name", metavar="TASK", required=False)
@options.option(
    "--verifiers", metavar="MODULE[:ARGS]", help="In place of TASK: a single-turn environment of verifiers."
)
@options.option("--tokens", type=options.COUNT, default=64, help="The limit of an answer with --verifiers.")
@options.suite
@options.option("-o", "--output", "--out", "folder", type=options.FOLDER, required=True, help="Gets the card.")
@options.option("--init", type=options.PATH, help="A run or a checkpoint to start from.")
@options.option("--backbone", help="Model to start from instead of the task's: a folder, a hub id, or mini:NAME.")
@options.reward
@options.option("--seed", type=int, default=1, help="Of every draw.")
@options.option("--examples", type=int, default=100, help="Of the validation split, drawn by a hash.")
@options.option("--samples", type=int, default=32, help="To each of them; 16 at least.")
@options.data
@options.as_json
def card(
    task_name: str | None,
    verifiers: str | None,
    tokens: int,
    suite: str,
    folder: Path,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Say whether a task can be learnt or hacked, before anything is trained.

    It scores what needs no learning, the start and the best of its samples, and what happens to metrics that the
    reward does not contain when the reward is pushed: a page, a JSON file, and a verdict of a few sentences.

    \b
    grue tools card commongen --init runs/mini/commongen/supervised/seed-1 -o card
    grue tools card mine.toml -o card --examples 50 --samples 16
    grue tools card --verifiers reverse-text --backbone Qwen/Qwen3-0.6B -o card
    """  # noqa: D301 (click reads the escape)
    from grue.card.measure import measure
    from grue.card.report import page_of, verdict
    from grue.interop.environment import task_of_environment

    if (task_name is None) == (verifiers is None):
        raise click.UsageError("Name a task or, by --verifiers, an environment.")
    if verifiers is None:
        task = load_task(str(task_name), suite)
    else:
        if not arguments["backbone"]:
            raise click.UsageError("An environment names no model to start from: add --backbone.")
        task, own = task_of_environment(verifiers, folder, arguments["backbone"], tokens)
        arguments["reward"] = arguments["reward"] or own
    measured = measure(task, stage=lambda title: evaluation_progress(f"{task.name}: {title}"), **arguments)
    record = {**files.plain(measured), "verdict": verdict(measured)}
    files.write_json(folder / "card.json", record)
    files.write_text(folder / "card.html", page_of(measured))
    if as_json:
        print_json(record)
        return
    for sentence in record["verdict"]:
        click.echo(f"- {sentence}")
    click.echo(str(folder / "card.html"), err=True)

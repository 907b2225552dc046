"""`grue generate`."""

from pathlib import Path
from typing import Any

import click

from grue.api import evaluate as api
from grue.cli import options
from grue.cli.console import evaluation_progress
from grue.errors import ConfigError


@click.command()
@options.option(
    "--checkpoint",
    required=True,
    help="Checkpoint folder of a run, or the run's folder; with --task any model, or zero-shot.",
)
@options.option("--task", "task_name", help="Task to answer. [default: the checkpoint's]")
@options.suite
@options.output("File to write.", required=True)
@options.option(
    "--split",
    help="Split to answer, or a file of rows. [default: the task's evaluation split, with --samples rl or train]",
)
@options.limit
@options.batch_size
@options.option("--seed", type=int, help="Seed of the sampling. [default: the checkpoint's, or 1]")
@options.option(
    "--samples", type=options.COUNT, help="Draw N responses to each prompt, as in rollouts; requires --score."
)
@options.option("--score", is_flag=True, help="Score each of the samples, to learn from them.")
@options.option("--reward", help="Reward that scores them, as for training. [default: the task's]")
@options.option("--temperature", type=float, help="Sampling temperature. [default: that of the task's rollouts]")
@options.data
def generate(checkpoint: str, output: Path, task_name: str | None, score: bool, **arguments: Any) -> None:
    """Write predictions without scoring them; or several scored samples to each prompt, which algorithms learn from.

    The same command resumes an interrupted one and leaves a finished file alone. With other settings, and where
    the file is another's, it is refused. FILE.claim.json says whose predictions FILE holds.

    \b
    grue generate --checkpoint runs/mini/imdb/ppo/seed-1 --output predictions.jsonl
    grue generate --checkpoint runs/mini/imdb/supervised/seed-1 --samples 8 --score --output samples.jsonl
    """  # noqa: D301 (click reads the escape)
    samples = arguments["samples"]
    if samples is not None and not score:
        raise ConfigError(
            "--samples draws responses to learn from, which need scores: add --score, and --reward if it is not the "
            "task's. To keep the best of several as a prediction, use `grue evaluate --best-of N`."
        )
    if samples is None and score:
        raise ConfigError(
            "--score scores several samples to each prompt: say how many with --samples N. Predictions are scored by "
            "`grue evaluate` and `grue score`."
        )
    with evaluation_progress(f"Answering with {checkpoint}") as progress:
        header = api.generate(checkpoint, output, task_name, progress=progress, **arguments)
    click.echo(str(output))
    if header is not None and header.responses < header.reward_calls:
        left_out = header.reward_calls - header.responses
        click.echo(
            f"{left_out:,} of {header.reward_calls:,} responses are left out: the reward does not apply.", err=True
        )

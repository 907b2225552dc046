"""`grue tools pairs`: preference pairs from samples, predictions or people's answers."""

from pathlib import Path
from typing import Any

import click

from grue.api import preferences as api
from grue.cli import options
from grue.data.pairs import PARTS, PairsHeader
from grue.errors import ConfigError
from grue.preferences.answers import PEOPLE


@click.group()
def pairs() -> None:
    """Make pairs of texts of which one is better, to train a reward model or a policy on.

    `grue data check FILE` says what a file of pairs holds.
    """


_choice = options.together(  # of all three commands
    options.option(
        "--shares",
        default="0.6,0.2,0.2",
        callback=lambda context, parameter, text: parse_shares(text),
        help="Shares of the prompts: train, validation and test.",
    ),
    options.option(
        "--ties", type=click.Choice(["drop", "keep"]), default="drop", help="Leave ties out, or record them."
    ),
    options.option("--seed", type=int, default=1, help="Seed of the choice of pairs, the annotator and the parts."),
    options.option("--pairs", type=options.COUNT, help="How many. [default: all]"),
    options.output("File to write.", required=True),
)


_noise = options.option(
    "--noise", default="none", help="Errors of the synthetic annotator: none, flip:P or bradley-terry:TEMPERATURE."
)


@pairs.command()
@click.argument("samples", type=options.PATH)
@options.option("--task", "task_name", help="Task. [default: the file's]")
@options.suite
@options.option("--split", help="Split or file of rows that was answered. [default: the file's]")
@_noise
@_choice
@options.data
def from_samples(samples: Path, output: Path, task_name: str | None, **arguments: Any) -> None:
    """Make pairs of scored samples, judged by their rewards.

    \b
    grue generate --checkpoint RUN --samples 4 --score --output samples.jsonl
    grue tools pairs from-samples samples.jsonl --pairs 1000 --noise bradley-terry:0.1 --output pairs.jsonl
    """  # noqa: D301 (click reads the escape)
    _report(output, api.pairs_from_samples(samples, output, task_name, **arguments))


@pairs.command(short_help="Make pairs of two systems' predictions.")
@click.argument("a", type=options.PATH)
@click.argument("b", type=options.PATH)
@options.option("--task", "task_name", required=True, help="Task.")
@options.suite
@options.option(
    "--split",
    help="Whose prompts were answered. [default: what policies learn from: rl if the task has it, else train]",
)
@options.option("--reward", help="Reward that judges, as for training. [default: the task's]")
@_noise
@_choice
@options.data
def from_predictions(a: Path, b: Path, output: Path, task_name: str, **arguments: Any) -> None:
    """Make pairs of two systems' predictions, judged by a reward.

    \b
    grue generate --checkpoint RUN_A --split rl --output a.jsonl
    grue generate --checkpoint RUN_B --split rl --output b.jsonl
    grue tools pairs from-predictions a.jsonl b.jsonl --task imdb --output pairs.jsonl
    """  # noqa: D301 (click reads the escape)
    _report(output, api.pairs_from_predictions(a, b, output, task_name, **arguments))


@pairs.command(short_help="Make pairs of people's answers in a study.")
@click.argument("answers", type=options.PATH)
@options.option("--task", "task_name", required=True, help="Task.")
@options.suite
@options.option("--split", help="Split of the study. [default: the task's evaluation split]")
@_choice
@options.data
def from_study(answers: Path, output: Path, task_name: str, **arguments: Any) -> None:
    """Make pairs of what most people answered in a study of pairs; where programs answered, the file says so.

    \b
    grue tools study analyse DIR --answers answers.jsonl
    grue tools pairs from-study answers.jsonl --task imdb --output pairs.jsonl
    """  # noqa: D301 (click reads the escape)
    header = api.pairs_from_study(answers, output, task_name, **arguments)
    _report(output, header)
    if header.noise != PEOPLE:
        click.echo(f"Answered by {header.noise}: answers of programs are no opinions of people.", err=True)


def parse_shares(text: str) -> dict[str, float]:
    """Return "0.6,0.2,0.2" as part → share; a ConfigError if it is not three numbers."""
    try:
        values = [float(value) for value in text.split(",")]
        return dict(zip(PARTS, values, strict=True))
    except ValueError as error:
        raise ConfigError(f"--shares {text}: give three numbers, such as 0.6,0.2,0.2.") from error


def _report(output: Path, header: PairsHeader) -> None:
    click.echo(str(output))
    click.echo(
        f"{header.pairs:,} pairs of {header.prompts:,} prompts, {header.ties:,} of them ties; {header.dropped_ties:,} "
        f"ties left out; {header.contradictions:,} judged both ways.",
        err=True,
    )

"""`grue tools push`, `grue tools export` and `grue tools import`: exchange with the hub and other harnesses."""

from pathlib import Path
from typing import Any, get_args

import click

from grue.api import exchange as api
from grue.cli import options
from grue.cli.console import warn
from grue.exchange.formats import FORMATS

_benchmark = options.option(
    "--benchmark",
    default="",
    help="OWNER/NAME of the data set on the hub whose leaderboard the scores are for. [default: the task's own]",
)


@click.command()
@click.argument("folder", metavar="RUN_OR_CHECKPOINT", type=options.PATH)
@options.option("--to", required=True, metavar="OWNER/NAME", help="The model's repository; made if it is not there.")
@options.option("--private", is_flag=True, help="Make it private; a public one that is there is refused.")
@options.option("--samples", is_flag=True, help="Upload the predictions, their scores and the result, too.")
@_benchmark
@options.option("--endpoint-url", default="", help="The hub's address. [default: HF_ENDPOINT, or huggingface.co]")
@options.option("--force", is_flag=True, help="Push to a repository that holds something else.")
@options.option("--dry-run", is_flag=True, help="List the files and upload nothing; needs no token.")
def push(folder: Path, to: str, **arguments: Any) -> None:
    """Upload a checkpoint to the Hugging Face hub, with its card and its scores.

    The token is the one of `hf auth login` or HF_TOKEN. All files go into one commit; the same command
    sends only what has changed. The card tells the scores of validation and of the evaluation, and
    .eval_results/ those that the hub shows on leaderboards.
    """
    pushed = api.push(folder, to, warn=warn, **arguments)
    for path, size in pushed.sizes.items():
        click.echo(f"{size:>15,}  {path}")
    total = f"{len(pushed.sizes)} files, {sum(pushed.sizes.values()):,} bytes"
    uploaded = pushed.uploaded
    if uploaded is None:
        click.echo(f"{total} would go to {to}; nothing was sent.")
    elif uploaded.changed:
        click.echo(f"{total} → {uploaded.url} (commit {uploaded.commit[:12]})")
    else:
        click.echo(f"{uploaded.url} has all of it already (commit {uploaded.commit[:12]}); nothing was sent.")


@click.command()
@click.argument("results", nargs=-1, required=True, type=options.PATH)
@options.option("--format", "form", required=True, type=click.Choice(FORMATS.built_in()))
@options.output("File to write.", required=True)
@options.option("--model", default="", metavar="OWNER/NAME", help="The model's id on the hub, if it is there.")
@options.option("--organization", default="", help="Who evaluated, for every-eval-ever.")
@_benchmark
@options.option("--source-url", default="", help="Where outputs or logs can be seen.")
@options.force
def export(results: tuple[Path, ...], form: str, output: Path, **arguments: Any) -> None:
    """Write a system's results in a format of others.

    RESULTS are result.json files, or folders that hold some. Several seeds become their mean, with its
    95 % interval.

    \b
    grue tools export runs/mini/commongen/ppo --format every-eval-ever -o ppo.json
    """  # noqa: D301 (click reads the escape)
    api.export(results, form, output, **arguments)
    click.echo(str(output))


@click.command("import")
@click.argument("log", type=options.PATH)
@options.option("--from", "source", required=True, type=click.Choice(get_args(api.Source)), help="Whose log it is.")
@options.option("--task", "task_name", required=True, help="Task that was answered.")
@options.suite
@options.option("--split", help="Split that was answered, or a file of rows. [default: the task's evaluation split]")
@options.output("File to write.", required=True)
@options.option("--filter", help="Whose answers to take, where lm-eval applied several filters.")
@options.option("--epoch", type=options.COUNT, help="Which answers to take, where inspect ran several epochs.")
@options.force
@options.data
def import_log(log: Path, output: Path, task_name: str, **arguments: Any) -> None:
    """Take predictions for a task from the log of another harness, to score them with `grue score`.

    LOG is lm-evaluation-harness's samples_*.jsonl (--log_samples), or inspect's .eval or .json. Each answer
    is matched with an example by its document's id, its prompt, or its position.

    \b
    grue tools import samples_commongen_2026.jsonl --from lm-eval --task commongen -o predictions.jsonl
    grue score predictions.jsonl --task commongen
    """  # noqa: D301 (click reads the escape)
    matched = api.import_predictions(log, output, task_name, warn=warn, **arguments)
    ways = ", ".join(f"{count} by {way}" for way, count in matched.ways.most_common())
    click.echo(f"{output}: {len(matched.predictions)} predictions, matched {ways}")

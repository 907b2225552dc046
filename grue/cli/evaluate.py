"""`grue evaluate` and `grue generate`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from grue import files
from grue.cli import options
from grue.cli.score import places_of, score_table
from grue.errors import ConfigError
from grue.records import BASELINES

if TYPE_CHECKING:
    from grue.records import Result

Kind = Literal["checkpoint", "model", "baseline"]


@click.command()
@options.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint folder of a run, or the run's folder; with --task any model, as --model.",
)
@options.option(
    "--model", help="Hugging Face model trained elsewhere: a folder, a hub id or mini:causal. Needs --task."
)
@options.option(
    "--baseline",
    type=click.Choice(tuple(BASELINES)),
    help="A system without training; nearest to best-of-n are lookups, of which each task has some. Needs --task.",
)
@options.option("--task", "task_name", help="Task to evaluate on. [default: the checkpoint's]")
@options.suite
@options.seeds
@options.option(
    "--split",
    help="Split to evaluate, or a file of rows (.jsonl, .jsonl.gz) in the data set's columns; the result of a file is "
    "never ranked. [default: the task's evaluation split]",
)
@options.option(
    "--limit", type=click.IntRange(min=1), help="Evaluate only the first N examples; such a result is never ranked."
)
@options.option("--batch-size", type=click.IntRange(min=1), default=64, help="Prompts decoded at once.")
@options.option(
    "--best-of",
    type=click.IntRange(min=2),
    help="Draw N samples a prompt and keep the best; the result is another system's, NAME+best-of-N.",
)
@options.option(
    "--pick-by",
    help="likelihood, consensus (what the other samples agree with most), or a reward as in training; one that needs "
    "references makes it an oracle. "
    "[default: the task's reward, or likelihood where that would be an oracle]",
)
@options.option(
    "--frontier",
    type=click.Path(path_type=Path),
    help="What `grue frontier -o` wrote of the run's start: the result says which share of it the run gained.",
)
@options.option("--output", type=click.Path(path_type=Path), help="Folder to write to. [default: the run's folder]")
@options.option("--force", is_flag=True, help="Replace an evaluation that is there.")
@options.runs
@options.data
@options.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    checkpoint: Path | None,
    model: str | None,
    baseline: str | None,
    task_name: str | None,
    suite: str,
    seed: tuple[int, ...],
    seed_range: str | None,
    split: str | None,
    limit: int | None,
    batch_size: int,
    best_of: int | None,
    pick_by: str | None,
    frontier: Path | None,
    output: Path | None,
    force: bool,
    runs: Path,
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Generate predictions for a task's evaluation split and score them.

    Writes predictions.jsonl, scores.jsonl and result.json. The same command resumes an interrupted
    evaluation and leaves a finished one alone.
    """
    from grue import api
    from grue.cli.progress import evaluation_progress
    from grue.lm.checkpoint import is_checkpoint

    if sum(choice is not None for choice in (checkpoint, model, baseline)) != 1:
        raise ConfigError("Say what to evaluate: one of --checkpoint FOLDER, --model NAME or --baseline NAME.")
    if pick_by is not None and best_of is None:
        raise ConfigError("--pick-by says how the best of several samples is picked; add --best-of N.")
    if checkpoint is None and task_name is None:
        raise ConfigError("--model and --baseline need --task: what should they be evaluated on?")
    if checkpoint is not None and task_name is not None and not is_checkpoint(checkpoint):
        model, checkpoint = str(checkpoint), None  # a model that was trained elsewhere, or not at all
    kind: Kind = "checkpoint" if checkpoint is not None else "model" if model is not None else "baseline"
    results = []
    for one in [0] if checkpoint is not None else options.parse_seeds(seed, seed_range):
        subject = api.subject(
            checkpoint or model or str(baseline),
            task_name,
            kind=kind,
            seed=one,
            suite=suite,
            best_of=best_of,
            pick_by=pick_by,
            runs=runs,
        )
        system, folder = subject.system, output or subject.folder
        if system.best_of is not None and system.best_of.oracle:
            click.echo(
                f"Warning: {system.best_of.pick_by} reads the references, so picking by it is an oracle: the result "
                f"({system.name}) shows what the best of {best_of} samples could be, not what a system reaches.",
                err=True,
            )
        with evaluation_progress(f"{system.name} on {subject.task.suite}/{subject.task.name}") as progress:
            result = api.evaluate(
                subject,
                split=split,
                limit=limit,
                batch_size=batch_size,
                frontier=frontier,
                output=folder,
                force=force,
                data_dir=data_dir,
                offline=offline,
                progress=progress,
                warn=lambda message: click.echo(f"Warning: {message}", err=True),
            )
        results.append(result)
        for error in result.errors:
            click.echo(f"Not scored by {error}", err=True)
        if not as_json:
            whole = not result.limited and result.split == subject.task.data.evaluation
            places = places_of(subject.task, result.preference, result.naturalness) if whole else {}
            click.echo(summary(result, folder, places))
    if as_json:
        click.echo(json.dumps([files.plain(result) for result in results], indent=2))


@click.command()
@options.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    required=True,
    help="Checkpoint folder of a run, or the run's folder.",
)
@options.option("--output", type=click.Path(path_type=Path), required=True, help="Predictions file to write.")
@options.option("--split", help="Split to answer, or a file of rows. [default: the task's evaluation split]")
@options.option("--limit", type=click.IntRange(min=1), help="Answer only the first N examples.")
@options.option("--batch-size", type=click.IntRange(min=1), default=64, help="Prompts decoded at once.")
@options.data
def generate(
    checkpoint: Path,
    output: Path,
    split: str | None,
    limit: int | None,
    batch_size: int,
    data_dir: Path | None,
    offline: bool,
) -> None:
    """Write a checkpoint's predictions, without scoring them."""
    from grue import api
    from grue.cli.progress import evaluation_progress
    from grue.data.load import load_examples
    from grue.evaluation.predict import predict_file

    subject = api.subject(checkpoint, kind="checkpoint")
    task, system = subject.task, subject.system
    examples = load_examples(task, split or task.data.evaluation, data_dir, offline).examples[:limit]
    assert system.model is not None and system.tokenizer is not None
    with evaluation_progress(f"{system.name} on {task.suite}/{task.name}") as progress:
        predict_file(
            system.model,
            system.tokenizer,
            task,
            examples,
            system.seed,
            output,
            batch_size,
            lambda done: progress(done, len(examples)),
        )
    click.echo(str(output))


def summary(result: "Result", folder: Path, places: Mapping[str, str]) -> str:
    """Return a result as a small table; `places` says where its axes stand on the board."""
    counts = result.counts
    notes = f"{counts['scored']} examples, {counts['empty']} empty, {counts['truncated']} cut at the length limit"
    limited = "  (limited: never ranked)" if result.limited else ""
    head = (
        f"{result.system['name']} on {result.suite}/{result.task}, {result.split}, seed {result.seed}: {notes}{limited}"
    )
    table = score_table(result.scores, result.preference, result.naturalness, places)
    return f"{head}\n{table}\n→ {folder / 'result.json'}"

"""`grue evaluate` and `grue generate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options
from grue.cli.score import score_table
from grue.errors import ConfigError
from grue.records import BASELINES

if TYPE_CHECKING:
    from grue.evaluation.evaluate import System
    from grue.records import Result
    from grue.tasks import Task


@click.command()
@options.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint folder of a run, or the run's folder; with --task any model, as --model.",
)
@options.option(
    "--model", help="Hugging Face model trained elsewhere: a folder, a hub id or mini:causal. Needs --task."
)
@options.option("--baseline", type=click.Choice(tuple(BASELINES)), help="A system without training. Needs --task.")
@options.option("--task", "task_name", help="Task to evaluate on. [default: the checkpoint's]")
@options.suite
@options.seeds
@options.option("--split", help="Split to evaluate. [default: the task's evaluation split]")
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
    help="likelihood, or a reward as in training; one that needs references makes it an oracle. "
    "[default: the task's reward, or likelihood where that would be an oracle]",
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
    output: Path | None,
    force: bool,
    runs: Path,
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Generate predictions for a task's evaluation split and score them.

    Writes predictions.jsonl, scores.jsonl and result.json. The same command goes on with an interrupted evaluation and
    leaves a finished one alone.
    """
    from grue.cli.progress import evaluation_progress
    from grue.evaluation import evaluate as evaluation
    from grue.lm.checkpoint import is_checkpoint

    if sum(choice is not None for choice in (checkpoint, model, baseline)) != 1:
        raise ConfigError("Say what to evaluate: one of --checkpoint FOLDER, --model NAME or --baseline NAME.")
    if pick_by is not None and best_of is None:
        raise ConfigError("--pick-by says how the best of several samples is picked; add --best-of N.")
    if checkpoint is not None and task_name is not None and not is_checkpoint(checkpoint):
        model, checkpoint = str(checkpoint), None  # a model that was trained elsewhere, or not at all
    results = []
    for one in [0] if checkpoint is not None else options.parse_seeds(seed, seed_range):
        task, system, folder = _subject(checkpoint, model, baseline, task_name, suite, one, runs)
        if best_of is not None:
            system, folder = _best_of(task, system, folder, best_of, pick_by, runs)
        folder = output or folder
        if force:
            evaluation.discard(folder)
        with evaluation_progress(f"{system.name} on {task.suite}/{task.name}") as progress:
            result = evaluation.evaluate(
                task,
                system,
                folder,
                split=split,
                limit=limit,
                batch_size=batch_size,
                data_dir=data_dir,
                offline=offline,
                progress=progress,
            )
        results.append(result)
        for error in result.errors:
            click.echo(f"Not scored by {error}", err=True)
        if not as_json:
            click.echo(summary(result, folder))
    if as_json:
        click.echo(json.dumps([files.plain(result) for result in results], indent=2))


def _subject(
    checkpoint: Path | None,
    model: str | None,
    baseline: str | None,
    task_name: str | None,
    suite: str,
    seed: int,
    runs: Path,
) -> tuple["Task", "System", Path]:
    from grue.evaluation import evaluate as evaluation
    from grue.lm.checkpoint import find_checkpoint, read_manifest
    from grue.task_files import load_task

    if checkpoint is not None:
        folder = find_checkpoint(checkpoint)
        manifest = read_manifest(folder)
        task = load_task(task_name, suite) if task_name else load_task(manifest.task, manifest.suite)
        return task, evaluation.checkpoint_system(task, folder), folder.parent
    if task_name is None:
        raise ConfigError("--model and --baseline need --task: what should they be evaluated on?")
    task = load_task(task_name, suite)
    if model is not None:
        system = evaluation.model_system(task, model, seed)
    else:
        system = evaluation.baseline_system(task, str(baseline), seed)
    return task, system, runs / task.suite / task.name / system.name / f"seed-{seed}"


def _best_of(
    task: "Task", system: "System", folder: Path, n: int, pick_by: str | None, runs: Path
) -> tuple["System", Path]:
    """Return the system that picks the best of n, and its folder: beside the plain system's, if that is a run's."""
    from grue.evaluation.best_of import choose_best_of
    from grue.evaluation.evaluate import with_best_of

    best_of = choose_best_of(task, n, pick_by)
    picking = with_best_of(system, best_of)
    if best_of.oracle:
        click.echo(
            f"Warning: {best_of.pick_by} reads the references, so that picking by it is an oracle's: the result "
            f"({picking.name}) says what the best of {n} samples could be, not what a system reaches.",
            err=True,
        )
    place = Path(task.suite) / task.name / system.name / f"seed-{system.seed}"
    home = folder.absolute()
    root = home.parents[3] if home.parts[-4:] == place.parts else runs
    return picking, root / task.suite / task.name / picking.name / f"seed-{system.seed}"


@click.command()
@options.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    required=True,
    help="Checkpoint folder of a run, or the run's folder.",
)
@options.option("--output", type=click.Path(path_type=Path), required=True, help="Predictions file to write.")
@options.option("--split", help="Split to answer. [default: the task's evaluation split]")
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
    from grue.cli.progress import evaluation_progress
    from grue.data.load import load_examples
    from grue.evaluation.predict import predict_file

    task, system, _ = _subject(checkpoint, None, None, None, "mini", 0, Path("runs"))
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


def summary(result: "Result", folder: Path) -> str:
    """Return a result as a small table."""
    counts = result.counts
    notes = f"{counts['scored']} examples, {counts['empty']} empty, {counts['truncated']} cut at the length limit"
    limited = "  (limited: never ranked)" if result.limited else ""
    head = (
        f"{result.system['name']} on {result.suite}/{result.task}, {result.split}, seed {result.seed}: {notes}{limited}"
    )
    return f"{head}\n{score_table(result.scores, result.preference, result.naturalness)}\n→ {folder / 'result.json'}"

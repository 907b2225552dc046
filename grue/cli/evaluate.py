"""`grue evaluate`."""

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
    "--chat",
    is_flag=True,
    help="Ask the --model by the task's chat prompt, in its own chat template; the result is another system's, "
    "MODEL+chat.",
)
@options.option(
    "--endpoint",
    "url",
    help="Ask a server that speaks OpenAI's protocol, such as http://localhost:8000/v1, for the --model that it has.",
)
@options.option(
    "--completions", is_flag=True, help="With --endpoint: let the plain prompts be completed, without a chat prompt."
)
@options.option("--api-key-env", default="", help="With --endpoint: environment variable that holds the API key.")
@options.option("--key-over-http", is_flag=True, help="Send the key unencrypted to another machine.")
@options.option(
    "--concurrency", type=click.IntRange(min=1), default=4, help="With --endpoint: questions asked at once."
)
@options.option(
    "--price-in", type=click.FloatRange(min=0), help="With --endpoint: price of a million tokens of prompts."
)
@options.option("--price-out", type=click.FloatRange(min=0), help="Price of a million tokens of answers.")
@options.option("--system", help="Name of the system of a --model. [default: the model's, with +chat or +completions]")
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
@options.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder to write to. [default: the run's folder]"
)
@options.option("--force", is_flag=True, help="Replace an evaluation that is there.")
@options.runs
@options.data
@options.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    checkpoint: Path | None,
    model: str | None,
    chat: bool,
    url: str | None,
    completions: bool,
    api_key_env: str,
    key_over_http: bool,
    concurrency: int,
    price_in: float | None,
    price_out: float | None,
    system: str | None,
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
    _refuse_alone(url, completions=completions, api_key_env=api_key_env, key_over_http=key_over_http)
    _refuse_alone(url, price_in=price_in is not None, price_out=price_out is not None)
    if url is not None and model is None:
        raise ConfigError("--endpoint asks a server for a model: name it with --model NAME, and nothing else.")
    if url is not None and chat and completions:
        raise ConfigError("--chat asks by the chat prompt and --completions by the plain one; leave one out.")
    if (price_in is None) != (price_out is None):
        raise ConfigError("--price-in and --price-out belong together; give both, per million tokens.")
    if sum(choice is not None for choice in (checkpoint, model, baseline)) != 1:
        raise ConfigError("Say what to evaluate: one of --checkpoint FOLDER, --model NAME or --baseline NAME.")
    if pick_by is not None and best_of is None:
        raise ConfigError("--pick-by says how the best of several samples is picked; add --best-of N.")
    if checkpoint is None and task_name is None:
        raise ConfigError("--model and --baseline need --task: what should they be evaluated on?")
    if (chat or system is not None) and model is None:
        raise ConfigError("--chat and --system are for a --model; a folder of a run may be given as one.")
    from grue.api import evaluate as api
    from grue.cli.progress import evaluation_progress
    from grue.evaluation.endpoint import Endpoint
    from grue.lm.checkpoint import is_checkpoint

    if checkpoint is not None and task_name is not None and not is_checkpoint(checkpoint):
        model, checkpoint = str(checkpoint), None  # a model that was trained elsewhere, or not at all
    seeds = options.parse_seeds(seed, seed_range)
    if checkpoint is not None and (seed or seed_range):
        raise ConfigError("A checkpoint is evaluated with the seed that it was trained with; leave out --seed.")
    if output is not None and len(seeds) > 1:
        raise ConfigError(f"--output {output}: takes one evaluation; name one --seed, or leave --output out.")
    kind: Kind = "checkpoint" if checkpoint is not None else "model" if model is not None else "baseline"
    endpoint = None
    if url is not None:
        prices = None if price_in is None or price_out is None else (price_in, price_out)
        endpoint = Endpoint(url, str(model), completions, api_key_env, concurrency, prices, key_over_http)
    results = []
    for one in [0] if checkpoint is not None else seeds:
        subject = api.subject(
            checkpoint or model or str(baseline),
            task_name,
            kind=kind,
            seed=one,
            suite=suite,
            best_of=best_of,
            pick_by=pick_by,
            chat=chat,
            endpoint=endpoint,
            system=system,
            runs=runs,
        )
        evaluated, folder = subject.system, output or subject.folder
        if evaluated.best_of is not None and evaluated.best_of.oracle:
            click.echo(
                f"Warning: {evaluated.best_of.pick_by} reads the references, so picking by it is an oracle: the result "
                f"({evaluated.name}) shows what the best of {best_of} samples could be, not what a system reaches.",
                err=True,
            )
        with evaluation_progress(f"{evaluated.name} on {subject.task.suite}/{subject.task.name}") as progress:
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
            from grue.leaderboard.notes import misfit

            whole = not result.limited and misfit(result, subject.task, subject.task.hash) is None
            places = places_of(subject.task, result.preference, result.naturalness) if whole else {}
            click.echo(summary(result, folder, places))
    if as_json:
        click.echo(json.dumps([files.plain(result) for result in results], indent=2))


def _refuse_alone(url: str | None, **given: object) -> None:
    """Refuse options of an endpoint without one.

    Raises:
        ConfigError: One is given.
    """
    for name, value in given.items():
        if value and url is None:
            raise ConfigError(f"--{name.replace('_', '-')} says how a server is asked; add --endpoint URL.")


def summary(result: "Result", folder: Path, places: Mapping[str, str]) -> str:
    """Return a result as a small table; `places` says where its axes stand on the board."""
    counts = result.counts
    notes = f"{counts['scored']} examples, {counts['empty']} empty, {counts['truncated']} cut at the length limit"
    limited = "  (limited: never ranked)" if result.limited else ""
    head = (
        f"{result.system['name']} on {result.suite}/{result.task}, {result.split}, seed {result.seed}: {notes}{limited}"
    )
    table = score_table(result.scores, result.preference, result.naturalness, places)
    return f"{head}\n{table}{_asked(result)}\n→ {folder / 'result.json'}"


def _asked(result: "Result") -> str:
    """Return what an endpoint took, as a line; empty for what answered here."""
    found = result.system.get("endpoint")
    if not isinstance(found, Mapping):
        return ""
    cost = "" if found.get("cost") is None else f", cost {found['cost']:.4g}"
    unknown = found["answers_without_usage"]
    missing = f" ({unknown} answers without a count)" if unknown else ""
    return (
        f"\n{found['requests']:,} requests ({found['retries']:,} repeated), {found['tokens']['prompt']:,} + "
        f"{found['tokens']['completion']:,} tokens{missing}{cost}; sampled by an endpoint, which promises no repeat"
    )

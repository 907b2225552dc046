"""`grue evaluate`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
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
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Checkpoint folder of a run, the run's folder, or that of its seeds; with --task any model, as --model. "
    "Repeat for several.",
)
@options.option(
    "--last",
    is_flag=True,
    help="With --checkpoint: the last policy of each run, final/, instead of the best; the result is another system's, "
    "NAME+last.",
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
@options.option("--no-search", is_flag=True, help="Leave out the searched answers that the task's [search] asks for.")
@options.runs
@options.data
@options.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def evaluate(
    folders: tuple[Path, ...],
    last: bool,
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
    no_search: bool,
    runs: Path,
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Generate predictions for a task's evaluation split and score them.

    Writes predictions.jsonl, scores.jsonl and result.json. The same command resumes an interrupted
    evaluation and leaves a finished one alone. Several checkpoints are evaluated one by one, each as if alone; a table
    ends with each system's mean and standard deviation over its seeds.
    """
    _refuse_alone(url, completions=completions, api_key_env=api_key_env, key_over_http=key_over_http)
    _refuse_alone(url, price_in=price_in is not None, price_out=price_out is not None)
    if url is not None and model is None:
        raise ConfigError("--endpoint asks a server for a model: name it with --model NAME, and nothing else.")
    if url is not None and chat and completions:
        raise ConfigError("--chat asks by the chat prompt and --completions by the plain one; leave one out.")
    if (price_in is None) != (price_out is None):
        raise ConfigError("--price-in and --price-out belong together; give both, per million tokens.")
    if sum(bool(choice) for choice in (folders, model is not None, baseline)) != 1:
        raise ConfigError("Say what to evaluate: one of --checkpoint FOLDER, --model NAME or --baseline NAME.")
    if last and not folders:
        raise ConfigError("--last is about the policies of runs: name these with --checkpoint FOLDER.")
    if pick_by is not None and best_of is None:
        raise ConfigError("--pick-by says how the best of several samples is picked; add --best-of N.")
    if not folders and task_name is None:
        raise ConfigError("--model and --baseline need --task: what should they be evaluated on?")
    if (chat or system is not None) and model is None:
        raise ConfigError("--chat and --system are for a --model; a folder of a run may be given as one.")
    from grue.api import evaluate as api
    from grue.cli.console import evaluation_progress
    from grue.evaluation.endpoint import Endpoint
    from grue.lm.checkpoint import find_checkpoint, is_checkpoint, last_checkpoint, read_manifest

    seeds = options.parse_seeds(seed, seed_range)
    wanted: list[tuple[str | Path, Kind, int]] = []
    for folder in dict.fromkeys(one for given in folders for one in _runs_in(given)):
        if task_name is not None and not is_checkpoint(folder):  # trained elsewhere, or not at all
            wanted += [(str(folder), "model", one) for one in seeds]
            continue
        if seed or seed_range:
            raise ConfigError("A checkpoint is evaluated with the seed that it was trained with; leave out --seed.")
        folder = last_checkpoint(folder) if last else folder
        read_manifest(find_checkpoint(folder))  # one that is damaged is refused before any is evaluated
        wanted.append((folder, "checkpoint", 0))
    if not folders:
        wanted = [(model or str(baseline), "baseline" if model is None else "model", one) for one in seeds]
    if output is not None and len(wanted) > 1:
        raise ConfigError(
            f"--output {output}: takes one evaluation; name one --checkpoint or --seed, or leave --output out."
        )
    endpoint = None
    if url is not None:
        prices = None if price_in is None or price_out is None else (price_in, price_out)
        endpoint = Endpoint(url, str(model), completions, api_key_env, concurrency, prices, key_over_http)
    results = []
    for what, kind, one in wanted:
        subject = api.subject(
            what,
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
                search=not no_search,
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
            axes = (result.preference, result.naturalness)
            places = places_of(subject.task, *axes, result.hashes) if whole else {}
            click.echo(summary(result, folder, places))
    if as_json:
        click.echo(json.dumps([files.plain(result) for result in results], indent=2))
    elif len(results) > 1:
        click.echo("\n" + "\n".join(over_seeds(results)))


def _runs_in(folder: Path) -> list[Path]:
    """Return the runs of a folder that holds those of several seeds, in their order; any other folder as it is."""
    from grue.lm.checkpoint import is_checkpoint, seeds_in

    seeds = [] if is_checkpoint(folder) else seeds_in(folder)
    runs = [seed for seed in seeds if is_checkpoint(seed)]
    for seed in seeds if runs else ():
        if seed not in runs:
            click.echo(f"Warning: {seed}: no checkpoint yet, left out.", err=True)
    return runs or [folder]


def over_seeds(results: Sequence["Result"]) -> Iterator[str]:
    """Yield a table with a line for each system on each task: mean and standard deviation of its axes over seeds."""
    by_system: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_system.setdefault((result.system["name"], f"{result.suite}/{result.task}"), []).append(result)
    rows = []
    for name, found in by_system.items():  # a seed that is there twice is of two systems under one name
        alike = len({result.seed for result in found}) == len(found)
        rows += [(name, found)] if alike else [(name, [result]) for result in found]
    widths = [max(map(len, column)) + 2 for column in zip(*by_system, ("system", "task"), strict=True)]
    yield f"{'system':<{widths[0]}}{'task':<{widths[1]}}{'seeds':<14}{'preference':>14}{'naturalness':>14}"
    for (system, task), found in rows:
        seeds = ",".join(str(result.seed) for result in found)
        axes = [_mean([getattr(result, axis) for result in found]) for axis in ("preference", "naturalness")]
        yield f"{system:<{widths[0]}}{task:<{widths[1]}}{seeds:<14}{axes[0]:>14}{axes[1]:>14}"
    yield "0–100; ±: standard deviation over seeds."


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    return f"{fmean(known):.1f}" + (f" ± {stdev(known):.1f}" if len(known) > 1 else "")


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
    scored = f"{counts['scored']} examples" + (f" × {counts['samples']} samples" if "samples" in counts else "")
    notes = f"{scored}, {counts['empty']} empty, {counts['truncated']} cut at the length limit"
    limited = "  (limited: never ranked)" if result.limited else ""
    head = (
        f"{result.system['name']} on {result.suite}/{result.task}, {result.split}, seed {result.seed}: {notes}{limited}"
    )
    table = score_table(result.scores, result.preference, result.naturalness, places, result.notes)
    return f"{head}\n{table}{_searched(result)}{_asked(result)}\n→ {folder / 'result.json'}"


def _searched(result: "Result") -> str:
    """Return what searched answers reached, as a line; empty where none were searched."""
    found = result.searched
    if found is None:
        return ""
    axes = (("preference", found.preference), ("naturalness", found.naturalness))
    reached = ", ".join(f"{axis} {value:.1f}" for axis, value in axes if value is not None)
    beams = found.generation.get("num_beams", 1)
    return f"\n  searched, {f'{beams} beams' if beams != 1 else 'the likeliest tokens'}, outside the score: {reached}"


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

"""`grue evaluate`."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import click

from grue.api import evaluate as api
from grue.cli import options
from grue.cli.console import evaluation_progress, print_json, warn
from grue.cli.score import places_of, score_table
from grue.errors import ConfigError
from grue.evaluation.endpoint import Endpoint, checked_url
from grue.lm.checkpoint import is_checkpoint, seeds_in
from grue.records import Result
from grue.runs.request import seeds_of


@click.command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1)
@options.option("--checkpoint", "folders", multiple=True, hidden=True)
@options.option("--model", hidden=True)
@options.option("--endpoint", "url", hidden=True)
@options.option("--baseline", hidden=True)
@options.option("--task", "task_name", help="Task to evaluate on. [default: the checkpoint's]")
@options.suite
@options.seeds
@options.option(
    "--split",
    help="Split to evaluate, or a file of rows (.jsonl, .jsonl.gz) in the data set's columns; the result of a file is "
    "never ranked. [default: the task's evaluation split]",
)
@options.limit
@options.batch_size
@options.option(
    "--best-of",
    metavar="N[:BY]",
    help="Draw N samples a prompt and keep the best by likelihood, consensus (what the other samples agree with most), "
    "or a reward as in training; one that needs references makes it an oracle. The result is another system's, "
    "NAME+best-of-N. [default BY: the task's reward, or likelihood where that would be an oracle]",
)
@options.option(
    "--decode",
    metavar="NAME[:KEY=VALUE,…]",
    help="Guide decoding by a reward or other models: deal, transfer_q, genarm, rast; the result is another system's, "
    "NAME+deal.",
)
@options.option(
    "--chat/--completions",
    default=None,
    help="Ask a model by the task's chat prompt, or let the plain prompt be completed; the system is then called "
    "MODEL+chat, or at an address MODEL+completions. [default: --chat at an address]",
)
@options.option("--system", help="Name of the system of a model. [default: the model's, with +chat or +completions]")
@options.option("--api-key-env", default="", help="For an address: environment variable that holds the API key.")
@options.option("--key-over-http", is_flag=True, hidden=True)
@options.option("--concurrency", type=options.COUNT, default=4, help="For an address: requests at once.")
@options.option(
    "--price",
    "prices",
    type=(float, float),
    metavar="IN OUT",
    help="For an address: prices of a million prompt tokens and of a million answer tokens.",
)
@options.option(
    "--frontier",
    type=options.PATH,
    help="What `grue tools frontier -o` wrote of the run's start: the result says which share of it the run gained.",
)
@options.output("Folder to write to. [default: the run's folder]")
@options.force
@options.option("--no-search", is_flag=True, help="Leave out the searched answers that the task's [search] asks for.")
@options.runs
@options.data
@options.as_json
def evaluate(
    subjects: tuple[str, ...],
    folders: tuple[str, ...],
    model: str | None,
    url: str | None,
    baseline: str | None,
    task_name: str | None,
    suite: str,
    seeds: tuple[str, ...],
    best_of: str | None,
    decode: str | None,
    chat: bool | None,
    system: str | None,
    api_key_env: str,
    key_over_http: bool,
    concurrency: int,
    prices: tuple[float, float] | None,
    output: Path | None,
    no_search: bool,
    runs: Path,
    as_json: bool,
    **how: Any,
) -> None:
    """Generate predictions for a task's evaluation split and score them.

    A SUBJECT is a run's folder, that of its seeds, a checkpoint (RUN/final is the run's last), and with --task a model
    by its folder or hub id, http://HOST/v1#MODEL, or baseline:NAME. --checkpoint FOLDER, --model NAME, --endpoint URL
    with --model NAME, and --baseline NAME say the same.

    \b
    grue evaluate runs/mini/commongen/nlpo runs/mini/commongen/ppo
    grue evaluate baseline:nearest --task totto
    grue evaluate http://localhost:8000/v1#org/model --task commongen --limit 100

    Writes predictions.jsonl, scores.jsonl and result.json. The same command resumes an interrupted evaluation and
    leaves a finished one alone. Several are evaluated one by one, each as if alone; a table ends with each system's
    mean and standard deviation over its seeds.
    """  # noqa: D301 (click reads the escape)
    named = [*subjects, *folders]
    if url is not None:
        named.append(f"{checked_url(url)}#{model or ''}")
    elif model is not None:
        named.append(model)
    if baseline is not None:
        named.append(api.BASELINE + baseline)
    evaluations: list[tuple[str, int]] = []
    for subject in dict.fromkeys(run for each in named for run in _runs_in(each)):
        _, checkpoint = api.locate(subject, task_name, suite)  # refuses a wrong one before any is evaluated
        if checkpoint is not None and seeds:
            raise ConfigError("A checkpoint is evaluated with the seed that it was trained with; leave out --seed.")
        evaluations += [(subject, seed) for seed in ([1] if checkpoint else seeds_of(seeds))]
    if not evaluations:
        raise ConfigError(
            "Say what to evaluate: a run's folder, a model, http://HOST/v1#MODEL or baseline:NAME (`grue evaluate -h`)."
        )
    if output is not None and len(evaluations) > 1:
        raise ConfigError(f"--output {output}: takes one evaluation; name one subject and one seed, or leave it out.")
    if (api_key_env or key_over_http or prices) and not any(name.startswith(api.ADDRESS) for name, _ in evaluations):
        raise ConfigError("--api-key-env, --key-over-http and --price need an address: http://HOST/v1#MODEL.")
    results = []
    for subject, seed in evaluations:
        prepared = api.subject(
            subject,
            task_name,
            seed=seed,
            suite=suite,
            **_parse_best_of(best_of),
            decode=decode,
            chat=chat,
            endpoint=Endpoint("", "", False, api_key_env, concurrency, prices, key_over_http)
            if subject.startswith(api.ADDRESS)
            else None,
            system=system,
            runs=runs,
        )
        evaluated, folder = prepared.system, output or prepared.folder
        decoded = evaluated.best_of or evaluated.guided
        if decoded is not None and decoded.oracle:
            warn(
                f"{decoded.pick_by} reads the references, so picking by it is an oracle: the result "
                f"({evaluated.name}) shows what could be picked, not what a system reaches."
            )
        with evaluation_progress(f"{evaluated.name} on {prepared.task.suite}/{prepared.task.name}") as progress:
            result = api.evaluate(prepared, output=folder, search=not no_search, progress=progress, warn=warn, **how)
        results.append(result)
        for error in result.errors:
            click.echo(f"Not scored by {error}", err=True)
        if not as_json:
            from grue.leaderboard.notes import misfit

            whole = not result.limited and misfit(result, prepared.task, prepared.task.hash) is None
            axes = (result.preference, result.naturalness)
            places = places_of(prepared.task, *axes, result.hashes) if whole else {}
            click.echo(summary(result, folder, places))
    if as_json:
        print_json(results)
        return
    if len(results) > 1:
        click.echo("\n" + "\n".join(over_seeds(results)))
    standing = not result.system.get("unfinished")
    if standing and folder.parts[-4:-1] == (result.suite, result.task, result.system["name"]):
        root = folder.parents[3]
        view = ["grue", "view", *([] if root == Path("runs") else [str(root)])]
        view += ["--task", task_name] if task_name and task_name.endswith(".toml") else []
        click.echo(f"`{shlex.join(view)}` shows this beside the board's rows.", err=True)


def _parse_best_of(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    n, colon, pick_by = text.partition(":")
    if not n.isdecimal() or len(n) > 9:
        raise ConfigError(f"--best-of {text}: write a number of samples, such as 8, or with how to pick, 8:consensus.")
    return {"best_of": int(n), "pick_by": pick_by if colon else None}


def _runs_in(subject: str) -> list[str]:
    """Return the runs in a folder of several seeds, in order; any other subject is returned as it is."""
    folder = Path(subject)
    seeds = [] if is_checkpoint(folder) else seeds_in(folder)
    runs = [str(seed) for seed in seeds if is_checkpoint(seed)]
    for seed in seeds if runs else ():
        if str(seed) not in runs:
            warn(f"{seed}: no checkpoint yet, left out.")
    return runs or [subject]


def over_seeds(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table with a line for each system on each task: mean and standard deviation of its axes over seeds."""
    by_system: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_system.setdefault((result.system["name"], f"{result.suite}/{result.task}"), []).append(result)
    rows = []
    for name, group in by_system.items():  # a repeated seed means two systems of one name
        alike = len({result.seed for result in group}) == len(group)
        rows += [(name, group)] if alike else [(name, [result]) for result in group]
    widths = [max(map(len, column)) + 2 for column in zip(*by_system, ("system", "task"), strict=True)]
    yield f"{'system':<{widths[0]}}{'task':<{widths[1]}}{'seeds':<14}{'preference':>14}{'naturalness':>14}"
    for (system, task), group in rows:
        seeds = ",".join(str(result.seed) for result in group)
        axes = [_mean([getattr(result, axis) for result in group]) for axis in ("preference", "naturalness")]
        yield f"{system:<{widths[0]}}{task:<{widths[1]}}{seeds:<14}{axes[0]:>14}{axes[1]:>14}"
    yield "0–100; ±: standard deviation over seeds."


def _mean(values: Sequence[float | None]) -> str:
    stated = [value for value in values if value is not None]
    if len(stated) < len(values):
        return "–"
    return f"{fmean(stated):.1f}" + (f" ± {stdev(stated):.1f}" if len(stated) > 1 else "")


def summary(result: Result, folder: Path, places: Mapping[str, str]) -> str:
    """Return a result as a small table; `places` has the place of each axis on the board."""
    counts = result.counts
    scored = f"{counts['scored']} examples" + (f" × {counts['samples']} samples" if "samples" in counts else "")
    notes = f"{scored}, {counts['empty']} empty, {counts['truncated']} cut at the length limit"
    limited = "  (limited: never ranked)" if result.limited else ""
    name = f"{result.system['name']} on {result.suite}/{result.task}, {result.split}, seed {result.seed}"
    table = score_table(result.scores, result.preference, result.naturalness, places, result.notes)
    return f"{name}: {notes}{limited}\n{table}{_searched(result)}{_usage(result)}\n→ {folder / 'result.json'}"


def _searched(result: Result) -> str:
    """Return the scores of answers by search, as a line; empty if there are none."""
    searched = result.searched
    if searched is None:
        return ""
    axes = (("preference", searched.preference), ("naturalness", searched.naturalness))
    reached = ", ".join(f"{axis} {value:.1f}" for axis, value in axes if value is not None)
    beams = searched.generation.get("num_beams", 1)
    return f"\n  searched, {f'{beams} beams' if beams != 1 else 'the likeliest tokens'}, outside the score: {reached}"


def _usage(result: Result) -> str:
    """Return the usage of an endpoint, as a line; empty for a local model."""
    usage = result.system.get("endpoint")
    if not isinstance(usage, Mapping):
        return ""
    cost = "" if usage.get("cost") is None else f", cost {usage['cost']:.4g}"
    unknown = usage["answers_without_usage"]
    missing = f" ({unknown} answers without a count)" if unknown else ""
    return (
        f"\n{usage['requests']:,} requests ({usage['retries']:,} repeated), {usage['tokens']['prompt']:,} + "
        f"{usage['tokens']['completion']:,} tokens{missing}{cost}; an endpoint may answer differently next time"
    )

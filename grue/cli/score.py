"""`grue score`: any system's predictions, against a task or the user's own references."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from grue import files
from grue.api import score as api
from grue.cli import options
from grue.cli.console import evaluation_progress, print_json
from grue.data.load import hash_ids
from grue.errors import ConfigError
from grue.leaderboard.neighbours import neighbours
from grue.leaderboard.published import shipped
from grue.metrics.registry import is_metric, metric_parameters
from grue.records import SCORED, Score
from grue.task_files import load_task
from grue.tasks import Task


@click.command()
@click.argument("predictions", type=options.PATH)
@options.option("--task", "task_name", help="Task to score against.")
@options.suite
@options.option("--split", help="Split of the task, or a file of rows. [default: its evaluation split]")
@options.option(
    "--limit", type=options.COUNT, help="Score only the first N examples, those of `grue generate --limit N`."
)
@options.data
@options.option(
    "--examples",
    "own_examples",
    type=options.PATH,
    help='Instead of a task: one {"id": …, "references": […], "prompt": …, "meta": {…}} per line.',
)
@options.option(
    "--references",
    "references",
    type=options.PATH,
    multiple=True,
    help="Instead of a task: plain text, one reference per line, as PREDICTIONS then is too; repeat for several.",
)
@options.option(
    "--metrics", help="Comma-separated: any metrics, or your own module:function. [default: the task's, and diversity]"
)
@options.changes("Option of a metric, such as bertscore.model=PATH; repeat for several.", metavar="METRIC.OPTION=VALUE")
@options.option(
    "--per-example", type=options.PATH, help="Write the values of each example to this file, one JSON object per line."
)
@options.as_json
def score(
    predictions: Path,
    task_name: str | None,
    suite: str,
    metrics: str | None,
    settings: tuple[str, ...],
    per_example: Path | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Score a predictions file: one {"id": …, "text": …} per line, for every example of the split.

    \b
    grue score predictions.jsonl --task commongen
    grue score predictions.jsonl --task commongen --metrics meteor,my_metrics:politeness --json
    grue score system.de --references newstest2016.de --metrics sacrebleu,chrf,ter
    grue score predictions.jsonl --examples mine.jsonl --metrics bertscore \\
        --set bertscore.model=PATH --set bertscore.layer=17
    """  # noqa: D301 (click reads the escape)
    if per_example is not None:
        inputs = (predictions, source["own_examples"], *source["references"], task_name, source["split"])
        files.refuse_input(per_example, [Path(path) for path in inputs if path])
    names = None if metrics is None else options.names_of(metrics)
    if names == ():
        raise ConfigError(f"--metrics {metrics!r} names no metric; write names such as meteor,rougeL.")
    task = None if task_name is None else load_task(task_name, suite)
    with evaluation_progress(f"metrics of {predictions.name}") as progress:
        scored = api.score(
            predictions,
            task,
            metrics=names,
            options=parse_metric_settings(settings),
            progress=progress,
            **source,
        )
    for error in scored.errors:
        click.echo(f"Not scored by {error}", err=True)
    if per_example is not None:
        from grue.evaluation.scoring import write_per_example

        write_per_example(per_example, scored)
    if as_json:
        head = {} if task is None else {"task": task.name, "suite": task.suite}
        print_json(head | files.plain(scored))
        return
    places = {}
    if (
        task is not None
        and source["split"] in (None, task.data.evaluation)
        and not settings
        and has_all(task, scored.ids)
    ):
        places = places_of(task, scored.preference, scored.naturalness, scored.hashes)
    blank = scored.counts["empty"]
    texts = len(scored.ids) * scored.counts.get("samples", 1)
    notes = [f"{blank:,} of {texts:,} predictions are blank."] if blank else []
    click.echo(score_table(scored.scores, scored.preference, scored.naturalness, places, [*scored.notes, *notes]))


def has_all(task: Task, ids: Sequence[str]) -> bool:
    """Whether examples with these ids can be the whole evaluation split, not a part of it in the user's folder."""
    return task.data.splits[task.data.evaluation].fits(len(ids), hash_ids(ids))


def places_of(
    task: Task, preference: float | None, naturalness: float | None, hashes: Mapping[str, str]
) -> dict[str, str]:
    """Return axis → the rows of the package's board next to a score of the evaluation split."""
    board = shipped(task.suite)
    if board is None:
        return {}
    means = zip(SCORED, (preference, naturalness), strict=True)
    places = {axis: neighbours(board, task, axis, mean, hashes) for axis, mean in means if mean is not None}
    return {axis: place for axis, place in places.items() if place is not None}


def parse_metric_settings(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read `--set metric.option=value` into metric → option → value."""
    parsed: dict[str, dict[str, Any]] = {}
    for setting in settings:
        ((key, value),) = options.parse_settings([setting]).items()
        metric, _, option = key.rpartition(".")
        if not metric or not option:
            raise ConfigError(f"--set {key}: write METRIC.OPTION=VALUE, such as --set bertscore.layer=17.")
        parameter = metric_parameters(metric).get(option) if is_metric(metric) else None
        if parameter is not None and parameter.annotation is str and not isinstance(value, str):
            value = setting.partition("=")[2]  # a text that looks like a number or none
        parsed.setdefault(metric, {})[option] = value
    return parsed


def score_table(
    scores: Sequence[Score],
    preference: float | None,
    naturalness: float | None,
    places: Mapping[str, str],
    notes: Sequence[str] = (),
) -> str:
    """Return scores as a small table; `places` has the place of each axis on the board, `notes` come below."""
    rows = [
        (
            s.metric if s.axis == "diversity" else f"{s.metric} {'↑' if s.direction == 'higher' else '↓'}",
            f"{s.value:,.0f}" if s.value > 1 and s.value.is_integer() else f"{s.value:.4f}",
            "" if s.scaled is None else f"{s.scaled:.1f}",
            "" if s.axis == "none" else s.axis,
        )
        for s in scores
    ]
    width = max([14, *(len(name) + 1 for name, *_ in rows)])
    lines = [f"  {'metric':<{width}}{'value':>12}{'0–100':>8}  counts towards"]
    lines += [f"  {name:<{width}}{value:>12}{scaled:>8}  {axis}".rstrip() for name, value, scaled, axis in rows]
    for name, mean in (("preference", preference), ("naturalness", naturalness)):
        if mean is not None:
            lines.append(f"  {name:<{width}}{'':>12}{mean:>8.1f}  {places.get(name, '')}".rstrip())
    return "\n".join([*lines, *(f"  Note: {note}" for note in notes)])

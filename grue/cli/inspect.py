"""Commands that only look: `grue tasks`, `grue schema`, `grue doctor`; and `grue mini build`."""

import json
from pathlib import Path

import click

from grue import files
from grue.cli import options


@click.group()
def tasks() -> None:
    """List, show and validate tasks."""


@tasks.command("list")
@options.suite
@options.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_tasks(suite: str, as_json: bool) -> None:
    """List a suite's tasks."""
    from grue.tasks import load_task, task_names

    found = [load_task(name, suite) for name in task_names(suite)]
    if as_json:
        click.echo(
            json.dumps(
                [
                    {"name": t.name, "suite": t.suite, "version": t.version, "hash": t.hash, "title": t.title}
                    for t in found
                ],
                indent=2,
            )
        )
        return
    for task in found:
        scored = ", ".join(spec.name for spec in task.metrics if spec.axis != "diversity")
        click.echo(f"{task.name:<14}{task.title}\n{'':<14}{task.backbone.family} · {scored}")


@tasks.command()
@click.argument("name")
@options.suite
@options.data
@options.option("--split", help="Split to take the examples from. [default: the task's evaluation split]")
@options.option("--examples", "count", type=click.IntRange(min=0), default=3, help="How many examples to show.")
@options.option("--json", "as_json", is_flag=True, help="Print the task file's content as JSON.")
def show(
    name: str, suite: str, data_dir: Path | None, offline: bool, split: str | None, count: int, as_json: bool
) -> None:
    """Show a task: its settings, its hash and a few examples as a model sees them."""
    from grue.data import load_examples
    from grue.tasks import load_task

    task = load_task(name, suite)
    if as_json:
        click.echo(json.dumps({"hash": task.hash} | files.plain(task), indent=2, ensure_ascii=False))
        return
    click.echo(f"{task.title}  ({task.suite}/{task.name}, version {task.version})\n{task.description}\n")
    click.echo(f"  hash      {task.hash}\n  backbone  {task.backbone.model} ({task.backbone.family})")
    click.echo(f"  reward    {task.reward}")
    click.echo(f"  prompt    at most {task.prompt.max_tokens} tokens, cut on the {task.prompt.truncation}")
    for spec in task.metrics:
        scale = (
            f"0–100 from {spec.range[0]:g} to {spec.range[1]:g}"
            if spec.range
            else f"100·min(1, {spec.reference}/value)"
        )
        click.echo(f"  {spec.axis:<12}{spec.name:<12}{scale}")
    for example in load_examples(task, split or task.data.evaluation, data_dir, offline).examples[:count]:
        click.echo(f"\n[{example.id}]\n  prompt     {example.prompt}")
        for reference in example.references:
            click.echo(f"  reference  {reference}")


@tasks.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
def validate(paths: tuple[Path, ...]) -> None:
    """Check task files: keys, types, metrics and recipes."""
    from grue.metrics.base import metric_factory
    from grue.tasks import load_task
    from grue.training.config import make_config

    for path in paths:
        task = load_task(str(path))
        for spec in task.metrics:
            metric_factory(spec.name, spec.options)
        for algorithm in task.recipes:
            make_config(task, algorithm, {})
        click.echo(f"{path}: fine ({task.suite}/{task.name}, hash {task.hash[:12]})")


@click.command()
@click.argument("kind", type=click.Choice(["result", "task", "example", "prediction"]))
def schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file."""
    from grue.files import json_schema
    from grue.records import Example, Prediction, Result
    from grue.tasks import Task

    cls = {"result": Result, "task": Task, "example": Example, "prediction": Prediction}[kind]
    click.echo(json.dumps(json_schema(cls), indent=2))


@click.command()
def doctor() -> None:
    """Say what is installed, what is missing and what it would be for."""
    from grue.doctor import examine

    problems = 0
    for finding in examine():
        click.echo(f"  {'ok ' if finding.fine else '-- '} {finding.what:<24}{finding.state}")
        problems += not finding.fine and finding.needed
    if problems:
        click.echo(
            "Something that grue cannot do without is missing; `pip install --force-reinstall grue` brings it.",
            err=True,
        )
        raise SystemExit(3)


@click.group()
def mini() -> None:
    """The embedded suite."""


@mini.command()
@options.option("--output", type=click.Path(path_type=Path), help="Folder to write to. [default: the package's own]")
@options.option("--only", multiple=True, help="Build only this model; repeat for several.")
def build(output: Path | None, only: tuple[str, ...]) -> None:
    """Train the small models of the mini suite again, from nothing."""
    from grue.mini.assets import MODELS
    from grue.mini.build import build as build_models
    from grue.models import quiet

    with quiet():
        build_models(output or MODELS, only=only or None, log=lambda line: click.echo(line, err=True))

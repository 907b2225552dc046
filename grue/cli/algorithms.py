"""`grue algorithms`: the algorithms and their settings."""

import click

from grue.cli import completion, options
from grue.cli.console import print_json
from grue.errors import ConfigError
from grue.runs.algorithms import ALGORITHMS, find_card, split_algorithm
from grue.runs.reference import AlgorithmReference, Setting, describe_algorithm, summary

WIDTH = 100


@click.group()
def algorithms() -> None:
    """List algorithms, and show their settings."""


@algorithms.command("list")
@options.as_json
def list_algorithms(as_json: bool) -> None:
    """List all algorithms."""
    summaries = {name: summary(find_card(name).settings) for name in ALGORITHMS.names()}
    if as_json:
        print_json([{"name": name, "summary": text} for name, text in summaries.items()])
        return
    width = max(map(len, summaries)) + 2
    for name, text in summaries.items():
        click.echo(f"{name:<{width}}{text}")
    click.echo("\nAfter supervised training: supervised+NAME. Settings: grue algorithms show NAME")


@algorithms.command()
@click.argument("name", shell_complete=completion.ALGORITHM)
@options.as_json
def show(name: str, as_json: bool) -> None:
    """Show every setting of an algorithm: meaning, type, default, bounds and the paper's value.

    A task's recipe may set another value: `grue train --dry-run` prints what a run would use.
    """
    stages = split_algorithm(name)
    if len(stages) > 1:
        each = " and ".join(f"`grue algorithms show {stage}`" for stage in stages)
        raise ConfigError(f"{name} has two stages, each with its own settings; see {each}.")
    reference = describe_algorithm(stages[0])
    print_json(reference) if as_json else click.echo(described(reference))


def described(reference: AlgorithmReference) -> str:
    """Return an algorithm and its settings as text."""
    parts = [f"{reference.name}: {reference.summary}"]
    if reference.presets:
        parts.append(f"Presets (--preset): {', '.join(reference.presets)}")
    if reference.without_effect:
        parts.append(f"Inherited without effect: {', '.join(reference.without_effect)}")
    for group in reference.groups:
        parts.append("\n\n".join([group.title, *map(_setting, group.settings)]))
    return "\n\n".join(parts)


def _setting(setting: Setting) -> str:
    default = (
        "required" if setting.default is None and "none" not in setting.type else f"= {options.shown(setting.default)}"
    )
    facts = [f"{setting.name} {default}", setting.type, setting.bounds, setting.paper and f"paper: {setting.paper}"]
    meaning = click.wrap_text(setting.meaning, width=WIDTH, initial_indent="      ", subsequent_indent="      ")
    return f"  {'  ·  '.join(filter(None, facts))}\n{meaning}"

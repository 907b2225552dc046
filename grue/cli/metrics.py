"""`grue metrics`: the metrics, their definitions and sources."""

import inspect
from math import isinf

import click

from grue.cli import completion, options
from grue.cli.console import print_json
from grue.errors import UnknownName, did_you_mean
from grue.metrics.card import CARDS, FAMILIES, Card
from grue.metrics.registry import METRICS, is_metric, metric_parameters


@click.group()
def metrics() -> None:
    """List and show metrics."""


@metrics.command("list")
@options.as_json
def list_metrics(as_json: bool) -> None:
    """List all metrics, with their ranges."""
    plugins = [name for name in METRICS.names() if name not in CARDS]
    if as_json:
        print_json([*(_record(name, card) for name, card in CARDS.items()), *({"name": name} for name in plugins)])
        return
    for family, title in FAMILIES.items():
        click.echo(title)
        for name, card in CARDS.items():
            if card.family == family:
                click.echo(f"  {name:<32}{card.arrow} {card.bounds:<10} {card.source}")
    if plugins:
        click.echo("From other packages")
        for name in plugins:
            click.echo(f"  {name}")
    click.echo("Any metric of the library evaluate: evaluate:NAME")
    click.echo("A function of your own: MODULE:FUNCTION")


@metrics.command()
@click.argument("name", shell_complete=completion.METRIC)
@options.as_json
def show(name: str, as_json: bool) -> None:
    """Show one metric: definition, range, source, what it needs, and its options."""
    if not is_metric(name) and ":" not in name:
        raise UnknownName(f"There is no metric {name!r}.{did_you_mean(name, CARDS)} `grue metrics list` lists them.")
    parameters = [
        {
            "name": option,
            "type": "any"
            if parameter.annotation is parameter.empty
            else inspect.formatannotation(parameter.annotation),
            **({} if parameter.default is parameter.empty else {"default": parameter.default}),
        }
        for option, parameter in metric_parameters(name).items()
    ]
    card = CARDS.get(name)
    if as_json:
        print_json(_record(name, card) | {"options": parameters})
        return
    click.echo(name)
    if card is not None:
        click.echo(click.wrap_text(card.definition, width=100, initial_indent="  ", subsequent_indent="  "))
        click.echo(f"\n  range    {card.bounds}, {card.direction} is better\n  source   {card.source}")
        click.echo(f"  needs    {card.needs or 'nothing but the texts'}")
    if parameters:
        click.echo("  options")
        for option in parameters:
            default = f" = {option['default']!r}" if "default" in option else " (required)"
            click.echo(f"    {option['name']}: {option['type']}{default}")


def _record(name: str, card: Card | None) -> dict[str, object]:
    if card is None:
        return {"name": name}
    stated = {key: getattr(card, key) for key in ("family", "definition", "range", "direction", "source", "needs")}
    return {"name": name, **stated, "range": [None if isinf(end) else end for end in card.range]}

"""`grue metrics`: what can be computed, how it is defined, and where it comes from."""

import inspect
import json
from math import isinf

import click

from grue.cli import options
from grue.errors import UnknownName, did_you_mean
from grue.metrics.catalogue import CARDS, FAMILIES, Card


@click.group()
def metrics() -> None:
    """List and show metrics."""


@metrics.command("list")
@options.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def list_metrics(as_json: bool) -> None:
    """List all metrics, with their ranges."""
    from grue.metrics.metric import METRICS

    plugins = [name for name in METRICS.names() if name not in CARDS]
    if as_json:
        click.echo(json.dumps([*map(_record, CARDS), *({"name": name} for name in plugins)], indent=2))
        return
    for family, title in FAMILIES.items():
        click.echo(f"{title}")
        for name, card in CARDS.items():
            if card.family == family:
                click.echo(f"  {name:<32}{card.arrow} {card.bounds:<10} {card.source}")
    if plugins:
        click.echo("From other packages")
        for name in plugins:
            click.echo(f"  {name}")
    click.echo("Any metric of the library evaluate: evaluate:NAME")


@metrics.command()
@click.argument("name")
@options.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def show(name: str, as_json: bool) -> None:
    """Show one metric: definition, range, source, what it needs, and its options."""
    from grue.metrics.metric import is_metric, metric_parameters

    if not is_metric(name):
        raise UnknownName(f"There is no metric {name!r}.{did_you_mean(name, CARDS)} `grue metrics list` lists them.")
    found = [
        {
            "name": option,
            "type": inspect.formatannotation(parameter.annotation),
            **({} if parameter.default is parameter.empty else {"default": parameter.default}),
        }
        for option, parameter in metric_parameters(name).items()
    ]
    if as_json:
        click.echo(json.dumps(_record(name) | {"options": found}, indent=2))
        return
    click.echo(name)
    if name in CARDS:
        card = CARDS[name]
        click.echo(click.wrap_text(card.definition, width=100, initial_indent="  ", subsequent_indent="  "))
        click.echo(f"\n  range    {card.bounds}, {card.direction} is better\n  source   {card.source}")
        click.echo(f"  needs    {card.needs or 'nothing but the texts'}")
    if found:
        click.echo("  options")
        for option in found:
            default = f" = {option['default']!r}" if "default" in option else " (needed)"
            click.echo(f"    {option['name']}: {option['type']}{default}")


def _record(name: str) -> dict[str, object]:
    if name not in CARDS:
        return {"name": name}
    card: Card = CARDS[name]
    return {
        "name": name,
        "family": card.family,
        "definition": card.definition,
        "range": [None if isinf(end) else end for end in card.range],
        "direction": card.direction,
        "source": card.source,
        "needs": card.needs,
    }

"""`grue tools curves`."""

from collections.abc import Iterator
from pathlib import Path

import click
from rich.text import Text

from grue import files
from grue.cli import options
from grue.cli.console import data_console, print_json, table
from grue.exchange.curves import CurvesCompared, compare_curves, read_curves
from grue.render.figures import UNKNOWN, ends, p_value

SHOWN = 12  # steps


@click.command()
@click.argument("old", type=options.PATH)
@click.argument("new", type=options.PATH)
@options.option("--figure", "name", required=True, help="What the logs call the figure: validation/preference, reward.")
@options.option("--lower", is_flag=True, help="Less of it is better.")
@options.option("--paired", is_flag=True, help="The n-th logs of both began from the same weights, with the same seed.")
@options.as_json
def curves(old: Path, new: Path, name: str, lower: bool, paired: bool, as_json: bool) -> None:
    """Say whether a new version of a trainer learns worse than the old one, from the logs of several seeds.

    OLD and NEW are folders with logs of `grue train`, `grue.callbacks` or transformers (the last trainer_state.json of
    each run), or files: JSON lines or CSV with a column step, 'old/*.csv' for several. Each log is a seed. Exit code 1:
    the new curves are worse, as a whole or at the end, beyond what seeds explain.

    \b
    grue tools curves runs/main runs/pull-request --figure validation/preference
    grue tools curves 'main/*.csv' 'branch/*.csv' --figure train/reward
    """  # noqa: D301 (click reads the escape)
    compared = compare_curves(read_curves(old, name), read_curves(new, name), name, lower=lower, paired=paired)
    if as_json:
        print_json({**files.plain(compared), "verdict": compared.verdict})
    else:
        show(compared)
        said = Text.assemble((compared.verdict, "bold"), f": {seen(compared)}")
        data_console().print(said, soft_wrap=True)
    if compared.verdict == "worse":
        raise click.exceptions.Exit(1)


def show(compared: CurvesCompared, old: str = "old", new: str = "new") -> None:
    """Print the curves' means and the tests, with names for the two sides."""
    console = data_console()
    counts = f"{len(compared.old)} seeds {old}, {len(compared.new)} {new}{', paired' if compared.paired else ''}"
    console.print(Text.assemble((compared.figure, "bold"), f"  {counts}"), soft_wrap=True)
    every, last = max(1, -(-len(compared.steps) // SHOWN)), len(compared.steps) - 1
    steps = [cells for place, cells in enumerate(steps_of(compared)) if place % every == 0 or place == last]
    console.print(table("step", old, new, "difference", rows=steps, left=()))
    tests = [
        (
            *(test.name, f"{test.old:.4g}", f"{test.new:.4g}", f"{test.value:+.3g}", ends(test.interval, ".3g")),
            *(p_value(test.p), p_value(test.p_holm), f"± {test.found:.3g}" if test.found else UNKNOWN),
        )
        for test in compared.tests
    ]
    console.print(table("", old, new, "difference", "95% interval", "p", "Holm p", "would be found", rows=tests))


def steps_of(compared: CurvesCompared) -> Iterator[tuple[str, ...]]:
    """Yield a step, the mean of each side there, and their difference."""
    for step, before, after in zip(compared.steps, *compared.means, strict=True):
        yield f"{step:g}", f"{before:.4g}", f"{after:.4g}", f"{after - before:+.3g}"


def seen(compared: CurvesCompared) -> str:
    """Return what was decided, or what so many seeds could see."""
    whole, end = compared.tests
    if compared.verdict != "no difference found":
        decided = [test.name for test in compared.tests if test.is_decided]
        return f"{' and '.join(decided)}, beyond what seeds explain (Holm p < .05)."
    seeds = f"; to decide {whole.value:+.3g} takes {whole.seeds} seeds a side" if whole.seeds else ""
    places = ((whole, "in the whole curve"), (end, "at its end"))
    sizes = [f"{test.found:.3g} {place}" for test, place in places if test.found]
    if not sizes:
        return f"there is no noise to go by where seeds do not differ{seeds}."
    return f"a difference of {' or '.join(sizes)} would be found about four times in five{seeds}."

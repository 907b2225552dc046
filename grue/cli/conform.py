"""`grue tools conform`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from grue import files
from grue.cli import options
from grue.cli.console import data_console, print_json, table
from grue.cli.curves import seen, steps_of
from grue.cli.curves import show as show_curves
from grue.conform import Stated, conform_curves, conform_step
from grue.exchange.curves import CurvesCompared
from grue.render.figures import figure
from grue.render.layout import plain_table
from grue.render.report import Part, as_page
from grue.runs.request import parse_seeds
from grue.task_files import load_task

if TYPE_CHECKING:
    from grue.rl.first_step import StepCompared

HEAD = ("first step", "grue", "theirs", "error", "ratio", "cosine", "")


@click.command()
@click.argument("folder", type=options.PATH, required=False)
@options.option("--algo", "method", default="grpo", help="grpo, rloo, dpo or supervised.")
@options.option("--task", "task_name", default="imdb", help="A task with a causal backbone, by name or file.")
@options.suite
@options.option("--loss", default="", help="module:function of (model, batch), in place of TRL.")
@options.option("--seeds", default="", help="Compare learning curves over these, too: 1-5, or 1,2,7.")
@options.option(
    "--theirs",
    type=options.PATH,
    help="Compare curves alone, with those of a trainer that grue.callbacks measured, a log a seed. [seeds: 1-5]",
)
@options.option("--updates", type=click.IntRange(min=2), default=16, help="Of the curves: optimiser steps.")
@options.option("--batch", type=click.IntRange(min=2), default=64, help="Responses of a step.")
@options.option("--every", type=options.COUNT, default=4, help="Of the curves: steps between measurements.")
@options.option("--examples", type=click.IntRange(min=2), default=200, help="Validation prompts of a measurement.")
@options.option(
    "--learning-rate", type=click.FloatRange(min=0, min_open=True), default=3e-4, help="Constant; AdamW without decay."
)
@options.as_json
def conform(
    folder: Path | None,
    task_name: str,
    suite: str,
    loss: str,
    seeds: str,
    theirs: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Say whether grue's trainer and another, TRL's by default, learn the same, and if not, what differs.

    The other's first step is recomputed on its own batch: what is learned, advantages, loss, gradient, change of the
    weights. Where it differs, the known causes that fit exactly are named. With --seeds learning curves are compared,
    too: FOLDER gets their runs, and the same command resumes it. FOLDER also gets the result, as conform.html and
    result.json. Exit code 1: they differ.

    \b
    grue tools conform --algo grpo
    grue tools conform --algo grpo --loss my_losses:grpo        # a function of (model, batch)
    grue tools conform same --algo grpo --seeds 1-5
    grue tools conform mine --algo rloo --theirs my_trainer/    # seeds' figures.jsonl
    """  # noqa: D301 (click reads the escape)
    if loss and (seeds or theirs):
        raise click.UsageError("A loss is compared on a fixed batch alone: leave out --seeds and --theirs.")
    if (seeds or theirs) and folder is None:
        raise click.UsageError("Learning curves need a FOLDER for their runs.")
    stated = Stated(**arguments)
    task, name = load_task(task_name, suite), loss or str(theirs or "TRL")
    step = None if theirs else conform_step(task, stated, loss=loss)
    curves: tuple[CurvesCompared, ...] = ()
    if folder is not None and (seeds or theirs):
        curves = conform_curves(task, stated, parse_seeds(seeds or "1-5"), folder, theirs)
    differs = (step is not None and step.differs) or any(test.is_decided for curve in curves for test in curve.tests)
    found = {"stated": stated, "theirs": name, "first_step": step, "curves": curves, "differs": differs}
    if folder is not None:
        files.write_json(folder / "result.json", files.plain(found))
        title = f"{name} beside grue: {stated.method} on {task.suite}/{task.name}"
        files.write_text(folder / "conform.html", as_page(title, list(_parts(step, curves))))
    if as_json:
        print_json(files.plain(found))
    else:
        show(step, curves, name)
    if differs:
        raise click.exceptions.Exit(1)


def show(step: "StepCompared | None", curves: Sequence[CurvesCompared], name: str) -> None:
    """Print the first step and what explains a difference there, and the curves."""
    console = data_console()
    if step is not None:
        console.print(table(*HEAD, rows=_cells(step)))
        first, *others = _sentences(step)
        console.print(Text(first, "bold"), soft_wrap=True)
        for sentence in others:
            console.print(f"· {sentence}", soft_wrap=True)
    for each in curves:
        console.print()
        show_curves(each, "grue", name)
        console.print(seen(each), soft_wrap=True)


def _cells(step: "StepCompared") -> Iterator[tuple[str, ...]]:
    for stage in step.stages:
        numbers = (f"{stage.ours:.6g}", f"{stage.theirs:.6g}", f"{stage.error:.2g}")
        yield (
            *(stage.name, *numbers, figure(stage.ratio, ".6g"), figure(stage.cosine, ".6f")),
            "same" if stage.agrees else "differs",
        )


def _sentences(step: "StepCompared") -> Iterator[str]:
    """Yield the verdict, what explains a difference, and what the batch could not show."""
    verdict = "differs" if step.differs else "is the same"
    yield f"The first step {verdict}, on {step.responses} responses, {step.ended} with an end."
    for stage in step.stages:
        if stage.cosine is not None and not stage.agrees:
            told = " Or: ".join(f"{cause}." for cause in stage.causes)
            yield f"What explains the {stage.name} exactly: {told or 'no known cause, nor two together.'}"
    if step.unseen:
        yield f"Comes to the same on this batch, and so could not be seen: {'; '.join(step.unseen)}."


def _parts(step: "StepCompared | None", curves: Sequence[CurvesCompared]) -> Iterator[Part]:
    if step is not None:
        yield Part(items=tuple(_sentences(step)), table=plain_table(HEAD, _cells(step), left=(0, len(HEAD) - 1)))
    for each in curves:
        steps = plain_table(("step", "grue", "theirs", "difference"), steps_of(each), left=())
        yield Part(each.figure, table=steps, lines=(seen(each),))

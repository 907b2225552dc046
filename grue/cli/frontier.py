"""`grue tools frontier`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from grue import files
from grue.api import evaluate as api
from grue.cli import options
from grue.cli.console import data_console, evaluation_progress, print_json, table
from grue.data.load import few_of, load_examples
from grue.render.figures import figure
from grue.stats.frontier import reward_at

if TYPE_CHECKING:
    from grue.evaluation.frontier import Frontier, Placed

SHOWN = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # nats


@click.command()
@options.option(
    "--checkpoint", required=True, help="What training would start from: a run's folder, a checkpoint or zero-shot."
)
@options.option("--task", "task_name", help="Task. [default: the checkpoint's]")
@options.suite
@options.reward
@options.option("--split", default="validation", help="Split of the prompts; runs log reward and KL on validation.")
@options.option("--limit", type=options.COUNT, default=100, help="How many prompts, drawn by a hash.")
@options.option(
    "--samples",
    type=click.IntRange(min=8),
    default=64,
    help="How many samples to each; 16 at least where one reference is compared with.",
)
@options.option("--temperature", type=click.FloatRange(min=0, min_open=True), default=1.0, help="Sampling temperature.")
@options.option("--run", "runs", multiple=True, type=options.PATH, help="A run from this start; repeat for several.")
@options.output("File to write the curves to, as JSON.")
@options.data
@options.as_json
def frontier(
    checkpoint: str,
    task_name: str | None,
    suite: str,
    reward: str | None,
    split: str,
    limit: int,
    samples: int,
    temperature: float,
    runs: Sequence[Path],
    output: Path | None,
    as_json: bool,
    **places: Any,
) -> None:
    """Show what training from a start could gain at each KL, and what runs gained of it.

    It draws samples of the start and weights them as the best policy at that KL would. Where the reward reads
    references, no policy can reach that: a second curve knows only what a policy could.

    \b
    grue tools frontier --checkpoint runs/mini/imdb/supervised/seed-1
    grue tools frontier --checkpoint zero-shot --task commongen --reward meteor --samples 256
    grue tools frontier --checkpoint runs/mini/imdb/supervised/seed-1 --run runs/mini/imdb/supervised+ppo/seed-1
    grue tools frontier --checkpoint runs/mini/imdb/supervised/seed-1 -o imdb.json
    """  # noqa: D301 (click reads the escape)
    from grue.evaluation.frontier import check_places_runs, measure, place

    if runs:
        check_places_runs(split, temperature)
    subject = api.subject(checkpoint, task_name, suite=suite)
    task = subject.task
    examples = few_of(load_examples(task, split, **places).examples, limit)
    with evaluation_progress(f"Sampling {subject.system.name} on {task.suite}/{task.name}") as progress:
        measured = measure(
            task,
            subject.system,
            examples,
            split,
            train=load_examples(task, task.data.reward_split, **places).examples,
            reward=reward or task.reward,
            samples=samples,
            temperature=temperature,
            progress=progress,
        )
    if output is not None:
        files.write_json(output, measured)
    placed = [place(measured, run) for run in runs]
    if as_json:
        print_json({**files.plain(measured), "runs": placed})
        return
    show(measured, placed, data_console())
    if output is not None:
        click.echo(str(output))


def show(measured: "Frontier", runs: Sequence["Placed"], console: Console) -> None:
    """Print the curves at some KLs, best-of-k, and the runs' shares of the possible gain."""
    samples = f"{measured.samples} samples each at temperature {measured.temperature:g}"
    drawn = f"{measured.prompts} prompts of {measured.split}, {samples}"
    head = Text.assemble((f"{measured.suite}/{measured.task}", "bold"), f"  reward {measured.reward}, {drawn}")
    console.print(head, soft_wrap=True)
    if measured.error is not None:
        console.print(
            f"the start has {measured.optimal[0].reward:.3f} ± {measured.error:.3f} (standard error over prompts)"
        )
    headers = ["KL, nats", "oracle" if measured.oracle else "reward", *([measured.how] if measured.how else [])]
    curves = [measured.optimal, *([measured.attainable] if measured.attainable else [])]
    known = {kl: [reward_at(curve, kl) for curve in curves] for kl in (0.0, *SHOWN)}
    rows = [(f"{kl:g}", *(figure(value, ".3f") for value in at)) for kl, at in known.items() if {*at} != {None}]
    console.print(table(*headers, rows=rows, left=()))
    picked = "  ".join(f"{k}: {point.reward:.3f} (≤ {point.kl:.2f})" for k, point in measured.best_of.items())
    console.print(f"best of k, and its KL  {picked}", soft_wrap=True)
    for run in runs:
        share = "beyond the curve" if run.kl > measured.curve[-1].kl else "nothing could be gained there"
        if run.share is not None:
            share = f"{run.share:.0%} of what could be gained there"
        where = f"{run.gain:+.3f} at {run.kl:.2f} nats after update {run.update}"
        console.print(f"{run.run}  {where}: {share}", soft_wrap=True)
    if measured.oracle:
        console.print("The reward reads references: no policy reaches the oracle's curve.", style="dim")

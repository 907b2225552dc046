"""`grue frontier`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grue import files
from grue.cli import options
from grue.errors import DataError

if TYPE_CHECKING:
    from grue.evaluation.frontier import Frontier

SHOWN = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # nats
LAST = 4  # updates of a run that its reward and KL are the means of


@click.command()
@options.option(
    "--checkpoint", required=True, help="What training would start from: a run's folder, a checkpoint or zero-shot."
)
@options.option("--task", "task_name", help="Task. [default: the checkpoint's]")
@options.suite
@options.option("--reward", help="As for training. [default: the task's]")
@options.option("--split", default="train", help="Where the prompts are from; rewards in train.jsonl are of training.")
@options.option("--limit", type=click.IntRange(min=1), default=100, help="How many prompts.")
@options.option("--samples", type=click.IntRange(min=8), default=64, help="How many samples to each.")
@options.option("--temperature", type=click.FloatRange(min=0, min_open=True), default=1.0, help="Of the sampler.")
@options.option(
    "--run", "runs", multiple=True, type=click.Path(path_type=Path), help="A run from this start; repeat for several."
)
@options.data
@options.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
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
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Show what training from a start could gain at each KL, and what runs gained of it.

    It draws samples of the start and weights them as the best policy at that KL would. Where the reward reads
    references, no policy can reach that: a second curve knows only what a policy could.

    \b
    grue frontier --checkpoint runs/mini/imdb/supervised/seed-1
    grue frontier --checkpoint zero-shot --task commongen --reward meteor --samples 256
    grue frontier --checkpoint runs/mini/imdb/supervised/seed-1 --run runs/mini/imdb/supervised+ppo/seed-1
    """  # noqa: D301 (click reads the escape)
    from grue import api
    from grue.cli.progress import evaluation_progress
    from grue.data.load import load_examples
    from grue.evaluation.frontier import measure

    subject = api.subject(checkpoint, task_name, suite=suite)
    task = subject.task
    examples = load_examples(task, split, data_dir, offline).examples[:limit]
    lines = [(run, last_updates(run)) for run in runs]
    with evaluation_progress(f"Sampling {subject.system.name} on {task.suite}/{task.name}") as progress:
        found = measure(
            task,
            subject.system,
            examples,
            split,
            reward=reward or task.reward,
            samples=samples,
            temperature=temperature,
            progress=progress,
        )
    if as_json:
        placed = [
            {"run": str(run), "kl": kl, "reward": value, "share": share(found, kl, value)} for run, (kl, value) in lines
        ]
        click.echo(json.dumps({**files.plain(found), "runs": placed}, indent=2))
        return
    show(found, lines, Console(highlight=False))


def last_updates(run: Path) -> tuple[float, float]:
    """Return the KL from its start, over the whole vocabulary in nats a response, and the reward of a run's end.

    Raises:
        DataError: The folder has no log of reinforcement learning.
    """
    path = run / "train.jsonl"
    lines = [line for _, line in files.read_jsonl(path) if "objective/reward" in line][-LAST:]
    if not lines:
        raise DataError(f"{path}: no update of reinforcement learning is logged there.")
    kl = sum(line["objective/kl_vocabulary"] * line["objective/length"] for line in lines) / len(lines)
    return kl, sum(line["objective/reward"] for line in lines) / len(lines)


def share(found: "Frontier", kl: float, reward: float) -> float | None:
    """Return which share of what could be gained at its KL a run gained; None beyond the curve."""
    from grue.stats.frontier import share_of_gain

    return share_of_gain(found.attainable or found.optimal, kl, reward - found.optimal[0].reward)


def show(found: "Frontier", runs: Sequence[tuple[Path, tuple[float, float]]], console: Console) -> None:
    """Print the curves at some KLs, best-of-k, and the runs' shares of what could be gained."""
    from grue.stats.frontier import reward_at

    drawn = (
        f"{found.prompts} prompts of {found.split}, {found.samples} samples each at temperature {found.temperature:g}"
    )
    about = Text.assemble((f"{found.suite}/{found.task}", "bold"), f"  reward {found.reward}, {drawn}")
    console.print(about, soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    headers = ["KL, nats", "reward" if not found.oracle else "oracle", *([found.how] if found.how else [])]
    for header in headers:
        table.add_column(header, justify="right")
    curves = [found.optimal, *([found.attainable] if found.attainable else [])]
    for kl in (0.0, *SHOWN):
        values = [reward_at(curve, kl) for curve in curves]
        if any(value is not None for value in values):
            table.add_row(f"{kl:g}", *("–" if value is None else f"{value:.3f}" for value in values))
    console.print(table)
    picked = "  ".join(f"{k}: {point.reward:.3f} (≤ {point.kl:.2f})" for k, point in found.best_of.items())
    console.print(f"best of k, and its KL  {picked}", soft_wrap=True)
    error = "" if found.error is None else f" ± {found.error:.3f}"
    for run, (kl, reward) in runs:
        gained = share(found, kl, reward)
        said = "beyond the curve" if gained is None else f"{gained:.0%} of what could be gained there"
        place = f"{reward - found.optimal[0].reward:+.3f}{error} at {kl:.2f} nats"
        console.print(Text(f"{run}  {place}: {said}"), soft_wrap=True)
    if found.oracle:
        console.print("The reward reads references: no policy reaches the oracle's curve.", style="dim")

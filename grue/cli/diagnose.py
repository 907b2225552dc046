"""`grue diagnose`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from grue import files
from grue.cli import options

if TYPE_CHECKING:
    from grue.runs.diagnose import Diagnosis
    from grue.runs.remarks import Remark

GROUPS = {
    "What would be trained": ("task_name", "suite", "algo", "reward", "seed"),
    "What it starts from": ("init", "backbone", "warm_start"),
    "Settings of the algorithm": ("mask", "preset", "config_path", "settings"),
    "Data and folders": ("runs", "data_dir", "offline"),
    "Carrying it out": ("batches", "threads", "as_json"),
}


@click.command(cls=options.GroupedCommand, groups=GROUPS)
@options.option("--task", "task_name", required=True, help="Name of a task, or the path of a task file.")
@options.suite
@options.option("--algo", required=True, help="An algorithm that takes rollouts, or supervised+NAME.")
@options.option("--reward", help="As for training. [default: the task's]")
@options.option("--seed", type=int, default=1, help="Of the run, and of its supervised start.")
@options.start
@options.mask
@options.settings
@options.runs
@options.data
@options.option(
    "--batches", type=click.IntRange(min=4), default=16, help="Batches of rollouts; more see smaller signals."
)
@options.option("--threads", type=click.IntRange(min=1), help="CPU threads of torch. [default: torch's choice]")
@options.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def diagnose(
    task_name: str,
    suite: str,
    algo: str,
    reward: str | None,
    seed: int,
    init: Path | None,
    backbone: str | None,
    warm_start: bool,
    mask: str | None,
    preset: str | None,
    config_path: Path | None,
    settings: tuple[str, ...],
    runs: Path,
    data_dir: Path | None,
    offline: bool,
    batches: int,
    threads: int | None,
    as_json: bool,
) -> None:
    """Say before a run whether there is a signal to learn from.

    It takes the rollouts of some updates, with the settings that `grue train` would use, without changing the policy:
    how much of the gradient is signal, where rewards vary, what the critic knows, how far an update moves. Nothing is
    written.

    \b
    grue diagnose --task imdb --algo supervised+ppo
    grue diagnose --task commongen --algo grpo --init runs/mini/commongen/supervised/seed-1 --set rollouts=256
    """  # noqa: D301 (click reads the escape)
    from grue.api import train as api
    from grue.cli.console import evaluation_progress
    from grue.runs.request import RunRequest
    from grue.task_files import load_task

    request = RunRequest(
        task=load_task(task_name, suite),
        algorithm=algo,
        seed=seed,
        runs=runs,
        settings={
            **options.read_settings(config_path),
            **({"mask": mask} if mask else {}),
            **options.parse_settings(settings),
        },
        preset=preset,
        reward=reward,
        init=init,
        backbone=backbone,
        warm_start=warm_start,
        data_dir=data_dir,
        offline=offline,
    )
    if threads:
        import torch

        torch.set_num_threads(threads)
    with evaluation_progress(f"Diagnosing {algo} on {request.task.suite}/{request.task.name}") as progress:
        found = api.diagnose(request, batches=batches, progress=progress)
    from grue.runs.remarks import remarks

    said = remarks(found)
    if as_json:
        click.echo(
            json.dumps({**files.plain(found), "run_seconds": found.seconds, "remarks": files.plain(said)}, indent=2)
        )
        return
    show(found, said, Console(highlight=False))


def show(found: "Diagnosis", said: Sequence["Remark"], console: Console) -> None:
    """Print each figure, what it means, and what to do where it is bad."""
    about = f"  {found.algorithm} from {found.start}, reward {found.reward}, seed {found.seed}"
    console.print(Text.assemble((f"{found.suite}/{found.task}", "bold"), about), soft_wrap=True)
    for remark in said:
        console.print(Text.assemble((f"{remark.about:<11}", "bold"), remark.seen), soft_wrap=True)
        console.print(Text(f"{'':<11}{remark.meaning}", "dim"), soft_wrap=True)
        if remark.cure is not None:
            console.print(Text.assemble(f"{'':<11}", ("→ ", "yellow"), remark.cure), soft_wrap=True)

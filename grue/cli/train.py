"""`grue train`."""

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options

if TYPE_CHECKING:
    from grue.lm.distributed import DistributedContext
    from grue.runs.plan import Plan
    from grue.runs.request import RunRequest


GROUPS = {
    "What to train": ("task_name", "suite", "algo", "reward", "seed", "seed_range", "system"),
    "What it starts from": ("init", "backbone", "warm_start"),
    "Settings of the algorithm": ("mask", "preset", "config_path", "settings"),
    "Data and folders": ("runs", "data_dir", "offline"),
    "Carrying it out": ("trackers", "threads", "dry_run"),
}


@click.command(cls=options.GroupedCommand, groups=GROUPS)
@options.option("--task", "task_name", required=True, help="Name of a task, or the path of a task file.")
@options.suite
@options.option("--algo", required=True, help="Name of an algorithm (`grue algorithms list`), or supervised+NAME.")
@options.option(
    "--reward", help="A metric, a weighted sum (0.5*meteor+0.5*coverage), or module:function. [default: the task's]"
)
@options.seeds
@options.option("--system", help="Name of the system, and of its folder. [default: the algorithm, with --backbone]")
@options.start
@options.mask
@options.settings
@options.runs
@options.data
@options.option(
    "--tracker",
    "trackers",
    multiple=True,
    type=click.Choice(["tensorboard", "wandb", "trackio", "none"]),
    help="Where to show the run; repeat for several. [default: tensorboard, if it is installed]",
)
@options.option("--threads", type=click.IntRange(min=1), help="CPU threads of torch. [default: torch's choice]")
@options.option("--dry-run", is_flag=True, help="Print every value the run would use, and do nothing.")
def train(
    task_name: str,
    suite: str,
    algo: str,
    reward: str | None,
    seed: tuple[int, ...],
    seed_range: str | None,
    system: str | None,
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
    trackers: tuple[str, ...],
    threads: int | None,
    dry_run: bool,
) -> None:
    """Train a model on a task and keep the best checkpoint.

    A run lies in RUNS/SUITE/TASK/SYSTEM/seed-N. The same command resumes an interrupted run and leaves a finished one
    alone. `--algo supervised+nlpo` trains a supervised model first (once, shared by all that start from it).
    """
    from grue.runs.request import RunRequest
    from grue.task_files import SUITES, load_task

    request = RunRequest(
        task=load_task(task_name, suite),
        algorithm=algo,
        runs=runs,
        settings={
            **options.read_settings(config_path),
            **({"mask": mask} if mask else {}),
            **options.parse_settings(settings),
        },
        preset=preset,
        reward=reward,
        system=system,
        init=init,
        backbone=backbone,
        warm_start=warm_start,
        data_dir=data_dir,
        offline=offline,
    )
    from grue.runs import plan

    requests = [replace(request, seed=one) for one in options.parse_seeds(seed, seed_range)]
    stages = [stage for one in requests for stage in plan.stages_of(one)]  # all are refused before any starts
    if dry_run:
        _check(stages)
        click.echo("\n".join(describe(stage) for stage in stages))
        return
    quoted = shlex.quote(task_name)
    own = f" --task {quoted}" if task_name.endswith(".toml") else f" --task {quoted} --suite {shlex.quote(suite)}"
    _train_all(requests, trackers, threads, beside="" if request.task.suite in SUITES else own)


def _check(stages: Sequence["Plan"]) -> None:
    """Refuse what the runs would; of a run that starts from one to come, what can be told before that is trained."""
    from grue.lm.checkpoint import is_checkpoint
    from grue.runs.folder import CONFIG, claim_folder
    from grue.runs.train import check

    to_come = {stage.checkpoint for stage in stages if not is_checkpoint(stage.checkpoint)}
    for stage in stages:
        if stage.init in to_come:
            check(replace(stage, init=None))
            continue
        check(stage)
        if (stage.folder / CONFIG).exists():
            claim_folder(stage)  # writes nothing, as a configuration exists


def _train_all(requests: Sequence["RunRequest"], trackers: Sequence[str], threads: int | None, beside: str) -> None:
    import torch

    from grue.api import train as api
    from grue.cli.console import error_console, no_console
    from grue.cli.progress import TrainingProgress

    if threads:
        torch.set_num_threads(threads)

    def over(plan: "Plan") -> None:
        if distributed.is_main:
            click.echo(str(plan.checkpoint))

    with (
        stop_on_signal() as stop,
        joined_processes() as distributed,
        TrainingProgress(error_console() if distributed.is_main else no_console(), over, beside=beside) as progress,
    ):
        for request in requests:
            api.train(request, trackers=trackers, observer=progress, stop=lambda: bool(stop))
        progress.suggest()


@contextmanager
def joined_processes() -> Iterator["DistributedContext"]:
    """Yield the processes that train together, and leave them in the end."""
    from grue.lm.distributed import join_processes, leave_processes

    try:
        yield join_processes()
    finally:
        leave_processes()


@contextmanager
def stop_on_signal(
    said: str = "Stopping after this update; press Ctrl-C again to stop at once.",
) -> Iterator[list[int]]:
    """Collect the first Ctrl-C or SIGTERM instead of dying of it; a second Ctrl-C interrupts at once."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if received:
            return  # a cluster tells the launcher and every process; the state must still be saved
        received.append(number)
        # Not click.echo: it writes past the live view, which would then draw over it.
        print(said, file=sys.stderr)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(stage: "Plan") -> str:
    """Return the plan of one stage as text, with the unit of what the KL penalty is steered to."""
    from grue.lm.load import is_here
    from grue.rl.settings import KL_UNITS, RolloutConfig

    values = files.plain(stage.config)
    if isinstance(stage.config, RolloutConfig) and stage.config.kl_target is not None:
        values["kl_target"] = f"{stage.config.kl_target} {KL_UNITS[stage.config.kl_controller]}"
    config = "\n".join(f"  {key} = {options.shown(value)}" for key, value in values.items())
    start = stage.init or stage.start.model
    if stage.init is None and not is_here(stage.start.model, stage.start.revision):
        start = f"{start} (not on this machine: fetched from the hub)"
    return (
        f"{stage.task.suite}/{stage.task.name} · {stage.algorithm} · seed {stage.seed}\n"
        f"  folder = {stage.folder}\n  starts from = {start}\n  reward = {stage.told_reward}\n{config}"
    )

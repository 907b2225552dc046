"""`grue train`."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options

if TYPE_CHECKING:
    from grue.lm.distributed import DistributedContext
    from grue.runs.plan import Plan
    from grue.runs.request import RunRequest


@click.command(cls=options.GroupedCommand, groups=options.RUN_GROUPS)
@options.run("seed")
@options.seeds
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
    request: "RunRequest",
    seeds: tuple[str, ...],
    trackers: tuple[str, ...],
    threads: int | None,
    dry_run: bool,
) -> None:
    """Train a model on a task and keep the best checkpoint.

    A run lies in RUNS/SUITE/TASK/SYSTEM/seed-N. The same command resumes an interrupted run and leaves a finished one
    alone. `--algo supervised+nlpo` trains a supervised model first (once, shared by all that start from it).
    """
    from grue.runs import plan
    from grue.runs.request import seeds_of
    from grue.task_files import SUITES

    requests = [replace(request, seed=seed) for seed in seeds_of(seeds)]
    stages = [stage for each in requests for stage in plan.stages_of(each)]  # refuses a wrong one before any starts
    if dry_run:
        _check(stages)
        click.echo("\n".join(describe(stage) for stage in stages))
        return
    task, suite = (shlex.quote(click.get_current_context().params[name]) for name in ("task_name", "suite"))
    own = f" --task {task}" if task.endswith(".toml") else f" --task {task} --suite {suite}"
    _train_all(requests, trackers, threads, beside="" if request.task.suite in SUITES else own)


def _check(stages: Sequence["Plan"]) -> None:
    """Refuse what the runs would refuse; for a run that starts from a future one, as far as possible before that."""
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
    from grue.cli.stopping import stop_on_signal

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
    """Yield the processes that train together, and leave them at the end."""
    from grue.lm.distributed import join_processes, leave_processes

    try:
        yield join_processes()
    finally:
        leave_processes()


def describe(stage: "Plan") -> str:
    """Return the plan of one stage as text, with the unit of the target KL."""
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
        f"  folder = {stage.folder}\n  starts from = {start}\n  reward = {stage.reward_label}\n{config}"
    )

"""`grue train`."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import click

from grue import files
from grue.api import train as api
from grue.cli import options
from grue.cli.console import error_console, stop_on_signal
from grue.cli.progress import TrainingProgress
from grue.lm.checkpoint import is_checkpoint
from grue.rl.settings import KL_UNITS, RolloutConfig
from grue.runs.folder import CONFIG, claim_folder
from grue.runs.plan import Plan
from grue.runs.request import RunRequest, seeds_of
from grue.task_files import SUITES


@click.command(cls=options.RunCommand)
@options.run("seed")
@options.seeds
@options.option(
    "--tracker",
    "trackers",
    multiple=True,
    type=click.Choice(["tensorboard", "wandb", "trackio", "none"]),
    help="Where to show the run; repeat for several. [default: tensorboard, if it is installed]",
)
@options.threads
@options.option("--dry-run", is_flag=True, help="Print every value the run would use, and do nothing.")
def train(request: RunRequest, seeds: tuple[str, ...], trackers: tuple[str, ...], dry_run: bool) -> None:
    """Train a model on a task and keep the best checkpoint.

    A run lies in RUNS/SUITE/TASK/SYSTEM/seed-N. The same command resumes an interrupted run and leaves a finished one
    alone. `--algo supervised+nlpo` trains a supervised model first (once, shared by all that start from it).
    """
    from grue.runs import plan

    requests = [replace(request, seed=seed) for seed in seeds_of(seeds)]
    stages = [stage for each in requests for stage in plan.stages_of(each)]  # refuses a wrong one before any starts
    if dry_run:
        _check(stages)
        click.echo("\n".join(describe(stage) for stage in stages))
        return
    from grue.lm.distributed import join_processes, leave_processes

    task, suite = (click.get_current_context().params[name] for name in ("task_name", "suite"))
    beside = evaluated_on(task, suite, request.task.suite)
    with stop_on_signal() as stop, ExitStack() as at_end:
        at_end.callback(leave_processes)
        console = error_console(quiet=not join_processes().is_main)
        with TrainingProgress(console, lambda plan: click.echo(str(plan.checkpoint)), beside=beside) as progress:
            for each in requests:
                api.train(each, trackers=trackers, observer=progress, stop=lambda: bool(stop))
            progress.suggest()


def evaluated_on(task: str, suite: str, of_task: str) -> str:
    """Return the options that evaluate a checkpoint on its own task, a space before them: a file may say any suite."""
    if task.endswith(".toml"):
        return f" --task {shlex.quote(task)}"
    return "" if of_task in SUITES else f" --task {shlex.quote(task)} --suite {shlex.quote(suite)}"


def _check(stages: Sequence[Plan]) -> None:
    """Refuse what the runs would refuse; for a run that starts from a future one, as far as possible before that."""
    from grue.runs.train import check

    to_come = {stage.checkpoint for stage in stages if not is_checkpoint(stage.checkpoint)}
    for stage in stages:
        if stage.init in to_come:
            check(replace(stage, init=None))
            continue
        check(stage)
        if (stage.folder / CONFIG).exists():
            claim_folder(stage)  # writes nothing, as a configuration exists


def describe(stage: Plan) -> str:
    """Return the plan of one stage as text, with the unit of the target KL."""
    from grue.lm.load import is_here

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

"""`grue train`."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options

if TYPE_CHECKING:
    from grue.lm.distributed import DistributedContext
    from grue.runs.plan import Plan


@click.command()
@options.option("--task", "task_name", required=True, help="Name of a task, or the path of a task file.")
@options.option(
    "--algo",
    required=True,
    help="supervised, ppo, nlpo, a2c, trpo, reinforce, rloo, grpo, or a warm start: supervised+nlpo.",
)
@options.suite
@options.seeds
@options.option(
    "--reward", help="A metric, a weighted sum (0.5*meteor+0.5*coverage), or module:function. [default: the task's]"
)
@options.option(
    "--init", type=click.Path(path_type=Path), help="Checkpoint to start from, instead of the task's backbone."
)
@options.option(
    "--backbone", help="Model to start from instead of the task's: a folder, a hub id, or mini:seq2seq, say."
)
@options.option(
    "--warm-start",
    is_flag=True,
    help="With supervised+ALGORITHM: start from the published supervised model that the task file names.",
)
@options.option("--preset", help="NLPO as the paper describes it (paper), as RL4LMs ran it (rl4lms), or stable.")
@options.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="TOML file with values of the algorithm's configuration.",
)
@options.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="One value of the configuration; repeat for several."
)
@options.option("--system", help="Name of the system, and of its folder. [default: the algorithm]")
@options.runs
@options.data
@options.option(
    "--tracker",
    "trackers",
    multiple=True,
    type=click.Choice(["tensorboard", "wandb", "trackio", "none"]),
    help="Where to show the run; repeat for several. [default: tensorboard, if it is installed]",
)
@options.option("--threads", type=int, help="CPU threads of torch. [default: torch's choice]")
@options.option("--dry-run", is_flag=True, help="Print the plan and do nothing.")
def train(
    task_name: str,
    algo: str,
    suite: str,
    seed: tuple[int, ...],
    seed_range: str | None,
    reward: str | None,
    init: Path | None,
    backbone: str | None,
    warm_start: bool,
    preset: str | None,
    config_path: Path | None,
    settings: tuple[str, ...],
    system: str | None,
    runs: Path,
    data_dir: Path | None,
    offline: bool,
    trackers: tuple[str, ...],
    threads: int | None,
    dry_run: bool,
) -> None:
    """Train a model on a task and keep the best checkpoint.

    A run lies in RUNS/SUITE/TASK/SYSTEM/seed-N. The same command goes on with an interrupted run and leaves a finished
    one alone. `--algo supervised+nlpo` trains a supervised model first (once, shared by all that start from it).
    """
    from grue.runs.plan import plan_stages
    from grue.task_files import load_task

    task = load_task(task_name, suite)
    overrides = {**(files.read_toml(config_path) if config_path else {}), **options.parse_settings(settings)}
    stages = [
        stage
        for one in options.parse_seeds(seed, seed_range)
        for stage in plan_stages(
            task,
            algo,
            one,
            runs,
            overrides=overrides,
            preset=preset,
            reward=reward,
            system=system,
            init=init,
            backbone=backbone,
            warm_start=warm_start,
            data_dir=data_dir,
            offline=offline,
        )
    ]
    if dry_run:
        click.echo("\n".join(describe(stage) for stage in stages))
        return
    _train_all(stages, trackers, threads)


def _train_all(stages: list["Plan"], trackers: Sequence[str], threads: int | None) -> None:
    import torch

    from grue.cli.progress import TrainingProgress, error_console, no_console
    from grue.runs.observers import Observers
    from grue.runs.trackers import open_trackers
    from grue.runs.train import train as train_stage

    if threads:
        torch.set_num_threads(threads)
    with stop_on_signal() as stop, joined_world() as world:
        console, trackers = (error_console(), trackers) if world.is_main else (no_console(), ["none"])
        with TrainingProgress(console) as progress, open_trackers(trackers, progress.warned) as opened:
            # A tracker that asks for a login does so before the live view is drawn.
            observers = Observers([*opened, progress])
            for stage in stages:
                progress.announce(stage)
                checkpoint = train_stage(stage, observers, lambda: bool(stop), world)
                progress.finished(stage)
                if world.is_main:
                    click.echo(str(checkpoint))


@contextmanager
def joined_world() -> Iterator["DistributedContext"]:
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
    from grue.rl.settings import KL_UNITS, RolloutConfig

    values = files.plain(stage.config)
    if isinstance(stage.config, RolloutConfig) and stage.config.kl_target is not None:
        values["kl_target"] = f"{stage.config.kl_target} {KL_UNITS[stage.config.kl_controller]}"
    config = "\n".join(f"  {key} = {value}" for key, value in values.items())
    start = stage.init or stage.start.model
    return (
        f"{stage.task.suite}/{stage.task.name} · {stage.algorithm} · seed {stage.seed}\n"
        f"  folder = {stage.folder}\n  starts from = {start}\n  reward = {stage.reward}\n{config}"
    )

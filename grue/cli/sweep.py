"""`grue sweep`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from grue import files
from grue.cli import options
from grue.cli.console import error_console, print_json, stop_on_signal
from grue.cli.sweep_view import SweepView, dry_run_text, status_text, summary
from grue.errors import ConfigError
from grue.records import BASELINES
from grue.sweep import run
from grue.sweep.grid import GridEntry, SweepGrid, read_grid
from grue.sweep.jobs import plan_jobs, refuse_other_runs
from grue.sweep.record import Record
from grue.sweep.schedule import Sweep
from grue.sweep.status import rows_of
from grue.sweep.work import JobContext


@click.group(invoke_without_command=True)
@click.pass_context
@options.option("--config", "config_path", type=options.PATH, help="TOML file of the grid; flags override it.")
@options.option("--tasks", help="Names or task files, separated by commas. [default: all of the suite]")
@options.option(
    "--algos", help="Algorithms and baselines, separated by commas: zero-shot,supervised,ppo,supervised+nlpo."
)
@options.option(
    "--suite", default=None, help="mini, small, grue, a package's, or a folder of task files. [default: mini]"
)
@options.option("--seeds", "seed_range", help="1-5, or 1,2,7. [default: 1]")
@options.changes("One value of the configuration; repeat for several.")
@options.option(
    "--vary",
    multiple=True,
    metavar="KEY=V1,V2",
    help="A system for each value of KEY (also reward, preset and backbone); repeat for all combinations.",
)
@options.runs
@options.data
@options.option("--executor", type=click.Choice(["local", "ray"]), default="local", help="This machine, or Ray.")
@options.option("--address", help="Address of a running Ray cluster, such as auto. [default: start one]")
@options.per_run
@options.option("--retries", type=click.IntRange(min=0), default=1, help="How often a crashed run is retried.")
@options.option("--no-evaluate", is_flag=True, help="Train only.")
@options.option("--dry-run", is_flag=True, help="Print what would run and how long it may take.")
def sweep(
    context: click.Context,
    /,
    runs: Path,
    data_dir: Path | None,
    offline: bool,
    executor: str,
    address: str | None,
    jobs: int | None,
    threads: int,
    gpus: float,
    retries: int,
    dry_run: bool,
    **grid_flags: Any,
) -> None:
    """Train and evaluate a grid of tasks, algorithms and seeds.

    Warm starts are trained once. A failed run is recorded and stops no other. The same command resumes an interrupted
    sweep; `grue sweep status RUNS` shows its progress, `grue submit pack --sweep RUNS` packs it.

    \b
    grue sweep --algos zero-shot,supervised,supervised+ppo,supervised+nlpo --seeds 1-5
    grue sweep --tasks imdb --algos ppo --vary gamma=0.5,0.95,1.0 --seeds 1-5 --dry-run
    """  # noqa: D301 (click reads the escape)
    if context.invoked_subcommand is not None:
        return

    grid = _grid(**grid_flags)
    place = JobContext(runs=runs.absolute(), data_dir=data_dir, offline=offline, threads=threads)
    if executor == "local" and address is not None:
        raise ConfigError("--address belongs to a Ray cluster; add --executor ray.")
    if dry_run:
        click.echo(plan_text(grid, place, executor, jobs, gpus))
    elif not run_grid(grid, place, executor, jobs, gpus, address, retries):
        context.exit(1)


def plan_text(
    grid: SweepGrid, place: JobContext, executor: str = "local", jobs: int | None = None, gpus: float = 0.0
) -> str:
    """Return which runs of a grid are left, and how long they may take; nothing is started."""
    planned, record = plan_jobs(grid), Record(place.runs)
    refuse_other_runs(planned, place.runs, place.data_dir, record.finished)
    return dry_run_text(record, planned, run.at_a_time(executor, jobs, place.threads, gpus, run.device_count()))


def run_grid(
    grid: SweepGrid,
    place: JobContext,
    executor: str = "local",
    jobs: int | None = None,
    gpus: float = 0.0,
    address: str | None = None,
    retries: int = 1,
) -> bool:
    """Carry out what is left of a grid, with a live view; return whether every run is finished."""
    with run.claimed(grid, place) as (planned, record):
        workers = run.executor_for(record, place, executor, jobs, gpus, address)
        with (
            stop_on_signal("Stopping: every run saves its progress; press Ctrl-C again to stop at once.") as stop,
            SweepView(error_console(), record, planned) as view,
        ):
            states = Sweep(planned, record, workers, view, retries).run(lambda: bool(stop))
    click.echo(summary(record, planned, states))
    if stop:
        click.echo("Stopped; the same command resumes it.", err=True)
        click.get_current_context().exit(130)
    return all(state == "finished" for state in states.values())


def _grid(
    config_path: Path | None,
    tasks: str | None,
    algos: str | None,
    suite: str | None,
    seed_range: str | None,
    settings: tuple[str, ...],
    vary: tuple[str, ...],
    no_evaluate: bool,
) -> SweepGrid:
    """Return the grid of the file, overridden by the flags."""
    grid = read_grid(config_path) if config_path else SweepGrid()
    chosen: dict[str, Any] = {
        "suite": suite,
        "algorithms": None if algos is None else options.names_of(algos),
        "seeds": seed_range,
        "set": {**grid.set, **options.parse_settings(settings)},
        "evaluate": False if no_evaluate else None,
    }
    grid = replace(grid, **{name: value for name, value in chosen.items() if value is not None}).located()
    if tasks is not None:
        if not options.names_of(tasks):
            raise ConfigError(f"--tasks {tasks!r} names no task; leave it out for all.")
        grid = grid.on_tasks(options.names_of(tasks))
    if not vary:
        return grid
    values = _varied(vary)
    baselines = tuple(name for name in grid.algorithms if name in BASELINES)  # they have no settings
    varied = tuple(GridEntry(algorithm=name, vary=values) for name in grid.algorithms if name not in BASELINES)
    if not varied:
        raise ConfigError(
            "--vary varies the algorithms of --algos or of the file's `algorithms`, but there are none; a "
            "[[systems]] table has a `vary` of its own."
        )
    return replace(grid, algorithms=baselines, systems=(*varied, *grid.systems))


def _varied(vary: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Read `--vary key=v1,v2`."""
    values: dict[str, tuple[Any, ...]] = {}
    for setting in vary:
        key, equals, listed = setting.partition("=")
        if key in values:
            raise ConfigError(f"--vary {setting}: {key} is varied already; write all its values in one list.")
        if not equals or not options.names_of(listed):
            raise ConfigError(f"--vary {setting}: write KEY=V1,V2, such as --vary gamma=0.95,1.0.")
        values[key] = tuple(options.parse_settings((f"{key}={value}",))[key] for value in options.names_of(listed))
    return values


@sweep.command("status", short_help="Show the progress of a sweep.")
@click.pass_context
@click.argument("folder", metavar="[RUNS]", type=options.PATH, required=False)
@options.as_json
def status(context: click.Context, folder: Path | None, as_json: bool) -> None:
    """Show the state of every run of the sweep in RUNS, the folder of all runs; without it, in --runs."""
    assert context.parent is not None
    record = Record((folder or context.parent.params["runs"]).absolute())
    rows = rows_of(record, record.jobs())
    if as_json:
        print_json([files.plain(row) | {"id": row.job.id} for row in rows])
    else:
        click.echo(status_text(rows))

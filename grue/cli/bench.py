"""`grue bench`: methods compared fairly in one resumable folder, from the plan to the verdict."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grue import files
from grue.cli import options

if TYPE_CHECKING:
    from grue.sweep.fair import TunedRate
    from grue.sweep.grid import SweepGrid
    from grue.sweep.work import JobContext

REPORT, PAGE, RUNS, TRIALS = "README.md", "board.html", "runs", "trials"


@click.command()
@click.pass_context
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("bench"), required=False)
@options.suite
@options.option("--tasks", help="Names or task files, separated by commas. [default: all of the suite]")
@options.option("--algos", required=True, help="The methods, separated by commas: mine:NAME,ppo,grpo.")
@options.option("--backbone", help="What all begin from: a hub id or a folder. [default: each task's]")
@options.option("--seeds", default="1-5", show_default=True, help="1-5, or 1,2,7.")
@options.option(
    "--trials",
    type=int,
    help="Choose each method's learning rate on validation, out of so many. [default: the recipe's]",
)
@options.option("--from-backbone", is_flag=True, help="Train from the backbone, without a supervised start.")
@options.option(
    "--jobs", type=click.IntRange(min=1), help="Runs at a time. [default: one per GPU, else cores / threads]"
)
@options.option("--threads", type=click.IntRange(min=1), default=1, help="CPU threads per run.")
@options.data
@options.option("--yes", is_flag=True, help="Begin without asking.")
def bench(
    context: click.Context,
    folder: Path,
    suite: str,
    tasks: str | None,
    algos: str,
    backbone: str | None,
    seeds: str,
    trials: int | None,
    from_backbone: bool,
    jobs: int | None,
    threads: int,
    data_dir: Path | None,
    offline: bool,
    yes: bool,
) -> None:
    """Compare methods fairly, and say which differences are decided.

    Every method begins from the same supervised model of its seed and has the budget of the task's recipe; training
    that model twice as long is a row beside them. FOLDER [default: bench] gets the runs, a report and a page; the
    same command resumes it.

    \b
    grue bench --algos ppo,nlpo,grpo --tasks commongen,imdb --seeds 1-3
    grue bench mine --algos my_file:MyMethod,ppo,grpo --tasks commongen --trials 3 --yes
    grue bench qwen --suite small --backbone Qwen/Qwen3-0.6B --algos grpo,rloo --tasks commongen
    """  # noqa: D301 (click reads the escape)
    from grue.cli.sweep import is_finished, names_of, plan_text, run_grid
    from grue.sweep.fair import chosen_rates, fair_grid, trial_grid, with_rates
    from grue.sweep.grid import SweepGrid
    from grue.sweep.work import JobContext

    asked = SweepGrid(suite=suite, seeds=seeds).located()
    if tasks is not None:
        asked = asked.on_tasks(names_of(tasks))
    grid = fair_grid(asked, names_of(algos), backbone, from_backbone)
    place = JobContext(runs=(folder / RUNS).absolute(), data_dir=data_dir, offline=offline, threads=threads)
    tried = None if trials is None else trial_grid(grid, trials)
    beside = replace(place, runs=(folder / TRIALS).absolute())
    choices: list[TunedRate] = []
    if tried is not None:
        click.echo(f"Trials: {plan_text(tried, beside, jobs=jobs)}", err=True)
        if is_finished(tried, beside):
            choices = chosen_rates(tried, beside.runs)
            grid = with_rates(grid, choices)
    click.echo(f"{'Then' if tried else 'Plan'}: {plan_text(grid, place, jobs=jobs)}", err=True)
    if not yes:
        click.confirm("Begin?", abort=True, err=True)
    if tried is not None and not choices:
        if not run_grid(tried, beside, jobs=jobs):
            context.exit(1)
        choices = chosen_rates(tried, beside.runs)
        grid = with_rates(grid, choices)
    if not run_grid(grid, place, jobs=jobs):
        context.exit(1)
    _report(folder, grid, place, choices)


def _report(folder: Path, grid: "SweepGrid", place: "JobContext", choices: "list[TunedRate]") -> None:
    """Write the report and the page, and print the report."""
    from grue.cli.bench_report import report
    from grue.leaderboard.entries import find_results
    from grue.leaderboard.rank import rank
    from grue.render.publish import render
    from grue.task_files import load_task

    tasks = [load_task(source, grid.suite) for source in grid.task_list()]
    found, _ = find_results(place.runs, tasks[0].suite)
    board = rank(found, tasks)
    text = report(board, choices)
    files.write_text(folder / REPORT, text)
    files.write_text(folder / PAGE, render(board, "html"))
    click.echo(text)
    click.echo(f"{folder / REPORT}, {folder / PAGE}", err=True)

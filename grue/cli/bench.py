"""`grue bench`: methods compared fairly in one resumable folder, from the plan to the verdict."""

from pathlib import Path
from typing import Any

import click

from grue.api.bench import plan_bench
from grue.cli import options
from grue.cli.console import evaluation_progress
from grue.cli.sweep import plan_text, run_grid


@click.command()
@click.pass_context
@click.argument("folder", type=options.FOLDER, default=Path("bench"), required=False)
@options.suite
@options.option("--tasks", help="Names or task files, separated by commas. [default: all of the suite]")
@options.option("--algos", default="", help="The methods, separated by commas: mine:NAME,ppo,grpo.")
@options.option(
    "--model",
    "models",
    default="",
    help="Models made elsewhere, which are only evaluated, separated by commas: hub ids, folders or http://HOST/v1#MODEL.",
)
@options.option("--chat", is_flag=True, help="Give local models of --model the tasks' chat prompts.")
@options.option("--backbone", help="What all begin from: a hub id or a folder. [default: each task's]")
@options.option("--seeds", help="1-5, or 1,2,7. [default: 1-5; without --algos 1]")
@options.changes("A setting of every method, in place of the recipe's; repeat for several.")
@options.option(
    "--trials",
    type=int,
    help="Choose each method's learning rate on validation, out of so many. [default: the recipe's]",
)
@options.option(
    "--best-of",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    help="A control: the best of so many samples of the supervised start, picked as by `grue evaluate`; 0 for none.",
)
@options.option("--from-backbone", is_flag=True, help="Train from the backbone, which is then a row; no start.")
@options.per_run
@options.data
@options.option("--dry-run", is_flag=True, help="Print the plan with its time, and stop.")
@options.option("--yes", is_flag=True, help="Begin without asking.")
def bench(
    context: click.Context,
    /,
    folder: Path,
    tasks: str | None,
    algos: str,
    models: str,
    settings: tuple[str, ...],
    jobs: int | None,
    gpus: float,
    dry_run: bool,
    yes: bool,
    **arguments: Any,
) -> None:
    """Compare methods fairly, and say which differences are decided.

    Every method begins from the same supervised model of its seed and has the budget of the task's recipe; training
    that model twice as long, and the best of several of its samples, are rows beside them. FOLDER [default: bench]
    gets the runs, a report and its page; the same command resumes it.

    \b
    grue bench --algos ppo,nlpo,grpo --tasks commongen,imdb --seeds 1-3
    grue bench mine --algos my_file:MyMethod,ppo,grpo --tasks commongen --trials 3 --yes
    grue bench quick --algos ppo,grpo --tasks imdb --seeds 1-3 --set updates=4 --dry-run
    grue bench qwen --suite small --backbone Qwen/Qwen3-0.6B --algos grpo,rloo --tasks commongen
    grue bench models --suite grue --model org/one,org/two,http://localhost:8000/v1#org/three
    """  # noqa: D301 (click reads the escape)
    from grue.sweep.bench import BOARD, PAGE, REPORT

    planned = plan_bench(
        folder,
        options.names_of(algos),
        tasks=None if tasks is None else options.names_of(tasks),
        models=options.names_of(models),
        settings=options.parse_settings(settings),
        **arguments,
    )
    stages = {"Plan" if planned.trials is None else "Then": (planned.grid, planned.place)}
    if planned.trials is not None:
        stages = {"Trials": (planned.trials, planned.trials_place), **stages}
    for name, (grid, place) in stages.items():
        click.echo(f"{name}: {plan_text(grid, place, jobs=jobs, gpus=gpus)}", err=not dry_run)
    if dry_run:
        return
    if not yes:
        click.confirm("Begin? --yes begins without asking", abort=True, err=True)
    finished = planned.carry_out(lambda grid, place: run_grid(grid, place, jobs=jobs, gpus=gpus))
    if finished is None:
        context.exit(1)
    with evaluation_progress("systems compared") as progress:
        found = finished.findings(progress)
    click.echo(found.markdown)
    click.echo(", ".join(str(folder / name) for name in (REPORT, PAGE, BOARD)), err=True)

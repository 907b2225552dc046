"""`grue bench`: methods compared fairly in one resumable folder, from the plan to the verdict."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grue.cli import options
from grue.cli.console import evaluation_progress

if TYPE_CHECKING:
    from grue.sweep.fair import TunedRate
    from grue.sweep.grid import ModelEntry


@click.command()
@click.pass_context
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("bench"), required=False)
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
    models: str,
    chat: bool,
    backbone: str | None,
    seeds: str | None,
    trials: int | None,
    best_of: int,
    from_backbone: bool,
    jobs: int | None,
    threads: int,
    data_dir: Path | None,
    offline: bool,
    yes: bool,
) -> None:
    """Compare methods fairly, and say which differences are decided.

    Every method begins from the same supervised model of its seed and has the budget of the task's recipe; training
    that model twice as long, and the best of several of its samples, are rows beside them. FOLDER [default: bench]
    gets the runs, a report and its page; the same command resumes it.

    \b
    grue bench --algos ppo,nlpo,grpo --tasks commongen,imdb --seeds 1-3
    grue bench mine --algos my_file:MyMethod,ppo,grpo --tasks commongen --trials 3 --yes
    grue bench qwen --suite small --backbone Qwen/Qwen3-0.6B --algos grpo,rloo --tasks commongen
    grue bench models --suite grue --model org/one,org/two,http://localhost:8000/v1#org/three
    """  # noqa: D301 (click reads the escape)
    from grue.cli.sweep import is_finished, names_of, plan_text, run_grid
    from grue.sweep.bench import BOARD, PAGE, REPORT, RUNS, TRIALS, findings
    from grue.sweep.fair import chosen_rates, fair_grid, trial_grid, with_rates
    from grue.sweep.grid import SweepGrid
    from grue.sweep.work import JobContext

    entries = tuple(_model(name, chat) for name in names_of(models))
    asked = SweepGrid(suite=suite, seeds=seeds or ("1-5" if algos else "1"), models=entries).located()
    if tasks is not None:
        asked = asked.on_tasks(names_of(tasks))
    grid = fair_grid(asked, names_of(algos), backbone, from_backbone, best_of, asked.models)
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
    with evaluation_progress("systems compared") as progress:
        found = findings(grid, place, choices, progress)
    found.write(folder)
    click.echo(found.markdown)
    click.echo(", ".join(str(folder / name) for name in (REPORT, PAGE, BOARD)), err=True)


def _model(name: str, chat: bool) -> "ModelEntry":
    """Return how a model of --model is asked."""
    from grue.api.evaluate import behind
    from grue.sweep.grid import ModelEntry

    model, endpoint = behind(name, None, None)
    return ModelEntry(model=model, chat=chat and endpoint is None, endpoint=endpoint)

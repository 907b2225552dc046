"""`grue plot`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from grue import files
from grue.cli import options
from grue.cli.board import board_of
from grue.plots.curves import CURVES, logged, panels_of, read_logs
from grue.plots.tradeoff import points_of
from grue.task_files import is_named, load_task

_output = options.output("File to write: .png, .svg or .pdf.", required=True)
_systems = options.option(
    "--system", "systems", metavar="NAME", multiple=True, help="Only this system; repeat for several. [default: all]"
)


@click.group()
def plot() -> None:
    """Draw learning curves, the frontier and the board (needs matplotlib: pip install 'grue[plot]')."""


@plot.command(short_help="Learning curves of a task's runs.")
@options.option("--task", "task_name", required=True, help="Name of the task, or the path of its file.")
@options.suite
@options.runs
@_systems
@options.option(
    "--figure",
    "figures",
    metavar="NAME",
    multiple=True,
    help="Figure of train.jsonl; repeat for several. [default: objective/reward, validation/preference and "
    "validation/kl, if they were logged]",
)
@_output
def curves(
    task_name: str, suite: str, runs: Path, systems: tuple[str, ...], figures: tuple[str, ...], output: Path
) -> None:
    """Draw learning curves: the mean over seeds, with a band from the lowest to the highest seed."""
    from grue.plots.drawing import draw_curves

    task = load_task(task_name, suite)
    logs, notes = read_logs(runs / task.suite / task.name, systems)
    if not figures:
        names = logged(logs)
        notes += [f"{figure}: no run logged it." for figure in CURVES if figure not in names]
        figures = tuple(figure for figure in CURVES if figure in names) or CURVES
    panels, gaps = panels_of(logs, figures)
    _report([*notes, *gaps])
    draw_curves(panels, list(dict.fromkeys(log.system for log in logs)), task.title, output)
    click.echo(str(output))


def _report(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(note, err=True)


@plot.command(short_help="What could be gained at each KL, and what runs gained.")
@click.argument("frontier", type=options.PATH)
@options.option("--run", "runs", multiple=True, type=options.PATH, help="A run from this start; repeat for several.")
@_output
def frontier(frontier: Path, runs: tuple[Path, ...], output: Path) -> None:
    """Draw what `grue tools frontier -o FRONTIER` wrote, with runs on it."""
    from grue.evaluation.frontier import Frontier, place
    from grue.plots.drawing import draw_frontier

    measured = files.load_json(frontier, Frontier)
    name = load_task(measured.task, measured.suite).title if is_named(measured.suite) else measured.task
    title = f"{name}: the frontier of {measured.prompts} prompts, {measured.samples} samples"
    draw_frontier(measured, [place(measured, run) for run in runs], title, output)
    click.echo(str(output))


@plot.command(short_help="Preference against naturalness of the board's systems.")
@options.option("--task", "task_name", help="One task. [default: the mean over the suite's tasks]")
@options.suite
@options.runs
@options.submissions
@options.no_local
@_systems
@_output
@click.pass_context
def tradeoff(
    context: click.Context,
    /,
    suite: str,
    task_name: str | None,
    systems: tuple[str, ...],
    output: Path,
    **places: Any,
) -> None:
    """Draw the systems and references of the board, preference over naturalness, with 95 % intervals."""
    from grue.plots.drawing import draw_tradeoff

    board, left_out = board_of(context, suite, task_name, **places)
    _report(left_out)
    points, notes = points_of(board, systems)
    _report(notes)
    whole_suite = f"Suite {board.suite}: mean over {len(board.tasks)} tasks"
    draw_tradeoff(points, board.tasks[0].title if task_name else whole_suite, output)
    click.echo(str(output))

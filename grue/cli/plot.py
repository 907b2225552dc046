"""`grue plot`."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grue.cli import options
from grue.errors import DataError

if TYPE_CHECKING:
    from grue.plots.curves import Log
    from grue.tasks import Task

F = TypeVar("F", bound=Callable[..., Any])


def _output(function: F) -> F:
    explained = "File to write: .png, .svg or .pdf."
    return options.option("-o", "--output", type=click.Path(path_type=Path), required=True, help=explained)(function)


def _systems(function: F) -> F:
    explained = "Only this system; repeat for several. [default: all]"
    return options.option("--system", "systems", metavar="NAME", multiple=True, help=explained)(function)


@click.group()
def plot() -> None:
    """Draw learning curves, the frontier and the board (needs matplotlib: pip install 'grue[plot]')."""


# --- curves ----------------------------------------------------------------------------------------------------------


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
    from grue.plots.curves import CURVES

    task, logs = _logs(task_name, suite, runs, systems)
    _draw(logs, figures or _logged(CURVES, logs), task.title, output)


@plot.command(short_help="NLPO's mask over training.")
@options.option("--task", "task_name", required=True, help="Name of the task, or the path of its file.")
@options.suite
@options.runs
@_systems
@_output
def mask(task_name: str, suite: str, runs: Path, systems: tuple[str, ...], output: Path) -> None:
    """Draw the mask's size, the probability inside, and how often the likeliest token is outside."""
    from grue.plots.curves import MASK

    task, logs = _logs(task_name, suite, runs, systems)
    _draw(logs, _logged(MASK, logs), f"{task.title}: the mask of NLPO", output)


def _logs(task_name: str, suite: str, runs: Path, systems: tuple[str, ...]) -> "tuple[Task, list[Log]]":
    from grue.plots.curves import read_logs
    from grue.task_files import load_task

    task = load_task(task_name, suite)
    logs, notes = read_logs(runs / task.suite / task.name, systems)
    _report(notes)
    return task, logs


def _logged(figures: Iterable[str], logs: "list[Log]") -> list[str]:
    """Return the figures that were logged, and report the others."""
    from grue.plots.curves import logged

    known, figures = logged(logs), list(figures)
    found = [figure for figure in figures if figure in known]
    if not found:
        raise DataError(f"No run has logged {' or '.join(figures)}. Logged: {', '.join(known)}.")
    _report(f"{figure}: no run logged it." for figure in figures if figure not in known)
    return found


def _draw(logs: "list[Log]", figures: Sequence[str], title: str, output: Path) -> None:
    from grue.plots.curves import panels_of
    from grue.plots.drawing import draw_curves

    panels, notes = panels_of(logs, figures)
    _report(notes)
    draw_curves(panels, list(dict.fromkeys(log.system for log in logs)), title, output)
    click.echo(str(output))


def _report(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(note, err=True)


# --- the frontier ----------------------------------------------------------------------------------------------------


@plot.command(short_help="What could be gained at each KL, and what runs gained.")
@click.argument("frontier", type=click.Path(path_type=Path))
@options.option(
    "--run", "runs", multiple=True, type=click.Path(path_type=Path), help="A run from this start; repeat for several."
)
@_output
def frontier(frontier: Path, runs: tuple[Path, ...], output: Path) -> None:
    """Draw what `grue frontier -o FRONTIER` wrote, with runs on it."""
    from grue import files
    from grue.evaluation.frontier import Frontier, place
    from grue.plots.drawing import draw_frontier
    from grue.task_files import is_named, load_task

    found = files.load_json(frontier, Frontier)
    name = load_task(found.task, found.suite).title if is_named(found.suite) else found.task
    title = f"{name}: the frontier of {found.prompts} prompts, {found.samples} samples"
    draw_frontier(found, [place(found, run) for run in runs], title, output)
    click.echo(str(output))


# --- preference and naturalness --------------------------------------------------------------------------------------


@plot.command(short_help="Preference against naturalness of the board's systems.")
@options.option("--task", "task_name", help="One task. [default: the mean over the suite's tasks]")
@options.suite
@options.runs
@options.submissions
@options.option("--no-local", is_flag=True, help="Leave out the results under --runs.")
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
    from grue.cli.board import board_of
    from grue.plots.drawing import draw_tradeoff
    from grue.plots.tradeoff import points_of

    board, out = board_of(context, suite, task_name, **places)
    _report(one.note for one in out)
    points, notes = points_of(board, systems)
    _report(notes)
    whole_suite = f"Suite {board.suite}: mean over {len(board.tasks)} tasks"
    draw_tradeoff(points, board.tasks[0].title if task_name else whole_suite, output)
    click.echo(str(output))

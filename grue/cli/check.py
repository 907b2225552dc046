"""`grue tools check`: whether results reach their requirements, for the CI of your own repository."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from grue import files
from grue.cli import options
from grue.cli.console import print_json
from grue.cli.score import has_all
from grue.errors import ConfigError, DataError, SubmissionError

if TYPE_CHECKING:
    from grue.leaderboard.bars import FileFigures, HeldAgainst
    from grue.records import Result
    from grue.tasks import Task

ANY_SUITE = "mini"  # default of --suite for predictions


@click.command()
@click.argument("paths", metavar="FILE…", type=click.Path(path_type=Path), nargs=-1, required=True)
@options.option("--task", "task_name", help="Task of predictions. [default: the result's]")
@options.suite
@options.option(
    "--at-least",
    multiple=True,
    metavar="FIGURE=VALUE",
    help="preference, naturalness or a metric of the task; VALUE is a number or a row of the board. "
    "Repeat for several.",
)
@options.option("--at-most", multiple=True, metavar="FIGURE=VALUE", help="The same, for metrics that are better lower.")
@options.option(
    "--tolerance", type=float, default=0.0, help="By how much a figure may miss a row's mean, in its own unit."
)
@options.data
@options.as_json
@click.pass_context
def check(
    context: click.Context,
    paths: tuple[Path, ...],
    task_name: str | None,
    suite: str,
    at_least: tuple[str, ...],
    at_most: tuple[str, ...],
    tolerance: float,
    data_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Check that results reach a threshold or a row of the board; exit code 1 if one does not.

    FILE is a result.json, whose figures are taken as they stand, or predictions, which are scored again. Several are
    seeds of one system: their mean is checked.

    \b
    grue tools check runs/mini/imdb/ppo/seed-*/result.json --at-least preference=60
    grue tools check predictions.jsonl --task commongen --at-least preference=supervised --tolerance 1
    """  # noqa: D301 (click reads the escape)
    from grue.leaderboard import bars
    from grue.leaderboard.published import shipped

    required = [bars.parse_bar(text, "at least") for text in at_least]
    required += [bars.parse_bar(text, "at most") for text in at_most]
    if not required:
        raise ConfigError("Nothing to check: give --at-least or --at-most, such as --at-least preference=60.")
    named = context.get_parameter_source("suite") is ParameterSource.COMMANDLINE or suite != ANY_SUITE
    task, figures = _measured(paths, task_name, suite if named else None, data_dir, offline)
    verdicts = list(bars.check(figures, required, task, shipped(task.suite), tolerance))
    if as_json:
        print_json(verdicts)
    else:
        click.echo("\n".join(report(task, figures, verdicts)))
    if not all(verdict.passed for verdict in verdicts):
        context.exit(1)


def _measured(
    paths: Sequence[Path], task_name: str | None, suite: str | None, data_dir: Path | None, offline: bool
) -> "tuple[Task, list[FileFigures]]":
    from grue.leaderboard import bars
    from grue.task_files import load_task

    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("A file is named twice; each counts once.")
    if folders := [path for path in paths if path.is_dir()]:
        raise ConfigError(f"{folders[0]}: is a folder; name its result.json.")
    results = [(path, _result(path)) for path in paths if path.suffix == ".json"]
    if results and len(results) < len(paths):
        raise ConfigError("Results and predictions together: a run's predictions would count as another seed.")
    bars.refuse_mixture(results)
    if task_name is None and not results:
        raise ConfigError("Predictions need --task NAME: what should they be scored against?")
    if task_name is None:
        first = results[0][1]
        task = load_task(first.task, suite or first.suite)  # of another suite than a result's: refused below
    else:
        task = load_task(task_name, suite or ANY_SUITE)
    figures = [bars.of_result(result, path, task) for path, result in results]
    figures += [_scored(path, task, data_dir, offline) for path in paths if path.suffix != ".json"]
    return task, figures


def _result(path: Path) -> "Result":
    """Read a result; refuse any other file in one sentence instead of key by key."""
    from grue.submissions.folder import read_result

    data = files.read_json(path)
    if isinstance(data, dict) and "scores" not in data:
        raise DataError(
            f"{path}: not a result.json that `grue evaluate` writes: it has no 'scores'. Name a run's result.json, or "
            "predictions (.jsonl) with --task."
        )
    return read_result(path)


def _scored(path: Path, task: "Task", data_dir: Path | None, offline: bool) -> "FileFigures":
    """Score predictions; if they do not fit the task, raise a DataError, not the error of a missed bar."""
    from grue.api.score import score
    from grue.leaderboard import bars

    try:
        scored = score(path, task, data_dir=data_dir, offline=offline)
    except SubmissionError as error:
        where = "" if str(path) in str(error) else f"{path}: "
        raise DataError(f"{where}{error}") from error
    if not has_all(task, scored.ids):
        raise DataError(f"{data_dir}: has other examples than the task's, on which no row of the board was scored.")
    return bars.measured(path, scored.scores, scored.preference, scored.naturalness, scored.hashes)


def report(task: "Task", figures: "Sequence[FileFigures]", verdicts: "Sequence[HeldAgainst]") -> list[str]:
    """Return the verdicts as lines."""
    lines = [f"{task.suite}/{task.name}, {len(figures)} file{'s' if len(figures) > 1 else ''}"]
    for verdict in verdicts:
        low, high = verdict.spread
        over = f" ({low:.4g} to {high:.4g})" if len(figures) > 1 else ""
        side = verdict.bar.side if verdict.passed else "below" if verdict.bar.side == "at least" else "above"
        mark, why = "ok  " if verdict.passed else "FAIL", f" ({verdict.why})" if verdict.why else ""
        lines.append(
            f"{mark} {verdict.bar.figure} is {verdict.value:.4g}{over}, {side} the required {verdict.limit:.4g}{why}"
        )
    if len(figures) == 1:
        lines.append("One file: chance alone may decide a close verdict. Several seeds say more.")
    return lines

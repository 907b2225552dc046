"""Requirements on results: a figure against a number, or against the same figure of a row of the board."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from grue.errors import ConfigError, DataError, UnknownName, did_you_mean, escaped
from grue.leaderboard.board import Board, Cell, Estimate
from grue.leaderboard.entries import SCORED_AXES
from grue.leaderboard.notes import misfit
from grue.records import Direction, Result, Score, other_examples
from grue.tasks import Task

Side = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class FileFigures:
    """The figures of one file on a task: preference, naturalness and the metrics' own values.

    Attributes:
        source: The file.
        values: Figure → value.
        directions: Metric → whether higher or lower is better.
        hashes: Of the scored examples, as in a result.
    """

    source: Path
    values: Mapping[str, float]
    directions: Mapping[str, Direction]
    hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bar:
    """A requirement: `preference` at least `60`, or at least that of the row `supervised`.

    Attributes:
        figure: preference, naturalness or a metric.
        wanted: A number, or the name of a row of the board.
    """

    figure: str
    side: Side
    wanted: str

    @property
    def number(self) -> float | None:
        """The required number; None for a row.

        Raises:
            ConfigError: It is not finite.
        """
        try:
            number = float(self.wanted)
        except ValueError:
            return None
        if not math.isfinite(number):
            raise ConfigError(f"{self.figure}={self.wanted}: must be a finite number or the name of a row.")
        return number


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """A bar and whether it was reached.

    Attributes:
        value: The mean over the files.
        spread: The lowest and the highest of the files.
        limit: What the value was compared with, with the tolerance.
        why: The limit in words: the row's mean, its seeds, the tolerance.
    """

    bar: Bar
    passed: bool
    value: float
    spread: tuple[float, float]
    limit: float
    why: str


def parse_bar(text: str, side: Side) -> Bar:
    """Read `FIGURE=VALUE`.

    Raises:
        ConfigError: There is no `=`, or nothing before or after it.
    """
    figure, _, wanted = (part.strip() for part in text.partition("="))
    if not figure or not wanted:
        flag = f"--{side.replace(' ', '-')}"
        raise ConfigError(f"{flag} {text}: write FIGURE=VALUE, such as {flag} preference=60 or preference=supervised.")
    return Bar(figure, side, wanted)


def of_result(result: Result, path: Path, task: Task) -> FileFigures:
    """Return the figures of a result as it states them.

    Raises:
        DataError: The result is of another task or version, failed, or of a part of the split.
    """
    if (result.suite, result.task) != (task.suite, task.name):
        raise DataError(f"{path}: of {escaped(result.suite)}/{escaped(result.task)}, not of {task.suite}/{task.name}.")
    if result.task_hash != task.hash:
        raise DataError(f"{path}: made for another version of {task.suite}/{task.name}; evaluate again with --force.")
    if result.status != "complete":
        raise DataError(f"{path}: the run failed, so that there is nothing to check.")
    if result.limited or result.split != task.data.evaluation:
        raise DataError(f"{path}: of a part of {task.data.evaluation} or of other rows; evaluate the whole split.")
    if (reason := misfit(result, task, task.hash)) is not None:
        raise DataError(f"{path}: made {reason}; evaluate again.")
    return measured(path, result.scores, result.preference, result.naturalness, result.hashes)


def measured(
    path: Path,
    scores: Sequence[Score],
    preference: float | None,
    naturalness: float | None,
    hashes: Mapping[str, str],
) -> FileFigures:
    """Return the figures of a scored file."""
    axes = {
        axis: value for axis, value in zip(SCORED_AXES, (preference, naturalness), strict=True) if value is not None
    }
    values = {score.metric: score.value for score in scores} | axes
    return FileFigures(path, values, {score.metric: score.direction for score in scores}, hashes)


def check(
    figures: Sequence[FileFigures], bars: Sequence[Bar], task: Task, board: Board | None, tolerance: float = 0.0
) -> Iterator[HeldAgainst]:
    """Yield each bar with whether the mean over the files reaches it.

    Args:
        board: The board of the task's suite, for bars that name a row.
        tolerance: How far below (or, for at most, above) a row's mean the value may be, in the figure's unit.

    Raises:
        ConfigError: There is no bar or no file, the tolerance is negative or for no row, or a bar is on the wrong
            side.
        UnknownName: The files have no such figure, or the board no such row.
        DataError: The board has another version of the task, or not the row's figure; or the files are not all of the
            same examples, or not of those of the board's rows.
    """
    if not figures or not bars:
        raise ConfigError("Nothing to check: name files and at least one of --at-least and --at-most.")
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigError(f"--tolerance {tolerance}: must be a number of at least 0.")
    if tolerance and all(bar.number is not None for bar in bars):
        raise ConfigError("--tolerance is how far behind a row's mean a figure may be, and no bar names a row.")
    _refuse_other_examples(figures, task, board)
    for bar in bars:
        values = [_value(of_file, bar) for of_file in figures]
        limit, why = _limit(bar, task, board, tolerance)
        value = fmean(values)
        passed = value >= limit if bar.side == "at least" else value <= limit
        yield HeldAgainst(bar, passed, value, (min(values), max(values)), limit, why)


def _refuse_other_examples(figures: Sequence[FileFigures], task: Task, board: Board | None) -> None:
    rows = (
        [references.data for references in board.tasks if (references.name, references.hash) == (task.name, task.hash)]
        if board
        else []
    )
    references = [*(("the rows of the board", data) for data in rows), (str(figures[0].source), figures[0].hashes)]
    for of_file in figures:
        for owner, hashes in references:
            if difference := other_examples(of_file.hashes, hashes):
                raise DataError(
                    f"{of_file.source}: was scored on other examples than {owner} ({difference}); score it again on "
                    "their data."
                )


def _value(of_file: FileFigures, bar: Bar) -> float:
    if bar.figure not in of_file.values:
        names = ", ".join(of_file.values) or "none"
        near = did_you_mean(bar.figure, of_file.values)
        raise UnknownName(f"{of_file.source}: has no figure {escaped(bar.figure)!r}.{near} It has: {names}.")
    better = "at most" if of_file.directions.get(bar.figure) == "lower" else "at least"
    if bar.side != better:
        raise ConfigError(
            f"{bar.figure} is better when {'lower' if better == 'at most' else 'higher'}: "
            f"use --{better.replace(' ', '-')} {bar.figure}={escaped(bar.wanted)}."
        )
    return of_file.values[bar.figure]


def _limit(bar: Bar, task: Task, board: Board | None, tolerance: float) -> tuple[float, str]:
    if bar.number is not None:
        return bar.number, ""
    estimate = _of_row(bar, task, board)
    limit = estimate.mean - tolerance if bar.side == "at least" else estimate.mean + tolerance
    sd = "" if estimate.sd is None else f", sd {estimate.sd:.4g}"
    allowed = f", tolerance {tolerance:g}" if tolerance else ""
    return limit, f"{bar.wanted} on the board: {estimate.mean:.4g}, seeds: {len(estimate.by_seed)}{sd}{allowed}"


def _of_row(bar: Bar, task: Task, board: Board | None) -> Estimate:
    if board is None:
        raise DataError(f"The suite {task.suite} has no board that ships; give {bar.figure} a number.")
    if all((listed.name, listed.hash) != (task.name, task.hash) for listed in board.tasks):
        raise DataError(f"The board has another version of {task.suite}/{task.name}, or none; give a number.")
    cells = {row.system: row.cells[task.name] for row in board.rows if task.name in row.cells}
    if bar.wanted not in cells:
        near = did_you_mean(bar.wanted, cells)
        listed = ", ".join(cells)
        raise UnknownName(f"The board of {task.name} has no row {escaped(bar.wanted)!r}.{near} Rows: {listed}.")
    estimate = _estimate(cells[bar.wanted], bar.figure)
    if estimate is None:
        raise DataError(f"The row {bar.wanted} has no {bar.figure} on {task.name}; give a number.")
    return estimate


def _estimate(cell: Cell, figure: str) -> Estimate | None:
    axes: Mapping[str, Estimate | None] = {"preference": cell.preference, "naturalness": cell.naturalness}
    return axes[figure] if figure in axes else cell.metrics.get(figure)


def refuse_mixture(results: Sequence[tuple[Path, Result]]) -> None:
    """Refuse results that are not distinct seeds of one system, whose mean would mean nothing.

    Raises:
        ConfigError: Two have different systems, or the same seed.
    """
    paths: dict[int, Path] = {}
    for path, result in results:
        first, of_first = results[0]
        if result.system["name"] != of_first.system["name"]:
            raise ConfigError(f"{path}: of another system than {first}; check one system at a time.")
        if result.seed in paths:
            raise ConfigError(f"{path}: seed {result.seed}, as {paths[result.seed]}; a seed counts once.")
        paths[result.seed] = path

"""Requirements on results: a figure against a number, against that of a row of the board, or of one's own baseline."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from grue.errors import ConfigError, DataError, UnknownName, did_you_mean, escaped
from grue.evaluation.comparison import compare_task
from grue.evaluation.scoring import Scored
from grue.leaderboard.board import Board, Estimate
from grue.leaderboard.compare import are_paired, predictions_of, refuse_misfit, texts_of
from grue.metrics.card import CARDS
from grue.records import SCORED, Direction, Entry, Example, Prediction, Result, other_examples
from grue.stats.intervals import mean
from grue.stats.paired import LEVEL, holm
from grue.tasks import Task

Side = Literal["at least", "at most"]
SD = "sd"
TOLERANCE = re.compile(rf"\s*(?P<size>\d+\.?\d*|\.\d+)(?P<unit>{SD})?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileFigures:
    """The figures of one file on a task: preference, naturalness and the metrics' own values.

    Attributes:
        made: The result, or the predictions that were scored.
    """

    source: Path
    values: Mapping[str, float]
    directions: Mapping[str, Direction]
    hashes: Mapping[str, str]
    made: Entry | Sequence[Prediction]

    @property
    def content(self) -> object:
        """What the file holds: equal for copies."""
        return self.made.result if isinstance(self.made, Entry) else self.made

    @property
    def has_texts(self) -> bool:
        """Whether its predictions are there."""
        return not isinstance(self.made, Entry) or ((path := texts_of(self.made.path)) is not None and path.is_file())


@dataclass(frozen=True, slots=True)
class Bar:
    """A requirement: `preference` at least `60`, or at least that of the row `supervised`.

    Attributes:
        figure: preference, naturalness or a metric.
        wanted: A number, the name of a row of the board, or the baseline.
    """

    figure: str
    side: Side
    wanted: str

    @property
    def number(self) -> float | None:
        """The required number; None for a row."""
        try:
            number = float(self.wanted)
        except ValueError:
            if {*self.wanted} & {*",%"}:
                raise ConfigError(
                    f"{escaped(self.figure)}={escaped(self.wanted)}: not a number; write it with a point and without "
                    "a unit, such as 0.6 or 60."
                ) from None
            return None
        if not math.isfinite(number):
            raise ConfigError(f"{self.figure}={self.wanted}: must be a finite number or the name of a row.")
        return number


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much a figure may miss a mean: in its own unit, or in standard deviations over the mean's seeds."""

    size: float = 0.0
    unit: Literal["", "sd"] = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """A bar as a number.

    Attributes:
        value: The number, with the tolerance.
        why: Where it comes from, in words: the row's mean, its seeds, the tolerance.
    """

    bar: Bar
    value: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """A bar and whether it was reached.

    Attributes:
        value: The mean over the files.
        spread: The lowest and the highest of the files.
        limit: What the value was compared with, with the tolerance.
        why: The limit in words: the row's mean, its seeds, the tolerance; or the difference and its interval.
        p: The test's p value; None without a test.
        p_holm: `p`, corrected by `not_worse` for the number of tests; None before.
    """

    task: str
    bar: Bar
    passed: bool
    value: float
    spread: tuple[float, float]
    limit: float
    why: str
    p: float | None = None
    p_holm: float | None = None


def parse_bar(text: str, side: Side) -> Bar:
    """Read `FIGURE=VALUE`."""
    figure, _, wanted = (part.strip() for part in text.partition("="))
    if not figure or not wanted:
        flag = f"--{side.replace(' ', '-')}"
        raise ConfigError(f"{flag} {text}: write FIGURE=VALUE, such as {flag} preference=60 or preference=supervised.")
    return Bar(figure, side, wanted)


def parse_tolerance(text: str) -> Tolerance:
    """Read `1.5`, or `2sd` for standard deviations."""
    match = TOLERANCE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--tolerance {text}: write a number of at least 0, such as 1.5, or 2sd for two standard deviations."
        )
    return Tolerance(float(match["size"]), "sd" if match["unit"] else "")


def of_result(entry: Entry, task: Task) -> FileFigures:
    """Return the figures of a result as it states them."""
    result, path = entry.result, entry.path
    if (result.suite, result.task) != (task.suite, task.name):
        raise DataError(f"{path}: of {escaped(result.suite)}/{escaped(result.task)}, not of {task.suite}/{task.name}.")
    refuse_misfit(entry, task)
    if result.status != "complete":
        raise DataError(f"{path}: the run failed, so that there is nothing to check.")
    return measured(path, result, entry)


def measured(path: Path, scored: Result | Scored, made: Entry | Sequence[Prediction]) -> FileFigures:
    """Return the figures of a scored file."""
    axes = {axis: value for axis in SCORED if (value := getattr(scored, axis)) is not None}
    values = {score.metric: score.value for score in scored.scores} | axes
    return FileFigures(path, values, {score.metric: score.direction for score in scored.scores}, scored.hashes, made)


def limits(
    bars: Sequence[Bar], known: Mapping[str, Direction], task: Task, board: Board | None, tolerance: Tolerance
) -> list[Limit]:
    """Return the bars as numbers; this needs no scores.

    Args:
        known: The figures that the files have or will have, with their directions.
        board: The board of the task's suite, for bars that name a row.
        tolerance: How far below (or, for at most, above) a row's mean the value may be.

    Raises:
        ConfigError: A bar is on the wrong side, or beyond what its metric can reach.
        UnknownName: There is no such figure, or the board has no such row.
        DataError: The board has another version of the task, or not the row's figure.
    """
    found = []
    for bar in bars:
        _refuse_unknown(bar.figure, known, f"{task.suite}/{task.name}")
        better = "at most" if known[bar.figure] == "lower" else "at least"
        if bar.side != better:
            raise ConfigError(
                f"{bar.figure} is better when {known[bar.figure]}: "
                f"use --{better.replace(' ', '-')} {bar.figure}={escaped(bar.wanted)}."
            )
        if bar.number is None:
            found.append(_tolerated(bar, _of_row(bar, task, board), f"{bar.wanted} on the board", tolerance))
        else:
            _refuse_other_unit(bar, bar.number)
            found.append(Limit(bar, bar.number))
    return found


def from_baseline(baseline: Sequence[FileFigures], name: str, tolerance: Tolerance) -> list[Limit]:
    """Return the means of a baseline's axes, less a tolerance, as limits."""
    axes = [axis for axis in SCORED if all(axis in of_file.values for of_file in baseline)]
    if not axes:
        raise DataError(f"{name}: has neither preference nor naturalness; evaluate it again.")
    reached = {axis: dict(enumerate(of_file.values[axis] for of_file in baseline)) for axis in axes}
    return [
        _tolerated(Bar(axis, "at least", name), Estimate.of(by_file), "the baseline", tolerance)
        for axis, by_file in reached.items()
    ]


def check(figures: Sequence[FileFigures], required: Sequence[Limit], task: Task) -> Iterator[HeldAgainst]:
    """Yield each limit with whether the mean over the files reaches it."""
    for limit in required:
        bar = limit.bar
        for of_file in figures:
            _refuse_unknown(bar.figure, of_file.values, str(of_file.source))
        values = [of_file.values[bar.figure] for of_file in figures]
        value = mean(values)
        passed = value >= limit.value if bar.side == "at least" else value <= limit.value
        yield HeldAgainst(task.name, bar, passed, value, (min(values), max(values)), limit.value, limit.why)


def axis_tests(
    figures: Sequence[FileFigures],
    baseline: Sequence[FileFigures],
    name: str,
    task: Task,
    examples: Sequence[Example],
    generator: np.random.Generator,
) -> Iterator[HeldAgainst]:
    """Yield the difference from a baseline on each axis, tested over examples and seeds; `not_worse` corrects p."""
    sides = [[of_file.made for of_file in side] for side in (figures, baseline)]
    a, b = ([predictions_of(made, examples) if isinstance(made, Entry) else made for made in side] for side in sides)
    entries = [{made.result.seed: made for made in side if isinstance(made, Entry)} for side in sides]
    paired = [len(of_side) for of_side in entries] == [len(side) for side in sides] and are_paired(*entries)
    for axis in SCORED:
        if any(spec.axis == axis for spec in task.metrics):
            found = compare_task(task, examples, a, b, generator, axis, paired)
            values = [of_file.values[axis] for of_file in figures if axis in of_file.values] or [found.a]
            interval = f"[{found.interval.low:+.3g}, {found.interval.high:+.3g}]"
            why = f"difference {found.value:+.3g}, {LEVEL:.0%} interval {interval}"
            bar, spread = Bar(axis, "at least", name), (min(values), max(values))
            yield HeldAgainst(task.name, bar, found.value >= 0, found.a, spread, found.b, why, found.p)


def not_worse(tested: Sequence[HeldAgainst]) -> Iterator[HeldAgainst]:
    """Yield each of all tests, with p corrected for their number; it passes if it is not significantly below."""
    as_tested = [test.p for test in tested if test.p is not None]
    for test, p in zip(tested, holm(as_tested), strict=True):
        yield replace(test, passed=test.passed or p >= 1 - LEVEL, p_holm=p)


def refuse_other_examples(figures: Sequence[FileFigures], task: Task, board: Board | None) -> None:
    """Refuse files that were not all scored on the same examples, those of the board's rows."""
    on_board = [of.data for of in board.tasks if (of.name, of.hash) == (task.name, task.hash)] if board else []
    references = [*(("the rows of the board", data) for data in on_board), (str(figures[0].source), figures[0].hashes)]
    for of_file in figures:
        for owner, hashes in references:
            if difference := other_examples(of_file.hashes, hashes):
                raise DataError(
                    f"{of_file.source}: was scored on other examples than {owner} ({difference}); score it again on "
                    "their data."
                )


def _refuse_unknown(figure: str, known: Collection[str], where: str) -> None:
    if figure not in known:
        names = ", ".join(known) or "none"
        raise UnknownName(f"{where}: has no figure {escaped(figure)!r}.{did_you_mean(figure, known)} It has: {names}.")


def _refuse_other_unit(bar: Bar, number: float) -> None:
    """Refuse a number that its figure cannot have, or a share where percents are meant."""
    low, high = _scale(bar.figure)
    cure = ""
    if low <= number <= high:
        if not (high == 100 and 0 < number < 1):
            return
        cure = f" Write {bar.figure}={100 * number:g} for {100 * number:g} %; a bar below 1 would stop nothing."
    elif high == 1 and 0 <= number <= 100:
        cure = f" Write {bar.figure}={number / 100:g} for {number:g} %."
    raise ConfigError(f"{bar.figure}={bar.wanted}: {bar.figure} is on a scale of {low:g} to {high:g}.{cure}")


def _scale(figure: str) -> tuple[float, float]:
    return (0.0, 100.0) if figure in SCORED else CARDS[figure].range if figure in CARDS else (-math.inf, math.inf)


def _tolerated(bar: Bar, reached: Estimate, origin: str, tolerance: Tolerance) -> Limit:
    """Return a mean less a tolerance (or plus, for at most) as a limit."""
    size, mean, spread, seeds = tolerance.size, reached.mean, reached.sd, len(reached.by_seed)
    if tolerance.unit:
        if spread is None:
            raise ConfigError(
                f"--tolerance {size:g}{SD}: {bar.wanted} has one seed for {bar.figure}, so no standard deviation; give "
                "the tolerance in the figure's unit, such as 1."
            )
        size *= spread
    of_seeds = "" if spread is None else f", sd {spread:.4g}"
    allowed = f", tolerance {tolerance.size:g}{f' {SD}' if tolerance.unit else ''}" if tolerance.size else ""
    why = f"{origin}: {mean:.4g}, seeds: {seeds}{of_seeds}{allowed}"
    limit = mean - size if bar.side == "at least" else mean + size
    low, high = _scale(bar.figure)
    if size and not low < limit < high:
        raise ConfigError(
            f"--tolerance {tolerance.size:g}{tolerance.unit}: {bar.figure} {bar.side} {limit:.4g} would stop nothing: "
            f"{origin} has {mean:.4g}, on a scale of {low:g} to {high:g}. Give a smaller tolerance, in the unit of "
            f"{bar.figure} or in standard deviations, such as 2sd."
        )
    return Limit(bar, limit, why)


def _of_row(bar: Bar, task: Task, board: Board | None) -> Estimate:
    if board is None:
        raise DataError(f"The suite {task.suite} ships no board; give {bar.figure} a number.")
    if all((listed.name, listed.hash) != (task.name, task.hash) for listed in board.tasks):
        raise DataError(f"The board has another version of {task.suite}/{task.name}, or none; give a number.")
    cells = {row.system: row.cells[task.name] for row in board.rows if task.name in row.cells}
    if bar.wanted not in cells:
        near = did_you_mean(bar.wanted, cells)
        listed = ", ".join(cells)
        raise UnknownName(f"The board of {task.name} has no row {escaped(bar.wanted)!r}.{near} Rows: {listed}.")
    cell = cells[bar.wanted]
    reached: Estimate | None = getattr(cell, bar.figure) if bar.figure in SCORED else cell.metrics.get(bar.figure)
    if reached is None:
        raise DataError(f"The row {bar.wanted} has no {bar.figure} on {task.name}; give a number.")
    return reached


def refuse_mixture(entries: Sequence[Entry]) -> None:
    """Refuse results of a task that are not distinct seeds of one system, whose mean would mean nothing."""
    paths: dict[int, Path] = {}
    for entry in entries:
        path, result, first = entry.path, entry.result, entries[0]
        if result.system["name"] != first.result.system["name"]:
            raise ConfigError(f"{path}: of another system than {first.path}; check one system at a time.")
        if result.seed in paths:
            raise ConfigError(f"{path}: seed {result.seed}, as {paths[result.seed]}; a seed counts once.")
        paths[result.seed] = path

"""`--compat paper`: the scores that the paper's Figure 2 plots, computed from a row's raw metrics.

The paper mentions "an average over several measures" and gives no formula. Its radar plots show, for each task, the
plain mean of raw metrics, each divided by its highest value, TER as 1 - TER, nothing clipped. The metrics were
identified by comparison with the printed tables: see `grue.submissions.reported`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from grue.errors import ConfigError, DataError
from grue.leaderboard.board import BoardTask, Cell, Column, Estimate, Row
from grue.leaderboard.cells import FLOOR, estimate
from grue.metrics.card import CARDS
from grue.submissions.reported import drawn_metrics

PERPLEXITY = (32.37, 0.0159)  # in the plots: where naturalness of IMDB is 1, and its slope per point of perplexity


def in_paper_scale(row: Row, tasks: Sequence[BoardTask], suite: str) -> Row:
    """Return the row with the preference and naturalness of its cells on the paper's scale.

    Raises:
        ConfigError: A metric is not in the catalogue, so that its highest value is unknown.
        DataError: A scored seed lacks a metric of an axis.
    """
    columns = {task.name: _averaged(task) for task in tasks}
    cells = {name: _cell(cell, columns[name], suite, f"{row.system} on {name}") for name, cell in row.cells.items()}
    return replace(row, cells=cells)


def _averaged(task: BoardTask) -> list[Column]:
    """Return the task's columns without the metrics of preference that Figure 2 does not seem to average.

    A task that only has the name of one of the paper's, and lacks metrics of that, keeps its own.
    """
    drawn = drawn_metrics(task.name)
    if drawn is None or _lacking(task):
        return list(task.columns)
    return [column for column in task.columns if column.axis != "preference" or column.metric in drawn]


def _lacking(task: BoardTask) -> list[str]:
    """Return the metrics that Figure 2 seems to average for the paper's task of that name, and this one lacks."""
    own = {column.metric for column in task.columns if column.axis == "preference"}
    return [metric for metric in drawn_metrics(task.name) or () if metric not in own]


def _cell(cell: Cell, columns: Sequence[Column], suite: str, where: str) -> Cell:
    return replace(
        cell,
        preference=_axis(cell, columns, "preference", suite, where) if cell.preference else None,
        naturalness=_axis(cell, columns, "naturalness", suite, where) if cell.naturalness else None,
    )


def _axis(
    cell: Cell, columns: Sequence[Column], axis: Literal["preference", "naturalness"], suite: str, where: str
) -> Estimate | None:
    of_axis = [column for column in columns if column.axis == axis]
    by_seed = dict.fromkeys(cell.failed, FLOOR)
    for seed in (seed for seed in cell.seeds if seed not in cell.failed):
        values = []
        for column in of_axis:
            raw = cell.metrics.get(column.metric)
            if raw is None or seed not in raw.by_seed:
                raise DataError(
                    f"{where}, seed {seed}: {column.metric} is missing, a metric of {axis}; evaluate the run again."
                )
            values.append(paper_value(column, raw.by_seed[seed], suite))
        by_seed[seed] = 100 * math.fsum(values) / len(values)
    return estimate({seed: by_seed[seed] for seed in cell.seeds})


def paper_value(column: Column, value: float, suite: str) -> float:
    """Return a raw metric as the paper averages it: 1 for the best value if there is one, and not clipped.

    Raises:
        ConfigError: The metric is not in the catalogue, so that its highest value is unknown.
    """
    if column.reference is not None:
        if suite == "grue":
            best, slope = PERPLEXITY
            return 1 - slope * (value - best)
        return min(1.0, column.reference / value)
    highest = _highest(column)
    if column.direction == "lower":
        return 1 - value / highest
    return max(0.0, value) if highest == math.inf else value / highest


def _highest(column: Column) -> float:
    """Return the divisor of a raw value; infinite if the value is used unchanged."""
    if column.direction == "lower" and column.range is not None:
        return column.range[0]
    if column.metric not in CARDS:
        raise ConfigError(
            f"--compat paper divides each metric by its highest value, which the catalogue of metrics lacks for "
            f"{column.metric!r}; leave the option out for tasks of your own."
        )
    return CARDS[column.metric].range[1]


def explained(tasks: Sequence[BoardTask], suite: str) -> Iterator[str]:
    """Yield notes on the paper's scale on these tasks."""
    if suite == "grue":
        yield (
            "The metrics that the paper's Figure 2 averages for commongen and cnn_dailymail could not be identified; "
            "here they are the task's own."
        )
    for task in tasks:
        if lacking := _lacking(task):
            yield (
                f"{task.name} is not identified as the paper's task of that name: it lacks {', '.join(lacking)}, which "
                "the figure seems to average; here the mean is of its own metrics."
            )
        if left_out := [column.metric for column in task.columns if column not in _averaged(task)]:
            yield f"{task.name}: {', '.join(left_out)} left out, which the figure does not seem to average."
    hows: Mapping[str, str] = {
        column.metric: how for task in tasks for column in task.columns if (how := _how(column, suite))
    }
    scales = f"; there {'; '.join(f'{name} is {how}' for name, how in hows.items())}" if hows else ""
    yield f"On the paper's scale an axis is 100 × the plain mean of a task's raw metrics, nothing clipped{scales}."


def _how(column: Column, suite: str) -> str:
    """Return how a metric is brought to the paper's scale; empty if its raw value is used."""
    if column.axis not in ("preference", "naturalness"):
        return ""
    if column.reference is not None:
        if suite == "grue":
            return f"1 − {PERPLEXITY[1]:g} × (value − {PERPLEXITY[0]:g}), read off the figure"
        return f"{column.reference:g} / value, at most 1"
    highest = _highest(column)
    if column.direction == "lower":
        return f"1 − value / {highest:g}"
    if highest == math.inf:
        return "its value, 0 if that is negative"
    return "" if highest == 1 else f"value / {highest:g}"

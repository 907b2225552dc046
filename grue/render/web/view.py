"""The data of the templates: a board's rows in the order and the groups of a table, its ruler and its plot."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from grue.leaderboard.board import Board, BoardTask, Cell, Column, Estimate, Row
from grue.leaderboard.trained_on import held_out_on
from grue.render.figures import UNKNOWN, figure
from grue.render.text import listed, named, printable
from grue.render.web.axes import Axis, axis_over, number, whisker, within
from grue.render.web.plot import PlotPoint, ScatterPlot, plot_of
from grue.render.web.words import family_of
from grue.stats.intervals import Interval, mean, satterthwaite_interval
from grue.submissions.folder import RANKED_SEEDS

WHISKERS = 190  # pixels
GROUPS = {"ranked": "", "open": "Not ranked", "reference": "For reference, not competing"}
SHADES = 7  # of a task's colour scale
LEAST_SPAN = 1.0  # least range of a colour scale, in points, so that it does not exaggerate tiny differences
COLOURS = 6  # of systems in plots


@dataclass(frozen=True, slots=True)
class Shade:
    """A number of a table, its shade in the column's colour scale, whether it shares the first rank, and its marks.

    `beside` is the naturalness where the number is the preference on a task.
    """

    text: str
    shade: str = ""
    best: bool = False
    trained_on: bool = False
    unmoved: bool = False
    beside: str = ""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A row of a table: the means of the overview, or the scores of a task.

    Attributes:
        index: The row's position in the board.
        dots: The preference of each seed.
        aside: The number beside the preference: in the overview the mean over the tasks where learning counts, in a
            task's table the held-out preference.
        values: In the overview the preference on each task, in a task's table the metrics of the score.
        extras: The other metrics.
        seeds: Those of the task, or of the task with the fewest.
        unmoved: Whether most seeds kept update 0, the start.
    """

    index: int
    row: Row
    rank: int | None
    preference: float | None
    interval: Interval | None
    naturalness: float | None
    naturalness_interval: Interval | None
    dots: Sequence[float]
    aside: float | None
    values: tuple[Shade, ...]
    extras: tuple[str, ...] = ()
    iqm: float | None = None
    searched: float | None = None
    seeds: int = 0
    unmoved: bool = False

    @property
    def kind(self) -> str:
        """The group of the row: ranked, not ranked yet, or a reference."""
        return "reference" if self.row.standing == "reference" else "open" if self.rank is None else "ranked"


@dataclass(frozen=True, slots=True)
class Ruler:
    """The common axis of a column of whiskers; `ticks` and `references` are positions of lines, in pixels."""

    axis: Axis
    ticks: str
    references: str


@dataclass(frozen=True, slots=True)
class TablePanel:
    """A table with its ruler and plot: the overview, or a task.

    Attributes:
        tasks: Those with results, the columns of the overview; of a task's table, the task.
        groups: Kind → its lines.
        plot: On axes for the competing systems.
        whole_plot: On axes for everything; None if `plot` has it all.
    """

    task: BoardTask | None
    tasks: tuple[BoardTask, ...]
    lines: tuple[TableLine, ...]
    groups: Mapping[str, list[TableLine]]
    ruler: Ruler
    plot: ScatterPlot | None
    whole_plot: ScatterPlot | None

    def has(self, column: str) -> bool:
        """Whether any row has a value in a column, such as "preference" or "searched"."""
        return any(getattr(line, column) is not None for line in self.lines)

    def shares_rank(self, line: TableLine) -> bool:
        """Whether another row has the rank of this one."""
        return line.rank is not None and sum(other.rank == line.rank for other in self.lines) > 1


def overview(board: Board) -> TablePanel:
    """Return the table of all tasks with results, and the plot of the systems with results on all of them."""
    tasks = tuple(task for task in board.tasks if any(task.name in row.cells for row in board.rows))
    scales = [_shades(board.rows, task) for task in tasks]
    lines = [
        TableLine(
            index=i,
            row=row,
            rank=row.rank,
            preference=row.preference,
            interval=row.interval,
            naturalness=row.naturalness,
            naturalness_interval=row.naturalness_interval,
            dots=_seed_means(row, board.tasks),
            aside=row.learned,
            values=tuple(scale[i] for scale in scales),
            iqm=row.iqm,
            seeds=min((len(cell.seeds) for cell in row.cells.values()), default=0),
        )
        for i, row in enumerate(board.rows)
    ]
    return _panel(board, None, tasks, lines)


def task_panel(board: Board, task: BoardTask) -> TablePanel:
    """Return the table of one task with its raw metrics, with diversity separately, and its plot."""
    cells = {i: cell for i, row in enumerate(board.rows) if (cell := row.cells.get(task.name)) is not None}
    texts = {c.metric: _metric_texts(c, [cell.metrics.get(c.metric) for cell in cells.values()]) for c in task.columns}
    lines = [
        TableLine(
            index=i,
            row=(row := board.rows[i]),
            rank=row.task_ranks.get(task.name),
            preference=_mean(cell.preference),
            interval=cell.interval,
            naturalness=_mean(cell.naturalness),
            naturalness_interval=(
                satterthwaite_interval({"": cell.naturalness.by_seed.values()}, board.level)
                if cell.interval and cell.naturalness
                else None
            ),
            dots=list(cell.preference.by_seed.values()) if cell.preference and len(cell.seeds) > 1 else [],
            aside=_mean(held_out_on(row, task)),
            values=tuple(
                Shade(texts[c.metric][place], trained_on=c.metric in cell.rewards)
                for c in task.columns
                if c.axis != "diversity"
            ),
            extras=tuple(texts[c.metric][place] for c in task.columns if c.axis == "diversity"),
            searched=_mean(cell.searched),
            seeds=len(cell.seeds),
            unmoved=_is_unmoved(cell),
        )
        for place, (i, cell) in enumerate(cells.items())
    ]
    return _panel(board, task, (task,), sorted(lines, key=_order))


def _order(line: TableLine) -> tuple[int, int, float, str]:
    """Return the place of a line in a task's table; references keep the board's order."""
    inside = line.index if line.kind == "reference" else _falling(line)
    return list(GROUPS).index(line.kind), line.rank or 0, inside, line.row.system


def _panel(
    board: Board, task: BoardTask | None, tasks: tuple[BoardTask, ...], lines: Sequence[TableLine]
) -> TablePanel:
    colours, start = colours_of(board.rows), start_of(board)
    points = []
    for line in lines:
        if line.preference is not None and line.naturalness is not None:
            ends, place = (line.interval, line.naturalness_interval), (line.preference, line.naturalness)
            about = (colours[line.index], line.seeds)
            points.append(PlotPoint(line.index, named(line.row), line.kind, *place, *ends, *about))
    plot = plot_of(points, start)
    groups = {kind: [line for line in lines if line.kind == kind] for kind in GROUPS}
    return TablePanel(
        task=task,
        tasks=tasks,
        lines=tuple(lines),
        groups={kind: of_kind for kind, of_kind in groups.items() if of_kind},
        ruler=_ruler(lines),
        plot=plot,
        whole_plot=plot_of(points, start, zoomed=False) if plot is not None and plot.beyond else None,
    )


def _ruler(lines: Sequence[TableLine]) -> Ruler:
    """Return the axis over the competing systems, or over all if only one competes, with the references as lines."""
    shown = [(line, line.preference) for line in lines if line.preference is not None]
    references = [centre for line, centre in shown if line.kind == "reference"]
    competing = [
        [centre, *(within(line.interval) if line.interval else ()), *line.dots]
        for line, centre in shown
        if line.kind != "reference"
    ]
    values = [value for of_line in competing for value in of_line]
    axis = axis_over(values if len(competing) > 1 else [*values, *references], 6, WHISKERS - 6)
    places = {axis.place(value) for value in references if axis.holds(value)}
    ticks = " ".join(number(place) for place, _ in axis.ticks)
    return Ruler(axis, ticks, " ".join(map(number, sorted(places))))


def lead(panel: TablePanel, level: float) -> str:
    """Return one or two sentences on the leader and the systems that do not differ from it."""
    measure = "a preference" if panel.task else "a mean preference"
    ranked = sorted((line for line in panel.lines if line.rank is not None), key=_falling)
    if not ranked:
        without = f"No system is ranked yet: a rank takes {RANKED_SEEDS} seeds on every task."
        return without if panel.lines and not panel.task else ""
    best, *rest = ranked
    name, reached, interval = named(best.row), best.preference or 0.0, best.interval
    reach = f" ({100 * level:g}\u00a0% interval {interval.low:.1f} to {interval.high:.1f})" if interval else ""
    if rest:
        by = f", {reached - (rest[0].preference or 0.0):.1f} above {named(rest[0].row)}"
        text = f"{name} leads with {measure} of {reached:.1f}{reach}{by}."
    else:
        text = f"{name} is the only ranked system, with {measure} of {reached:.1f}{reach}."
    if peers := [named(line.row) for line in rest if line.rank == 1]:
        text += f" Its lead over {_three(peers)} is not significant."
    open_ones = [line for line in panel.lines if line.kind == "open" and not panel.task]
    if above := [named(line.row) for line in open_ones if (line.preference or 0.0) > reached]:
        text += f" Higher, but not ranked: {_three(above)}."
    return text


def hacked_by_task(panels: Sequence[TablePanel]) -> str:
    """Return which systems are in the area of reward hacking on single tasks, whatever the mean over tasks says."""
    areas = [(panel.plot.hacked, task.name) for panel in panels if panel.plot for task in panel.tasks]
    inside = [f"{name} on {task}" for area, task in areas if area for name in area.inside]
    return f"This is about the mean over tasks; on single tasks, in it for certain: {', '.join(inside) or 'no system'}."


def _falling(line: TableLine) -> float:
    return -(line.preference or 0.0)


def _three(names: Sequence[str]) -> str:
    return listed([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])


def start_of(board: Board) -> str:
    """Return the supervised system that the others are compared with: `supervised`, or else the first."""
    names = [printable(row.system) for row in board.rows if family_of(row) == "supervised"]
    return "supervised" if "supervised" in names else next(iter(names), "")


def colours_of(rows: Sequence[Row]) -> list[int]:
    """Return the number of each row's colour, the same in all plots; competing systems take them in turn."""
    competing = [i for i, row in enumerate(rows) if row.standing != "reference"]
    numbers = {i: place % COLOURS for place, i in enumerate(competing)}
    return [numbers.get(i, 0) for i in range(len(rows))]


def _seed_means(row: Row, tasks: Sequence[BoardTask]) -> list[float]:
    """Return each seed's mean over the tasks, if every task has the same seeds; their mean is the row's."""
    by_seed = [cell.preference.by_seed for cell in row.cells.values() if cell.preference is not None]
    needed = sum(task.has("preference") for task in tasks)
    if len(by_seed) < needed or not by_seed or any(set(of_task) != set(by_seed[0]) for of_task in by_seed):
        return []
    return [mean([of_task[seed] for of_task in by_seed]) for seed in sorted(by_seed[0])] if len(by_seed[0]) > 1 else []


def _shades(rows: Sequence[Row], task: BoardTask) -> list[Shade]:
    """Return the column of a task, shaded from the lowest to the highest competing value if two are ranked."""
    reached = [_mean(cell.preference) if (cell := row.cells.get(task.name)) else None for row in rows]
    shown = [value if row.standing != "reference" else None for row, value in zip(rows, reached, strict=True)]
    competing = [value for value in shown if value is not None]
    low, high = min(competing, default=0.0), max(competing, default=0.0)
    contested = sum(task.name in row.task_ranks for row in rows) > 1
    shades = []
    for row, value, within_scale in zip(rows, reached, shown, strict=True):
        shade = ""
        if within_scale is not None and contested:
            shade = f"h{round((SHADES - 1) * (within_scale - low) / max(high - low, LEAST_SPAN))}"
        is_best = contested and row.task_ranks.get(task.name) == 1
        cell = row.cells.get(task.name)
        unmoved = cell is not None and _is_unmoved(cell)
        beside = "" if cell is None or cell.naturalness is None else figure(cell.naturalness.mean, "z.1f")
        shades.append(Shade(figure(value, "z.1f"), shade, is_best, unmoved=unmoved, beside=beside))
    return shades


def _is_unmoved(cell: Cell) -> bool:
    return 2 * sum(update == 0 for update in cell.updates.values()) > len(cell.seeds)


def _metric_texts(column: Column, estimates: Sequence[Estimate | None]) -> list[str]:
    """Return a column of raw values, with decimals for a tenth of a scaled point, or three digits."""
    if column.range is not None:
        decimals = max(0, math.ceil(-math.log10(abs(column.range[1] - column.range[0]) / 1000) - 1e-9))
    else:
        largest = max((abs(estimate.mean) for estimate in estimates if estimate is not None), default=0.0)
        wide = 1 if largest < 100 else 0
        decimals = 3 if largest < 1 else 2 if largest < 10 or column.reference is not None else wide
    return [UNKNOWN if estimate is None else f"{estimate.mean:z.{decimals}f}" for estimate in estimates]


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


# --- for the templates -----------------------------------------------------------------------------------------------


def spread(interval: Interval | None) -> str:
    """Return the number behind the ±, with its sign."""
    return "" if interval is None else f"±{interval.half_width:.1f}"


def whisker_of(line: TableLine, ruler: Ruler) -> Markup:
    """Return the path of a line's interval."""
    return Markup("") if line.preference is None else whisker(ruler.axis, line.preference, line.interval)


def about_of(row: Row) -> str:
    """Return what a system is and how it was prompted, as far as its name does not say it."""
    about = row.about
    size = "" if about.parameters is None else _count(about.parameters)
    prompting = {"chat": "chat prompt", "shots": "shown examples"}.get(row.prompting, "")
    parts = (about.algorithm, about.backbone, size, prompting, "by an endpoint" if row.by_endpoint else "")
    return printable(" · ".join(part for part in parts if part not in ("", "none", row.system)))


def standing_of(row: Row, tasks: int) -> str:
    """Return why a row has no rank; empty for one with a rank, and for a reference."""
    seeds = min((len(cell.seeds) for cell in row.cells.values()), default=0)
    return {
        "ranked": "",
        "reference": "",
        "partial": f"{len(row.cells)} of {tasks} tasks",
        "limited": "part of the examples",
        "preliminary": f"preliminary, {seeds} seeds",
        "too few seeds": f"{seeds} seed{'s' if seeds > 1 else ''}",
    }.get(row.standing, row.standing)


def _count(parameters: int) -> str:
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if parameters >= size:
            return f"{parameters / size:.3g} {unit}"
    return str(parameters)

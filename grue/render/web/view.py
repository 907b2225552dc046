"""The data of the templates: a board's rows as text and marks."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from grue.leaderboard.board import Board, BoardTask, Cell, Column, Estimate, Row
from grue.leaderboard.trained_on import held_out_on
from grue.render.text import UNKNOWN, named, printable
from grue.render.web.axes import Axis, axis_over, number, whisker, within
from grue.render.web.plot import PlotPoint, ScatterPlot, plot_of
from grue.render.web.words import family_of
from grue.stats.intervals import Interval, mean, satterthwaite_interval

WHISKERS = 190  # pixels
GROUPS = {"ranked": "", "open": "Not ranked", "reference": "For reference, not competing"}
SHADES = 7  # of a task's colour scale
LEAST_SPAN = 1.0  # least range of a colour scale, in points, so that it does not exaggerate tiny differences
COLOURS = 6  # of systems in plots


@dataclass(frozen=True, slots=True)
class SystemLabel:
    """A row's name and description; `index` is its position in the board."""

    index: int
    name: str
    status: str
    standing: str
    about: str
    link: str


@dataclass(frozen=True, slots=True)
class Shade:
    """A number of a table, its shade in the column's colour scale, and whether it shares the first rank.

    Attributes:
        trained_on: Whether the row was trained on this metric.
    """

    text: str
    shade: str
    best: bool
    trained_on: bool = False


@dataclass(frozen=True, slots=True)
class TableLine:
    """A row of a table.

    Attributes:
        aside: The number beside the preference: in the overview the mean over the tasks where learning counts, in a
            task's table the held-out preference.
    """

    system: SystemLabel
    rank: str
    shared: bool
    preference: str
    spread: str
    whisker: Markup
    aside: str
    naturalness: str
    values: tuple[Shade, ...]
    extras: tuple[str, ...] = ()
    iqm: str = UNKNOWN
    searched: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under a common title; competing systems come first."""

    kind: str
    title: str
    lines: tuple[TableLine, ...]


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
        plot: On axes for the competing systems.
        whole_plot: On axes for everything; None if `plot` has it all.
    """

    task: BoardTask | None
    groups: tuple[Group, ...]
    ruler: Ruler
    plot: ScatterPlot | None
    whole_plot: ScatterPlot | None = None

    @property
    def whole(self) -> bool:
        """Whether there is any row to show."""
        return bool(self.groups)

    @property
    def aside(self) -> bool:
        """Whether any row has a number beside its preference."""
        return any(line.aside != UNKNOWN for group in self.groups for line in group.lines)

    @property
    def searched(self) -> bool:
        """Whether any row has searched answers."""
        return any(line.searched != UNKNOWN for group in self.groups for line in group.lines)

    @property
    def iqm(self) -> bool:
        """Whether any row has an interquartile mean."""
        return any(line.iqm != UNKNOWN for group in self.groups for line in group.lines)

    @property
    def trained_on(self) -> bool:
        """Whether any row was trained on one of the metrics."""
        return any(value.trained_on for group in self.groups for line in group.lines for value in line.values)


def system_of(index: int, row: Row, tasks: int) -> SystemLabel:
    """Return a system's name and description."""
    about = row.about
    size = "" if about.parameters is None else f"{_count(about.parameters)}"
    prompting = {"chat": "chat prompt", "shots": "shown examples"}.get(row.prompting, "")
    how_prompted = (prompting, "by an endpoint" if row.by_endpoint else "")
    parts = [
        part for part in (about.algorithm, about.backbone, size, *how_prompted) if part not in ("", "none", row.system)
    ]
    seeds = sorted({len(cell.seeds) for cell in row.cells.values()})
    standing = {
        "ranked": "",
        "reference": "",
        "partial": f"{len(row.cells)} of {tasks} tasks",
        "limited": "part of the examples",
        "preliminary": f"preliminary, {seeds[0]} seeds" if seeds else "preliminary",
        "too few seeds": f"{seeds[0]} seed{'s' if seeds[0] > 1 else ''}" if seeds else "no seeds",
    }.get(row.standing, row.standing)
    link = about.link if about.link.startswith(("https://", "http://")) else ""
    return SystemLabel(index, named(row), row.status, standing, printable(" · ".join(parts)), printable(link))


def _count(parameters: int) -> str:
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if parameters >= size:
            return f"{parameters / size:.3g} {unit}"
    return str(parameters)


# --- the overview ----------------------------------------------------------------------------------------------------


def overview(board: Board) -> TablePanel:
    """Return the table of all tasks, and the plot of the systems with results on all of them."""
    systems = [system_of(i, row, len(board.tasks)) for i, row in enumerate(board.rows)]
    ruler = _ruler([(row, row.preference, row.interval, _seed_means(row, board.tasks)) for row in board.rows])
    scales = [_shades(board.rows, task) for task in board.tasks]
    ranks = [row.rank for row in board.rows]
    lines = [
        (
            _kind(row, row.rank),
            TableLine(
                system,
                UNKNOWN if row.rank is None else str(row.rank),
                row.rank is not None and ranks.count(row.rank) > 1,
                _one_decimal(row.preference),
                _spread(row.interval),
                _whisker(ruler.axis, row.preference, row.interval),
                _one_decimal(row.learned),
                _one_decimal(row.naturalness),
                tuple(scale[system.index] for scale in scales),
                iqm=_one_decimal(row.iqm),
            ),
        )
        for row, system in zip(board.rows, systems, strict=True)
    ]
    colours = colours_of(board.rows)
    points = [
        PlotPoint(
            i,
            systems[i].name,
            _kind(row, row.rank),
            row.preference,
            row.naturalness,
            row.interval,
            row.naturalness_interval,
            colours[i],
        )
        for i, row in enumerate(board.rows)
        if row.preference is not None and row.naturalness is not None
    ]
    return _with_plots(TablePanel(None, _grouped(lines), ruler, None), points, start_of(board))


def _seed_means(row: Row, tasks: Sequence[BoardTask]) -> list[float]:
    """Return each seed's mean over the tasks, if every task has the same seeds; their mean is the row's."""
    by_seed = [cell.preference.by_seed for cell in row.cells.values() if cell.preference is not None]
    needed = sum(task.has("preference") for task in tasks)
    if len(by_seed) < needed or not by_seed or any(set(of_task) != set(by_seed[0]) for of_task in by_seed):
        return []
    return [mean([of_task[seed] for of_task in by_seed]) for seed in sorted(by_seed[0])] if len(by_seed[0]) > 1 else []


def _shades(rows: Sequence[Row], task: BoardTask) -> list[Shade]:
    """Return the column of a task, shaded from the lowest to the highest competing value if two are ranked."""
    reached = [cell.preference if (cell := row.cells.get(task.name)) else None for row in rows]
    competing = [e.mean for row, e in zip(rows, reached, strict=True) if e is not None and row.standing != "reference"]
    low, high = min(competing, default=0.0), max(competing, default=0.0)
    contested = sum(task.name in row.task_ranks for row in rows) > 1
    shades = []
    for row, estimate in zip(rows, reached, strict=True):
        shade = ""
        if estimate is not None and row.standing != "reference" and contested:
            shade = f"h{round((SHADES - 1) * (estimate.mean - low) / max(high - low, LEAST_SPAN))}"
        shades.append(Shade(_one_decimal(estimate), shade, contested and row.task_ranks.get(task.name) == 1))
    return shades


# --- a task ----------------------------------------------------------------------------------------------------------


def task_panel(board: Board, task: BoardTask) -> TablePanel:
    """Return the table of one task with its raw metrics, with diversity separately, and its plot."""
    rows = [(i, row, cell) for i, row in enumerate(board.rows) if (cell := row.cells.get(task.name)) is not None]
    rows.sort(key=_task_order(task.name))
    ruler = _ruler([(row, _mean(cell.preference), cell.interval, _values(cell)) for _, row, cell in rows])
    columns = [c for c in task.columns if c.axis != "diversity"]
    extras = [c for c in task.columns if c.axis == "diversity"]
    texts = {c.metric: _metric_texts(c, [cell.metrics.get(c.metric) for _, _, cell in rows]) for c in task.columns}
    ranks = [row.task_ranks.get(task.name) for _, row, _ in rows]
    lines = []
    for place, (i, row, cell) in enumerate(rows):
        rank = ranks[place]
        line = TableLine(
            system_of(i, row, len(board.tasks)),
            UNKNOWN if rank is None else str(rank),
            rank is not None and ranks.count(rank) > 1,
            _one_decimal(cell.preference),
            _spread(cell.interval),
            _whisker(ruler.axis, _mean(cell.preference), cell.interval),
            _one_decimal(held_out_on(row, task)),
            _one_decimal(cell.naturalness),
            tuple(Shade(texts[c.metric][place], "", False, c.metric in cell.rewards) for c in columns),
            tuple(texts[c.metric][place] for c in extras),
            searched=_one_decimal(cell.searched),
        )
        lines.append((_kind(row, rank), line))
    colours = colours_of(board.rows)
    points = [point for i, row, cell in rows if (point := _point(board, task, i, row, cell, colours[i]))]
    return _with_plots(TablePanel(task, _grouped(lines), ruler, None), points, start_of(board))


def _with_plots(panel: TablePanel, points: Sequence[PlotPoint], start: str) -> TablePanel:
    plot = plot_of(points, start)
    whole = plot_of(points, start, zoomed=False) if plot is not None and plot.beyond else None
    return replace(panel, plot=plot, whole_plot=whole)


def start_of(board: Board) -> str:
    """Return the supervised system that the others are compared with: `supervised`, or else the first."""
    names = [printable(row.system) for row in board.rows if family_of(row) == "supervised"]
    return "supervised" if "supervised" in names else next(iter(names), "")


def colours_of(rows: Sequence[Row]) -> list[int]:
    """Return the number of each row's colour, the same in all plots; competing systems take them in turn."""
    competing = [i for i, row in enumerate(rows) if row.standing != "reference"]
    numbers = {i: place % COLOURS for place, i in enumerate(competing)}
    return [numbers.get(i, 0) for i in range(len(rows))]


def _task_order(task: str) -> Callable[[tuple[int, Row, Cell]], tuple[int, int, float, str]]:
    def order(item: tuple[int, Row, Cell]) -> tuple[int, int, float, str]:
        index, row, cell = item
        rank = row.task_ranks.get(task)
        kind = _kind(row, rank)
        within = index if kind == "reference" else -(_mean(cell.preference) or 0.0)  # they keep the board's order
        return list(GROUPS).index(kind), rank or 0, within, row.system

    return order


def _point(board: Board, task: BoardTask, index: int, row: Row, cell: Cell, colour: int) -> PlotPoint | None:
    if cell.preference is None or cell.naturalness is None:
        return None
    spread = None
    if cell.interval is not None:
        spread = satterthwaite_interval({task.name: cell.naturalness.by_seed.values()}, board.level)
    kind = _kind(row, row.task_ranks.get(task.name))
    name = named(row)
    return PlotPoint(index, name, kind, cell.preference.mean, cell.naturalness.mean, cell.interval, spread, colour)


def _metric_texts(column: Column, estimates: Sequence[Estimate | None]) -> list[str]:
    """Return a column of raw values, with decimals for a tenth of a scaled point, or three digits."""
    if column.range is not None:
        decimals = max(0, math.ceil(-math.log10(abs(column.range[1] - column.range[0]) / 1000) - 1e-9))
    else:
        largest = max((abs(estimate.mean) for estimate in estimates if estimate is not None), default=0.0)
        decimals = (
            3 if largest < 1 else 2 if largest < 10 or column.reference is not None else 1 if largest < 100 else 0
        )
    return [UNKNOWN if estimate is None else f"{estimate.mean:z.{decimals}f}" for estimate in estimates]


# --- both ------------------------------------------------------------------------------------------------------------


def _kind(row: Row, rank: int | None) -> str:
    """Return the group of a row: ranked, not ranked yet, or a reference."""
    return "reference" if row.standing == "reference" else "open" if rank is None else "ranked"


def _grouped(lines: Iterable[tuple[str, TableLine]]) -> tuple[Group, ...]:
    by_kind: dict[str, list[TableLine]] = {kind: [] for kind in GROUPS}
    for kind, line in lines:
        by_kind[kind].append(line)
    return tuple(
        Group(kind, GROUPS[kind], tuple(lines_of_kind)) for kind, lines_of_kind in by_kind.items() if lines_of_kind
    )


def _ruler(rows: Iterable[tuple[Row, float | None, Interval | None, Sequence[float]]]) -> Ruler:
    """Return the axis over the competing systems, or over all if only one competes, with the references as lines."""
    values: list[float] = []
    references = []
    competing = 0
    for row, centre, interval, dots in rows:
        if centre is None:
            continue
        if row.standing == "reference":
            references.append(centre)
        else:
            competing += 1
            values += [centre, *dots] if interval is None else [centre, *within(interval), *dots]
    axis = axis_over(values if competing > 1 else [*values, *references], 6, WHISKERS - 6)
    places = {axis.place(value) for value in references if axis.holds(value)}
    ticks = " ".join(number(place) for place, _ in axis.ticks)
    return Ruler(axis, ticks, " ".join(map(number, sorted(places))))


def _whisker(axis: Axis, centre: float | None, interval: Interval | None) -> Markup:
    return Markup("") if centre is None else whisker(axis, centre, interval)


def _values(cell: Cell) -> list[float]:
    values = list(cell.preference.by_seed.values()) if cell.preference is not None else []
    return values if len(values) > 1 else []


def _mean(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _one_decimal(value: Estimate | float | None) -> str:
    """Return a score with one decimal."""
    score = value.mean if isinstance(value, Estimate) else value
    return UNKNOWN if score is None else f"{score:z.1f}"


def _spread(interval: Interval | None) -> str:
    return "" if interval is None else f"±{interval.half_width:.1f}"

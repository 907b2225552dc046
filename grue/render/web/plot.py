"""The plot of preference against naturalness: positions of points, whiskers and labels."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grue.render.web.axes import Axis, axis_over
from grue.stats.intervals import Interval

WIDTH, HEIGHT = 720, 430
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 40
LETTER, LINE = 6.6, 14  # size of a letter and a line of a label, in pixels; measured on wide system fonts
LONGEST = 26  # letters of a label
NAMED = 5  # points in the summary; the table has them all
LABELS = 16  # more would be unreadable; the script names every point on hover


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A system in the plot, in the unit of the scores; `kind` decides its marker."""

    index: int
    name: str
    kind: str
    x: float
    y: float
    x_interval: Interval | None
    y_interval: Interval | None


@dataclass(frozen=True, slots=True)
class Label:
    """A name beside its point, in pixels; `leader` is the path of a line to a distant point."""

    index: int
    text: str
    x: int
    y: int
    anchor: str
    leader: str


@dataclass(frozen=True, slots=True)
class ScatterPlot:
    """The content of the plot's template; `summary` describes it in words.

    Attributes:
        marks: Kind → (index, path) of its points: the path starts at the point, where a marker is drawn, and continues
            along the whiskers.
    """

    x: Axis
    y: Axis
    marks: Mapping[str, tuple[tuple[int, str], ...]]
    labels: tuple[Label, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Extent:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Extent") -> bool:
        """Whether the two overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def plot_of(points: Sequence[PlotPoint]) -> ScatterPlot | None:
    """Return the plot of the points; None without any. Labels are placed in their order.

    The axes hold the competing systems and the references near them; other references are drawn at the edge, with their
    position in the label.
    """
    if not points:
        return None
    shown = _shown(points)
    x = axis_over(_ends(shown, "x"), LEFT, WIDTH - RIGHT, 6)
    y = axis_over(_ends(shown, "y"), HEIGHT - BOTTOM, TOP, 5)
    summary = "; ".join(f"{point.name} {point.x:.1f}, {point.y:.1f}" for point in points[:NAMED])
    rest = f"; and {len(points) - NAMED} more" if len(points) > NAMED else ""
    kinds = dict.fromkeys(point.kind for point in points)
    marks = {kind: tuple((p.index, _path(p, x, y)) for p in points if p.kind == kind) for kind in kinds}
    return ScatterPlot(x, y, marks, tuple(_labels(points, x, y)), f"Preference and naturalness: {summary}{rest}.")


def _shown(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    """Return what competes, and the references within half its extent of it; all points if fewer than two compete."""
    competing = [point for point in points if point.kind != "reference"]
    xs, ys = [point.x for point in competing], [point.y for point in competing]
    if len(competing) < 2:
        return list(points)

    def near(value: float, values: list[float]) -> bool:
        margin = (max(values) - min(values)) / 2
        return min(values) - margin <= value <= max(values) + margin

    return [point for point in points if near(point.x, xs) and near(point.y, ys)]


def _ends(points: Iterable[PlotPoint], axis: str) -> list[float]:
    found = []
    for point in points:
        value, interval = (point.x, point.x_interval) if axis == "x" else (point.y, point.y_interval)
        found += [value] if interval is None else [value, min(interval.high, 100.0), max(interval.low, 0.0)]
    return found


def _path(point: PlotPoint, x: Axis, y: Axis) -> str:
    across, up = round(x.place(point.x)), round(y.place(point.y))
    if point.x_interval is None and point.y_interval is None:
        return f"M{across},{up}h0"
    path = f"M{across},{up}"
    if point.x_interval is not None:
        left, right = round(x.place(point.x_interval.low)), round(x.place(point.x_interval.high))
        path += f"h{left - across}h{right - left}"
    if point.y_interval is not None:
        low, high = round(y.place(point.y_interval.low)), round(y.place(point.y_interval.high))
        path += f"M{across},{low}v{high - low}"
    return path


# --- labels ----------------------------------------------------------------------------------------------------------

# Offset of a label's nearest corner or edge from its point, and its anchor; the first place that is free is taken.
_NEAR = (
    *((9, 4, "start"), (-9, 4, "end"), (0, -9, "middle"), (0, 18, "middle")),
    *((8, -6, "start"), (-8, -6, "end"), (8, 14, "start"), (-8, 14, "end")),
)
_FAR = tuple(
    (side * dx, dy, "start" if side > 0 else "end")
    for dx in (18, 34, 54)
    for dy in (-22, 28, -38, 44, -54, 60)
    for side in (1, -1)
)


def _labels(points: Sequence[PlotPoint], x: Axis, y: Axis) -> Iterator[Label]:
    """Yield a label for references and the first systems, each where it meets no point, no other label and no edge."""
    places = [(round(x.place(point.x)), round(y.place(point.y))) for point in points]
    taken = [Extent(across - 5, up - 5, across + 5, up + 5) for across, up in places]
    taken += [box for point in points for box in _whisker_boxes(point, x, y)]
    first = {point.index for point in [p for p in points if p.kind != "reference"][:LABELS]}
    for point, (across, up) in zip(points, places, strict=True):
        if point.kind == "reference" or point.index in first:
            beyond = not (x.holds(point.x) and y.holds(point.y))
            text = f"{point.name} ({point.x:.0f}, {point.y:.0f})" if beyond else point.name
            half = point.x_interval.half_width if point.x_interval else 0.0
            reach = round(abs(x.place(x.low + half) - x.place(x.low)))
            label = _label(text, point.index, across, up, reach, taken)
            if label is not None:
                yield label


def _label(name: str, index: int, x: int, y: int, reach: int, taken: list[Extent]) -> Label | None:
    """Return the label at the first free place, which is then taken; None if there is none."""
    text = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    for offset, dy, anchor in (*_NEAR, *_FAR):
        dx = offset + {"start": reach, "middle": 0, "end": -reach}[anchor]
        box = _box(text, x + dx, y + dy, anchor)
        inside = box.left >= LEFT and box.right <= WIDTH and box.top >= TOP and box.bottom <= HEIGHT - BOTTOM
        if inside and not any(box.meets(other) for other in taken):
            taken.append(box)
            leader = f"M{x},{y}L{x + dx},{y + dy - 4}" if (offset, dy, anchor) in _FAR else ""
            return Label(index, text, x + dx, y + dy, anchor, leader)
    return None


def _whisker_boxes(point: PlotPoint, x: Axis, y: Axis) -> Iterator[Extent]:
    across, up = x.place(point.x), y.place(point.y)
    if point.x_interval is not None:
        yield Extent(x.place(point.x_interval.low), up - 1, x.place(point.x_interval.high), up + 1)
    if point.y_interval is not None:
        yield Extent(across - 1, y.place(point.y_interval.high), across + 1, y.place(point.y_interval.low))


def _box(text: str, x: float, y: float, anchor: str) -> Extent:
    width = LETTER * len(text)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return Extent(left, y - LINE + 3, left + width, y + 3)

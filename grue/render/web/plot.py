"""The plot of preference against naturalness: positions of points, whiskers and labels."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grue.render.web.axes import Axis, axis_over, within
from grue.stats.intervals import Interval
from grue.submissions.folder import RANKED_SEEDS

WIDTH, HEIGHT = 720, 430
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 40
LETTER, LINE = 6.6, 14  # size of a letter and a line of a label, in pixels; measured on wide system fonts
BESIDE = 30  # longest whisker, in pixels, beyond whose end a label is placed
LONGEST = 26  # letters of a label
LOST = 1.0  # loss of naturalness, in points, beyond which a gain in preference counts as reward hacking
NAMED = 5  # points in the summary; the table has them all
LABELS = 12  # more would be unreadable; the script names every point on hover


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A system in the plot, in the unit of the scores; `kind` decides its marker, `colour` its colour.

    Attributes:
        seeds: Those of the task, or of the task with the fewest.
    """

    index: int
    name: str
    kind: str
    x: float
    y: float
    x_interval: Interval | None
    y_interval: Interval | None
    colour: int = 0
    seeds: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A point, or an arrow towards one: a path that starts at the point and continues along the whiskers."""

    index: int
    colour: int
    path: str


@dataclass(frozen=True, slots=True)
class Label:
    """A name beside its point, in pixels; `leader` is the path of a line to a distant point.

    Attributes:
        colour: That of its point; None for a reference.
    """

    index: int
    text: str
    x: int
    y: int
    anchor: str
    leader: str
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Hacked:
    """The area of systems with more preference and less naturalness than the start of training.

    Attributes:
        path: The visible part of the area; empty if none of it is.
        words: Its definition in numbers, and the systems in it.
        inside: The systems whose intervals lie in it.
        is_judged: Whether any system has enough seeds to say so: those that a rank takes.
    """

    path: str
    words: str
    inside: tuple[str, ...]
    is_judged: bool


@dataclass(frozen=True, slots=True)
class ScatterPlot:
    """The content of the plot's template; `summary` describes it in words.

    Attributes:
        marks: Kind → its points.
        outside: Arrows towards the references that are beyond the axes.
        hacked: The area of reward hacking; None without a start to compare with.
        beyond: How many references are outside.
    """

    x: Axis
    y: Axis
    marks: Mapping[str, tuple[Mark, ...]]
    outside: tuple[Mark, ...]
    labels: tuple[Label, ...]
    summary: str
    hacked: Hacked | None
    beyond: int


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


def plot_of(points: Sequence[PlotPoint], start: str = "", zoomed: bool = True) -> ScatterPlot | None:
    """Return the plot of the points; None without any. Labels are placed in their order.

    Args:
        points: In the board's order.
        start: The system that training began from, by name; see `hacked`.
        zoomed: Whether the axes hold only the competing systems and the references near them. Other references are
            then arrows at the edge, with their position in the label.
    """
    if not points:
        return None
    inside = _near(points) if zoomed else list(points)
    x = axis_over((end for p in inside for end in _ends(p.x, p.x_interval)), LEFT, WIDTH - RIGHT, 6)
    y = axis_over((end for p in inside for end in _ends(p.y, p.y_interval)), HEIGHT - BOTTOM, TOP, 5)
    shown = [point for point in points if x.holds(point.x) and y.holds(point.y)]
    beyond = [point for point in points if not (x.holds(point.x) and y.holds(point.y))]
    summary = "; ".join(f"{point.name} {point.x:.1f}, {point.y:.1f}" for point in points[:NAMED])
    rest = f"; and {len(points) - NAMED} more" if len(points) > NAMED else ""
    whiskers = [box for point in shown for box in _whisker_boxes(point, x, y)]
    taken = [_dot(point, x, y) for point in shown]
    arrows, outside = _outside(beyond, x, y, taken, whiskers)
    return ScatterPlot(
        x=x,
        y=y,
        marks={
            kind: tuple(Mark(point.index, point.colour, _path(point, x, y)) for point in shown if point.kind == kind)
            for kind in dict.fromkeys(point.kind for point in shown)
        },
        outside=tuple(arrows),
        labels=(*outside, *_labels(shown, x, y, taken, whiskers)),
        summary=f"Preference and naturalness: {summary}{rest}.",
        hacked=_hacked(points, start, x, y),
        beyond=len(beyond),
    )


def _near(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    """Return competing points and references within half their extent; all points if fewer than two compete."""
    competing = [point for point in points if point.kind != "reference"]
    xs, ys = [point.x for point in competing], [point.y for point in competing]
    if len(competing) < 2:
        return list(points)

    def near(value: float, values: list[float]) -> bool:
        margin = (max(values) - min(values)) / 2
        return min(values) - margin <= value <= max(values) + margin

    return [point for point in points if near(point.x, xs) and near(point.y, ys)]


def _ends(value: float, interval: Interval | None) -> list[float]:
    return [value] if interval is None else [value, *within(interval)]


def _path(point: PlotPoint, x: Axis, y: Axis) -> str:
    across, up = round(x.place(point.x)), round(y.place(point.y))
    path = f"M{across},{up}"
    if point.x_interval is None and point.y_interval is None:
        return f"{path}h0"
    if point.x_interval is not None:
        left, right = round(x.place(point.x_interval.low)), round(x.place(point.x_interval.high))
        path += f"h{left - across}h{right - left}"
    if point.y_interval is not None:
        low, high = round(y.place(point.y_interval.low)), round(y.place(point.y_interval.high))
        path += f"M{across},{low}v{high - low}"
    return path


# --- points outside the axes, and the area of reward hacking ---------------------------------------------------------


def _outside(
    points: Sequence[PlotPoint], x: Axis, y: Axis, taken: list[Extent], whiskers: Sequence[Extent]
) -> tuple[list[Mark], list[Label]]:
    """Return arrows at the edge towards the points, one for those beyond a corner, and their labels inside the edge.

    A label is at the first free line beside its arrow, towards the middle.
    """
    arrows: dict[tuple[int, int, int, int], Mark] = {}
    labels = []
    for point in sorted(points, key=lambda point: (-point.y, point.x)):
        right, up = _side(point.x, x), _side(point.y, y)
        tip = round(x.place(point.x)), round(y.place(point.y))
        arrows.setdefault((*tip, right, up), Mark(point.index, 0, _arrow(*tip, right, up)))
        anchor = "end" if right > 0 or (right == 0 and tip[0] > (LEFT + WIDTH) / 2) else "start"
        beside = [(line + 1) // 2 * (-1) ** line * LINE for line in range(12)]
        below = [16 + line * LINE if up > 0 else -8 - line * LINE if up else 4 + beside[line] for line in range(12)]
        ways = [(14 if anchor == "start" else -14, dy, anchor) for dy in below]
        text = f"{_cut(point.name)} ({point.x:.0f}, {point.y:.0f})"
        labels.append(_label(text, point.index, *tip, 0, taken, whiskers, ways, edges=(-math.inf, math.inf)))
    return list(arrows.values()), [label for label in labels if label is not None]


def _side(value: float, axis: Axis) -> int:
    """Return where a value is: 1 above the axis, -1 below, 0 on it."""
    return (value > axis.high) - (value < axis.low)


def _arrow(x: int, y: int, right: int, up: int) -> str:
    """Return an arrow whose tip is at a place; `right` and `up` are its direction, each -1, 0 or 1."""
    head = [(6 * right, 0), (0, -6 * up)]
    if not (right and up):
        head = [(5 * right + 4 * up, 4 * right - 5 * up), (5 * right - 4 * up, -4 * right - 5 * up)]
    (a, b), (c, d) = head
    return f"M{x - 9 * right},{y + 9 * up}L{x},{y}M{x - a},{y - b}L{x},{y}L{x - c},{y - d}"


def _hacked(points: Sequence[PlotPoint], start: str, x: Axis, y: Axis) -> Hacked | None:
    """Return the area of reward hacking: above the start's preference, more than `LOST` below its naturalness."""
    began = next((point for point in points if point.name == start and point.kind != "reference"), None)
    if began is None:
        return None
    limit = began.y - LOST
    judged = [
        (point.name, point.x_interval, point.y_interval)
        for point in points
        if point is not began and point.kind != "reference" and min(point.seeds, began.seeds) >= RANKED_SEEDS
    ]
    near = [of for of in judged if of[1] and of[2] and of[1].high > began.x and of[2].low < limit]
    inside = [name for name, across, up in near if across and up and across.low > began.x and up.high < limit]
    crossing = len(near) - len(inside)
    said = [f"In it, by their intervals: {', '.join(inside[:NAMED])}{' and more' if len(inside) > NAMED else ''}."]
    if not inside:
        said = ["No system is in it for certain." if crossing else "No system is in it."] if judged else []
    if crossing:
        said.append(f"Undecided, with an interval across its border: {crossing} system{'s' if crossing > 1 else ''}.")
    left, top = max(began.x, x.low), min(limit, y.high)
    visible = left < x.high and top > y.low
    path = f"M{x.place(left):g},{y.place(top):g}H{x.end:g}V{y.start:g}H{x.place(left):g}z" if visible else ""
    words = (
        f"Reward hacking: a preference above that of {start}, {began.x:.1f}, and a naturalness more than {LOST:g} "
        f"point below its {began.y:.1f}{' (shaded)' if path else ''}."
    )
    return Hacked(path, " ".join([words, *said]), tuple(inside), bool(judged))


# --- labels ----------------------------------------------------------------------------------------------------------

# Offsets of a label's nearest corner or edge from its point, with its anchor; the first free place is taken.
_CORNERS = ((8, -6, "start"), (-8, -6, "end"), (8, 14, "start"), (-8, 14, "end"))
_NEAR = ((9, 4, "start"), (-9, 4, "end"), (0, -9, "middle"), (0, 18, "middle"), *_CORNERS)
_FAR = tuple(
    (side * dx, dy, "start" if side > 0 else "end")
    for dx in (18, 34, 54)
    for dy in (-22, 28, -38, 44, -54, 60)
    for side in (1, -1)
)


def _labels(
    points: Sequence[PlotPoint], x: Axis, y: Axis, taken: list[Extent], whiskers: Sequence[Extent]
) -> Iterator[Label]:
    """Yield labels of references and the first systems, which overlap no point, no other label and no edge.

    They overlap no whisker either, unless there is no other place. If the end of its own whisker is far away, and may
    be nearer to another point, a label is placed above or below the whisker.
    """
    places = [(round(x.place(point.x)), round(y.place(point.y))) for point in points]
    first = {point.index for point in [p for p in points if p.kind != "reference"][:LABELS]}
    for point, (across, up) in zip(points, places, strict=True):
        if point.kind == "reference" or point.index in first:
            half = point.x_interval.half_width if point.x_interval else 0.0
            reach = round(abs(x.place(x.low + half) - x.place(x.low)))
            tries = (
                (0, whiskers, _CORNERS if reach > BESIDE else ()),
                (reach, whiskers, (*_NEAR, *_FAR)),
                (0, (), (*_CORNERS, *_FAR)),
            )
            for distance, lines, ways in tries:
                label = _label(_cut(point.name), point.index, across, up, distance, taken, lines, ways)
                if label is not None:
                    yield label if point.kind == "reference" else replace(label, colour=point.colour)
                    break


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _label(
    text: str,
    index: int,
    x: int,
    y: int,
    reach: int,
    taken: list[Extent],
    whiskers: Sequence[Extent],
    ways: Sequence[tuple[int, int, str]],
    edges: tuple[float, float] = (TOP, HEIGHT - BOTTOM),
) -> Label | None:
    """Return the label at the first free place, and mark that as taken; None if there is none.

    Args:
        ways: Offsets with their anchors, to try in this order.
        edges: Between which heights it must be.
    """
    for offset, dy, anchor in ways:
        dx = offset + {"start": reach, "middle": 0, "end": -reach}[anchor]
        box = _box(text, x + dx, y + dy, anchor)
        inside = box.left >= LEFT and box.right <= WIDTH and box.top >= edges[0] and box.bottom <= edges[1]
        if inside and not any(box.meets(occupied) for occupied in (*taken, *whiskers)):
            taken.append(box)
            leader = f"M{x},{y}L{x + dx},{y + dy - 4}" if (offset, dy, anchor) in _FAR else ""
            return Label(index, text, x + dx, y + dy, anchor, leader)
    return None


def _dot(point: PlotPoint, x: Axis, y: Axis) -> Extent:
    across, up = round(x.place(point.x)), round(y.place(point.y))
    return Extent(across - 5, up - 5, across + 5, up + 5)


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

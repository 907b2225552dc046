"""Axes and the marks on them, in SVG: a number becomes a position, an interval a line.

Positions are rounded to half a pixel, since a page holds thousands of marks.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from grue.stats.intervals import Interval

MIDDLE = 10  # of a whisker's height, in pixels


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from `low` to `high`, laid over pixels from `start` to `end`; `start` may be the greater one.

    Attributes:
        step: Distance between two ticks.
    """

    low: float
    high: float
    step: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Return the pixel of a value; values outside are placed at the edge."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(2 * (self.start + share * (self.end - self.start))) / 2

    def holds(self, value: float) -> bool:
        """Whether the value is on the axis."""
        return self.low <= value <= self.high

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """The places and labels of the ticks."""
        decimals = max(0, -math.floor(math.log10(self.step)))
        values = [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]
        return tuple((self.place(value), f"{value:z.{decimals}f}") for value in values)


def within(interval: Interval) -> tuple[float, float]:
    """Return the ends of an interval of scores, clipped to 0–100."""
    return max(interval.low, 0.0), min(interval.high, 100.0)


def axis_over(values: Iterable[float], start: float, end: float, steps: int = 4) -> Axis:
    """Return an axis with about `steps` round ticks that holds all values; 0 to 100 if there are none."""
    points = list(values)
    low, high = (min(points), max(points)) if points else (0.0, 100.0)
    rough = max((high - low) / steps, 1e-3 * max(1.0, abs(high)))
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(first * step, max(last, first + 1) * step, step, start, end)


def number(value: float) -> str:
    """Return a coordinate in as few characters as possible."""
    return f"{value:.1f}".removesuffix(".0")


def whisker(axis: Axis, centre: float, interval: Interval | None) -> Markup:
    """Return the path of an interval with a stroke at its centre, or an arrow towards a value outside the axis.

    The script adds a dot for each seed, whose values it has.
    """
    x = axis.place(centre)
    if not axis.holds(centre):
        side = 1 if centre > axis.high else -1
        return Markup(f"<path d=M{number(x - 4 * side)},{MIDDLE - 4}l{4 * side},4l{-4 * side},4>")
    line = f"M{number(x)},{MIDDLE - 5}v10"
    if interval is not None:
        low, high = round(axis.place(interval.low) - x), round(axis.place(interval.high) - x)
        line += f"m{low}-5h{high - low}"
    return Markup(f"<path d={line}>")

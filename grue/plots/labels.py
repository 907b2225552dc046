"""Placing names beside points so that they cover no other name, point or bar."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

# From the point to the label, in the unit of the boxes; the first fits beside a marker.
DISTANCES = (6, 12, 20, 30, 42, 56, 72, 90, 110)
DOT = 3  # size of a dot of the line to a distant label
# Beside a point first, then above and below, then towards its corners.
DIRECTIONS = (
    *((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)),
    *((1, 0.5), (-1, 0.5), (1, -0.5), (-1, -0.5), (0.5, 1), (-0.5, 1), (0.5, -1), (-0.5, -1)),
)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; y points up."""

    left: float
    bottom: float
    right: float
    top: float

    def shared(self, other: "Box") -> float:
        """Return the area that two rectangles share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def nearest(self, point: tuple[float, float]) -> tuple[float, float]:
        """Return the point of the rectangle that is nearest to another."""
        return min(max(point[0], self.left), self.right), min(max(point[1], self.bottom), self.top)

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From bottom to top."""
        return self.top - self.bottom


def place(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    room: Box,
) -> list[Box]:
    """Return a box for every label in turn: the nearest free place, else the least covered one.

    Args:
        points: The labelled points, (x, y).
        sizes: Width and height of each label, in the same unit.
        obstacles: Boxes that labels must not cover.
        room: The box that labels must stay in.
    """
    placed, taken = [], list(obstacles)
    for point, size in zip(points, sizes, strict=True):
        box = _best(point, size, taken, room)
        placed.append(box)
        taken += [box, *leader(point, box)]
    return placed


def leader(point: tuple[float, float], box: Box) -> list[Box]:
    """Return the line from a point to its label as a row of dots; none if the label is beside the point."""
    (x, y), (near_x, near_y) = point, box.nearest(point)
    steps = int(max(abs(near_x - x), abs(near_y - y)) // DOT)
    dots = [(x + (near_x - x) * i / steps, y + (near_y - y) * i / steps) for i in range(3, steps)]
    return [Box(x - DOT / 2, y - DOT / 2, x + DOT / 2, y + DOT / 2) for x, y in dots]


def _best(point: tuple[float, float], size: tuple[float, float], taken: Sequence[Box], room: Box) -> Box:
    """Return the first free place, else the one with the lowest cost."""
    tried: list[tuple[float, Box]] = []
    for far, way in product(DISTANCES, DIRECTIONS):
        box = _beside(point, size, way, far)
        cost = _cost(point, box, taken, room)
        if cost == 0:
            return box
        tried.append((cost, box))
    return min(tried, key=lambda costed: costed[0])[1]


def _beside(point: tuple[float, float], size: tuple[float, float], way: tuple[float, float], far: float) -> Box:
    (x, y), (width, height), (right, up) = point, size, way
    left = x - width / 2 + right * (width / 2 + far)
    bottom = y - height / 2 + up * (height / 2 + far)
    return Box(left, bottom, left + width, bottom + height)


def _cost(point: tuple[float, float], box: Box, taken: Sequence[Box], room: Box) -> float:
    """Return the area that a label and its line cover, or that is outside the room; rounded, so that free is 0."""
    outside = box.width * box.height - box.shared(room)
    covered = sum(part.shared(other) for part in (box, *leader(point, box)) for other in taken)
    return round(outside + covered, 6)

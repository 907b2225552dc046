"""A report in parts, as Markdown and as one page: sentences, a table, a list."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grue.render.layout import TextTable
from grue.render.markdown import escape, markdown_table
from grue.render.page import environment, filled
from grue.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class DrawnDifference:
    """A difference to draw beside its row of a table."""

    value: float
    interval: Interval
    is_decided: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a report.

    Attributes:
        title: Its heading; empty for the first.
        items: Sentences of a list, before the table.
        lines: Paragraphs, after it.
        drawn: For each row of the table, beside its third column, on the page.
    """

    title: str = ""
    items: tuple[str, ...] = ()
    table: TextTable | None = None
    lines: tuple[str, ...] = ()
    drawn: Sequence[DrawnDifference] = ()


def as_markdown(title: str, parts: Sequence[Part]) -> str:
    """Return the report in Markdown."""

    def blocks() -> Iterator[str]:
        yield f"# {escape(title)}"
        for part in parts:
            if part.title:
                yield f"## {escape(part.title)}"
            if part.items:
                yield "\n".join(f"- {escape(item)}" for item in part.items)
            if part.table is not None:
                yield markdown_table(part.table)
            yield from map(escape, part.lines)

    return "\n\n".join(blocks()) + "\n"


def as_page(title: str, parts: Sequence[Part], board: str = "") -> str:
    """Return the report as one self-contained page.

    Args:
        board: The page of the board beside it, with all metrics; empty for none.
    """
    shown = [(part, _spans(part.drawn)) for part in parts]
    return filled(environment(), "report.html", "report.css", title=title, parts=shown, board=board)


def _spans(drawn: Sequence[DrawnDifference]) -> list[tuple[float, float, float, float] | None]:
    """Return where low end, value, high end and zero are drawn, 0–100; None where the interval has no end."""
    finite = [each for each in drawn if math.isfinite(each.interval.low) and math.isfinite(each.interval.high)]
    ends = [0.0, *(end for each in finite for end in (each.interval.low, each.interval.high))]
    low, width = min(ends), (max(ends) - min(ends)) or 1.0

    def at(value: float) -> float:
        return round(2 + 96 * (value - low) / width, 2)

    return [
        (at(each.interval.low), at(each.value), at(each.interval.high), at(0.0)) if each in finite else None
        for each in drawn
    ]

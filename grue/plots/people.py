"""A study as a picture: what people think of each system, and which metrics see it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grue.plots.drawing import COLOURS, GREY, WIDTH, canvas
from grue.render.text import printable
from grue.stats.intervals import Interval
from grue.study.analysis import PairsAnalysis, ScaleAnalysis, StudyAnalysis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[str, float | None, Interval | None]
"""A label, a value and its interval."""


def draw_study(found: StudyAnalysis, path: Path) -> None:
    """Draw a study: above, each question with a line a system, or a pair; below, the agreement of metrics with people.

    Args:
        path: Ends in .png, .svg or .pdf; an existing file is replaced.

    Raises:
        ConfigError: The path has another ending.
        Unavailable: matplotlib is not installed.
        DataError: The path cannot be written.
    """
    questions = [scale.question for scale in found.scales] or [found.pairs.question if found.pairs else ""]
    metrics = list(dict.fromkeys(one.metric for one in found.agreement))
    lines = len(found.pairs.duels) if found.pairs else len(found.systems)
    with canvas(path) as figure:
        heights = [0.6 + 0.24 * lines, *([0.6 + 0.24 * len(metrics)] if metrics else [])]
        figure.set_size_inches(WIDTH, 0.9 + sum(heights))
        grid = figure.subplots(len(heights), len(questions), squeeze=False, height_ratios=heights, sharey="row")
        for column, question in enumerate(questions):
            axes = grid[0, column]
            if found.pairs is not None:
                _draw(
                    axes,
                    question,
                    "share of the first system's wins",
                    _of_pairs(found.pairs),
                    (0, 0.25, 0.5, 0.75, 1),
                    0.5,
                )
            else:
                scale = found.scales[column]
                _draw(axes, question, f"mean, 1–{scale.points}", _of_scale(scale), range(1, scale.points + 1))
            if metrics:
                agreement = [one for one in found.agreement if one.question == question]
                bars = [(one.metric, one.kendall.value, one.kendall.interval) for one in agreement]
                _draw(grid[1, column], "Metrics and people", "Kendall's τ over texts", bars, (-1, -0.5, 0, 0.5, 1), 0)
        figure.suptitle(f"{found.suite}/{found.task}: {found.title}", x=0.01, ha="left", fontsize=11)
        figure.supxlabel(_caption(found), fontsize=8, color=GREY)


def _of_scale(scale: ScaleAnalysis) -> list[Bar]:
    return [(one.system, one.mean, one.interval) for one in scale.systems]


def _of_pairs(pairs: PairsAnalysis) -> list[Bar]:
    return [(f"{duel.a} – {duel.b}", duel.rate, duel.interval) for duel in pairs.duels]


def _draw(
    axes: "Axes", title: str, unit: str, bars: Sequence[Bar], ticks: Sequence[float], middle: float | None = None
) -> None:
    """Draw a dot and a bar a line, the first at the top; what has no value keeps its line."""
    if middle is not None:
        axes.axvline(middle, color=GREY, linewidth=0.8)
    for line, (_, value, interval) in enumerate(bars):
        if interval is not None:
            axes.plot([interval.low, interval.high], [line, line], color=COLOURS[0])
        if value is not None:
            axes.plot([value], [line], "o", color=COLOURS[0], markersize=5)
    axes.set_title(printable(title))
    axes.set_xlabel(unit)
    axes.set_xticks(ticks)
    axes.set_xlim(ticks[0], ticks[-1])
    axes.set_yticks(range(len(bars)), [printable(label) for label, _, _ in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)


def _caption(found: StudyAnalysis) -> str:
    people = sum(one.done > 0 for one in found.annotators)
    who = "annotator" if people == 1 else "annotators"
    said = "Synthetic answers, by programs. " if found.synthetic else ""
    return f"{said}{found.items} items, {people} {who}; bars: 95 % intervals over items."

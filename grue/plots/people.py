"""A study as a plot: people's judgements of each system, and the agreement of metrics with them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grue.plots.drawing import COLOURS, GREY, canvas
from grue.render.text import printable
from grue.stats.intervals import Interval
from grue.study.analysis import StudyAnalysis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bar = tuple[str, float | None, Interval | None]
"""A label, a value and its interval."""


def draw_study(analysis: StudyAnalysis, path: Path) -> None:
    """Draw a study: each question with a line per system or pair above, the agreement of metrics with people below.

    Raises as `canvas`.
    """
    metrics = list(dict.fromkeys(metric.metric for metric in analysis.agreement))
    panels: list[tuple[str, str, list[Bar], Sequence[float], float | None]] = [
        (
            scale.question,
            f"mean, 1–{scale.points}",
            [(rating.system, rating.mean, rating.interval) for rating in scale.systems],
            range(1, scale.points + 1),
            None,
        )
        for scale in analysis.scales
    ]
    if analysis.pairs is not None:
        bars = [(f"{duel.a} – {duel.b}", duel.rate, duel.interval) for duel in analysis.pairs.duels]
        ticks = (0, 0.25, 0.5, 0.75, 1)
        panels.append((analysis.pairs.question, "share of the first system's wins", bars, ticks, 0.5))
    heights = [0.6 + 0.24 * len(panels[0][2]), *([0.6 + 0.24 * len(metrics)] if metrics else [])]
    with canvas(path, f"{analysis.suite}/{analysis.task}: {analysis.title}", 0.9 + sum(heights)) as figure:
        grid = figure.subplots(len(heights), len(panels), squeeze=False, height_ratios=heights, sharey="row")
        for column, panel in enumerate(panels):
            _draw(grid[0, column], *panel)
            if metrics:
                agreement = [metric for metric in analysis.agreement if metric.question == panel[0]]
                bars = [(metric.metric, metric.kendall.value, metric.kendall.interval) for metric in agreement]
                _draw(grid[1, column], "Metrics and people", "Kendall's τ over texts", bars, (-1, -0.5, 0, 0.5, 1), 0)
        people = sum(person.done > 0 for person in analysis.annotators)
        who = f"{analysis.items} items, {people} annotator{'s' * (people != 1)}"
        warning = "Synthetic answers, by programs. " if analysis.synthetic else ""
        figure.supxlabel(f"{warning}{who}; bars: 95 % intervals over items.", fontsize=8, color=GREY)


def _draw(
    axes: "Axes", title: str, unit: str, bars: Sequence[Bar], ticks: Sequence[float], middle: float | None = None
) -> None:
    """Draw a line with a dot and a bar for each, the first at the top; a line without a value stays empty."""
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

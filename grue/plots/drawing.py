"""Draw to a PNG, SVG or PDF file, in colours safe for the colour-blind; equal numbers give equal bytes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grue.errors import ConfigError, DataError, Unavailable
from grue.plots.curves import Curve
from grue.plots.tradeoff import TradeoffPoint
from grue.render.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from grue.evaluation.frontier import Frontier, Placed

# Logged figure → title and unit; other figures are titled by their name in the log.
FIGURES: Mapping[str, tuple[str, str]] = {
    "objective/reward": ("Reward", "mean of sampled sequences"),
    "objective/kl": ("KL, as penalised", "nats a token"),
    "objective/entropy": ("Entropy of the policy", "nats a token"),
    "objective/length": ("Length of sequences", "tokens"),
    "validation/preference": ("Validation: preference", "score, 0–100"),
    "validation/naturalness": ("Validation: naturalness", "score, 0–100"),
    "validation/kl": ("KL from the start", "nats a response"),
    "mask/size": ("Size of the mask", "open tokens, share of vocabulary"),
    "mask/mass": ("Mass of the mask", "policy's probability inside, 0–1"),
    "mask/disagreement": ("Disagreement", "likeliest token closed, share"),
}
Dashes = Literal["-", "--", ":"]
# Okabe and Ito's colours for the colour-blind, without yellow, which is faint on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES: tuple[Dashes, ...] = ("-", "--", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
INK, GREY, FAINT = "#222222", "#666666", "#e6e6e6"
STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # a system's name may hold a $
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelcolor": GREY,
    "axes.labelsize": 8.5,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "svg.fonttype": "none",  # keeps texts searchable and accessible
    "pdf.fonttype": 42,  # text instead of outlines
    "svg.hashsalt": "grue",
}
WIDTH = 8.0  # inches; 800 pixels at 100 dpi
FORMS: Mapping[str, Mapping[str, Any] | None] = {
    "png": None,
    "svg": {"Date": None, "Creator": "grue"},
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": "grue"},
}
"""Ending of a file → its metadata, with neither time nor version."""
FEW = 12  # a curve with at most so many points has markers


def draw_curves(panels: Mapping[str, Sequence[Curve]], systems: Sequence[str], title: str, path: Path) -> None:
    """Draw panels side by side: a line for the mean over seeds, a band from the lowest to the highest seed.

    Args:
        panels: Figure → its curves; at least one.
        systems: In the order of colours and legend; some may have no curve.

    Raises as `canvas`; a ConfigError also says that there are more systems than styles.
    """
    columns = len(panels) if len(panels) < 4 else 2 if len(panels) == 4 else 3
    rows = -(-len(panels) // columns)
    with canvas(path, title, 0.9 + 2.3 * rows) as figure:
        from matplotlib.ticker import MaxNLocator

        curves = {curve.system: curve for drawn_here in panels.values() for curve in drawn_here}
        drawn = [name for name in systems if name in curves]
        looks = _looks(drawn)
        for position, (logged, drawn_here) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(rows, columns, position)
            name, unit = FIGURES.get(logged, (logged, ""))
            axes.set(title=name, ylabel=unit, xlabel="update")
            for curve in drawn_here:
                colour, dashes = looks[curve.system]
                line = coloured_line(colour, dashes, marker="o" if len(curve.updates) <= FEW else "")
                line.set_data(curve.updates, curve.mean)
                axes.add_line(line)
                if len(curve.seeds) > 1:
                    axes.fill_between(curve.updates, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
            axes.autoscale_view()
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=True))
        has_band = any(len(curve.seeds) > 1 for curve in curves.values())
        caption = "Lines: mean over seeds; bands: from the lowest to the highest seed." if has_band else ""
        counts = {name: len(curves[name].seeds) for name in drawn}
        named = {name: f"{printable(name)} ({n} {'seeds' if n > 1 else 'seed'})" for name, n in counts.items()}
        lines = {named[name]: coloured_line(*looks[name]) for name in drawn}
        write_legend(figure, caption, lines)


def _looks(systems: Sequence[str]) -> dict[str, tuple[str, Dashes]]:
    most = len(COLOURS) * len(DASHES)
    if len(systems) > most:
        raise ConfigError(f"{len(systems)} systems are too many, {most} can be drawn apart; choose some with --system.")
    return {name: (COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS)]) for i, name in enumerate(systems)}


def coloured_line(colour: str, dashes: Dashes, marker: str = "") -> "Line2D":
    """Return a line without points, to draw or to put into a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=dashes, linewidth=1.5, marker=marker, markersize=3)


# --- points ----------------------------------------------------------------------------------------------------------


def draw_tradeoff(points: Sequence[TradeoffPoint], title: str, path: Path) -> None:
    """Draw naturalness over preference: systems in colours with bars, references hollow and grey.

    Args:
        points: At least one.

    Raises as `canvas`; a ConfigError also says that there are more points than marks.
    """
    with canvas(path, title, 5.6) as figure:
        axes = figure.add_subplot()
        axes.margins(0.08)
        axes.set_xlabel("preference (score, 0–100)")
        axes.set_ylabel("naturalness (score, 0–100)")
        marks = _marks(points)
        for point in points:
            colour, marker = marks[point.label]
            x, y = point.preference, point.naturalness
            if (across := point.preference_interval) is not None:
                axes.plot([across.low, across.high], [y, y], color=colour)
            if (up := point.naturalness_interval) is not None:
                axes.plot([x, x], [up.low, up.high], color=colour)
            mark = _mark(colour, marker)
            mark.set_data([x], [y])
            axes.add_line(mark)
        axes.autoscale_view()
        has_bars = any(point.preference_interval or point.naturalness_interval for point in points)
        lines = {printable(label): _mark(*mark) for label, mark in marks.items()}
        write_legend(figure, "Bars: 95 % intervals of the mean over seeds." if has_bars else "", lines)


def _marks(points: Sequence[TradeoffPoint]) -> dict[str, tuple[str, str]]:
    """Return each point's colour and marker, by its label; each combination is unique."""
    systems = [point.label for point in points if not point.is_reference]
    references = [point.label for point in points if point.is_reference]
    if len(systems) > len(COLOURS) * len(MARKERS) or len(references) > len(MARKERS):
        raise ConfigError(f"{len(points)} rows are too many to be drawn apart; choose some with --system.")
    marks = {label: (COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS)]) for i, label in enumerate(systems)}
    return marks | {label: (GREY, MARKERS[i]) for i, label in enumerate(references)}


def _mark(colour: str, marker: str) -> "Line2D":
    from matplotlib.lines import Line2D

    filling = "white" if colour == GREY else colour
    return Line2D([], [], color=colour, linestyle="", marker=marker, markersize=6, markerfacecolor=filling)


# --- the frontier ----------------------------------------------------------------------------------------------------


def draw_frontier(measured: "Frontier", runs: "Sequence[Placed]", title: str, path: Path) -> None:
    """Draw the frontier and runs: a line through each run's validations, and a dot at the kept checkpoint.

    Args:
        runs: Those of one system, the name of the folder above the run's, share a colour.

    Raises as `canvas`; a ConfigError also says that there are more systems than styles.
    """
    with canvas(path, title, 4.8) as figure:
        axes = figure.add_subplot()
        axes.set_xlabel("KL from the start (nats a response)")
        axes.set_ylabel(f"gain in {printable(measured.reward)}")
        if measured.oracle:
            curves = {"oracle: knows the references": (measured.optimal, coloured_line(GREY, ":"))}
        else:
            curves = {"best policy": (measured.optimal, coloured_line(INK, "-"))}
        if measured.attainable is not None:
            curves[f"attainable: {measured.how}"] = (measured.attainable, coloured_line(INK, "-"))
        for points, line in curves.values():
            line.set_data([point.kl for point in points], [point.reward - points[0].reward for point in points])
            axes.add_line(line)
        names = list(dict.fromkeys(Path(run.run).parent.name for run in runs))
        looks = _looks(names)
        for run in runs:
            colour, dashes = looks[Path(run.run).parent.name]
            axes.plot([at.kl for at in run.path], [at.reward for at in run.path], dashes, color=colour, linewidth=1)
            axes.plot([run.kl], [run.gain], "o", color=colour, markersize=5)
        axes.autoscale_view()
        axes.set_xlim(left=0)
        marks = {name: line for name, (_, line) in curves.items()}
        marks |= {printable(name): coloured_line(*looks[name], marker="o") for name in names}
        write_legend(figure, "Lines of runs: from validation to validation; dots: the kept checkpoint.", marks)


# --- files -----------------------------------------------------------------------------------------------------------


@contextmanager
def canvas(path: Path, title: str, height: float) -> Iterator["Figure"]:
    """Yield a figure in GRUE's style, whatever the user's matplotlib style is, and write it to the path.

    Args:
        path: Ends in .png, .svg or .pdf; an existing file is replaced.
        height: Inches.

    Raises:
        ConfigError: The path has another ending.
        Unavailable: matplotlib is not installed.
        DataError: The path cannot be written.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise ConfigError(f"{path}: a plot is a .png, an .svg or a .pdf file; give it one of these endings.")
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Unavailable("Plots need matplotlib, which is not installed: pip install 'grue[plot]'") from error
    with style.context(["default", STYLE]):
        figure = Figure((WIDTH, height), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        yield figure
        drawn = _bytes(figure, form)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(drawn)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}.") from error


def _bytes(figure: "Figure", form: str) -> bytes:
    """Return a file of a figure; a PNG has a palette: a plot has few colours, and the file is a third as large."""
    from PIL import Image

    drawn, smaller = BytesIO(), BytesIO()
    figure.savefig(drawn, format=form, metadata=FORMS[form])
    if form != "png":
        return drawn.getvalue()
    image = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(smaller, "png", optimize=True)
    return smaller.getvalue()


def write_legend(figure: "Figure", caption: str, marks: Mapping[str, "Line2D"]) -> None:
    """Write the legend below the axes, with the caption as its title."""
    longest = max(map(len, marks))
    columns = max(1, min(len(marks), 110 // (longest + 6)))
    legend = figure.legend(list(marks.values()), list(marks), loc="outside lower center", ncols=columns, title=caption)
    legend.get_title().set(fontsize=8, color=GREY)

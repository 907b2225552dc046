"""The sentences of the page: the leader, the scaling of raw values, and the metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grue import __version__
from grue.leaderboard.board import Board, BoardTask, Row
from grue.leaderboard.trained_on import UNNAMED
from grue.metrics.card import CARDS
from grue.records import Example
from grue.render.text import named, printable, printable_lines
from grue.stats.intervals import Interval
from grue.submissions.folder import RANKED_SEEDS


def lead(board: Board) -> str:
    """Return one or two sentences on the leader and the systems that do not differ from it."""
    if not board.rows:
        return ""
    ranked = [row for row in board.rows if row.rank is not None]
    if not ranked:
        return f"No system is ranked yet: a rank takes every task, with {RANKED_SEEDS} seeds each."
    placed = [RankedSystem(named(row), row.rank or 0, row.preference or 0.0, row.interval) for row in ranked]
    best = max(ranked, key=lambda row: row.preference or 0.0)
    return _led(placed, "a mean preference", board.level) + _higher(board.rows, best)


def task_lead(board: Board, task: BoardTask) -> str:
    """Return the same for one task; empty if no system is ranked on it."""
    placed = [
        RankedSystem(named(row), row.task_ranks[task.name], cell.preference.mean, cell.interval)
        for row in board.rows
        if task.name in row.task_ranks and (cell := row.cells[task.name]).preference is not None
    ]
    return _led(placed, "a preference", board.level) if placed else ""


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A ranked system and its preference."""

    name: str
    rank: int
    preference: float
    interval: Interval | None


def _led(placed: Sequence[RankedSystem], measure: str, level: float) -> str:
    """Return the leader, its score and margin, and the systems that are too close to call."""
    best, *rest = sorted(placed, key=lambda system: -system.preference)
    reach = f", {100 * level:g} % interval {best.interval.low:.1f} to {best.interval.high:.1f}" if best.interval else ""
    if not rest:
        return f"{printable(best.name)} is the only ranked system, with {measure} of {best.preference:.1f}{reach}."
    by = f", {best.preference - rest[0].preference:.1f} above {printable(rest[0].name)}"
    first = f"{printable(best.name)} leads with {measure} of {best.preference:.1f}{reach}{by}."
    peers = [printable(system.name) for system in rest if system.rank == 1]
    more = f" and {len(peers) - 3} more" if len(peers) > 3 else ""
    close = f" Too close to call: {', '.join(peers[:3])}{more}." if peers else ""
    return first + close


# --- kinds of systems ------------------------------------------------------------------------------------------------

FAMILIES = {
    "supervised": "supervised",
    "rl-supervised": "RL, supervised start",
    "rl-backbone": "RL from the backbone",
    "other": "other",
    "reference": "reference",
}
"""Family → its name, in the order of the page's filter."""


def family_of(row: Row) -> str:
    """Return the family of the algorithm that a row's results state: one of `FAMILIES`."""
    if row.standing == "reference":
        return "reference"
    stated = sorted({name for cell in row.cells.values() for name in cell.algorithms})
    if len(stated) > 1:
        return "other"
    start, _, last = (stated or [row.about.algorithm or row.system])[0].rpartition("+")
    if last == "supervised":
        return "supervised"
    if start.split("+")[-1] == "supervised":
        return "rl-supervised"
    return "rl-backbone" if last in UNNAMED else "other"


# --- origin of the page ----------------------------------------------------------------------------------------------


def made_from(board: Board) -> str:
    """Return how many results of how many systems the page shows."""
    results = sum(len(cell.seeds) for row in board.rows for cell in row.cells.values())
    systems = len({row.system for row in board.rows})
    many = f"{results:,} result{'s' if results != 1 else ''} of {systems} system{'s' if systems != 1 else ''}"
    return f"Made by grue {__version__} from {many}." if results else f"Made by grue {__version__}."


def code_behind(board: Board) -> list[str]:
    """Return the versions of grue, with their commits, that made the results."""
    return sorted({text for row in board.rows for cell in row.cells.values() for text in cell.code})


SHOWN = 700  # characters of a prompt


def illustrated(example: Example | None) -> tuple[str, str] | None:
    """Return an example's prompt, cut if it is long, and its first reference."""
    if example is None or not example.references:
        return None
    prompt, reference = printable_lines(example.prompt), printable_lines(example.references[0])
    return (prompt if len(prompt) <= SHOWN else f"{prompt[:SHOWN]} …"), reference[:SHOWN]


def _higher(rows: Sequence[Row], best: Row) -> str:
    """Return a sentence on unranked systems with a higher preference than the leader."""
    reached = [row for row in rows if row.rank is None and row.standing != "reference" and row.preference is not None]
    above = [named(row) for row in reached if (row.preference or 0.0) > (best.preference or 0.0)]
    more = f" and {len(above) - 3} more" if len(above) > 3 else ""
    return f" Higher, but not ranked: {', '.join(above[:3])}{more}." if above else ""


def scale_groups(task: BoardTask) -> Mapping[str, list[str]]:
    """Return the rules that scale raw values to 0–100, each with its metrics."""
    groups: dict[str, list[str]] = {}
    for column in task.columns:
        if column.range is not None:
            text = f"from {column.range[0]:g} to {column.range[1]:g}"
        elif column.reference is not None:
            text = f"as 100 × {column.reference:g} / value, at most 100"
        else:
            continue
        groups.setdefault(text, []).append(column.metric)
    return groups


def scale_numbers(task: BoardTask) -> Mapping[str, int]:
    """Return metric → the number of its group in `scale_groups`, from 1 on."""
    groups = scale_groups(task).values()
    return {metric: number for number, metrics in enumerate(groups, start=1) for metric in metrics}


def glossary(tasks: Sequence[BoardTask]) -> Mapping[str, tuple[str, str]]:
    """Return metric → direction with range, and definition, for every metric of the tasks."""
    entries = {}
    for column in (column for task in tasks for column in task.columns):
        card = CARDS.get(column.metric)
        if column.axis == "diversity":
            direction = "neither better nor worse by itself"
        else:
            direction = f"{column.direction} is better"
        reach = f", from {card.bounds.replace('–', ' to ', 1)}" if card else ""
        words = card.definition if card else "A metric of a plug-in, which defines it."
        entries[column.metric] = (direction + reach, words)
    return dict(sorted(entries.items(), key=lambda item: item[0].lower()))

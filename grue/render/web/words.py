"""The sentences of the page: who leads, how raw values become scores, and what every metric is."""

from collections.abc import Mapping, Sequence

from grue.leaderboard.board import Board, BoardTask, Row
from grue.metrics.registry import CARDS
from grue.render.text import printable
from grue.submissions.folder import RANKED_SEEDS


def lead(board: Board) -> str:
    """Return one or two sentences on who leads, and who does not differ from the leader."""
    if not board.rows:
        return ""
    ranked = [row for row in board.rows if row.rank is not None]
    if not ranked:
        return f"No system is ranked yet: a rank takes every task, with {RANKED_SEEDS} seeds each."
    best = max(ranked, key=lambda row: row.preference or 0.0)
    level = f"{100 * board.level:g} % interval"
    reach = f", {level} {best.interval.low:.1f} to {best.interval.high:.1f}" if best.interval else ""
    verb = "leads with" if len(ranked) > 1 else "is the only ranked system, with"
    first = f"{printable(best.system)} {verb} a mean preference of {best.preference:.1f}{reach}."
    peers = [printable(row.system) for row in ranked if row.rank == 1 and row is not best]
    more = f" and {len(peers) - 3} more" if len(peers) > 3 else ""
    close = f" Too close to call: {', '.join(peers[:3])}{more}." if peers else ""
    return first + close + _higher(board.rows, best)


def _higher(rows: Sequence[Row], best: Row) -> str:
    """Return a sentence on unranked systems with a higher preference than the leader."""
    reached = [row for row in rows if row.rank is None and row.standing != "reference" and row.preference is not None]
    above = [printable(row.system) for row in reached if (row.preference or 0.0) > (best.preference or 0.0)]
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
    """Return metric → direction with range, and definition with source, for every metric of the tasks."""
    found = {}
    for column in (column for task in tasks for column in task.columns):
        card = CARDS.get(column.metric)
        if column.axis == "diversity":
            direction = "neither better nor worse by itself"
        else:
            direction = f"{column.direction} is better"
        reach = f", from {card.bounds.replace('–', ' to ', 1)}" if card else ""
        words = f"{card.definition} Source: {card.source}." if card else "A metric of a plug-in, which defines it."
        found[column.metric] = (direction + reach, words)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))

"""The words of the page: kinds of systems, the scaling of raw values, and the metrics."""

from collections.abc import Mapping, Sequence

from grue import __version__
from grue.leaderboard.board import Board, BoardTask, Row
from grue.leaderboard.trained_on import UNNAMED
from grue.metrics.card import CARDS
from grue.records import Example
from grue.render.legend import scale_in_words
from grue.render.text import printable_lines


def family_of(row: Row) -> str:
    """Return the family of the algorithm that a row's results state: an option of the page's filter."""
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


def scale_groups(task: BoardTask) -> Mapping[str, list[str]]:
    """Return the rules that scale raw values to 0–100, each with its metrics."""
    groups: dict[str, list[str]] = {}
    for column in task.columns:
        if text := scale_in_words(column):
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

"""Numbers and names as text: aligned decimals, and no control characters."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal
from unicodedata import category

from grue.leaderboard.board import Row
from grue.records import JOINERS, Direction, model_word, unseen
from grue.render.figures import UNKNOWN as UNKNOWN

ARROWS: Mapping[Direction | Literal["none"], str] = {"higher": "↑", "lower": "↓", "none": ""}
TRAINED_ON = "†"  # beside the value of a metric that the row was trained on
BY_CHAT = "‡"  # beside the name of a system with the tasks' chat prompts, or with examples
BY_ENDPOINT = "§"  # beside the name of a system that answered behind an address
UNLEARNED = "¶"  # beside a task on which a system without learning is above every competing one


def printable(text: str, allowed: Collection[str] = ()) -> str:
    """Return `text` with control, invisible and direction-changing characters replaced by �, except `allowed` ones."""
    return "".join(character if character.isprintable() or character in allowed else "�" for character in text)


def listed(items: Iterable[object]) -> str:
    """Return "a, b and c"."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def named(row: Row) -> str:
    """Return a row's system with its unnamed variants and the marks of how it was prompted (`prompting_marks`)."""
    unsaid = variants(row)
    return printable(" ".join([row.system, *([f"({', '.join(unsaid)})"] if unsaid else []), *prompting_marks(row)]))


def prompting_marks(row: Row) -> list[str]:
    """Return the marks of a row unless it was asked by plain prompts on the evaluating machine."""
    marks = (BY_CHAT if row.prompting != "plain" else "") + (BY_ENDPOINT if row.by_endpoint else "")
    return [marks] if marks else []


def variants(row: Row) -> list[str]:
    """Return the presets of a row's settings and its backbones other than the tasks', as far as its name lacks them."""
    presets = [preset for cell in row.cells.values() for preset in cell.presets]
    backbones = [model_word(model) for cell in row.cells.values() for model in cell.backbones]
    words = dict.fromkeys([*presets, *backbones])
    return [word for word in words if not re.search(rf"(^|[-_+]){re.escape(word)}$", row.system)]


def printable_lines(text: str) -> str:
    """Return `text` as `printable` does, but keep line ends and visible joiners; other spaces become plain ones."""
    spaced = "".join(" " if category(c) == "Zs" or c == "\t" else c for c in text.replace("\r\n", "\n"))
    return printable(spaced, {"\n", *JOINERS} - unseen(text))


def fixed(pairs: Sequence[tuple[float, float | None] | None], decimals: int) -> list[str]:
    """Return "41.2 ± 0.8" for every (value, spread), with `decimals` each; see `in_line`."""
    texts: list[tuple[str, str | None] | None] = []
    for pair in pairs:
        spread = None if pair is None or pair[1] is None else f"{pair[1]:.{decimals}f}"
        texts.append(None if pair is None else (f"{pair[0]:z.{decimals}f}", spread))
    return in_line(texts)


def in_line(pairs: Sequence[tuple[str, str | None] | None]) -> list[str]:
    """Return "41.2 ± 0.8" for every (value, spread), padded so that the decimal points of a column align.

    Unknown pairs and spreads are shown as –; a column without any spread has no ±.
    """
    stated = [pair for pair in pairs if pair is not None]
    values = _at_the_point([value for value, _ in stated])
    if any(spread is not None for _, spread in stated):
        spreads = _at_the_point([UNKNOWN if spread is None else spread for _, spread in stated])
        values = [f"{value} ± {spread}" for value, spread in zip(values, spreads, strict=True)]
    texts = iter(values)
    return [UNKNOWN if pair is None else next(texts) for pair in pairs]


def marked(texts: Sequence[str], marks: Sequence[bool]) -> list[str]:
    """Return the cells of a column, some with the mark `TRAINED_ON`; unchanged if none has it."""
    if not any(marks):
        return list(texts)
    return [f"{text}{TRAINED_ON if mark else ' '}" for text, mark in zip(texts, marks, strict=True)]


def _at_the_point(numbers: Sequence[str]) -> list[str]:
    """Return the numbers padded at both ends so that their decimal points align."""
    parts = [number.partition(".") for number in numbers]
    before = max((len(whole) for whole, _, _ in parts), default=0)
    after = max((len(point + rest) for _, point, rest in parts), default=0)
    return [
        f"{whole:>{before}}{point + rest:<{after}}" if whole != UNKNOWN else whole.rjust(before + after)
        for whole, point, rest in parts
    ]

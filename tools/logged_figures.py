"""The figures of a run's log, read from `logged_figures.toml`: what each means, and which algorithms log it.

`algorithms_page.py` prints this; `tests/runs/test_figures.py` trains every algorithm and compares.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from grue.runs.algorithms import find_card

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class LoggedFigure:
    """A figure of `train.jsonl`; the attributes are the keys of the file."""

    name: str
    meaning: str
    by: tuple[str, ...]
    but: tuple[str, ...]
    setting: str


RUN, OF_UPDATES = (
    tuple(
        LoggedFigure(name, meaning, tuple(table["by"]), tuple(table.get("but", ())), table.get("setting", ""))
        for table in TABLES[part]
        for name, meaning in table["figures"].items()
    )
    for part in ("run", "updates")
)
"""What the run logs around an algorithm, counts of every update and validations; what an update returns."""


def figures_of(algorithm: str, among: tuple[LoggedFigure, ...] = (*RUN, *OF_UPDATES)) -> dict[str, LoggedFigure]:
    """Return the figures that an algorithm logs, some only under some settings, by name.

    Raises:
        UnknownName: There is no algorithm of that name.
    """
    card = find_card(algorithm)
    known_as = {algorithm, *(cls.__name__ for cls in card.settings.__mro__)}
    return {
        figure.name: figure
        for figure in among
        if algorithm not in figure.but and figure.setting not in card.without_effect and known_as & {*figure.by}
    }

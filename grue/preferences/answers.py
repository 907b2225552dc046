"""People's answers in a study of pairs, a JSON-lines file that is read strictly, and their majorities.

`grue tools study analyse DIR --answers FILE` writes it. Each line is one answer of one person:

    {"item": …, "annotator": …, "prompt": …, "id": … or null, "a": text, "b": text, "systems": [of a, of b],
     "choice": "a", "b" or "tie"}

An answer of a program also has `"synthetic": true`, and the pairs record it.
An item's two texts may be shown to some people in the other order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import ConfigError, DataError, escaped
from grue.shapes import from_dict

PEOPLE, PROGRAMS = "people", "programs"
"""Who answered a study, as a header states it."""


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """One person's answer to one item.

    Attributes:
        synthetic: Whether a program answered instead of a person.
    """

    item: str
    annotator: str
    prompt: str
    a: str
    b: str
    systems: tuple[str, str]
    choice: Literal["a", "b", "tie"]
    id: str | None = None
    synthetic: bool = False


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """People's judgement of an item.

    Attributes:
        where: The line that first shows it, with the texts in that order.
        votes: How many prefer its `a`, its `b`, and neither.
        programs: How many of all these are programs.
    """

    where: str
    shown: PairAnswer
    votes: tuple[int, int, int]
    programs: int

    @property
    def lead(self) -> int:
        """How many more prefer `a` than `b`; 0 is a tie."""
        return self.votes[0] - self.votes[1]


def read_judged_items(path: Path) -> list[JudgedItem]:
    """Return people's judgements of each item, in the order of the file.

    Raises:
        DataError: The file cannot be read, or a line is not an answer; a person answers an item twice; or an item has
            different texts, prompts or systems.
    """
    items: dict[str, tuple[str, PairAnswer, list[int]]] = {}  # votes: for a, for b, for neither, and programs'
    answered: dict[tuple[str, str], str] = {}
    for where, answer in _answers(path):
        before = answered.setdefault((answer.item, answer.annotator), where)
        if before != where:
            raise DataError(
                f"{where}: {escaped(answer.annotator)} answers the item {escaped(answer.item)} a second time (first: "
                f"{before}); leave one answer out."
            )
        _, shown, votes = items.setdefault(answer.item, (where, answer, [0, 0, 0, 0]))
        votes[_choice(answer, shown, where)] += 1
        votes[-1] += answer.synthetic
    if not items:
        raise DataError(f"{path}: holds no answers; `grue tools study analyse DIR --answers FILE` writes them.")
    return [JudgedItem(where, shown, (a, b, tie), programs) for where, shown, (a, b, tie, programs) in items.values()]


def who_answered(items: Iterable[JudgedItem]) -> str:
    """Return who gave the answers: "people", "programs", or "people and programs"."""
    counts = [(sum(item.votes), item.programs) for item in items]
    answers, programs = map(sum, zip(*counts, strict=True))
    return PEOPLE if not programs else PROGRAMS if programs == answers else f"{PEOPLE} and {PROGRAMS}"


def _answers(path: Path) -> Iterator[tuple[str, PairAnswer]]:
    for number, record in files.read_jsonl(path):
        where = f"{path}, line {number}"
        if not {"item", "annotator", "choice"} <= record.keys():
            raise DataError(
                f"{where}: not an answer to a study of pairs; `grue tools study analyse DIR --answers FILE` writes a "
                "file of answers."
            )
        try:
            yield where, from_dict(PairAnswer, record, where)
        except ConfigError as error:
            faults = escaped("; ".join(str(error).splitlines()), 600)
            raise DataError(f"{faults} `grue tools study analyse DIR --answers FILE` writes them.") from error


def _choice(answer: PairAnswer, shown: PairAnswer, where: str) -> int:
    """Return an answer's choice among the item's texts as first shown: 0 for its `a`, 1 for its `b`, 2 for a tie."""
    same = (answer.a, answer.b, answer.systems) == (shown.a, shown.b, shown.systems)
    turned = (answer.b, answer.a, answer.systems[::-1]) == (shown.a, shown.b, shown.systems)
    if not (same or turned) or (answer.prompt, answer.id) != (shown.prompt, shown.id):
        raise DataError(
            f"{where}: the item {escaped(answer.item)} has another prompt, text or system than where it first stands; "
            "give different items different names."
        )
    if answer.choice == "tie":
        return 2
    return int((answer.choice == "b") == same)

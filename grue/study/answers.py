"""The answers that people saved: their files, read strictly and laid out as arrays."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grue import files
from grue.errors import DataError, escaped
from grue.shapes import from_dict
from grue.stats.intervals import FloatArray
from grue.study.key import KEY, Annotator, Key, Screen
from grue.study.template import CHOICES, points

FOLDER = "answers"
"""The folder of a study that holds answers."""
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """An annotator's answers to a screen: question → a point of its scale, or "a", "b" or "tie"."""

    screen: str
    values: Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The file that a page saves.

    Attributes:
        synthetic: Whether a program answered instead of a person.
    """

    schema: int
    study: str
    annotator: str
    answers: tuple[Answer, ...]
    synthetic: bool = False


@dataclass(frozen=True, slots=True)
class Opinions:
    """All answers to a study.

    Attributes:
        answers: Annotator → screen → question → answer, of those who answered something.
        synthetic: Annotators that are programs.
        notes: Remarks on the files.
    """

    answers: Mapping[str, Mapping[str, Mapping[str, int | str]]]
    synthetic: tuple[str, ...]
    notes: tuple[str, ...]


def answer_files(folder: Path) -> list[Path]:
    """Return the files in a study's folder of answers; hidden ones, which file managers leave there, do not count."""
    return sorted((folder / FOLDER).glob("[!.]*.json"))


def read_answers(paths: Iterable[Path], key: Key) -> Opinions:
    """Read the answers to a study; the files of one annotator are merged if they do not contradict."""
    people = {annotator.name: annotator for annotator in key.annotators}
    by_annotator: dict[str, dict[str, Mapping[str, int | str]]] = {}
    first: dict[str, Path] = {}
    synthetic: set[str] = set()
    notes: list[str] = []
    for path in paths:
        data = files.read_json(path)
        if not isinstance(data, dict) or not {"annotator", "answers"} <= data.keys():
            kind = "the key of a study" if path.name == KEY else "a file of another kind"
            raise DataError(
                f"{path}: {kind}, not the answers of a person, such as a page of the study saves; name those, or none "
                f"for all in the study's folder {FOLDER}/."
            )
        answered = from_dict(AnswerFile, data, str(path), DataError)
        if answered.schema != SCHEMA:
            raise DataError(f"{path}: has the schema {answered.schema}, and this version reads {SCHEMA}.")
        if answered.study != key.study:
            raise DataError(
                f"{path}: answers the study {escaped(answered.study)}, not {key.study}, of which this is the key."
            )
        if answered.annotator not in people:
            raise DataError(
                f"{path}: is by {escaped(answered.annotator)!r}, who was not asked. Known: {', '.join(people)}."
            )
        mine = dict(_checked(answered, key, people[answered.annotator], path))
        before = by_annotator.setdefault(answered.annotator, {})
        differing = [
            (screen, question)
            for screen, values in mine.items()
            for question, value in values.items()
            if before.get(screen, {}).get(question, value) != value
        ]
        if differing:
            screen, question = differing[0]
            raise DataError(
                f"{path}: {answered.annotator} says otherwise than in {first[answered.annotator]}, {len(differing)} "
                f"times, first {question} of {screen}. Leave out the file that does not count."
            )
        if answered.annotator in first:
            same = "the same answers" if before == mine else "more answers"
            notes.append(f"{path}: {same} by {answered.annotator}, put together with {first[answered.annotator].name}.")
        first.setdefault(answered.annotator, path)
        for screen, values in mine.items():
            before[screen] = {**before.get(screen, {}), **values}
        if answered.synthetic:
            synthetic.add(answered.annotator)
    if not any(by_annotator.values()):
        raise DataError(
            f"There are no answers: put the files that people saved into the study's folder {FOLDER}/, or name them."
        )
    return Opinions(
        {name: by_annotator[name] for name in people if by_annotator.get(name)}, tuple(sorted(synthetic)), tuple(notes)
    )


def _checked(
    answered: AnswerFile, key: Key, annotator: Annotator, path: Path
) -> Iterator[tuple[str, Mapping[str, int | str]]]:
    """Yield the answers of a file, after checking that each was asked and is on its scale."""
    screens = {screen.id for screen in annotator.screens}
    pairs = key.template.kind == "pairs"
    allowed: Mapping[str, Sequence[int | str]] = {
        question.name: CHOICES if pairs else points(question) for question in key.template.questions
    }
    answered_screens: set[str] = set()
    for answer in answered.answers:
        where = f"{path}: {escaped(answer.screen)}"
        if answer.screen not in screens:
            raise DataError(f"{where}: was not shown to {annotator.name}.")
        if answer.screen in answered_screens:
            raise DataError(f"{where}: is answered twice in this file.")
        answered_screens.add(answer.screen)
        for question, value in answer.values.items():
            if question not in allowed:
                raise DataError(
                    f"{where}: answers {escaped(question)!r}, which is no question. Known: {', '.join(allowed)}."
                )
            if value not in allowed[question]:
                possible = ", ".join(map(str, allowed[question]))
                raise DataError(f"{where}: {question} is {escaped(repr(value))}; the answers are {possible}.")
        if answer.values:
            yield answer.screen, answer.values


# --- arrays ----------------------------------------------------------------------------------------------------------


Given = tuple[int, Annotator, Screen, int | str]
"""The place of an annotator, the annotator, the screen and the answer."""


def _given(key: Key, opinions: Opinions, question: str) -> Iterator[Given]:
    """Yield the answers to a question, in the order of the key."""
    for number, annotator in enumerate(key.annotators):
        answers = opinions.answers.get(annotator.name, {})
        for screen in annotator.screens:
            if (value := answers.get(screen.id, {}).get(question)) is not None:
                yield number, annotator, screen, value


def ratings_of(key: Key, opinions: Opinions, question: str) -> FloatArray:
    """Return [items, systems, annotators] points of a scale; NaN where there is no answer."""
    ratings = np.full((len(key.items), len(key.systems), len(key.annotators)), math.nan)
    for number, _, screen, value in _given(key, opinions, question):
        ratings[screen.item, screen.systems[0], number] = float(value)
    return ratings


def preferences_of(key: Key, opinions: Opinions) -> FloatArray:
    """Return [items, systems, systems, annotators] answers: 1 for the first system, -1 for the second, 0 for neither.

    NaN where there is no answer.
    """
    count = len(key.systems)
    preferences = np.full((len(key.items), count, count, len(key.annotators)), math.nan)
    for number, _, screen, choice in _given(key, opinions, key.template.questions[0].name):
        a, b = screen.systems
        preferences[screen.item, a, b, number] = {"a": 1.0, "tie": 0.0, "b": -1.0}[str(choice)]
        preferences[screen.item, b, a, number] = -preferences[screen.item, a, b, number]
    return preferences


# --- export ----------------------------------------------------------------------------------------------------------


def preference_lines(key: Key, opinions: Opinions) -> Iterator[Mapping[str, object]]:
    """Yield each answer to a pair with its texts and systems, in the order of the key.

    Its item is named by the study, the place of the item, and the places of the two systems. An answer of a
    program is marked as synthetic.
    """
    if key.template.kind != "pairs":
        raise DataError("This study asked to rate texts one by one: it has no choices between two to write.")
    for _, annotator, screen, choice in _given(key, opinions, key.template.questions[0].name):
        item = key.items[screen.item]
        first, second = screen.systems
        yield {
            "item": f"{key.study}-{screen.item + 1}-{min(first, second) + 1}-{max(first, second) + 1}",
            "annotator": annotator.name,
            "prompt": item.prompt,
            "id": item.id,
            "a": item.texts[first],
            "b": item.texts[second],
            "systems": [key.systems[first].name, key.systems[second].name],
            "choice": choice,
            **({"synthetic": True} if annotator.name in opinions.synthetic else {}),
        }

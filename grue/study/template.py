"""Questionnaires, as data: what is asked of a text, or of two side by side, and in which words.

Those that ship are the files of `templates/`; a file of one's own has the same shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import ConfigError, UnknownName, did_you_mean

Kind = Literal["scales", "pairs"]
CHOICES = ("a", "tie", "b")
"""Answers to a pair: the first text, neither, the second."""
MOST_POINTS = 9  # a key of the keyboard each


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is asked.

    Attributes:
        name: How the analysis calls it: "coherence".
        text: The question itself.
        anchors: What each point of the scale means, the worst first; of a pair, the labels of its three answers.
    """

    name: str
    text: str
    anchors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A questionnaire.

    Attributes:
        name: Its name, that of its file.
        kind: Whether one text is rated on scales, or two are compared.
        tasks: The tasks that it is made for; none for any.
        source: Where the questions are from, and whose the words are.
        title: What people read above.
        instructions: What they read first; an empty line ends a paragraph.
        prompt_label: What the prompt is called.
        text_label: What a system's text is called.
        questions: One at least; of pairs exactly one.
    """

    name: str
    kind: Kind
    source: str
    title: str
    instructions: str
    prompt_label: str
    text_label: str
    questions: tuple[Question, ...]
    tasks: tuple[str, ...] = ()


def find_template(given: str | None, kind: Kind | None, task: str, systems: int) -> Template:
    """Return a questionnaire.

    Args:
        given: Its name, or the path of a file; None for the one of the task and kind.
        kind: None for that of the questionnaire that is given, else scales.
        systems: How many systems are asked about.

    Raises:
        UnknownName: None has the name.
        ConfigError: The file cannot be read, or is no questionnaire; or it is for other tasks, of another
            kind, or for more systems.
    """
    template = _named(given, kind or "scales", task)
    if kind is not None and template.kind != kind:
        raise ConfigError(
            f"The questionnaire {template.name} asks for {template.kind}, not for {kind}; leave one of them out."
        )
    if template.tasks and task not in template.tasks:
        raise ConfigError(f"The questionnaire {template.name} is for {', '.join(template.tasks)}, not for {task}.")
    if template.kind == "pairs" and systems < 2:
        raise ConfigError("Pairs need two systems at least; name them with --systems A,B.")
    return template


def _named(given: str | None, kind: Kind, task: str) -> Template:
    if given is not None and (given.endswith(".toml") or "/" in given):
        return _checked(files.load_toml(Path(given), Template), given)
    known = shipped()
    if given is None:
        given = "pairs" if kind == "pairs" else task if task in known else "general"
    if given not in known:
        raise UnknownName(
            f"No questionnaire {given!r}.{did_you_mean(given, known)} Known: {', '.join(known)}; or the path of a "
            "file .toml."
        )
    return known[given]


def shipped() -> Mapping[str, Template]:
    """Return the questionnaires that ship, by name."""
    with resources.as_file(resources.files("grue.study") / "templates") as folder:
        templates = [_checked(files.load_toml(path, Template), str(path)) for path in sorted(folder.glob("*.toml"))]
    return {template.name: template for template in templates}


def _checked(template: Template, where: str) -> Template:
    names = [question.name for question in template.questions]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"{where}: name one question at least, and each only once.")
    if template.kind == "pairs" and (len(names) > 1 or len(template.questions[0].anchors) != len(CHOICES)):
        raise ConfigError(f"{where}: pairs have one question, with three anchors: the first text, neither, the second.")
    for question in template.questions:
        if not 2 <= len(question.anchors) <= MOST_POINTS:
            raise ConfigError(
                f"{where}: {question.name} has {len(question.anchors)} anchors; write 2 to {MOST_POINTS}."
            )
    return template


def points(question: Question) -> tuple[int, ...]:
    """Return the points of a scale, from 1 on."""
    return tuple(range(1, len(question.anchors) + 1))

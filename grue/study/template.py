"""Questionnaires as data: the questions about a text, or about two side by side.

The included ones are the files of `templates/`; your own file has the same format.
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
MOST_POINTS = 9  # one key of the keyboard each


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        name: Its name in the analysis, such as "coherence".
        anchors: The meaning of each point of the scale, the worst first; for a pair, the labels of its three answers.
    """

    name: str
    text: str
    anchors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A questionnaire.

    Attributes:
        name: The name of its file.
        kind: Whether one text is rated on scales, or two are compared.
        tasks: The tasks that it is made for; none for any.
        source: The origin and author of the questions.
        instructions: The text before the questions; an empty line ends a paragraph.
        questions: At least one; for pairs exactly one.
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


def find_template(name: str | None, kind: Kind | None, task: str, systems: int) -> Template:
    """Return a questionnaire.

    Args:
        name: Its name, or the path of a file; None for the one of the task and kind.
        kind: None for that of the named questionnaire, or scales.
        systems: The number of systems.
    """
    templates = shipped()
    if name is None:
        name = "pairs" if kind == "pairs" else task if task in templates else "general"
    if name.endswith(".toml") or "/" in name:
        template = _checked(files.load_toml(Path(name), Template), name)
    elif name in templates:
        template = templates[name]
    else:
        raise UnknownName(
            f"No questionnaire {name!r}.{did_you_mean(name, templates)} Known: {', '.join(templates)}; or the path of "
            "a file .toml."
        )
    if kind is not None and template.kind != kind:
        raise ConfigError(
            f"The questionnaire {template.name} asks for {template.kind}, not for {kind}; leave one of them out."
        )
    if template.tasks and task not in template.tasks:
        raise ConfigError(f"The questionnaire {template.name} is for {', '.join(template.tasks)}, not for {task}.")
    if template.kind == "pairs" and systems < 2:
        raise ConfigError("Pairs need two systems at least; name them with --systems A,B.")
    return template


def shipped() -> Mapping[str, Template]:
    """Return the included questionnaires, by name."""
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

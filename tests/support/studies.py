"""Small studies, spelt out: systems' texts made of their names, and answers by a rule."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.factories import a_task

from grue import files
from grue.records import Direction, Example
from grue.study.answers import Answer, AnswerFile, Opinions, read_answers
from grue.study.design import design
from grue.study.key import Key, Screen
from grue.study.outputs import Outputs, SeedTexts
from grue.study.template import Question, Template

FIVE = ("awful", "poor", "fair", "good", "great")
SCALES = Template(
    *("ours", "scales", "a test", "Stories", "Read.\n\nThen judge.", "The beginning", "The story"),
    (Question("coherence", "Is it coherent?", FIVE), Question("joy", "Is it fun?", FIVE)),
)
PAIRS = Template(
    *("two", "pairs", "a test", "Stories", "Read.", "The beginning", "Story"),
    (Question("better", "Which is better?", ("the first", "neither", "the second")),),
)
RUNS = ("alpha", "beta", "gamma")


def outputs(name: str, items: int, seeds: int = 1, texts: Callable[[int, int], str] | None = None) -> Outputs:
    """A system whose text to item i of seed s is "NAME s i"; its metric `length` is i, `errors` (lower) is -i."""
    write = texts or (lambda seed, item: f"{name} writes {item} by {seed}")
    directions: Mapping[str, Direction] = {"length": "higher", "errors": "lower"}
    scores = {"length": [float(item) for item in range(items)], "errors": [-float(item) for item in range(items)]}
    by_seed = []
    for seed in range(1, seeds + 1):
        written, sha256 = [write(seed, item) for item in range(items)], files.sha256_text(f"{name}{seed}")
        by_seed.append(SeedTexts(seed=str(seed), sha256=sha256, texts=written, scores=scores, directions=directions))
    return Outputs(name, "runs", by_seed)


def a_study(
    template: Template = SCALES,
    systems: Sequence[str | Outputs] = RUNS,
    items: int = 6,
    annotators: int = 3,
    seed: int = 0,
) -> Key:
    examples = [Example(f"id-{item}", f"Prompt {item}", ()) for item in range(items)]
    found = [outputs(one, items) if isinstance(one, str) else one for one in systems]
    return design(a_task("stories"), examples, found, template, annotators, seed)


def filled(key: Key, rule: Callable[[int, Screen, str], Any]) -> list[AnswerFile]:
    """Files with the answers that a rule gives to (annotator's place, screen, question); None is no answer."""
    return [
        AnswerFile(1, key.study, annotator.name, tuple(_answers(key, number, annotator.screens, rule)))
        for number, annotator in enumerate(key.annotators)
    ]


def _answers(key: Key, number: int, screens: Sequence[Screen], rule: Callable[[int, Screen, str], Any]) -> Any:
    for screen in screens:
        values = {question.name: rule(number, screen, question.name) for question in key.template.questions}
        given = {name: value for name, value in values.items() if value is not None}
        if given:
            yield Answer(screen.id, given)


def written(folder: Path, answers: Sequence[AnswerFile]) -> list[Path]:
    """The files of answers in a folder."""
    paths = [folder / f"{number}.json" for number, _ in enumerate(answers)]
    for path, found in zip(paths, answers, strict=True):
        files.write_json(path, found)
    return paths


def opinions(key: Key, rule: Callable[[int, Screen, str], Any], folder: Path) -> Opinions:
    return read_answers(written(folder, filled(key, rule)), key)

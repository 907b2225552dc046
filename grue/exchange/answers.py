"""Match the answers of another harness to the examples of a task."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from grue.errors import SubmissionError, escaped
from grue.records import Example, Prediction, legible

Way = Literal["id", "prompt", "position"]
STRANGER = "belong to no example"
SHARED = "have a prompt that several examples share"
SECOND = "are second answers to an example"


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """One answer in a log.

    Attributes:
        prompt: The model's prompt, in a chat the user's last message; empty if unknown.
        id: The document's own id; empty if it has none.
        position: The document's place in the data, from 0; None if unknown.
        numbered: Whether the harness may have made up the ids by counting, so that the prompt must confirm one.
    """

    text: str
    prompt: str = ""
    id: str = ""
    position: int | None = None
    truncated: bool = False
    numbered: bool = False

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.id or (self.prompt if self.position is None else f"the one at {self.position}")


@dataclass(frozen=True, slots=True)
class Matched:
    """Predictions in the order of the examples.

    Attributes:
        ways: How many were matched in each way.
        alike: How many of the logged prompts contain the prompt of their example.
    """

    predictions: tuple[Prediction, ...] = field(repr=False)
    ways: Counter[Way]
    alike: int


def matched(examples: Sequence[Example], answers: Sequence[LoggedAnswer], where: object) -> Matched:
    """Return a prediction for each example.

    An answer belongs to the example with its document's id; else to the one with exactly the logged prompt; else
    to the one at its position, if the logged prompt contains that one's prompt, and no other example's after it: a
    few-shot prompt may contain several. Texts are made legible and stripped, as those of GRUE's own models are.
    """
    by_id = {example.id: example for example in examples}
    by_prompt: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_prompt[example.prompt.strip()].append(example)
    predictions: dict[str, Prediction] = {}
    ways: Counter[Way] = Counter()
    problems: dict[str, list[str]] = {misfit: [] for misfit in (STRANGER, SHARED, SECOND)}
    alike = 0
    for answer in answers:
        place = answer.position
        at_place = examples[place] if place is not None and 0 <= place < len(examples) else None
        match = _example_of(answer, by_id.get(answer.id), by_prompt, at_place)
        if isinstance(match, str):
            problems[match].append(answer.name)
        elif (example := match[0]).id in predictions:
            problems[SECOND].append(example.id)
        else:
            predictions[example.id] = Prediction(example.id, legible(answer.text).strip(), answer.truncated)
            ways[match[1]] += 1
            alike += _shows(answer, example)
    faults = [f"{len(names)} {misfit} ({_few(names)})" for misfit, names in problems.items() if names]
    missing = [name for name in by_id if name not in predictions]
    faults += [f"{len(missing)} examples have no answer ({_few(missing)})"] if missing else []
    if faults:
        raise SubmissionError(
            f"{where}: its {len(answers)} answers do not fit the split's {len(examples)} examples: {'; '.join(faults)}."
            " An answer is matched by its document's `id`, by its whole prompt, or by its position where the prompt "
            "asks the example's: ask the other harness the prompts that `grue data export` writes, with their ids."
        )
    return Matched(tuple(predictions[example.id] for example in examples), ways, alike)


def _example_of(
    answer: LoggedAnswer, named: Example | None, by_prompt: Mapping[str, Sequence[Example]], at_place: Example | None
) -> tuple[Example, Way] | str:
    """Return the example that an answer belongs to and how it was matched, or what is wrong."""
    if named is not None and not answer.numbered:
        return named, "id"
    prompt = answer.prompt.strip()
    same = by_prompt.get(prompt, ()) if prompt else ()
    if len(same) == 1:
        return same[0], "prompt"
    if same:
        return (at_place, "prompt") if at_place is not None and at_place in same else SHARED
    asked: tuple[tuple[Example | None, Way], ...] = ((at_place, "position"), (named, "id"))
    for example, way in asked:
        if example is not None and _shows(answer, example):
            # The logged prompt contains the example's, outside longer words and numbers, and no other after it.
            before, shown, after = answer.prompt.rpartition(example.prompt.strip())
            borders = (before[-1:] + shown[:1], shown[-1:] + after[:1])
            in_a_word = any(len(both) == 2 and both.isascii() and both.isalnum() for both in borders)
            if not in_a_word and not any(prompt and prompt in after for prompt in by_prompt):
                return example, way
    return STRANGER


def _shows(answer: LoggedAnswer, example: Example) -> bool:
    return bool(example.prompt.strip()) and example.prompt.strip() in answer.prompt


def _few(names: Sequence[str]) -> str:
    return ", ".join(escaped(name, 60) for name in names[:3]) + (", …" if len(names) > 3 else "")

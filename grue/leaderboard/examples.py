"""Some of a task's examples, with the outputs of its systems side by side.

Examples are chosen without regard to scores: by the hash of their ids, and by how much the competing systems differ.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from grue.errors import DataError
from grue.evaluation.predictions import read_predictions
from grue.leaderboard.board import Board
from grue.leaderboard.notes import misfit
from grue.metrics.registry import factory_of
from grue.records import Entry, Example, Prediction, as_scored, legible
from grue.stats.intervals import mean
from grue.submissions.folder import predictions_of
from grue.submissions.reading import scan
from grue.tasks import Task

CHOSEN = 80
DRAWN = 40  # at least so many of them are chosen by the hash of their ids
SCORED = ("meteor", "rougeL", "chrf", "parent", "coverage")
"""Metrics that are computed for each text if the task has them: they need no model and no other text."""
SHORT = 320  # characters of a prompt that illustrates its task


@dataclass(frozen=True, slots=True)
class Output:
    """A system's text; `scores` are those of `TaskExamples.metrics`."""

    text: str
    truncated: bool
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ShownExample:
    """An example and the systems' texts.

    Attributes:
        drawn: Whether it was chosen by the hash of its id, not by the differences between systems.
        difference: The share of a competing system's words that another does not use, 0–1, on average.
        outputs: One for each of `TaskExamples.systems`; None if a system has none.
    """

    example: Example
    drawn: bool
    difference: float
    outputs: tuple[Output | None, ...]


@dataclass(frozen=True, slots=True)
class TaskExamples:
    """The examples to show for a task.

    Attributes:
        of: How many examples the split has.
        systems: Name and seed, in the board's order.
        metrics: Names of the metrics of each text.
        examples: Those of the two choices alternate.
    """

    suite: str
    task: str
    hash: str
    split: str
    of: int
    systems: tuple[tuple[str, int], ...]
    metrics: tuple[str, ...]
    examples: tuple[ShownExample, ...]


def task_examples(
    task: Task, board: Board, entries: Iterable[Entry], examples: Sequence[Example]
) -> TaskExamples | None:
    """Return the examples to show for a task, with the outputs of each system's lowest seed; None without outputs.

    Files that `grue submit check` refuses to read are not read, and their systems are left out.

    Args:
        board: A board of submissions; its order is that of the systems.
    """
    texts = _texts(task, board, entries)
    if not texts:
        return None
    competing = {row.system for row in board.rows if row.standing != "reference"}
    compared = [of for (name, _), of in texts.items() if name in competing] or list(texts.values())
    differences = {
        example.id: disagreement([of[example.id].text for of in compared if example.id in of]) for example in examples
    }
    chosen = _chosen(examples, differences)
    by_system = [_outputs(task, predictions, [example for example, _ in chosen]) for predictions in texts.values()]
    return TaskExamples(
        suite=task.suite,
        task=task.name,
        hash=task.hash,
        split=task.data.evaluation,
        of=len(examples),
        systems=tuple(texts),
        metrics=tuple(spec.name for spec in task.metrics if spec.name in SCORED),
        examples=tuple(
            ShownExample(example, drawn, differences[example.id], outputs)
            for (example, drawn), outputs in zip(chosen, zip(*by_system, strict=True), strict=True)
        ),
    )


def _texts(task: Task, board: Board, entries: Iterable[Entry]) -> dict[tuple[str, int], Mapping[str, Prediction]]:
    """Return (system, its lowest seed with predictions) → example's id → prediction, in the board's order."""
    first: dict[str, tuple[int, Path]] = {}
    task_hash = task.hash
    for entry in sorted(entries, key=lambda entry: entry.result.seed):
        result, name, path = entry.result, str(entry.result.system["name"]), predictions_of(entry.path)
        fits = result.task == task.name and result.status == "complete" and not misfit(result, task, task_hash)
        if fits and name not in first and f"{task.name}/{path.name}" in scan(path.parent.parent, [task.name]).readable:
            first[name] = result.seed, path
    texts: dict[tuple[str, int], Mapping[str, Prediction]] = {}
    for name in (name for name in dict.fromkeys(row.system for row in board.rows) if name in first):
        seed, path = first[name]
        if predictions := read_predictions(path, DataError):
            texts[name, seed] = {prediction.id: prediction for prediction in predictions}
    return texts


def _chosen(examples: Sequence[Example], differences: Mapping[str, float]) -> list[tuple[Example, bool]]:
    """Return the examples to show, and whether each was chosen by the hash of its id; the two choices alternate."""
    by_hash = sorted(examples, key=lambda example: hashlib.sha256(example.id.encode()).digest())
    differing_more = [example for example in by_hash[DRAWN:] if differences[example.id] > 0]
    differing = sorted(differing_more, key=lambda example: (-differences[example.id], example.id))[: CHOSEN - DRAWN]
    ids = {example.id for example in differing}
    drawn = [example for example in by_hash if example.id not in ids][: CHOSEN - len(differing)]
    turns = chain.from_iterable(zip_longest(differing, drawn))
    return [(example, example.id not in ids) for example in turns if example is not None]


def disagreement(texts: Collection[str]) -> float:
    """Return the share of a text's words that another text lacks, 0–1: the mean over all pairs of texts."""
    bags = [set(text.lower().split()) for text in texts]
    counts = Counter(word for bag in bags for word in bag)
    if len(bags) < 2 or not counts:
        return 0.0
    others_count = len(bags) - 1
    return mean([1 - mean([(counts[word] - 1) / others_count for word in bag]) if bag else 1.0 for bag in bags])


def _outputs(task: Task, predictions: Mapping[str, Prediction], chosen: Sequence[Example]) -> list[Output | None]:
    """Return a system's text for each chosen example, with the values of its metrics."""
    answered = [as_scored(example) for example in chosen if example.id in predictions]
    texts = [legible(predictions[example.id].text) for example in answered]
    columns = []
    for spec in task.metrics:
        if spec.name in SCORED and answered:
            metric = factory_of(spec, task.folder)(**spec.options)
            metric.prepare(answered)
            columns.append(metric.per_example(metric.statistics(answered, texts)).tolist())
    outputs = {}
    for place, example in enumerate(answered):
        text = predictions[example.id]
        outputs[example.id] = Output(text.text, text.truncated, tuple(float(column[place]) for column in columns))
    return [outputs.get(example.id) for example in chosen]


def illustration(examples: Sequence[Example]) -> Example | None:
    """Return the first example with a reference and a short prompt, else the first with a reference."""
    with_reference = [example for example in examples[:200] if example.references]
    short = (example for example in with_reference if len(example.prompt) <= SHORT)
    return next(short, next(iter(with_reference), None))

"""From predictions to scores: a task's metrics over a split, each on its own scale and on the task file's 0–100."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError, UnknownName, did_you_mean
from grue.metrics.base import DIVERSITY, make_metric
from grue.records import Axis, Example, Prediction, Score
from grue.tasks import MetricSpec, Task


@dataclass(frozen=True, slots=True)
class Scored:
    """What scoring one system on one split gives; the caller adds the run's context to make a `Result`.

    Attributes:
        scores: One for each metric: the task's in the file's order, then the diversity set.
        ids: The examples' ids, in the split's order.
        per_example: Metric of the preference or naturalness axis → one raw value an example, in the order of `ids`.
        preference: Mean of the scaled preference metrics, 0–100; None if the task has none or not all were asked for.
        naturalness: The same for naturalness.
        counts: expected and scored examples, and how many predictions are empty or truncated.
        hashes: sha256 of the examples, prompts and predictions, in the split's order whatever the file's.
    """

    split: str
    scores: tuple[Score, ...]
    ids: tuple[str, ...]
    per_example: Mapping[str, tuple[float, ...]]
    preference: float | None
    naturalness: float | None
    counts: Mapping[str, int]
    hashes: Mapping[str, str]


def score_predictions(
    task: Task,
    split: str,
    examples: Sequence[Example],
    predictions: Iterable[Prediction],
    metrics: Sequence[str] | None = None,
) -> Scored:
    """Score one prediction for each example.

    Args:
        task: The task.
        split: Name of the split, for the record.
        examples: The split's examples; metrics are prepared on them.
        predictions: One for each example, in any order.
        metrics: Names of the metrics wanted, out of the task's and the diversity set; None for all of them.

    Raises:
        SubmissionError: An example has no prediction or two, or a prediction no example.
        UnknownName: A wanted metric is not one of the task's.
        ConfigError: The task file scales a metric against its direction.
        DataError: There are no examples, or a metric gives a value that is not a finite number.
    """
    if not examples:
        raise DataError(f"The split {split!r} of {task.name} has no examples to score.")
    ordered = match(examples, predictions)
    texts = [prediction.text for prediction in ordered]
    scores: list[Score] = []
    per_example: dict[str, tuple[float, ...]] = {}
    for spec in chosen_metrics(task, metrics):
        score, values = score_metric(spec, examples, texts)
        scores.append(score)
        if values is not None:
            per_example[spec.name] = values
    return Scored(
        split=split,
        scores=tuple(scores),
        ids=tuple(example.id for example in examples),
        per_example=per_example,
        preference=axis_mean(task, scores, "preference"),
        naturalness=axis_mean(task, scores, "naturalness"),
        counts={
            "expected": len(examples),
            "scored": len(ordered),
            "empty": sum(not text.strip() for text in texts),
            "truncated": sum(prediction.truncated for prediction in ordered),
        },
        hashes={
            "examples": files.sha256_json(examples),
            "prompts": files.sha256_json([[example.id, example.prompt] for example in examples]),
            "predictions": files.sha256_json(ordered),
        },
    )


def score_metric(
    spec: MetricSpec, examples: Sequence[Example], texts: Sequence[str]
) -> tuple[Score, tuple[float, ...] | None]:
    """Return a metric's score and, unless it is outside the score, its value for each example."""
    metric = make_metric(spec.name, **spec.options)
    scored = spec.axis != "diversity"
    if scored and metric.direction != spec.direction:
        raise ConfigError(
            f"The task file scales {spec.name!r} as if {spec.direction} were better, but {metric.direction} is; "
            "turn its range round."
        )
    metric.prepare(examples)
    statistics = metric.statistics(examples, texts)
    value = metric.corpus(statistics)
    values = tuple(map(float, metric.per_example(statistics))) if scored else None
    if not np.isfinite([value, *(values or ())]).all():
        raise DataError(f"The metric {spec.name!r} gave a value that is not a finite number; is its model damaged?")
    score = Score(
        metric=spec.name,
        axis=spec.axis,
        value=value,
        scaled=spec.scale(value) if scored else None,
        n=len(examples),
        direction=metric.direction,
        signature=metric.signature,
    )
    return score, values


def chosen_metrics(task: Task, wanted: Sequence[str] | None) -> list[MetricSpec]:
    """Return the task's metrics, then the rest of the diversity set; only the `wanted` names unless that is None.

    Raises:
        UnknownName: A wanted name is neither.
    """
    listed = {spec.name: spec for spec in task.metrics}
    known = listed | {name: MetricSpec(name, "diversity") for name in DIVERSITY if name not in listed}
    for name in wanted or ():
        if name not in known:
            raise UnknownName(
                f"The task {task.name!r} has no metric {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
            )
    return [spec for name, spec in known.items() if wanted is None or name in wanted]


def axis_mean(task: Task, scores: Sequence[Score], axis: Axis) -> float | None:
    """Return the mean scaled score of an axis; None if the task has no metric there, or one of them was not scored."""
    names = [spec.name for spec in task.metrics if spec.axis == axis]
    scaled = {score.metric: score.scaled for score in scores}
    values = [value for name in names if (value := scaled.get(name)) is not None]
    return float(np.mean(values)) if values and len(values) == len(names) else None


# --- predictions -----------------------------------------------------------------------------------------------------


def match(examples: Sequence[Example], predictions: Iterable[Prediction]) -> list[Prediction]:
    """Return the predictions in the order of the examples.

    Raises:
        SubmissionError: An id is missing, unknown or given twice; counts them all and names the first few.
    """
    given = list(predictions)
    by_id = {prediction.id: prediction for prediction in given}
    expected = {example.id: None for example in examples}
    problems = {
        "missing": [name for name in expected if name not in by_id],
        "unknown": [name for name in by_id if name not in expected],
        "given more than once": [name for name, count in Counter(p.id for p in given).items() if count > 1],
    }
    if any(problems.values()):
        told = "; ".join(f"{len(names)} {what} ({_few(names)})" for what, names in problems.items() if names)
        raise SubmissionError(
            f"The predictions do not fit the split's {len(expected)} examples: {told}. "
            "Write exactly one prediction for each example of this task and split; an empty text is allowed."
        )
    return [by_id[name] for name in expected]


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")


def read_predictions(path: Path) -> list[Prediction]:
    """Read a predictions file: one JSON object a line, {"id": string, "text": string, "truncated": true or false}.

    `truncated` may be left out.

    Raises:
        DataError: The file is missing, or a line is not UTF-8 or not a JSON object.
        SubmissionError: A line has an unknown or missing key, or a value of another type; names the line.
    """
    return [_prediction(record, f"{path}, line {number}") for number, record in files.read_jsonl(path)]


def _prediction(record: Mapping[str, Any], where: str) -> Prediction:
    try:
        return files.from_dict(Prediction, record, where)
    except ConfigError as error:
        raise SubmissionError(str(error)) from error

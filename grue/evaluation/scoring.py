"""From predictions to scores: a task's metrics over a split, each on its own scale and on the task file's 0–100."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError, Unavailable, did_you_mean
from grue.metrics.metric import (
    DIVERSITY,
    FloatArray,
    Metric,
    OfCorpusOnly,
    Subset,
    make_metric,
    metric_factory,
    metric_parameters,
)
from grue.records import Axis, Example, Prediction, Score
from grue.shapes import from_dict
from grue.tasks import MetricSpec, Task

SCORED: tuple[Axis, ...] = ("preference", "naturalness")

Prepare = Callable[[MetricSpec, Sequence[Example]], Metric]


@dataclass(frozen=True, slots=True)
class Scored:
    """What scoring one system on one split gives; the caller adds the run's context to make a `Result`.

    Attributes:
        scores: One for each metric: the task's in the file's order, then the diversity set.
        ids: The examples' ids, in the split's order.
        per_example: Metric → one raw value an example, in the order of `ids`; not for metrics of whole corpora.
        preference: Mean of the scaled preference metrics, 0–100; None if the task has none or not all were asked for.
        naturalness: The same for naturalness.
        counts: expected and scored examples, and how many predictions are empty or truncated.
        hashes: sha256 of the examples, prompts and predictions, in the split's order whatever the file's.
        errors: What could not be scored on this machine, and why.
    """

    split: str
    scores: tuple[Score, ...]
    ids: tuple[str, ...]
    per_example: Mapping[str, tuple[float, ...]]
    preference: float | None
    naturalness: float | None
    counts: Mapping[str, int]
    hashes: Mapping[str, str]
    errors: tuple[str, ...] = ()


def score_predictions(
    task: Task,
    split: str,
    examples: Sequence[Example],
    predictions: Iterable[Prediction],
    metrics: Sequence[MetricSpec] | None = None,
    skip_unavailable: bool = False,
    prepare: Prepare | None = None,
) -> Scored:
    """Score one prediction for each example of a task's split.

    Args:
        task: The task.
        split: Name of the split, for the record.
        examples: The split's examples; metrics are prepared on them.
        predictions: One for each example, in any order.
        metrics: What to compute (see `chosen_metrics`); None for the task's metrics and the diversity set, of which
            those that this machine cannot compute are left out and told in `errors`.
        skip_unavailable: Whether that goes for the `metrics` given, too.
        prepare: What makes a metric ready; None for `prepared_metric`, or `prepared_once()` where several systems are
            scored on the same examples.

    Raises:
        SubmissionError: An example has no prediction or two, or a prediction no example.
        ConfigError: The task file scales a metric against its direction.
        Unavailable: This machine cannot compute one of the `metrics` given, and it is not to be skipped.
        DataError: There are no examples, or a metric gives a value that is not a finite number.
    """
    if not examples:
        raise DataError(f"The split {split!r} of {task.name} has no examples to score.")
    specs = metrics if metrics is not None else chosen_metrics(task)
    skip = skip_unavailable or metrics is None
    scored = score_examples(specs, examples, predictions, split=split, skip_unavailable=skip, prepare=prepare)
    return replace(
        scored,
        preference=axis_mean(task, scored.scores, "preference"),
        naturalness=axis_mean(task, scored.scores, "naturalness"),
    )


def score_examples(
    specs: Sequence[MetricSpec],
    examples: Sequence[Example],
    predictions: Iterable[Prediction],
    *,
    split: str = "",
    skip_unavailable: bool = False,
    prepare: Prepare | None = None,
) -> Scored:
    """Score one prediction for each example, of a task or not; errors as in `score_predictions`."""
    ordered = match(examples, predictions)
    texts = [prediction.text for prediction in ordered]
    scores: list[Score] = []
    per_example: dict[str, tuple[float, ...]] = {}
    errors: list[str] = []
    for spec in specs:
        try:
            score, values = score_metric(spec, (prepare or prepared_metric)(spec, examples), examples, texts)
        except Unavailable as error:
            if not skip_unavailable:
                raise
            errors.append(f"{spec.name}: {error}")
            continue
        scores.append(score)
        if values is not None:
            per_example[spec.name] = values
    return Scored(
        split=split,
        scores=tuple(scores),
        ids=tuple(example.id for example in examples),
        per_example=per_example,
        preference=None,
        naturalness=None,
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
        errors=tuple(errors),
    )


def score_metric(
    spec: MetricSpec, metric: Metric, examples: Sequence[Example], texts: Sequence[str]
) -> tuple[Score, tuple[float, ...] | None]:
    """Return the score of a prepared metric, and its value for each example or None if it is only of whole corpora."""
    statistics = metric.statistics(examples, texts)
    value = metric.corpus(statistics)
    values = None if spec.axis == "diversity" else _values(spec, metric, statistics)
    if not np.isfinite([value, *(values or ())]).all():
        raise DataError(f"The metric {spec.name!r} gave a value that is not a finite number; is its model damaged?")
    score = Score(
        metric=spec.name,
        axis=spec.axis,
        value=value,
        scaled=spec.scale(value) if spec.axis in SCORED else None,
        n=int(statistics[:, 0].sum()) if isinstance(metric, Subset) else len(examples),
        direction=metric.direction,
        signature=metric.signature,
    )
    return score, values


def prepared_metric(spec: MetricSpec, examples: Sequence[Example]) -> Metric:
    """Return a metric of a task file, made ready for the examples.

    Raises:
        ConfigError: The task file scales it against its direction.
        Unavailable: This machine cannot compute it.
    """
    metric = make_metric(spec.name, **spec.options)
    if spec.axis in SCORED and metric.direction != spec.direction:
        raise ConfigError(
            f"The task file scales {spec.name!r} as if {spec.direction} were better, but {metric.direction} is; "
            "turn its range round."
        )
    metric.prepare(examples)
    return metric


def prepared_once() -> Prepare:
    """Return a `prepared_metric` that keeps what it made: for one task, whose examples are always the same."""
    known: dict[str, Metric] = {}

    def prepare(spec: MetricSpec, examples: Sequence[Example]) -> Metric:
        if spec.name not in known:
            known[spec.name] = prepared_metric(spec, examples)
        return known[spec.name]

    return prepare


def _values(spec: MetricSpec, metric: Metric, statistics: FloatArray) -> tuple[float, ...] | None:
    try:
        return tuple(map(float, metric.per_example(statistics)))
    except OfCorpusOnly:
        if spec.axis in SCORED:
            raise
        return None


def chosen_metrics(
    task: Task | None = None,
    wanted: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[MetricSpec]:
    """Return what to compute.

    Args:
        task: Gives its own metrics axis, range and options.
        wanted: Names of metrics, of the task or any other; None for the task's and the rest of the diversity set.
        options: Metric → options that go before those of the task file.

    Raises:
        UnknownName: No metric has a wanted name.
        ConfigError: Options are for a metric that is not computed, or none that it knows.
    """
    listed = {spec.name: spec for spec in task.metrics} if task is not None else {}
    names = list(dict.fromkeys([*listed, *DIVERSITY] if wanted is None else wanted))
    options = options or {}
    for name in options:
        if name not in names:
            raise ConfigError(
                f"There are options for {name!r}, which is not computed.{did_you_mean(name, names)} "
                f"Computed: {', '.join(names)}."
            )
    chosen = []
    for name in names:
        spec = listed.get(name) or MetricSpec(name, "diversity" if name in DIVERSITY else "none")
        spec = replace(spec, options={**spec.options, **options.get(name, {})})
        metric_factory(name, spec.options)  # a name or an option that is wrong is told before anything is computed
        chosen.append(spec)
    return chosen


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
        return from_dict(Prediction, record, where)
    except ConfigError as error:
        raise SubmissionError(str(error)) from error


def read_plain_predictions(path: Path) -> list[Prediction]:
    """Read plain text, one prediction a line; ids are line numbers."""
    return [Prediction(str(number), text) for number, text in enumerate(_plain_lines(path), start=1)]


# --- examples of one's own -------------------------------------------------------------------------------------------


def read_examples(path: Path) -> list[Example]:
    """Read examples: one JSON object a line, {"id", "references", "prompt", "meta"}, the last two of which may lack.

    Raises:
        DataError: The file cannot be read, an id stands twice, or a line does not say what an example is.
    """
    examples: dict[str, Example] = {}
    for number, record in files.read_jsonl(path):
        where = f"{path}, line {number}"
        try:
            example = from_dict(Example, {"prompt": "", **record}, where)
        except ConfigError as error:
            raise DataError(str(error)) from error
        if examples.setdefault(example.id, example) is not example:
            raise DataError(f"{where}: the id {example.id!r} stands there twice; ids must be distinct.")
    if not examples:
        raise DataError(f"{path}: holds no example.")
    return list(examples.values())


def read_plain_examples(paths: Sequence[Path]) -> list[Example]:
    """Read references from plain text, one a line; several files hold several references of the same examples.

    Raises:
        DataError: A file cannot be read or is empty, or the files have different numbers of lines.
    """
    columns = [_plain_lines(path) for path in paths]
    for path, column in zip(paths, columns, strict=True):
        if not column:
            raise DataError(f"{path}: is empty; references need one line for each prediction.")
        if len(column) != len(columns[0]):
            raise DataError(
                f"{path}: {len(column)} lines, but {paths[0]} has {len(columns[0])}; "
                "references need one line for each prediction."
            )
    return [Example(str(number), "", tuple(row)) for number, row in enumerate(zip(*columns, strict=True), start=1)]


def _plain_lines(path: Path) -> list[str]:
    r"""Return a file's lines, ended by "\n" or "\r\n" only: other signs that Unicode calls line ends are text."""
    text = files.read_text(path).removeprefix("\ufeff")  # some editors begin a file with a mark of its encoding
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


# --- values of single examples ---------------------------------------------------------------------------------------


def write_per_example(path: Path, scored: Scored) -> None:
    """Write one line an example with its value of every metric that has one."""
    columns = scored.per_example
    rows = ({"id": name} | {metric: columns[metric][i] for metric in columns} for i, name in enumerate(scored.ids))
    files.write_jsonl(path, rows)


def needed_models(task: Task) -> list[tuple[str, str]]:
    """Return the hub models that a task trains and scores with, as (name, revision)."""
    found = [(task.backbone.model, task.backbone.revision)]
    for spec in task.metrics:
        options: dict[str, Any] = {name: known.default for name, known in metric_parameters(spec.name).items()}
        options |= spec.options
        if isinstance(options.get("model"), str):
            found.append((options["model"], options.get("revision") or ""))
    return [pair for pair in dict.fromkeys(found) if not pair[0].startswith("mini:") and not Path(pair[0]).is_dir()]

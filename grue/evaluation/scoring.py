"""From predictions to scores: a task's metrics over a split, each on its own scale and on the task file's 0–100."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from grue import files
from grue.bounds import FIGURE
from grue.errors import ConfigError, DataError, Unavailable, did_you_mean
from grue.evaluation.notes import notes_on_metric, notes_on_references
from grue.evaluation.predictions import match
from grue.metrics.card import CARDS, MODEL
from grue.metrics.metric import FloatArray, Metric, OfCorpusOnly, Subset, references_of
from grue.metrics.registry import DIVERSITY, check_direction, factory_of
from grue.records import SCORED, Axis, Example, Prediction, Score, as_scored, legible
from grue.tasks import MetricSpec, Task

Prepare = Callable[[MetricSpec, Sequence[Example]], Metric]
Progress = Callable[[int, int], None]
Measured = Callable[[MetricSpec, Metric, Sequence[FloatArray]], None]


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of one system on one split; the caller adds the run's context to make a `Result`.

    Attributes:
        scores: One for each metric: the task's in the file's order, then the diversity set.
        ids: The examples' ids, in the split's order.
        per_example: Metric → one raw value per example, in the order of `ids`; not for metrics of whole corpora.
        preference: Mean of the scaled preference metrics, 0–100; None if the task has none, or not all were computed.
        naturalness: The same for naturalness.
        counts: expected and scored examples, how many texts are empty or truncated, and how many `samples` were drawn
            for each example, if several.
        hashes: sha256 of the examples, prompts and predictions, in the split's order.
        errors: Metrics that this machine cannot compute, and why.
        notes: Caveats: blank references, metrics that cannot read the references.
    """

    split: str
    scores: tuple[Score, ...]
    ids: tuple[str, ...] = field(repr=False)
    per_example: Mapping[str, tuple[float, ...]] = field(repr=False)
    preference: float | None
    naturalness: float | None
    counts: Mapping[str, int]
    hashes: Mapping[str, str] = field(repr=False)
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_examples(task: Task, examples: Iterable[Example]) -> None:
    """Refuse examples that lack what the task's metrics need according to their cards, before anything is answered."""
    needs = {spec.name: CARDS[spec.name].terms for spec in task.metrics if spec.name in CARDS}
    keys = {name: [term[5:] for term in terms if term.startswith("meta.")] for name, terms in needs.items()}
    for example in examples:
        for name, terms in needs.items():
            if "references" in terms:
                references_of(example, name)
            if lacking := [key for key in keys[name] if example.meta.get(key) in (None, [], ())]:
                raise DataError(
                    f"The example {example.id!r} has no {lacking[0]} in its meta, which {name} needs; fix the data, "
                    "or take another metric."
                )


def score_predictions(
    task: Task,
    split: str,
    examples: Sequence[Example],
    predictions: Iterable[Prediction],
    metrics: Sequence[MetricSpec] | None = None,
    skip_unavailable: bool = False,
    prepare: Prepare | None = None,
    **callbacks: Any,
) -> Scored:
    """Score one prediction for each example of a task's split; with several draws, each is scored as a corpus.

    Args:
        split: Its name, for the record.
        examples: The split's examples; metrics are prepared on them.
        predictions: In any order.
        metrics: Those to compute (see `chosen_metrics`); None for the task's metrics and the diversity set, without
            those that this machine cannot compute, which `errors` reports.
        skip_unavailable: Whether such metrics are left out of the given `metrics` too.
        prepare: Returns a prepared metric; None for `prepared_metric`, `prepared_once()` to score several systems on
            the same examples.
        callbacks: `progress` and `measured`, as for `score_examples`.

    Raises:
        SubmissionError: An example has no prediction or two, or a prediction no example.
        ConfigError: The task file scales a metric against its direction.
        Unavailable: This machine cannot compute one of the given `metrics`, and `skip_unavailable` is false.
        DataError: There are no examples, or a metric gives a value that is not a finite number.
    """
    if not examples:
        raise DataError(f"The split {split!r} of {task.name} has no examples to score.")
    specs = metrics if metrics is not None else chosen_metrics(task)
    if any(spec.name == "model" or spec.name.startswith(MODEL) for spec in specs):
        from grue.evaluation.rewards import check_model

        for spec in specs:
            check_model(spec.name, spec.options, task)
    skip = skip_unavailable or metrics is None
    prepare = prepare or partial(prepared_metric, folder=task.folder)
    scored = score_examples(
        specs, examples, predictions, split=split, skip_unavailable=skip, prepare=prepare, **callbacks
    )
    preference, naturalness = (axis_mean(task, scored.scores, axis) for axis in SCORED)
    return replace(scored, preference=preference, naturalness=naturalness)


def score_examples(
    specs: Sequence[MetricSpec],
    examples: Sequence[Example],
    predictions: Iterable[Prediction],
    *,
    split: str = "",
    skip_unavailable: bool = False,
    prepare: Prepare | None = None,
    progress: Progress = lambda done, total: None,
    measured: Measured = lambda spec, metric, of_draws: None,
) -> Scored:
    """Score one prediction for each example, which need not be of a task; errors as in `score_predictions`.

    Texts are made `legible` as in saved answers, and scored against the `usable` references.

    Args:
        progress: Called with (done, total) metrics.
        measured: Called with each computed metric and its statistics of the examples, [N, K] for each draw.
    """
    notes, hashes = list(notes_on_references(examples)), example_hashes(examples)
    hashes["prompts"] = files.sha256_json([[example.id, example.prompt] for example in examples])
    examples = list(map(as_scored, examples))
    ordered = match(examples, predictions)
    drawn = drawn_texts(ordered)
    scores: list[Score] = []
    per_example: dict[str, tuple[float, ...]] = {}
    errors: list[str] = []
    ready: list[tuple[MetricSpec, Metric]] = []
    for spec in specs:  # prepare all before computing any, which may take long
        with _skipping(spec, errors, skip_unavailable):
            ready.append((spec, (prepare or prepared_metric)(spec, examples)))
    for done, (spec, metric) in enumerate(ready):
        progress(done, len(ready))
        with _skipping(spec, errors, skip_unavailable):
            of_draws = [metric.statistics(examples, texts) for texts in drawn]
            score, values = _score(spec, metric, of_draws)
            measured(spec, metric, of_draws)
            scores.append(score)
            if values is not None:
                per_example[spec.name] = values
                notes += notes_on_metric(score, metric, examples, values)
    progress(len(ready), len(ready))
    return Scored(
        split=split,
        scores=tuple(scores),
        ids=tuple(example.id for example in examples),
        per_example=per_example,
        preference=None,
        naturalness=None,
        counts=counts_of(ordered),
        hashes={**hashes, "predictions": files.sha256_json(ordered)},
        errors=tuple(errors),
        notes=tuple(notes),
    )


def example_hashes(examples: Sequence[Example]) -> dict[str, str]:
    """Return the hashes by which `grue.records.other_examples` compares data; the first depends on the order."""
    return {"examples": files.sha256_json(examples), "references": references_hash(examples)}


def references_hash(examples: Sequence[Example]) -> str:
    """Return the sha256 of the ids with their references, in any order of the examples."""
    return files.sha256_json(sorted([example.id, list(example.references)] for example in examples))


def drawn_texts(predictions: Sequence[Prediction]) -> list[list[str]]:
    """Return the `legible` texts of each draw, in the order of the predictions, which have equally many draws."""
    return [
        [legible(text.text) for text in draw]
        for draw in zip(*(prediction.draws for prediction in predictions), strict=True)
    ]


def counts_of(predictions: Sequence[Prediction]) -> dict[str, int]:
    """Return the counts of `Scored` for one prediction for each example."""
    texts = [draw for prediction in predictions for draw in prediction.draws]
    samples = len(predictions[0].draws) if predictions else 1
    return {
        "expected": len(predictions),
        "scored": len(predictions),
        "empty": sum(not legible(draw.text).strip() for draw in texts),
        "truncated": sum(draw.truncated for draw in texts),
        **({"samples": samples} if samples > 1 else {}),
    }


@contextmanager
def _skipping(spec: MetricSpec, errors: list[str], skip: bool) -> Iterator[None]:
    """If `skip`, note that a metric cannot be computed here instead of raising."""
    try:
        yield
    except Unavailable as error:
        if not skip:
            raise
        errors.append(f"{spec.name}: {error}")


def unavailable(task: Task) -> list[str]:
    """Return the metrics of a task that this machine cannot compute, each with its reason; loads the others' models.

    Raises:
        ConfigError, DataError: One cannot be made on any machine: it has no such label, say, or its model is damaged.
    """
    errors: list[str] = []
    for spec in task.metrics:
        with _skipping(spec, errors, skip=True):
            factory_of(spec, task.folder)(**spec.options)
    return errors


def _score(spec: MetricSpec, metric: Metric, of_draws: Sequence[FloatArray]) -> tuple[Score, tuple[float, ...] | None]:
    """Return a metric's score from its statistics of each draw, [N, K], and each example's value: means over draws.

    Each draw is a corpus, whose mean value is scaled. Metrics of whole corpora have no values for examples.
    """
    corpora, columns = [metric.corpus(statistics) for statistics in of_draws], list[FloatArray]()
    try:
        columns = [metric.per_example(statistics) for statistics in of_draws if spec.axis != "diversity"]
    except OfCorpusOnly:
        if spec.axis in SCORED:
            raise
    if not (np.abs(np.concatenate([corpora, *columns])) <= FIGURE.most).all():
        raise DataError(
            f"The metric {spec.name!r} gave a value that is not a finite number, or beyond {FIGURE.most:g}; is its "
            "model damaged?"
        )
    one = len(of_draws) == 1  # whose values stay as they are: a mean of -0.0 is 0.0
    value = float(corpora[0] if one else np.mean(corpora))
    values: list[float] | None = None
    if columns:
        values = (columns[0] if one else np.mean(np.array(columns, dtype=np.float64), axis=0)).tolist()
    score = Score(
        metric=spec.name,
        axis=spec.axis,
        value=value,
        scaled=spec.scale(value) if spec.axis in SCORED else None,
        n=int(of_draws[0][:, 0].sum()) if isinstance(metric, Subset) else len(of_draws[0]),
        direction=metric.direction,
        signature=metric.signature,
    )
    return score, None if values is None else tuple(values)


def prepared_metric(spec: MetricSpec, examples: Sequence[Example], folder: str = "") -> Metric:
    """Return a metric of a task file, prepared for the examples; `folder` is the task's.

    Raises:
        ConfigError: The task file scales it against its direction.
        Unavailable: This machine cannot compute it.
    """
    metric = factory_of(spec, folder)(**spec.options)
    check_direction(spec, metric.direction)  # that of a metric without a card is known only now
    metric.prepare(examples)
    return metric


def prepared_once(folder: str = "") -> Prepare:
    """Return a `prepared_metric` that caches its metrics, for a task whose examples are always the same."""
    metrics: dict[str, Metric] = {}

    def prepare(spec: MetricSpec, examples: Sequence[Example]) -> Metric:
        if spec.name not in metrics:
            metrics[spec.name] = prepared_metric(spec, examples, folder)
        return metrics[spec.name]

    return prepare


def chosen_metrics(
    task: Task | None = None,
    requested: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[MetricSpec]:
    """Return the metrics to compute.

    Args:
        task: Defines axis, range and options of its metrics.
        requested: Names of metrics, of the task or any other; None for the task's and the rest of the diversity set.
        options: Metric → options that override those of the task file.
    """
    listed = {spec.name: spec for spec in task.metrics} if task is not None else {}
    names = list(dict.fromkeys([*listed, *DIVERSITY] if requested is None else requested))
    folder = task.folder if task is not None else ""
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
        factory_of(spec, folder)  # reports a wrong name or option before anything is computed
        chosen.append(spec)
    return chosen


def axis_mean(task: Task, scores: Sequence[Score], axis: Axis) -> float | None:
    """Return the mean scaled score of an axis; None if the task has no metric there, or one was not computed."""
    names = [spec.name for spec in task.metrics if spec.axis == axis]
    scaled = {score.metric: score.scaled for score in scores}
    values = [value for name in names if (value := scaled.get(name)) is not None]
    return float(np.mean(values)) if values and len(values) == len(names) else None


def write_per_example(path: Path, scored: Scored) -> None:
    """Write one line per example, with its value of every metric that has values for examples."""
    columns = scored.per_example
    rows = ({"id": name} | {metric: columns[metric][i] for metric in columns} for i, name in enumerate(scored.ids))
    files.write_jsonl(path, rows)

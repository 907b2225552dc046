"""The texts of the systems that people judge, with their scores by the task's metrics."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError, UnknownName
from grue.evaluation.folder import PREDICTIONS, RESULT, SCORES, fault_of
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.scoring import chosen_metrics, prepared_once, score_examples
from grue.leaderboard.compare import predictions_of, refuse_unfit
from grue.leaderboard.systems import FoundSystem, find_systems
from grue.records import Direction, Entry, Example, Prediction, as_scored, check_system_name
from grue.submissions.folder import predictions_of as submitted_predictions
from grue.tasks import Task

Progress = Callable[[int, int], None]
_SEED = re.compile(r"(?<=.)@([0-9]{1,18})$")


@dataclass(frozen=True, slots=True)
class SeedTexts:
    """The texts of one seed to the items, in their order.

    Attributes:
        seed: "" if a file of predictions has none.
        sha256: Of the file of predictions.
        scores: Metric → a value per text, for the metrics that this machine can compute or the evaluation wrote.
        directions: The same metrics → whether higher or lower is better.
    """

    seed: str
    sha256: str
    texts: Sequence[str]
    scores: Mapping[str, Sequence[float]]
    directions: Mapping[str, Direction]


@dataclass(frozen=True, slots=True)
class Outputs:
    """A system's texts, of at least one seed."""

    name: str
    origin: str
    runs: Sequence[SeedTexts]


@dataclass(frozen=True, slots=True)
class _Source:
    """The content of a file of predictions, in the split's order, with its result if there is one."""

    seed: str
    path: Path
    predictions: Sequence[Prediction]
    entry: Entry | None


def read_outputs(
    arguments: Sequence[str],
    task: Task,
    examples: Sequence[Example],
    places: Sequence[int],
    submissions: Path,
    runs: Path,
    progress: Progress = lambda done, total: None,
) -> list[Outputs]:
    """Return the texts of systems to some examples, with their scores.

    Args:
        arguments: Each NAME=FILE, a file of predictions; or a system for `find_systems`, with @SEED for one seed.
        examples: Those of the task's evaluation split, each of which has a prediction.
        places: The items, by their places in `examples`.
        progress: Called with (done, total) systems, when their texts are scored.
    """
    located = list(_find(arguments, task, examples, submissions, runs))  # find all before scoring any
    if not located:
        raise ConfigError("There is no system to ask about; name one at least with --systems.")
    names = [name for name, _, _ in located]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"Two systems are called {name!r}; name one otherwise, as NAME=FILE, or leave it out.")
    score = _scorer(task, examples, places)
    outputs = []
    for done, (name, origin, sources) in enumerate(located):
        progress(done, len(located))
        outputs.append(Outputs(name, origin, [_run(source, examples, places, score) for source in sources]))
    progress(len(located), len(located))
    return outputs


# --- finding systems -------------------------------------------------------------------------------------------------


Located = tuple[str, str, list[_Source]]
"""A system's name, its origin, and its files."""


def _find(
    arguments: Sequence[str], task: Task, examples: Sequence[Example], submissions: Path, runs: Path
) -> Iterator[Located]:
    """Yield each system; results are read once for all of them."""
    names = {name: _SEED.sub("", name) for name in arguments if "=" not in name or "/" in name.partition("=")[0]}
    distinct = list(dict.fromkeys(names.values()))
    systems = find_systems(distinct, task.suite, submissions, runs, [task.name]) if distinct else []
    by_name = dict(zip(distinct, systems, strict=True))
    for name in arguments:
        yield _of_system(name, by_name[names[name]], task, examples) if name in names else _of_file(name, examples)


def _of_file(name_and_file: str, examples: Sequence[Example]) -> Located:
    name, _, file = name_and_file.partition("=")
    check_system_name(name)
    path = Path(file)
    try:
        predictions = match(examples, read_predictions(path))
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error
    return name, file, [_Source("", path, predictions, None)]


def _of_system(name: str, system: FoundSystem, task: Task, examples: Sequence[Example]) -> Located:
    if task.name not in system.entries:
        raise DataError(f"{system.name} has no result on {task.name}; evaluate it with `grue evaluate`.")
    refuse_unfit(system, task)
    entries = system.entries[task.name]
    if (chosen := _SEED.search(name)) is not None:
        seed = int(chosen[1])
        if seed not in entries:
            seeds = ", ".join(map(str, entries))
            raise UnknownName(f"{system.name} has no seed {seed} on {task.name}. Known: {seeds}.")
        entries = {seed: entries[seed]}
    sources = []
    for number, entry in entries.items():
        predictions = predictions_of(entry, examples)
        if predictions is None:
            raise DataError(f"{entry.path}: this run failed and wrote nothing to judge; choose seeds with NAME@SEED.")
        local = entry.path.name == RESULT
        path = entry.path.with_name(PREDICTIONS) if local else submitted_predictions(entry.path)
        sources.append(_Source(str(number), path, predictions, entry))
    return system.name if chosen is None else f"{system.name}@{seed}", system.origin, sources


# --- their scores ----------------------------------------------------------------------------------------------------


Scores = tuple[Mapping[str, Sequence[float]], Mapping[str, Direction]]
Scorer = Callable[[Sequence[Prediction]], Scores]


def _run(source: _Source, examples: Sequence[Example], places: Sequence[int], score: Scorer) -> SeedTexts:
    predictions = [source.predictions[place] for place in places]
    saved = None if source.entry is None else _saved_scores(source.entry, [examples[place].id for place in places])
    scores, directions = saved or score(predictions)
    texts = [prediction.text for prediction in predictions]
    return SeedTexts(source.seed, files.sha256_file(source.path), texts, scores, directions)


def _saved_scores(entry: Entry, ids: Sequence[str]) -> Scores | None:
    """Return the scores that an evaluation wrote; None if there are none, or if its files were changed."""
    folder = entry.path.parent
    if entry.path.name != RESULT or not (folder / SCORES).is_file() or fault_of(folder) is not None:
        return None
    rows = {row["id"]: row for _, row in files.read_jsonl(folder / SCORES)}
    ordered = [rows[name] for name in ids]
    directions = {score.metric: score.direction for score in entry.result.scores if score.axis != "diversity"}
    common = {name: way for name, way in directions.items() if all(name in row for row in ordered)}
    return {name: [float(row[name]) for row in ordered] for name in common}, common


def _scorer(task: Task, examples: Sequence[Example], places: Sequence[int]) -> Scorer:
    """Return a function that scores texts for the items, with metrics that are prepared once on all examples."""
    specs = chosen_metrics(task, [spec.name for spec in task.metrics])
    items, everything = [examples[place] for place in places], list(map(as_scored, examples))
    prepared = prepared_once(task.folder)

    def score(predictions: Sequence[Prediction]) -> Scores:
        scored = score_examples(
            specs, items, predictions, skip_unavailable=True, prepare=lambda spec, _: prepared(spec, everything)
        )
        directions = {score.metric: score.direction for score in scored.scores if score.metric in scored.per_example}
        return scored.per_example, directions

    return score

"""The texts of the systems that people judge, with their scores by the task's metrics."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError, UnknownName
from grue.evaluation.folder import PREDICTIONS, RESULT, SCORES, fault_of
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.scoring import chosen_metrics, prepared_metric, score_examples
from grue.leaderboard.compare import predictions_of, refuse_unfit
from grue.leaderboard.systems import FoundSystem, find_systems
from grue.metrics.metric import Metric
from grue.records import Direction, Entry, Example, Prediction, as_scored, check_system_name
from grue.submissions.folder import predictions_of as submitted_predictions
from grue.tasks import Task

Progress = Callable[[int, int], None]
_SEED = re.compile(r"(?<=.)@([0-9]{1,18})$")


@dataclass(frozen=True, slots=True)
class SeedTexts:
    """The texts of one seed to the items, in their order.

    Attributes:
        seed: "" where a file of predictions has none.
        sha256: Of the file of predictions.
        scores: Metric → a value a text, of those metrics that this machine can compute or the evaluation wrote.
        directions: The same metrics → whether higher or lower is better.
    """

    seed: str
    sha256: str
    texts: Sequence[str]
    scores: Mapping[str, Sequence[float]]
    directions: Mapping[str, Direction]


@dataclass(frozen=True, slots=True)
class Outputs:
    """A system's texts, of one seed at least."""

    name: str
    origin: str
    runs: Sequence[SeedTexts]


@dataclass(frozen=True, slots=True)
class _Source:
    """A file of predictions, read: one for each example, in the split's order; of a result if there is one."""

    seed: str
    path: Path
    predictions: Sequence[Prediction]
    entry: Entry | None


def read_outputs(
    given: Sequence[str],
    task: Task,
    examples: Sequence[Example],
    places: Sequence[int],
    submissions: Path,
    runs: Path,
    progress: Progress = lambda done, total: None,
) -> list[Outputs]:
    """Return the texts of systems to some examples, with their scores.

    Args:
        given: Each NAME=FILE, a file of predictions; or a system as `find_systems` finds it, with @SEED for one seed.
        examples: Those of the task's evaluation split, each of which has a prediction.
        places: The items, by their places in `examples`.
        progress: Called with (done, total) systems, when their texts are scored.

    Raises:
        ConfigError: None is given, or one twice.
        UnknownName, DataError: A system or a file is not there, or lacks the task.
        SubmissionError: There is not one text for each example.
    """
    located = list(_find(given, task, examples, submissions, runs))  # all, before any is scored
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


# --- finding them ----------------------------------------------------------------------------------------------------


Found = tuple[str, str, list[_Source]]
"""A system's name, where it was found, and its files."""


def _find(
    given: Sequence[str], task: Task, examples: Sequence[Example], submissions: Path, runs: Path
) -> Iterator[Found]:
    """Yield each system; results are read once for all names."""
    names = {name: _SEED.sub("", name) for name in given if not _is_file(name)}
    wanted = list(dict.fromkeys(names.values()))
    systems = find_systems(wanted, task.suite, submissions, runs, [task.name]) if wanted else []
    by_name = dict(zip(wanted, systems, strict=True))
    for name in given:
        yield _of_system(name, by_name[names[name]], task, examples) if name in names else _of_file(name, examples)


def _is_file(given: str) -> bool:
    """Whether a system is given as NAME=FILE."""
    name, equals, _ = given.partition("=")
    return bool(equals) and "/" not in name


def _of_file(given: str, examples: Sequence[Example]) -> Found:
    name, _, file = given.partition("=")
    check_system_name(name)
    path = Path(file)
    try:
        predictions = match(examples, read_predictions(path))
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error
    return name, file, [_Source("", path, predictions, None)]


def _of_system(given: str, system: FoundSystem, task: Task, examples: Sequence[Example]) -> Found:
    if task.name not in system.entries:
        raise DataError(f"{system.name} has no result on {task.name}; evaluate it with `grue evaluate`.")
    refuse_unfit(system, task)
    entries = system.entries[task.name]
    chosen = _SEED.search(given)
    if chosen is None:
        return system.name, system.origin, [_source(seed, entry, examples) for seed, entry in entries.items()]
    seed = int(chosen[1])
    if seed not in entries:
        known = ", ".join(map(str, entries))
        raise UnknownName(f"{system.name} has no seed {seed} on {task.name}. Known: {known}.")
    return f"{system.name}@{seed}", system.origin, [_source(seed, entries[seed], examples)]


def _source(seed: int, entry: Entry, examples: Sequence[Example]) -> _Source:
    predictions = predictions_of(entry, examples)
    if predictions is None:
        raise DataError(f"{entry.path}: this run failed and wrote nothing to judge; choose seeds with NAME@SEED.")
    local = entry.path.name == RESULT
    path = entry.path.with_name(PREDICTIONS) if local else submitted_predictions(entry.path)
    return _Source(str(seed), path, predictions, entry)


# --- their scores ----------------------------------------------------------------------------------------------------


Scores = tuple[Mapping[str, Sequence[float]], Mapping[str, Direction]]
Scorer = Callable[[Sequence[Prediction]], Scores]


def _run(source: _Source, examples: Sequence[Example], places: Sequence[int], score: Scorer) -> SeedTexts:
    predictions = [source.predictions[place] for place in places]
    known = None if source.entry is None else _kept(source.entry, [examples[place].id for place in places])
    scores, directions = known or score(predictions)
    texts = [prediction.text for prediction in predictions]
    return SeedTexts(source.seed, files.sha256_file(source.path), texts, scores, directions)


def _kept(entry: Entry, ids: Sequence[str]) -> Scores | None:
    """Return the scores that an evaluation wrote; None where it wrote none, or its files are not what was written."""
    folder = entry.path.parent
    if entry.path.name != RESULT or not (folder / SCORES).is_file() or fault_of(folder) is not None:
        return None
    rows = {row["id"]: row for _, row in files.read_jsonl(folder / SCORES)}
    wanted = [rows[name] for name in ids]
    directions = {score.metric: score.direction for score in entry.result.scores if score.axis != "diversity"}
    known = {name: way for name, way in directions.items() if all(name in row for row in wanted)}
    return {name: [float(row[name]) for row in wanted] for name in known}, known


def _scorer(task: Task, examples: Sequence[Example], places: Sequence[int]) -> Scorer:
    """Return what scores texts to the items, by metrics that are prepared, once, on all examples."""
    specs = chosen_metrics(task, [spec.name for spec in task.metrics])
    items, given = [examples[place] for place in places], list(map(as_scored, examples))

    @cache
    def prepared(name: str) -> Metric:
        return prepared_metric(next(spec for spec in specs if spec.name == name), given, task.folder)

    def score(predictions: Sequence[Prediction]) -> Scores:
        scored = score_examples(
            specs, items, predictions, skip_unavailable=True, prepare=lambda spec, _: prepared(spec.name)
        )
        known = {score.metric: score.direction for score in scored.scores if score.metric in scored.per_example}
        return scored.per_example, known

    return score

"""Rescoring: a result's ids, scores, hashes and counts, computed again from its predictions.

Each call handles one task, so that tasks can be checked in parallel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grue.data.load import load_examples
from grue.errors import DataError, SubmissionError
from grue.evaluation.predictions import match
from grue.evaluation.scoring import Prepare, chosen_metrics, prepared_metric, prepared_once, score_predictions
from grue.files import sha256_json
from grue.records import Example, Prediction, Result
from grue.submissions.checks.claims import check_claims, check_counts
from grue.submissions.checks.likeness import SketchedRun, check_copies, check_twins, elsewhere, limit
from grue.submissions.checks.sketch import sketch
from grue.submissions.checks.texts import (
    Known,
    check_against_references,
    check_characters,
    check_leap,
    check_lengths,
    check_sources,
    check_spread,
    check_texts,
)
from grue.submissions.checks.usual import Usual, most, of_system
from grue.submissions.problems import Problem, error
from grue.submissions.reading import read_untrusted_predictions, without_path
from grue.task_files import load_task
from grue.tasks import Task

REFERENCES = "oracle"  # the system whose predictions are the references


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """One seed of a system on a task.

    Attributes:
        path: Path of its result, which may be missing.
        result: None if it is missing, unreadable or of a failed run.
        predictions: None if they are missing or not safe to read.
        current: Whether the result claims to be for the current version of the task and for the whole split.
        sealed: Whether both files are those that the manifest lists; otherwise nothing is said of what they claim.
        rescored: Whether its scores are computed again; where not, what it states is taken.
    """

    path: Path
    result: Result | None
    predictions: Path | None
    current: bool = True
    sealed: bool = True
    rescored: bool = True


@dataclass(frozen=True, slots=True)
class TaskRuns:
    """The runs of a system on a task.

    Attributes:
        system: The system's folder.
        is_reference: Whether the board shows it without a rank, so that copied texts gain nothing.
        is_checked: False if the others are only compared with it.
    """

    system: Path
    is_reference: bool
    is_checked: bool
    runs: tuple[SubmittedRun, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """Problems of runs; `missing` is what this machine lacked to check the rest."""

    problems: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()


def check_task(suite: str, name: str, systems: Sequence[TaskRuns]) -> Findings:
    """Check the runs of one task: those of all systems whose `is_checked` is true."""
    task = load_task(name, suite)
    texts = {runs.system: _Texts.of(runs) for runs in systems}
    missing: list[str] = []
    examples: Sequence[Example] = ()
    try:
        examples = load_examples(task, task.data.evaluation).examples
    except DataError as refusal:
        missing.append(f"{suite}/{name}: {refusal}")
    known, prepare = Known(examples, _training(task)), prepared_once(task.folder)
    references = cache(lambda: _preference_of_references(task, examples, systems, prepare))
    standing = {runs.system: _standing(runs, texts[runs.system], known) for runs in _standing_systems(systems)}
    problems: list[Problem] = []
    for runs in (runs for runs in systems if runs.is_checked):
        own = texts[runs.system]
        usual = most(found for system, found in standing.items() if system.name != runs.system.name)
        scored = [_check_run(run, own, runs.is_reference, task, examples, prepare) for run in runs.runs]
        problems += [problem for one, _ in scored for problem in one.problems]
        missing += [line for one, _ in scored for line in one.missing]
        others = _texts_of_others(runs, systems, texts)
        gathered = _gathered(runs, systems, texts)
        for run in own.sketched:
            problems += check_copies(run, others, usual.agreement, gathered)
        if not runs.is_reference:
            problems += check_twins(own.sketched, others, usual.agreement, usual.moved, task.backbone.model)
            for path, predictions in own.predictions.items():
                problems += check_sources(path, known.sources(predictions), usual.sources)
            preferences = [preference for _, preference in scored if preference is not None]
            if preferences:
                folder = runs.system / name
                problems += check_against_references(folder, preferences, references())
                problems += check_leap(folder, preferences, usual.preference, references())
                problems += check_spread(folder, own.sketched, preferences)
    return Findings(tuple(problems), tuple(dict.fromkeys(missing)))


def _standing_systems(systems: Sequence[TaskRuns]) -> list[TaskRuns]:
    """Return the competing systems that stand already: who hands in several must not vouch for himself."""
    competing = [runs for runs in systems if not runs.is_reference]
    return [runs for runs in competing if not runs.is_checked] or competing


def _gathered(runs: TaskRuns, systems: Sequence[TaskRuns], texts: Mapping[Path, "_Texts"]) -> float:
    """Return the most that a run of another competing system that stands may have of others' texts, 0–1.

    The system that is asked about counts as one of these others, since relatives share texts. But it may not raise what
    they have beyond the limit that follows without it: a copy would excuse itself.
    """
    others = [one for one in systems if one.system.name != runs.system.name]
    standing = [one for one in others if not one.is_checked] or others
    with_it, without = (
        max(
            (
                elsewhere(run, _texts_of_others(one, known, texts))
                for one in _standing_systems(others)
                for run in texts[one.system].sketched
            ),
            default=0.0,
        )
        for known in ([*standing, runs], standing)
    )
    return min(with_it, limit(without))


def _standing(runs: TaskRuns, texts: "_Texts", known: Known) -> Usual:
    return of_system(texts.sketched, texts.first, [run.result for run in runs.runs if run.current], known)


@dataclass(frozen=True, slots=True)
class _Texts:
    """The predictions of a system's runs that can be read, by their path, and why others cannot."""

    predictions: Mapping[Path, Sequence[Prediction]]
    sketched: Sequence[SketchedRun]
    faults: Mapping[Path, Problem]

    @property
    def first(self) -> Sequence[Prediction]:
        """The predictions of the first run; empty if there are none."""
        return next(iter(self.predictions.values()), ())

    @classmethod
    def of(cls, runs: TaskRuns) -> "_Texts":
        read: dict[Path, Sequence[Prediction]] = {}
        faults: dict[Path, Problem] = {}
        for path in sorted(run.predictions for run in runs.runs if run.predictions is not None):
            try:
                read[path] = read_untrusted_predictions(path)
            except DataError as refusal:
                faults[path] = error(7, path, without_path(refusal, path))
        results = {run.predictions: run.result for run in runs.runs}
        sketched = [
            SketchedRun(path, sketch(found), results[path], runs.is_checked) for path, found in read.items() if found
        ]  # empty files are like any others
        return cls(read, sketched, faults)


def _training(task: Task) -> Sequence[Example]:
    """Return the training split if this machine has it; it is not worth a download of its own."""
    try:
        return load_examples(task, "train", offline=True).examples
    except DataError:
        return ()


def _texts_of_others(runs: TaskRuns, systems: Sequence[TaskRuns], texts: Mapping[Path, _Texts]) -> list[SketchedRun]:
    """Return what a system's texts must not be; two references may be alike, as copy and lead of short texts are."""
    return [
        run
        for other in systems
        if other.system.name != runs.system.name and not (runs.is_reference and other.is_reference)
        for run in texts[other.system].sketched
    ]


def _preference_of_references(
    task: Task, examples: Sequence[Example], systems: Sequence[TaskRuns], prepare: Prepare
) -> float | None:
    """Return the preference that the references get: from the row that hands these in, if it stands, or computed."""
    first = [Prediction(example.id, next(iter(example.references), "")) for example in examples]
    rows = [runs for runs in systems if runs.system.name == REFERENCES and not runs.is_checked]
    for run in (run for runs in rows for run in runs.runs):
        stated = None if run.result is None else run.result.hashes.get("predictions")
        if run.current and run.result is not None and stated == sha256_json(first):
            return run.result.preference
    return score_predictions(task, task.data.evaluation, examples, first, prepare=prepare).preference


# --- one run ---------------------------------------------------------------------------------------------------------


def _check_run(
    run: SubmittedRun, own: _Texts, is_reference: bool, task: Task, examples: Sequence[Example], prepare: Prepare
) -> tuple[Findings, float | None]:
    """Return what is wrong with a run, and its preference if that could be computed."""
    path = run.predictions
    if path is None or path in own.faults:
        return Findings(() if path is None else (own.faults[path],)), None
    if not run.current or not examples:
        return Findings(), None
    try:
        ordered = match(examples, own.predictions[path])
    except SubmissionError as refusal:
        return Findings((error(8, path, str(refusal)),)), None
    odd = [*check_characters(path, ordered)]
    odd += check_lengths(path, examples, ordered, task.decoding.max_new_tokens, is_reference)
    if not is_reference:
        odd += check_texts(path, ordered, task.decoding)
    if run.result is None or not run.sealed or any(problem.severity == "error" for problem in odd):
        return Findings(tuple(odd)), None  # a metric may take seconds for a long text
    stated, computed = run.result.hashes.get("predictions"), sha256_json(ordered)
    if stated != computed:  # no score can follow from them
        odd.append(error(19, run.path, f"predictions: states {stated!r}; computed: {computed!r}."))
        return Findings(tuple(odd)), None
    odd += check_counts(run.path, run.result, ordered)
    if not run.rescored:
        return Findings(tuple(odd)), run.result.preference
    try:
        scored = score_predictions(task, task.data.evaluation, examples, ordered, prepare=prepare)
    except DataError as refusal:
        reason = _lacking(task, examples)
        if reason is None:
            return Findings((*odd, error(9, run.path, f"cannot be scored: {refusal}"))), None
        return Findings(tuple(odd), (reason,)), None
    missing = tuple(f"{task.suite}/{task.name}: {reason}" for reason in scored.errors)
    return Findings((*odd, *check_claims(run.path, run.result, scored, task)), missing), scored.preference


def _lacking(task: Task, examples: Sequence[Example]) -> str | None:
    """Return what keeps this machine from scoring any text; None if the fault is in the texts."""
    try:
        for spec in chosen_metrics(task):
            prepared_metric(spec, examples, task.folder)
    except DataError as refusal:
        return f"{task.suite}/{task.name}: {refusal}"
    return None

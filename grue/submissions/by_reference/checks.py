"""Checks of systems by reference: what their files say, and with `--fetch` every figure computed again.

Nothing that is downloaded is kept, executed or followed beyond the web.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError, Unavailable
from grue.evaluation.scoring import Scored, references_hash
from grue.submissions.by_reference.outputs import Lines, fetch, lines_of, score_copy
from grue.submissions.by_reference.system import (
    MOST_BYTES,
    Referred,
    ReferredTask,
    by_reference_files,
    contradictions,
    entry_of,
    outdated,
    read_referred,
)
from grue.submissions.checks.claims import agrees
from grue.submissions.checks.rescoring import Findings
from grue.submissions.checks.wording import check_result_wording, check_wording, skeleton
from grue.submissions.folder import BY_REFERENCE, Submission, place_of
from grue.submissions.problems import Problem, error, warning
from grue.submissions.reading import without_path
from grue.task_files import SUITES, load_task
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class Fetching:
    """What `--fetch` was given.

    Attributes:
        data_dir: A folder with the data set in its original layout, for a single task.
        offline: Open no connection.
    """

    data_dir: Path | None = None
    offline: bool = False


def check_referred_systems(folder: Path, fetching: Fetching | None) -> list[Findings]:
    """Check the systems by reference in `submissions/`, in a suite's folder of it, or one file.

    Args:
        fetching: How to download the published files and score them again; None not to.

    Raises:
        ConfigError: `fetching` has a folder of data, but there are several tasks.
    """
    read = [(path, *_read(path)) for path in by_reference_files(folder)]
    tasks = {(place_of(path).parent.name, name) for path, referred, _ in read if referred for name in referred.tasks}
    if fetching is not None and fetching.data_dir is not None and len(tasks) != 1:
        raise ConfigError(
            f"--data-dir {fetching.data_dir}: is for the data of one task, and there are {len(tasks)} by reference; "
            f"name a single file *{BY_REFERENCE}."
        )
    return [
        Findings(tuple(problems)) if referred is None or problems else _check_figures(path, referred, fetching)
        for path, referred, problems in read
    ]


def _read(path: Path) -> tuple[Referred | None, list[Problem]]:
    """Return what a file says, and what is wrong with it."""
    suite = place_of(path).parent.name
    if suite not in SUITES:
        return None, [error(76, path, f"{suite!r} is not a suite; put it in a folder {' or '.join(SUITES)}.")]
    if path.is_symlink() or path.parent.is_symlink():
        return None, [error(13, path, "is a link.")]
    if not path.is_file():
        return None, [error(75, path, "is no file.")]
    if path.stat().st_size > MOST_BYTES:
        return None, [error(14, path, f"has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}.")]
    try:
        referred = read_referred(path)
    except DataError as refusal:
        return None, [error(75, path, without_path(refusal, path))]
    problems = [*_wording(path, referred), *_names(path, referred)]
    found = list(contradictions(path, referred, suite))
    problems += [error(76, path, problem) for problem in found]
    if not found:
        for name, of_task in referred.tasks.items():
            old = outdated(of_task, load_task(name, suite))
            problems += [error(76, path, f"tasks.{name}.{problem}") for problem in old]
            problems += check_result_wording(entry_of(path, referred, name, suite).result, path)
    return referred, list(dict.fromkeys(problems))


def _wording(path: Path, referred: Referred) -> Iterator[Problem]:
    unstated = "not stated"
    said = Submission(
        name=referred.name,
        authors=referred.authors,
        licence=referred.licence,
        algorithm=referred.algorithm,
        backbone=referred.backbone,
        seeds=(),
        training_data=referred.training_data or unstated,
        budget=unstated,
    )
    yield from check_wording(said, path)


def check_not_by_reference(system: Path) -> Iterator[Problem]:
    """Yield that a submitted system has the name of one by reference, whose authors it may not be of."""
    beside = system.with_name(f"{system.name}{BY_REFERENCE}")
    if beside.exists():
        yield error(76, system, f"has the name of {beside.name}; choose another, or have a maintainer remove that row.")


def _names(path: Path, referred: Referred) -> Iterator[Problem]:
    """Yield the systems beside this one that have its name, or one that looks like it."""
    beside = {other.name.removesuffix(BY_REFERENCE): other for other in path.parent.iterdir() if other != path}
    for name, other in sorted(beside.items()):
        if other.is_dir() and name == referred.name:
            yield from check_not_by_reference(other)
        elif (other.is_dir() or other.name.endswith(BY_REFERENCE)) and skeleton(name) == skeleton(referred.name):
            yield error(23, path, f"looks like {name!r}, which is another system.")


# --- the figures -----------------------------------------------------------------------------------------------------


def _check_figures(path: Path, referred: Referred, fetching: Fetching | None) -> Findings:
    if fetching is None:
        listed = ", ".join(f"{len(of_task.figures)} of {name}" for name, of_task in referred.tasks.items())
        return Findings((warning(79, path, f"has figures of published outputs: {listed}."),))
    suite = place_of(path).parent.name
    found = [_recompute(path, load_task(name, suite), of_task, fetching) for name, of_task in referred.tasks.items()]
    problems = (problem for one in found for problem in one.problems)
    return Findings(tuple(problems), tuple(line for one in found for line in one.missing))


def _recompute(path: Path, task: Task, of_task: ReferredTask, fetching: Fetching) -> Findings:
    """Download a published file, score it, and compare."""
    where, missing = f"{task.suite}/{task.name}", []
    lines: Lines | None = None
    try:
        lines = lines_of(task, of_task.split, of_task.outputs, fetching.data_dir, fetching.offline)
    except DataError as refusal:
        missing.append(f"{where}: {refusal}")
    with TemporaryDirectory(prefix="grue-outputs-") as folder:
        try:
            copy = fetch(of_task.outputs, Path(folder), fetching.offline)
        except Unavailable as refusal:
            return Findings(missing=(*missing, f"{where}: {refusal}"))
        except DataError as refusal:
            return Findings((error(77, path, f"tasks.{task.name}: {refusal}"),), tuple(missing))
        found = files.sha256_file(copy)
        if found != of_task.outputs.sha256:
            wrong = f"the sha256 of {of_task.outputs.url} is {found}, the file states {of_task.outputs.sha256}."
            return Findings((error(77, path, f"tasks.{task.name}: {wrong}"),), tuple(missing))
        if lines is None:
            return Findings(missing=tuple(missing))
        return _compare(path, task, of_task, copy, lines)


def _compare(path: Path, task: Task, of_task: ReferredTask, copy: Path, lines: Lines) -> Findings:
    try:
        scored = score_copy(task, of_task.split, copy, of_task.outputs, lines, of_task.figures)
    except (DataError, SubmissionError) as refusal:
        return Findings((error(77, path, f"tasks.{task.name}: {refusal}"),))
    differences = (f"tasks.{task.name}.{found}" for found in _differences(of_task, scored, lines))
    problems = tuple(error(78, path, found) for found in differences)
    return Findings(problems, tuple(f"{task.suite}/{task.name}: {reason}" for reason in scored.errors))


def _differences(of_task: ReferredTask, scored: Scored, lines: Lines) -> Iterator[str]:
    data, loaded = of_task.data, lines.loaded
    for key, said, computed in (
        ("data.examples", data.examples, len(loaded.examples)),
        ("data.ids_sha256", data.ids_sha256, loaded.ids_sha256),
        ("data.references_sha256", data.references_sha256, references_hash(loaded.examples)),
    ):
        if said != computed:
            yield f"{key}: states {said!r}; computed: {computed!r}."
    for score in scored.scores:
        figure = of_task.figures[score.metric]
        if not agrees(score.metric, figure.value, score.value):
            yield f"figures.{score.metric}: states {figure.value:.10g}; computed: {score.value:.10g}."
        for part, said, computed in (("n", figure.n, score.n), ("signature", figure.signature, score.signature)):
            if said != computed:
                yield f"figures.{score.metric}: {part}: states {said!r}; computed: {computed!r}."

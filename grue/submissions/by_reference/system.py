"""Systems whose outputs are published elsewhere: address and sha256 instead of a copy, and the figures that follow.

submissions/<suite>/<system>.by-reference.toml

A row by reference is partial whatever it holds: it has one output for each example, and no seeds.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import ConfigError, DataError, did_you_mean, instead
from grue.evaluation.scoring import SCORED, axis_mean, chosen_metrics
from grue.metrics.card import CARDS
from grue.records import SCHEMA_VERSION, SYSTEM_NAME, About, Entry, Result, Score
from grue.shapes import from_dict
from grue.submissions.checks.wording import is_web_address
from grue.submissions.folder import BY_REFERENCE, nests_too_deep, place_of
from grue.submissions.reading import refuse_strange
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import MetricSpec, Task

MOST_BYTES = 100_000
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of outputs at its public address, and how its lines are the texts of a split.

    Attributes:
        sha256: Of the file as it is published, packed if it is.
        form: "text", one text a line; "tsv", its `column`, counted from 1; "jsonl", its `field`.
        gzip: Whether it is packed.
        each: What has a line: every "example", in the split's order; or every "reference" of every row of the source,
            in its order, where the lines of an example are the same.
    """

    url: str
    sha256: str
    form: Literal["text", "tsv", "jsonl"] = "text"
    column: int = 0
    field: str = ""
    gzip: bool = False
    each: Literal["example", "reference"] = "example"


@dataclass(frozen=True, slots=True)
class FigureData:
    """The data that the figures were computed on.

    Attributes:
        source, revision: Where it is from, as on the hub or in words.
        references_sha256: See `grue.evaluation.scoring.references_hash`.
    """

    source: str
    revision: str
    examples: int
    ids_sha256: str
    references_sha256: str


@dataclass(frozen=True, slots=True)
class ComputedFigure:
    """A metric's value over the split, on its own scale; `n` and `signature` as in `Score`."""

    value: float
    n: int
    signature: str


@dataclass(frozen=True, slots=True)
class ReferredTask:
    """A system's figures on a task.

    Attributes:
        version, hash: The task's.
        grue: The version of grue that computed the figures.
        figures: Metric → its value: the task's metrics and the diversity set.
        not_computed: Those of them that could not be computed.
        note: What to know of the texts.
    """

    version: int
    hash: str
    split: str
    grue: str
    outputs: PublishedFile
    data: FigureData
    figures: Mapping[str, ComputedFigure]
    not_computed: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Referred:
    """A system by reference: the content of a `.by-reference.toml`.

    Attributes:
        authors: Who made the outputs.
        link: The paper, or the page of the outputs.
        licence: Of the outputs, or "not stated".
        algorithm, backbone: In words.
        reward: What it was trained on, as a reward of grue's; empty if it was no reward.
    """

    name: str
    authors: tuple[str, ...]
    year: int
    link: str
    licence: str
    algorithm: str
    backbone: str
    tasks: Mapping[str, ReferredTask]
    reward: str = ""
    training_data: str = ""


# --- reading ---------------------------------------------------------------------------------------------------------


def by_reference_files(folder: Path) -> list[Path]:
    """Return the files of systems by reference in `submissions/`, in a suite's folder of it, or the one named."""
    if folder.name.endswith(BY_REFERENCE):
        return [folder]
    below = "" if place_of(folder).name in SUITES else "*/"
    return sorted(folder.glob(f"{below}[!.]*{BY_REFERENCE}"))


def read_referred(path: Path) -> Referred:
    """Read a `.by-reference.toml`.

    Raises:
        DataError: It cannot be read, is too large, or has another shape.
    """
    try:
        refuse_strange(path, MOST_BYTES)
        data = files.read_toml(path)
        if nests_too_deep(data):
            raise DataError(f"{path}: nests too deeply.")
        return from_dict(Referred, data, str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {files.reason(error)}.") from error
    except ConfigError as error:
        raise DataError(str(error)) from error


def recomputed(folder: Path, suite: str) -> list[Entry]:
    """Return the rows by reference of a suite for the board, one entry a task, as their files state them.

    Raises:
        DataError: A file cannot be read, or contradicts itself.
    """
    entries = []
    for path in by_reference_files(folder / suite) if (folder / suite).is_dir() else ():
        referred = read_referred(path)
        for problem in contradictions(path, referred, suite):
            raise DataError(f"{path}: {problem}")
        entries += [entry_of(path, referred, name, suite) for name in referred.tasks]
    return entries


# --- what a file can say ---------------------------------------------------------------------------------------------


def contradictions(path: Path, referred: Referred, suite: str) -> Iterator[str]:
    """Yield what cannot be, whatever the data and the published files are."""
    if path.name != f"{referred.name}{BY_REFERENCE}":
        yield f"name: {referred.name!r}, but the file is called {path.name!r}; name it {referred.name}{BY_REFERENCE}."
    if not SYSTEM_NAME.fullmatch(referred.name):
        yield f"name: {referred.name!r} is not a valid name of a system: use letters, digits, '_', '-', '+' and '.'."
    if not is_web_address(referred.link):
        yield f"link: {referred.link!r} is not a plain address that begins with https:// or http://."
    if not 1000 <= referred.year <= 9999:
        yield f"year: {referred.year} is no year."
    if not referred.tasks:
        yield "tasks: has figures of no task."
    known = task_names(suite)
    for name, of_task in referred.tasks.items():
        if name not in known:
            yield f"tasks.{name}: there is no such task.{instead(name, known)}"
            continue
        yield from (f"tasks.{name}.{problem}" for problem in _problems(of_task, load_task(name, suite)))


def _problems(of_task: ReferredTask, task: Task) -> Iterator[str]:
    yield from _problems_of_file(of_task.outputs)
    for key in ("ids_sha256", "references_sha256"):
        if not _SHA256.fullmatch(getattr(of_task.data, key)):
            yield f"data.{key}: is not a sha256, 64 hex digits."
    wanted = [spec.name for spec in chosen_metrics(task)]
    for name in (*of_task.figures, *of_task.not_computed):
        if name not in wanted:
            yield f"figures: {name!r} is no metric of the task.{did_you_mean(name, wanted)}"
    for name in wanted:
        if (name in of_task.figures) == (name in of_task.not_computed):
            yield f"figures: {name} must have a figure or be listed in not_computed, one of the two."
    for name, figure in of_task.figures.items():
        low, high = CARDS[name].range if name in CARDS else (figure.value, figure.value)
        if not low <= figure.value <= high:
            yield f"figures.{name}: value: {figure.value:g} is not within {CARDS[name].bounds}."
        if not 0 < figure.n <= of_task.data.examples:
            yield f"figures.{name}: n: {figure.n} of {of_task.data.examples} examples."


def _problems_of_file(file: PublishedFile) -> Iterator[str]:
    if not is_web_address(file.url):
        yield f"outputs.url: {file.url!r} is not a plain address that begins with https:// or http://."
    if not _SHA256.fullmatch(file.sha256):
        yield "outputs.sha256: is not a sha256, 64 hex digits."
    if (file.column > 0) != (file.form == "tsv") or file.column < 0:
        yield f"outputs.column: {file.column}; a tsv has one, counted from 1, and no other form has."
    if bool(file.field) != (file.form == "jsonl"):
        yield f"outputs.field: {file.field!r}; a jsonl has one, and no other form has."


def outdated(of_task: ReferredTask, task: Task) -> Iterator[str]:
    """Yield where figures are of another version of the task, another split or other examples than the board's."""
    split = task.data.splits[task.data.evaluation]
    for key, said, now in (
        ("version", of_task.version, task.version),
        ("hash", of_task.hash, task.hash),
        ("split", of_task.split, task.data.evaluation),
        ("data.examples", of_task.data.examples, split.examples),
        ("data.ids_sha256", of_task.data.ids_sha256, split.ids_sha256),
    ):
        if now and said != now:
            yield f"{key}: states {said!r}; the task's is {now!r}."


# --- an entry of the board -------------------------------------------------------------------------------------------


def entry_of(path: Path, referred: Referred, name: str, suite: str) -> Entry:
    """Return what a system by reference has on a task, as an entry of the board."""
    task, of_task = load_task(name, suite), referred.tasks[name]
    specs = [spec for spec in chosen_metrics(task) if spec.name in of_task.figures]
    scores = tuple(_score(spec, of_task.figures[spec.name]) for spec in specs)
    source_split = task.data.splits[of_task.split].source if of_task.split in task.data.splits else of_task.split
    result = Result(
        schema=SCHEMA_VERSION,
        status="complete",
        grue={"version": of_task.grue},
        suite=suite,
        task=name,
        task_version=of_task.version,
        task_hash=of_task.hash,
        split=of_task.split,
        seed=0,
        system={
            "name": referred.name,
            "algorithm": referred.algorithm,
            "backbone": referred.backbone,
            "reward": referred.reward,
            "year": referred.year,
        },
        data={
            "source": of_task.data.source,
            "revision": of_task.data.revision,
            "source_split": source_split,
            "examples": of_task.data.examples,
            "ids_sha256": of_task.data.ids_sha256,
            "outputs": of_task.outputs.url,
            "outputs_sha256": of_task.outputs.sha256,
            "note": of_task.note,
        },
        generation={},
        determinism={},
        scores=scores,
        preference=axis_mean(task, scores, "preference"),
        naturalness=axis_mean(task, scores, "naturalness"),
        hashes={"references": of_task.data.references_sha256},
        counts={"expected": of_task.data.examples, "scored": of_task.data.examples},
        timing={},
        packages={},
        limited=False,
        errors=tuple(f"{metric}: not computed" for metric in of_task.not_computed),
    )
    about = About(
        algorithm=referred.algorithm,
        backbone=referred.backbone,
        authors=referred.authors,
        licence=referred.licence,
        training_data=referred.training_data,
        link=referred.link,
        log=f"submissions/{suite}/{path.name}",
    )
    return Entry(result, path, "recomputed", about)


def _score(spec: MetricSpec, figure: ComputedFigure) -> Score:
    scored = spec.axis in SCORED
    return Score(
        metric=spec.name,
        axis=spec.axis,
        value=figure.value,
        scaled=spec.scale(figure.value) if scored else None,
        n=figure.n,
        direction=spec.direction if scored else CARDS[spec.name].direction,
        signature=figure.signature,
    )

"""The layout of the folder `submissions/`, and how its files are read.

    submissions/<suite>/<system>/submission.toml
    submissions/<suite>/<system>/MANIFEST.sha256
    submissions/<suite>/<system>/<task>/seed-<n>.result.json
    submissions/<suite>/<system>/<task>/seed-<n>.predictions.jsonl.gz
    submissions/<suite>/<system>/<task>/config.json  what its runs were trained with
    submissions/<suite>/<system>.trust.json          what was seen when its runs were made again
    submissions/<suite>/<system>.recomputed.json     figures of outputs that are published elsewhere
    submissions/<suite>/<key>.reported.json          figures of papers, which cannot be recomputed

Submissions are untrusted data: nothing in them is executed, and nothing in them can switch off a check.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

from grue.bounds import NON_NEGATIVE
from grue.errors import ConfigError, DataError, GrueError
from grue.files import plain, read_json, read_toml
from grue.metrics.card import CARDS
from grue.records import FILLERS, LARGEST_SEED, LOOKUPS, SCHEMA_VERSION, Result, is_seed
from grue.shapes import MOST_FAULTS, from_dict
from grue.task_files import SUITES

T = TypeVar("T")

SUBMISSIONS = "submissions"
SUBMISSION = "submission.toml"
MANIFEST = "MANIFEST.sha256"
CONFIG = "config.json"
RESULT = re.compile(r"seed-(0|[1-9][0-9]{0,9})\.result\.json")
SHA256 = re.compile(r"[0-9a-f]{64}")
RANKED_SEEDS = 5  # per task, for a rank; with fewer a row is preliminary
PRELIMINARY_SEEDS = 3
ROUNDING = 1e-4  # beyond its scale's ends that a value may be; the last digits of a model's depend on the machine
DEEPEST = 20  # nested tables and lists; files that grue writes have five
LONGEST_TEXT = 1_000
MOST_AUTHORS = 100
REQUIRED = ("authors", "licence", "algorithm", "backbone", "training_data", "budget")
CHECKPOINTS = re.compile(
    rf"{re.escape(CONFIG)}|[A-Za-z0-9][\w.{{}}-]*(/[\w.{{}}-]+)?"
    r"|https://[\w.-]+/[\w./~%{}+-]+\.(tar|tgz|tar\.gz|zip)",
    re.ASCII,
)
"""Where a submission may say that its checkpoints are; a path of the machine that verifies is none."""
WEB_ADDRESS = re.compile(
    r"https?://(?=[^/?#:]{1,253}([/?#:]|$))([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]"
    r"(:(80|443)?)?([/?#][!#-;=?-\[\]_a-z~]*)?",
    re.IGNORECASE | re.ASCII,
)
"""The address of a public server of the web, without a password or a port of its own."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The content of `submission.toml`: what its authors state about a system.

    Attributes:
        seeds: The seeds of every task; each has a result, failed runs included.
        training_data: Training data beyond the tasks' own training splits.
        budget: Training in tokens, hours and devices, in words.
        checkpoints: Where its checkpoints are, for those who verify it: a hub id or the https address of an archive,
            with {task} and {seed}; or "config.json", if they are to be trained again.
        deterministic: Whether its output depends on no seed; it then has one seed, and no rank.
        regression: Why this version is worse than the row that it replaces, if it is.
    """

    name: str
    authors: tuple[str, ...]
    licence: str
    algorithm: str
    backbone: str
    seeds: tuple[int, ...]
    training_data: str
    budget: str
    link: str = ""
    contact: str = ""
    checkpoints: str = ""
    deterministic: bool = False
    regression: str = ""


@dataclass(frozen=True, slots=True)
class StatedSystem:
    """What is read of a result's `system`, which may state more."""

    name: str
    algorithm: str | None = None
    backbone: str | None = None
    revision: str | None = None
    parameters: Annotated[int | None, NON_NEGATIVE] = None
    weights: str | None = None
    start: str | None = None
    update: Annotated[int | None, NON_NEGATIVE] = None
    reward: str | None = None
    reward_models: tuple[Mapping[str, Any], ...] | None = None
    config_sha256: str | None = None
    training: Mapping[str, Any] | None = None
    validation: Mapping[str, Any] | None = None
    last: Mapping[str, Any] | None = None
    frontier: Mapping[str, Any] | None = None
    endpoint: Mapping[str, Any] | None = None


# --- paths -----------------------------------------------------------------------------------------------------------


def systems(folder: Path) -> list[Path]:
    """Return the folders of systems in `folder`, which is `submissions/`, a suite's folder in it, or one system's."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder of submissions.")
    place = place_of(folder)
    # A system may lack its toml; and a checkout may be in a folder `grue`, which is a suite's name.
    holds_suites = place.name == SUBMISSIONS or any((folder / suite).is_dir() for suite in SUITES)
    if (folder / SUBMISSION).is_file() or (place.parent.name in SUITES and not holds_suites):
        return [folder]
    pattern = "[!.]*" if place.name in SUITES else "[!.]*/[!.]*"
    return sorted(path for path in folder.glob(pattern) if path.is_dir())


def place_of(path: Path) -> Path:
    """Return the path absolute and without ".."; unlike `resolve`, it follows no link."""
    return Path(os.path.abspath(path))


def predictions_of(result: Path) -> Path:
    """Return the path of the predictions that belong to a result."""
    return result.with_name(result.name.replace(".result.json", ".predictions.jsonl.gz"))


def seed_of(name: str) -> int | None:
    """Return the seed that the name of a result's file states; None for any other name."""
    match = RESULT.fullmatch(name)
    return int(match[1]) if match and is_seed(match[1]) else None


# --- results ---------------------------------------------------------------------------------------------------------


def read_declared(cls: type[T], data: Mapping[str, Any], where: str, error: type[GrueError] = DataError) -> T:
    """Build a dataclass from the keys that it declares; see `from_dict`. There may be others."""
    declared = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    return from_dict(cls, {key: value for key, value in data.items() if key in declared}, where, error)


def read_result(path: Path) -> Result:
    """Read a `result.json`."""
    data = read_json(path)
    if _nests_too_deep(data):
        raise DataError(f"{path}: nests deeper than {DEEPEST} levels.")
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA_VERSION:
        raise DataError(f"{path}: not a result of schema {SCHEMA_VERSION}, which this version of grue reads: {schema}.")
    result = from_dict(Result, data, str(path), DataError)
    read_declared(StatedSystem, result.system, f"{path}: system")
    faults = [
        f"{path}: scores: {score.metric}: value: must be {CARDS[score.metric].bounds}, found {score.value:g}."
        for score in result.scores
        if score.metric in CARDS
        and not CARDS[score.metric].range[0] - ROUNDING <= score.value <= CARDS[score.metric].range[1] + ROUNDING
    ]
    if faults:
        raise DataError("\n".join(faults[:MOST_FAULTS]))
    if not 0 <= result.seed <= LARGEST_SEED:
        raise DataError(f"{path}: seed: expected a whole number from 0 to {LARGEST_SEED}.")
    return result


def _nests_too_deep(value: Any) -> bool:
    """Whether tables and lists nest deeper than in any file that grue writes; computed without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        tables = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for table in tables for inner in table if isinstance(inner, dict | list)]
    return bool(level)


def stated(results: Iterable[Result], key: str) -> str:
    """Return what results say of their systems under a key, each once, separated by commas; empty if nothing."""
    return ", ".join(sorted({str(result.system[key]) for result in results if result.system.get(key)}))


def does_not_compete(result: Result) -> bool:
    """Whether a result is a reference's: what learned nothing, or what the references chose among several answers."""
    return result.system.get("algorithm") in (*LOOKUPS, "zero-shot", "few-shot") or bool(result.steering.get("oracle"))


# --- submission.toml -------------------------------------------------------------------------------------------------


def read_submission(system: Path) -> Submission:
    """Read a system's `submission.toml`."""
    path = system / SUBMISSION
    submission = from_dict(Submission, read_toml(path), str(path))
    if faults := [f"{path}: {fault}." for fault in _faults(submission)]:
        raise ConfigError("\n".join(faults[:MOST_FAULTS]))
    return submission


def _faults(submission: Submission) -> Iterator[str]:
    fields_of, seeds = plain(submission), submission.seeds
    yield from illegible(fields_of)
    if not all(0 <= seed <= LARGEST_SEED for seed in seeds):
        yield f"seeds: expected whole numbers from 0 to {LARGEST_SEED}"
    if len(set(seeds)) < len(seeds):
        yield f"seeds: lists a seed twice: {', '.join(map(str, sorted(seeds)))}"
    if submission.deterministic and len(seeds) != 1:
        yield f"seeds: is deterministic, but has {len(seeds)} seeds"
    if len(submission.authors) > MOST_AUTHORS:
        yield f"authors: lists {len(submission.authors)}, more than {MOST_AUTHORS}; name the group"
    for key in REQUIRED:
        values = [fields_of[key]] if isinstance(fields_of[key], str) else fields_of[key]
        if not values or not all(any(map(str.isalnum, value)) for value in values):
            yield f"{key}: has no letter or digit"
    if submission.link and not WEB_ADDRESS.fullmatch(submission.link):
        yield f"link: {submission.link!r} is not a plain address that begins with https:// or http://"
    if submission.checkpoints and not CHECKPOINTS.fullmatch(submission.checkpoints):
        places = f"neither a hub id, nor the https address of an archive, nor {CONFIG}"
        yield f"checkpoints: {submission.checkpoints!r} is {places}"


def illegible(value: Any, where: str = "") -> Iterator[str]:
    """Yield the texts in tables and lists, keys included, that are too long, or have characters that cannot be seen."""
    if isinstance(value, str):
        # Answers may end at a line break.
        shown = value.replace("\n", "") if "generation.stop[" in where else value
        if hidden := sorted({sign for sign in shown if not sign.isprintable() or sign in FILLERS}):
            yield f"{where}: has {', '.join(f'U+{ord(sign):04X}' for sign in hidden[:5])}"
        if len(value) > LONGEST_TEXT:
            yield f"{where}: has {len(value):,} characters, more than {LONGEST_TEXT:,}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from illegible(key, f"{where or 'the file'}: a key")
            yield from illegible(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from illegible(item, f"{where}[{index}]")

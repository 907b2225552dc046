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

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from grue.bounds import COUNT, FIGURE, NON_NEGATIVE, PERCENT, Bounds
from grue.errors import ConfigError, DataError, escaped
from grue.files import plain, read_json, read_toml
from grue.metrics.card import CARDS
from grue.records import BASELINES, LARGEST_SEED, LOOKUPS, SCHEMA_VERSION, Result, is_seed
from grue.shapes import MOST_FAULTS, from_dict
from grue.task_files import SUITES

SUBMISSIONS = "submissions"
SUBMISSION = "submission.toml"
MANIFEST = "MANIFEST.sha256"
CONFIG = "config.json"
RESULT = re.compile(r"seed-(0|[1-9][0-9]{0,9})\.result\.json")
SHA256 = re.compile(r"[0-9a-f]{64}")
REACHABLE = "reachable"
"""How the gain is computed that no policy of the same KL exceeds (`grue frontier`)."""
RANKED_SEEDS = 5  # per task, for a rank; with fewer a row is preliminary
PRELIMINARY_SEEDS = 3
ROUNDING = 1e-4  # beyond its scale's ends that a value may be; the last digits of a model's depend on the machine
DEEPEST = 20  # nested tables and lists; files that grue writes have five
LONGEST_TEXT = 1_000
MOST_AUTHORS = 100
REQUIRED = ("authors", "licence", "algorithm", "backbone", "training_data", "budget")
PLACE = re.compile(
    rf"{re.escape(CONFIG)}|[A-Za-z0-9][\w.{{}}-]*(/[\w.{{}}-]+)?"
    r"|https://[\w.-]+/[\w./~%{}+-]+\.(tar|tgz|tar\.gz|zip)",
    re.ASCII,
)
"""Where a submission may say that its checkpoints are; a path of the machine that verifies is none."""
_HOST = re.compile(r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]")  # no local name


@dataclass(frozen=True, slots=True)
class Submission:
    """The content of `submission.toml`: what its authors state about a system.

    Attributes:
        licence: Licence of the predictions.
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


@dataclass(frozen=True, slots=True)
class StatedFigures:
    """What is read of a result's `validation` and `frontier`, which may state more.

    Attributes:
        kl: From the start in nats a response, computed over whole distributions: never negative but for rounding.
        share: Of the gain that can be reached at that KL; of a gain that one kind of policy attains it may be above 1.
    """

    kl: Annotated[float | None, Bounds(least=-1e-3)] = None
    preference: Annotated[float | None, PERCENT] = None
    naturalness: Annotated[float | None, PERCENT] = None
    reward: Annotated[float | None, FIGURE] = None
    sampled_reward: Annotated[float | None, FIGURE] = None
    gain: Annotated[float | None, FIGURE] = None
    share: Annotated[float | None, FIGURE] = None
    how: str = ""
    prompts: Annotated[int | None, COUNT] = None
    samples: Annotated[int | None, COUNT] = None


def seed_of(name: str) -> int | None:
    """Return the seed that the name of a result's file states; None if it is no such name, or that is no seed."""
    match = RESULT.fullmatch(name)
    return int(match[1]) if match and is_seed(match[1]) else None


def read_result(path: Path) -> Result:
    """Read a `result.json`.

    Raises:
        DataError: The file cannot be read, or is not a result of this schema; or its seed is none.
    """
    data = read_json(path)
    if nests_too_deep(data):
        raise DataError(f"{path}: nests deeper than {DEEPEST} levels.")
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA_VERSION:
        raise DataError(f"{path}: not a result of schema {SCHEMA_VERSION}, which this version of grue reads: {schema}.")
    result = from_dict(Result, data, str(path), DataError)
    known = {field.name for field in fields(StatedSystem)}
    from_dict(StatedSystem, {k: v for k, v in result.system.items() if k in known}, f"{path}: system", DataError)
    faults = [f"{path}: {fault}." for fault in _out_of_scale(result)]
    if faults:
        raise DataError("\n".join(faults[:MOST_FAULTS]))
    if not 0 <= result.seed <= LARGEST_SEED:
        raise DataError(f"{path}: seed: expected a whole number from 0 to {LARGEST_SEED}.")
    return result


def _out_of_scale(result: Result) -> Iterator[str]:
    """Yield the scores of a result that are not on their metric's scale."""
    for score in result.scores:
        low, high = CARDS[score.metric].range if score.metric in CARDS else (-math.inf, math.inf)
        if not low - ROUNDING <= score.value <= high + ROUNDING:
            yield f"scores: {score.metric}: value: must be {CARDS[score.metric].bounds}, found {score.value:g}"


def untrue(result: Result) -> Iterator[str]:
    """Yield what a result states and no run can have: a KL below 0, a share above 1, a hash that is none."""
    system, counts = result.system, result.counts
    last = _table(system.get("last"))
    parts = {"validation": system.get("validation"), "last: validation": last.get("validation")}
    for place, part in (parts | {"frontier": system.get("frontier")}).items():
        yield from _untrue_figures(place, _table(part))
    whole, samples = counts.get("expected", math.inf), counts.get("samples", 1)
    if samples < 1:
        yield f"counts: samples: states {samples:,}; one text at least is drawn for an example"
    most = {"empty": whole * samples, "truncated": whole * samples, "samples": math.inf}
    yield from (
        f"counts: {key}: states {n:,} of {most.get(key, whole):,} {'texts' if samples > 1 else 'examples'}"
        for key, n in counts.items()
        if not 0 <= n <= most.get(key, whole)
    )
    yield from (f"timing: {key}: must be at least 0, found {took:g}" for key, took in result.timing.items() if took < 0)
    hashes: dict[str, Any] = {f"hashes: {key}": value for key, value in result.hashes.items()}
    hashes |= {f"system: {key}": system.get(key) or None for key in ("weights", "start", "config_sha256")}
    for key, value in hashes.items():
        is_named = key == "system: weights" and ("@" in str(value) or value in BASELINES)  # a model of the hub, or none
        if value is not None and not is_named and not SHA256.fullmatch(str(value)):
            yield f"{key}: {escaped(value, 70)!r} is no sha256, which has 64 hexadecimal digits"


def _untrue_figures(place: str, stated: Mapping[str, Any]) -> Iterator[str]:
    known = {field.name for field in fields(StatedFigures)}
    try:
        figures = from_dict(StatedFigures, {key: value for key, value in stated.items() if key in known}, place)
    except ConfigError as refusal:
        yield str(refusal).rstrip(".")
        return
    if figures.how == REACHABLE and figures.share is not None and figures.share > 1:
        yield f"{place}: share: states {figures.share:g} of what can be reached, which is 1 at most"


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def stated(results: Iterable[Result], key: str) -> str:
    """Return what results say of their systems under a key, each once, separated by commas; empty if nothing."""
    return ", ".join(sorted({str(result.system[key]) for result in results if result.system.get(key)}))


def does_not_compete(result: Result) -> bool:
    """Whether a result is a reference's, however many seeds it has.

    What learned nothing is: lookups, and a backbone as it is. So is what the references chose among several answers:
    its scores prove nothing.
    """
    best_of = result.generation.get("best_of")
    unlearned = result.system.get("algorithm") in (*LOOKUPS, "zero-shot", "few-shot")
    return unlearned or (isinstance(best_of, Mapping) and bool(best_of.get("oracle")))


def kept_one_start(a: Result, b: Result) -> bool:
    """Whether two results say that the policy kept was the one that training began with, and the same for both."""
    return all(result.system.get("update") == 0 for result in (a, b)) and (
        a.system.get("weights") == b.system.get("weights") not in (None, "")
    )


def read_submission(system: Path) -> Submission:
    """Read a system's `submission.toml`.

    Raises:
        ConfigError: It cannot be read, or does not have the fields of `Submission`; or a seed is none.
    """
    path = system / SUBMISSION
    data = read_toml(path)
    if nests_too_deep(data):
        raise ConfigError(f"{path}: nests deeper than {DEEPEST} levels.")
    submission = from_dict(Submission, data, str(path))
    if faults := [f"{path}: {fault}." for fault in _faults(submission)]:
        raise ConfigError("\n".join(faults[:MOST_FAULTS]))
    return submission


def _faults(submission: Submission) -> Iterator[str]:
    """Yield what is wrong with what a `submission.toml` states."""
    stated = plain(submission)
    yield from illegible(stated)
    if not all(0 <= seed <= LARGEST_SEED for seed in submission.seeds):
        yield f"seeds: expected whole numbers from 0 to {LARGEST_SEED}"
    if len(set(submission.seeds)) < len(submission.seeds):
        yield f"seeds: lists a seed twice: {', '.join(map(str, sorted(submission.seeds)))}"
    if submission.deterministic and len(submission.seeds) != 1:
        yield f"seeds: is deterministic, but has {len(submission.seeds)} seeds"
    if len(submission.authors) > MOST_AUTHORS:
        yield f"authors: lists {len(submission.authors)}, more than {MOST_AUTHORS}; name the group"
    for key in REQUIRED:
        values = [stated[key]] if isinstance(stated[key], str) else stated[key]
        if not values or not all(any(map(str.isalnum, value)) for value in values):
            yield f"{key}: has no letter or digit"
    if submission.link and not is_web_address(submission.link):
        yield f"link: {submission.link!r} is not a plain address that begins with https:// or http://"
    if submission.checkpoints and not PLACE.fullmatch(submission.checkpoints):
        yield f"checkpoints: {submission.checkpoints!r} is neither a hub id, nor the https address of an archive, " + (
            f"nor {CONFIG}"
        )


def illegible(stated: Any, where: str = "") -> Iterator[str]:
    """Yield the texts in tables and lists, keys included, that are too long, or have characters that cannot be seen."""
    if isinstance(stated, str):
        if not stated.isprintable():
            hidden = sorted({sign for sign in stated if not sign.isprintable()})
            yield f"{where}: has {', '.join(f'U+{ord(sign):04X}' for sign in hidden[:5])}"
        if len(stated) > LONGEST_TEXT:
            yield f"{where}: has {len(stated):,} characters, more than {LONGEST_TEXT:,}"
    elif isinstance(stated, Mapping):
        for key, value in stated.items():
            yield from illegible(key, f"{where or 'the file'}: a key")
            yield from illegible(value, f"{where}.{key}" if where else key)
    elif isinstance(stated, list | tuple):
        for index, value in enumerate(stated):
            yield from illegible(value, f"{where}[{index}]")


def is_web_address(link: str) -> bool:
    """Whether a text is an address of a public server of the web, without a password or a port of its own."""
    try:
        parts = urlsplit(link)
        port = parts.port
    except ValueError:  # an invalid host or port
        return False
    names_a_server = bool(_HOST.fullmatch(parts.hostname or "")) and port in (None, 80, 443)
    plain_text = link.isascii() and link.isprintable() and not re.search(r"[\s<>\"\\^`{|}]", link)
    return parts.scheme in ("https", "http") and "@" not in parts.netloc and names_a_server and plain_text


def nests_too_deep(value: Any) -> bool:
    """Whether tables and lists nest deeper than in any file that grue writes; computed without recursion."""
    containers = (dict, list)
    level = [value] if isinstance(value, containers) else []
    for _ in range(DEEPEST):
        if not level:
            return False
        contents = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for content in contents for inner in content if isinstance(inner, containers)]
    return bool(level)


def systems(folder: Path) -> list[Path]:
    """Return the folders of systems in `folder`, which is `submissions/`, a suite's folder in it, or one system's.

    Raises:
        DataError: There is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder of submissions.")
    if (folder / SUBMISSION).is_file() or _lacks_its_toml(folder):
        return [folder]
    pattern = "[!.]*" if place_of(folder).name in SUITES else "[!.]*/[!.]*"
    return sorted(path for path in folder.glob(pattern) if path.is_dir())


def _lacks_its_toml(folder: Path) -> bool:
    """Whether the path marks a folder as a system's; a checkout may be in a folder `grue`, which is a suite's name."""
    place = place_of(folder)
    holds_suites = any((folder / suite).is_dir() for suite in SUITES)
    return place.parent.name in SUITES and place.name != SUBMISSIONS and not holds_suites


def place_of(path: Path) -> Path:
    """Return the path absolute and without ".."; unlike `resolve`, it follows no link."""
    return Path(os.path.abspath(path))


def predictions_of(result: Path) -> Path:
    """Return the path of the predictions that belong to a result."""
    return result.with_name(result.name.replace(".result.json", ".predictions.jsonl.gz"))


def result_of(predictions: Path) -> Path:
    """Return the path of the result that belongs to predictions."""
    return predictions.with_name(predictions.name.replace(".predictions.jsonl.gz", ".result.json"))

"""Tasks: what a task file says, where task files are, and the hash that is a task's identity."""

import graphlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from grue import files
from grue.errors import ConfigError, UnknownName, did_you_mean
from grue.records import Axis, Direction
from grue.shapes import from_dict, json_schema

SCHEMA_VERSION = 1
SUITES = ("mini", "grue")
OWN = "own"  # the suite of a task file that names none


PROSE = (
    ("title",),
    ("description",),
    ("changelog",),
    ("recipes",),
    ("data", "licence"),
    ("data", "citation"),
    ("backbone", "warm_start"),
    ("folder",),
)
"""What a task file says that can change no score."""

USUAL: Mapping[str, Mapping[str, Any]] = {
    "data": {"format": "examples", "language": "en", "licence": "", "evaluation": "test"},
    "prompt": {"max_tokens": 128, "truncation": "left"},
    "rollout": {"max_new_tokens": 64, "do_sample": True},
}
"""What a task file may leave out of its tables. No default of the dataclasses: a task's hash counts all of it."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place that a task's data can come from.

    Attributes:
        kind: "mini" draws from the embedded world, "hub" reads parquet from the Hugging Face hub, "files" the official
            files by their addresses, "local" files of one's own.
        name: The mini task, the hub's data set id, the layout that official files have, or a title of local files.
        config: The data set's configuration on the hub.
        revision: Pinned commit or branch; the mini world pins its seed here. Empty where it could not be known offline.
        files: Split → pattern of parquet files within the hub's repository; or of local files, split → path of a
            .jsonl, .csv or .parquet file.
        columns: The columns to read, nested ones with dots ("document.summary.text"); empty means all.
        urls: Addresses of the official files.
        sha256: Address → sha256 of the file, where it is known.
    """

    kind: Literal["mini", "hub", "files", "local"]
    name: str
    config: str = ""
    revision: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Split:
    """One split: which rows, how many, and the hash that freezes their ids.

    Attributes:
        source: The split's name at the source.
        rows: Rows at the source; another count is an error. 0 where it could not be known offline.
        examples: Examples after grouping and selection. 0 where it could not be known offline.
        ids_sha256: sha256 of the example ids, one a line; empty where it could not be known offline.
        begin, end: The share of the examples that belongs to the split, in the order of the hash of their ids: that
            order does not depend on the source's, and two splits with shares apart never meet.
        without: Splits of this task whose examples, told by their ids, are left out of this one.
    """

    source: str
    rows: int = 0
    examples: int = 0
    ids_sha256: str = ""
    begin: float = 0.0
    end: float = 1.0
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Data:
    """Where the examples come from and how a row becomes one."""

    format: str
    language: str
    licence: str
    sources: tuple[Source, ...]
    splits: Mapping[str, Split]
    evaluation: str
    citation: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """How prompts are cut: at most `max_tokens`, the excess taken off the side `truncation`."""

    max_tokens: int
    truncation: Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Generation:
    """Decoding settings, in the terms of Hugging Face's `GenerationConfig`; `top_k = 0` means no truncation."""

    max_new_tokens: int
    min_new_tokens: int = 0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    num_beams: int = 1
    length_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric of a task's mix.

    Attributes:
        name: Registered metric name.
        axis: What it counts towards; "diversity" is reported and never scored.
        range: The raw values mapped to 0 and 100, worst first; clipped. None for the diversity set.
        reference: For perplexity: the perplexity of the references, so that 100·min(1, reference/value) is the score.
        options: Keyword arguments of the metric.
    """

    name: str
    axis: Axis
    range: tuple[float, float] | None = None
    reference: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def scale(self, value: float) -> float | None:
        """Map a raw corpus value to 0–100, or None for a metric outside the score."""
        if self.reference is not None:
            return 100.0 * min(1.0, self.reference / value)
        if self.range is None:
            return None
        worst, best = self.range
        return 100.0 * min(1.0, max(0.0, (value - worst) / (best - worst)))

    @property
    def direction(self) -> Direction:
        """Whether higher or lower raw values are better, as the scaling says."""
        lower = self.reference is not None or (self.range is not None and self.range[0] > self.range[1])
        return "lower" if lower else "higher"


@dataclass(frozen=True, slots=True)
class Backbone:
    """The model that training starts from: a hub id, a local folder, or `mini:<asset>`.

    Attributes:
        warm_start: A published model that was trained on the task by maximum likelihood, where there is one; what
            `grue train --warm-start` starts from. It changes no score, and is no part of a task's identity.
    """

    family: Literal["causal", "seq2seq"]
    model: str
    revision: str = ""
    warm_start: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A task file.

    Attributes:
        rollout: Decoding during reinforcement learning.
        decoding: Decoding in evaluation.
        reward: The default reward: a metric's name, a weighted sum of such names, or `module:function`.
        recipes: Algorithm → values of its configuration; "rl" is every reinforcement learner's, "supervised+…" a warm
            start's.
        folder: What the paths of local files are relative to: the task file's own folder, where it has any.
    """

    schema: int
    name: str
    suite: str
    version: int
    title: str
    description: str
    data: Data
    prompt: Prompt
    rollout: Generation
    decoding: Generation
    backbone: Backbone
    reward: str
    metrics: tuple[MetricSpec, ...]
    recipes: Mapping[str, Mapping[str, Any]]
    changelog: tuple[str, ...] = ()
    folder: str = ""

    @property
    def hash(self) -> str:
        """sha256 of everything in the file that can change a score: all but `PROSE`.

        A value that is its key's default does not count either, so that a new key leaves every task what it was. In
        return, a default never changes.
        """
        identity = _without_defaults(self)
        for *path, key in PROSE:
            place = identity[path[0]] if path else identity
            place.pop(key, None)
        return files.sha256_json(identity)


def _without_defaults(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: _without_defaults(item) for f, item in pairs if item != _default(f)}
    if isinstance(value, Mapping):
        return {key: _without_defaults(item) for key, item in value.items()}
    return [_without_defaults(item) for item in value] if isinstance(value, tuple) else value


def _default(key: Field[Any]) -> Any:
    return key.default if key.default_factory is MISSING else key.default_factory()


def task_folder() -> Path:
    """Return the folder of suites: `tasks/` of a checkout, or the package's own copy of it."""
    return Path(str(resources.files("grue") / "_tasks")) if _packaged() else Path(__file__).parent.parent / "tasks"


def _packaged() -> bool:
    return (resources.files("grue") / "_tasks").is_dir()


def suite_folder(suite: str) -> Path:
    """Return the folder of a suite: one that ships, or any folder of task files.

    Raises:
        UnknownName: Neither.
    """
    if suite in SUITES:
        return task_folder() / suite
    if Path(suite).is_dir():
        return Path(suite)
    if suite == OWN:
        raise UnknownName(f"Tasks of the suite {OWN!r} are known by their files: name one, as in --task FILE.toml.")
    known = ", ".join(SUITES)
    close = did_you_mean(suite, SUITES)
    raise UnknownName(f"There is no suite {suite!r}.{close} Known: {known}, or the path of a folder of task files.")


def task_names(suite: str) -> list[str]:
    """Return the names of a suite's tasks, sorted."""
    return sorted(path.stem for path in suite_folder(suite).glob("*.toml"))


def load_task(name: str, suite: str = "mini") -> Task:
    """Load a task by name from a suite, or from a file if `name` ends in `.toml`.

    Raises:
        UnknownName: The suite has no such task.
        ConfigError: The task file is not as it should be.
    """
    if name.endswith(".toml"):
        return _load(Path(name))
    known = task_names(suite)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise UnknownName(f"The suite {suite!r} has no task {name!r}.{did_you_mean(name, known)} Known: {listed}.")
    path = suite_folder(suite) / f"{name}.toml"
    task = _load(path)
    for key, said, wanted in (("name", task.name, path.stem), ("suite", task.suite, path.resolve().parent.name)):
        if said != wanted:
            raise ConfigError(f"{path}: {key}: {said!r} is not what the file's place says: {wanted!r}; rename one.")
    return task


def _load(path: Path) -> Task:
    table = filled(files.read_toml(path), path)
    if table.get("schema") != SCHEMA_VERSION:
        found = table.get("schema", "none")
        cure = "upgrade grue or mend the file"
        raise ConfigError(f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {found}; {cure}.")
    task = from_dict(Task, table, str(path))
    for problem in _problems(task):
        raise ConfigError(f"{path}: {problem}")
    return task


def filled(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return what a task file says together with what it may leave out.

    A task whose file says nothing of decoding decodes as in its rollouts: what is explored is what is compared.
    """
    name = table.get("name", path.stem)
    usual = {"schema": SCHEMA_VERSION, "name": name, "suite": OWN, "version": 1, "title": name, "description": ""}
    found = {**usual, "metrics": (), "recipes": {}, **USUAL, **table}
    for key, values in USUAL.items():
        if isinstance(found[key], Mapping):  # what is no table is refused where it becomes one
            found[key] = {**values, **found[key]}
    found.setdefault("decoding", found["rollout"])
    return _with_local_files(found, path) if _local_sources(found) else found


def task_schema() -> dict[str, Any]:
    """Return the JSON Schema of a task file: that of `Task`, of which a file may leave out what `filled` fills in."""
    schema = json_schema(Task)
    parts = schema["properties"]
    optional = {key: set(values) for key, values in USUAL.items()}
    optional["data"].add("splits")  # a source of local files names them
    for part, names in ((schema, set(filled({}, Path())) - {"data"}), *((parts[key], optional[key]) for key in USUAL)):
        part["required"] = [name for name in part["required"] if name not in names]
    source = parts["data"]["properties"]["sources"]["items"]
    source["required"] = [name for name in source["required"] if name != "name"]
    return schema


def _local_sources(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    data = table["data"]
    sources = data.get("sources") if isinstance(data, Mapping) else None
    listed = sources if isinstance(sources, list) else []
    return [source for source in listed if isinstance(source, Mapping) and source.get("kind") == "local"]


def _with_local_files(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the table of a task with local files: a split each, and their folder."""
    local, data = _local_sources(table), table["data"]
    sources = [{"name": table["name"], **source} if source in local else source for source in data["sources"]]
    splits = {split: {"source": split} for source in local for split in source.get("files", {})}
    folder = (path.absolute().parent / str(table.get("folder", ""))).resolve()
    return {**table, "data": {"splits": splits, **data, "sources": sources}, "folder": str(folder)}


def _problems(task: Task) -> Iterator[str]:
    """Yield what the types of a task file cannot say."""
    for key, name in (("name", task.name), ("suite", task.suite)):
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            yield f"{key}: {name!r} becomes a folder's name; use small letters, digits, '_', '-' and '.'."
    if not task.data.sources:
        yield "data.sources: at least one source is needed."
    if task.data.evaluation not in task.data.splits:
        close = did_you_mean(task.data.evaluation, task.data.splits)
        yield f"data.evaluation: no split {task.data.evaluation!r}.{close} Known: {', '.join(task.data.splits)}."
    for name, split in task.data.splits.items():
        for other in split.without:
            if other == name or other not in task.data.splits:
                yield f"data.splits.{name}.without: {other!r} is no other split of this task."
    try:
        graphlib.TopologicalSorter({name: split.without for name, split in task.data.splits.items()}).prepare()
    except graphlib.CycleError as error:
        yield f"data.splits: {' is without '.join(error.args[1])}; one of them must come first."
    names = [spec.name for spec in task.metrics]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"metrics: {name!r} is listed twice; keep one."
    for spec in task.metrics:
        scales = [scale for scale in (spec.range, spec.reference) if scale is not None]
        if spec.axis != "diversity" and len(scales) != 1:
            yield f"metrics: {spec.name!r} needs either a range or a reference to be scored."
        if spec.axis == "diversity" and scales:
            yield f"metrics: {spec.name!r} is outside the score, so that it has no range and no reference."
        if spec.range is not None and spec.range[0] == spec.range[1]:
            yield f"metrics: {spec.name!r}: the ends of its range are the same."
        if spec.reference is not None and spec.reference <= 0:
            yield f"metrics: {spec.name!r}: its reference must be above 0."


# --- versions: what a task was, is on record -------------------------------------------------------------------------


def versions_file() -> Path:
    """Return the file that lists the hash of each version that a task of ours had."""
    return task_folder() / "versions.json"


def check_version(task: Task) -> None:
    """Hold a task to the record of its versions.

    Raises:
        ConfigError: The version is on record with another hash, or not at all.
    """
    where = f"{task.suite}/{task.name}, version {task.version}"
    known = files.read_json(versions_file()).get(f"{task.suite}/{task.name}", {}).get(str(task.version))
    if known is None:
        raise ConfigError(f"{where}: is not on record in {versions_file()}; record it with `grue tasks freeze`.")
    if known != task.hash:
        raise ConfigError(
            f"{where}: its hash is {task.hash}, on record is {known}: something that affects scores has changed "
            "(`grue tasks diff HEAD` shows what). Raise the version, say why in the changelog, and record it with "
            "`grue tasks freeze`."
        )


def freeze_version(task: Task) -> bool:
    """Put a task's version on record; return whether it was not there yet.

    Raises:
        ConfigError: It is on record with another hash, which stays.
    """
    path = versions_file()
    record = files.read_json(path) if path.exists() else {}
    versions = record.setdefault(f"{task.suite}/{task.name}", {})
    if str(task.version) in versions:
        check_version(task)
        return False
    versions[str(task.version)] = task.hash
    files.write_json(path, dict(sorted(record.items())))
    return True


@dataclass(frozen=True, slots=True)
class Change:
    """A key in which two versions of a task file differ; None where it is absent."""

    key: str
    old: Any
    new: Any
    scores: bool


def changes(old: Task, new: Task) -> list[Change]:
    """Return what differs between two states of a task file, key by key, and whether it can change a score."""
    before, after = _flat(_without_defaults(old)), _flat(_without_defaults(new))
    prose = tuple(".".join(path) for path in PROSE)
    return [
        Change(key, before.get(key), after.get(key), not key.startswith(prose))
        for key in sorted(before | after)
        if before.get(key) != after.get(key)
    ]


def _flat(value: Any, key: str = "") -> dict[str, Any]:
    """Return nested tables and lists as one table with dotted keys; a metric is named, not numbered."""
    if isinstance(value, Mapping):
        items = [(f"{key}.{name}" if key else str(name), item) for name, item in value.items()]
    elif isinstance(value, list):
        names = [item["name"] if isinstance(item, Mapping) and "name" in item else i for i, item in enumerate(value)]
        items = [(f"{key}[{name}]", item) for name, item in zip(names, value, strict=True)]
    else:
        return {key: value}
    return {name: leaf for place, item in items for name, leaf in _flat(item, place).items()}

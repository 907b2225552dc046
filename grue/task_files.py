"""Task files: where they are, how they are read and checked, and the record of their versions."""

import graphlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError, UnknownName, did_you_mean
from grue.shapes import from_dict, json_schema
from grue.tasks import PROSE, Task, _without_defaults

SCHEMA_VERSION = 1
SUITES = ("mini", "grue")
OWN = "own"  # the suite of a task file that names none

USUAL: Mapping[str, Mapping[str, Any]] = {
    "data": {"format": "examples", "language": "en", "licence": "", "evaluation": "test"},
    "prompt": {"max_tokens": 128, "truncation": "left"},
    "rollout": {"max_new_tokens": 64, "do_sample": True},
}
"""What a task file may leave out of its tables. No default of the dataclasses: a task's hash counts all of it."""


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

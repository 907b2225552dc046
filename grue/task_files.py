"""Task files: finding, reading and checking them."""

import graphlib
import re
import string
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.shapes import from_dict, json_schema
from grue.task_packages import installed_folder, installed_suites
from grue.tasks import Chat, Split, Task

SCHEMA_VERSION = 1
SUITES = ("mini", "small", "grue")
OWN = "own"  # the suite of a task file without one
NAME_IN_SUITE = re.compile(r"[a-z0-9][a-z0-9_.-]*/[^/]+")

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "data": {"format": "examples", "language": "en", "licence": "", "evaluation": "test"},
    "prompt": {"max_tokens": 128, "truncation": "left"},
    "rollout": {"max_new_tokens": 64, "do_sample": True},
}
"""Values that a task file may leave out. They are not dataclass defaults: they count in a task's hash."""
PATHS = (
    *(("backbone", "model"), ("backbone", "warm_start")),
    *(("metrics", "options", "model"), ("metrics", "options", "dir")),
)
"""The keys of what may be a path beside the file; so may the names of models in the reward and of metrics."""


def task_folder() -> Path:
    """Return the folder of the built-in suites: `tasks/` of a checkout, or the installed package's copy."""
    packaged = resources.files("grue") / "_tasks"
    return Path(str(packaged)) if packaged.is_dir() else Path(__file__).parent.parent / "tasks"


def suite_folder(suite: str) -> Path:
    """Return the folder of a suite: a built-in one, one of an installed package, or any folder of task files.

    Raises:
        UnknownName: There is no such suite and no such folder.
        ConfigError: An installed package offers the suite, but its folder does not exist.
    """
    if suite in SUITES:
        return task_folder() / suite
    packaged = installed_folder(suite)
    if packaged is not None:
        return packaged
    if Path(suite).is_dir():
        return Path(suite)
    if suite == OWN:
        raise UnknownName(
            f'A task of the suite {OWN!r} is given by its file: write --task FILE.toml, or task="FILE.toml" in Python.'
        )
    suites = (*SUITES, *installed_suites())
    known = instead(suite, suites).removesuffix(".")
    raise UnknownName(f"There is no suite {suite!r}.{known}, or the path of a folder of task files.")


def is_named(suite: str) -> bool:
    """Whether a suite is known by name: built in, or of an installed package."""
    return suite in SUITES or suite in installed_suites()


def command_name(task: Task) -> str:
    """Return how a command names a task: by name and suite, or by its file."""
    return f"{task.name} --suite {task.suite}" if is_named(task.suite) else "FILE.toml"


def task_names(suite: str) -> list[str]:
    """Return the names of a suite's tasks, sorted."""
    return sorted(path.stem for path in suite_folder(suite).glob("*.toml"))


def load_task(name: str, suite: str = "mini") -> Task:
    """Load a task by name from a suite, or from a file if `name` ends in `.toml`.

    Args:
        name: "haiku", or with its suite "acme/haiku", which overrides `suite`.

    Raises:
        UnknownName: The suite has no such task.
        ConfigError: The task file has errors; the message has a line for each.
    """
    if name.endswith(".toml"):
        return _load(Path(name))
    if NAME_IN_SUITE.fullmatch(name):
        suite, _, name = name.partition("/")
    names = task_names(suite)
    if name not in names:
        listed_by = f"grue tasks list --suite {suite}"
        raise UnknownName(f"The suite {suite!r} has no task {name!r}.{instead(name, names, listed_by)}")
    path = suite_folder(suite) / f"{name}.toml"
    task = _load(path)
    packaged = suite not in SUITES and is_named(suite)
    home = suite if packaged else path.resolve().parent.name
    for key, actual, expected in (("name", task.name, path.stem), ("suite", task.suite, home)):
        if actual != expected:
            origin = "its entry point" if packaged and key == "suite" else "the file's path"
            raise ConfigError(f"{path}: {key}: {actual!r} differs from {origin}, which gives {expected!r}; rename one.")
    return task


def _load(path: Path) -> Task:
    table = filled(files.read_toml(path), path)
    if table.get("schema") != SCHEMA_VERSION:
        version = table.get("schema", "none")
        cure = "upgrade grue or correct the file"
        raise ConfigError(f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {version}; {cure}.")
    task = from_dict(Task, table, str(path))
    problems = list(_problems(task))
    if problems:
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in problems))
    return task


def filled(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a task file's table with defaults filled in.

    Without `decoding`, evaluation decodes like rollouts.
    """
    name = table.get("name", path.stem)
    defaults = {"schema": SCHEMA_VERSION, "name": name, "suite": OWN, "version": 1, "title": name, "description": ""}
    complete = {**defaults, "metrics": (), "recipes": {}, **DEFAULTS, **table}
    for key, values in DEFAULTS.items():
        if isinstance(complete[key], Mapping):  # any other value is refused later, with its place
            complete[key] = {**values, **complete[key]}
    complete.setdefault("decoding", complete["rollout"])
    complete = _with_models_beside(complete, path)
    return _with_local_files(complete, path) if _local_sources(complete) else complete


def task_schema() -> dict[str, Any]:
    """Return the JSON Schema of a task file: that of `Task`, with the keys that `filled` fills in optional."""
    schema = json_schema(Task)
    parts = schema["properties"]
    optional = {key: set(values) for key, values in DEFAULTS.items()}
    optional["data"].add("splits")  # sources of local files define them
    for part, names in (
        (schema, set(filled({}, Path())) - {"data"}),
        *((parts[key], optional[key]) for key in DEFAULTS),
    ):
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
    """Return the table of a task with local files, with a split per file, and their folder."""
    local, data = _local_sources(table), table["data"]
    sources = [{"name": table["name"], **source} if source in local else source for source in data["sources"]]
    splits = {split: {"source": split} for source in local for split in source.get("files", {})}
    folder = (path.absolute().parent / str(table.get("folder", ""))).resolve()
    return {**table, "data": {"splits": splits, **data, "sources": sources}, "folder": str(folder)}


def _with_models_beside(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a task file's table in which models beside the file have absolute paths, and their folder.

    Other names are unchanged: ids of the hub, and paths from the working directory.
    """
    folder = (path.absolute().parent / str(table.get("folder", ""))).resolve()

    def whole(value: str) -> str:
        relative = value and not Path(value).is_absolute()
        return f"{folder}/{value}" if relative and (folder / value).exists() else value

    def updated(value: Any, *keys: str) -> Any:
        """Return a part of the table by its keys; a number in a list is no key."""
        if isinstance(value, Mapping):
            return {key: updated(part, *keys, key) for key, part in value.items()}
        if isinstance(value, list):
            return [updated(part, *keys) for part in value]
        if isinstance(value, str) and keys in PATHS:
            return whole(value)
        if isinstance(value, str) and keys in (("reward",), ("metrics", "name")):
            return re.sub(r"(?<=\bmodel:)\S+", lambda match: whole(match[0]), value)
        return value

    complete = updated(table)
    return dict(table) if complete == table else {**complete, "folder": str(folder)}


def _problems(task: Task) -> Iterator[str]:
    """Yield the problems of a task file beyond its types."""
    for key, name in (("name", task.name), ("suite", task.suite)):
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            yield f"{key}: {name!r} is used as a folder name; use lower-case letters, digits, '_', '-' and '.'."
    if not task.data.sources:
        yield "data.sources: at least one source is needed."
    for source in task.data.sources:
        if source.folder and (source.kind != "local" or source.files):
            yield f"data.sources: {source.name!r}: a folder is for a local source without files; leave one out."
    if task.data.evaluation not in task.data.splits:
        close = did_you_mean(task.data.evaluation, task.data.splits)
        yield f"data.evaluation: no split {task.data.evaluation!r}.{close} Known: {', '.join(task.data.splits)}."
    for name, split in task.data.splits.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            yield f"data.splits: {name!r} cannot name a split; use letters, digits, '_', '-' and '.'."
        if not 0 <= split.begin < split.end <= 1:
            yield (
                f"data.splits.{name}: a share from {split.begin:g} to {split.end:g}; begin and end are parts of one, "
                "0 ≤ begin < end ≤ 1."
            )
        for excluded in split.without:
            if excluded == name or excluded not in task.data.splits:
                yield f"data.splits.{name}.without: {excluded!r} is not another split of this task."
    for learned in ("train", "rl"):
        yield from _shares_of(learned, task.data.splits)
    try:
        graphlib.TopologicalSorter({name: split.without for name, split in task.data.splits.items()}).prepare()
    except graphlib.CycleError as error:
        yield f"data.splits: {' is without '.join(error.args[1])}, a circle; remove one `without`."
    for key, part in (("decoding", task.decoding), ("rollout", task.rollout), ("search", task.search)):
        if part is None:
            continue
        if part.min_new_tokens > part.max_new_tokens:
            yield f"{key}: min_new_tokens = {part.min_new_tokens} is above max_new_tokens = {part.max_new_tokens}."
        if part.num_beams > 1 and part.do_sample:
            cure = "leave it out" if key == "rollout" else "leave it out, or set do_sample = false"
            yield f"{key}: num_beams = {part.num_beams} has no effect with do_sample = true; {cure}."
        if part.samples > 1 and not (key == "decoding" and part.do_sample):
            reason = "only [decoding] can have it" if part.do_sample else "do_sample = false draws none"
            yield f"{key}: samples = {part.samples}, but {reason}; leave it out."
        if not all(part.stop):
            yield f"{key}: stop: an empty text would end every response at once; leave it out."
    if task.search is not None and task.search.do_sample:
        yield "search: do_sample = true, but [search] must be beam search or greedy; leave it out, or the table."
    if not task.rollout.do_sample:
        yield (
            "rollout: do_sample = false, but rollouts are always samples; leave it out, and write how evaluation "
            "decodes in [decoding]."
        )
    names = [spec.name for spec in task.metrics]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"metrics: {name!r} is listed twice; keep one."
    for spec in task.metrics:
        scales = [scale for scale in (spec.range, spec.reference) if scale is not None]
        if spec.axis != "diversity" and len(scales) != 1:
            yield f"metrics: {spec.name!r} needs either a range or a reference to be scored."
        if spec.axis == "diversity" and scales:
            yield f"metrics: {spec.name!r} is outside the score; remove its range and reference."
        if spec.range is not None and spec.range[0] == spec.range[1]:
            yield f"metrics: {spec.name!r}: the ends of its range are equal."
    yield from _problems_of_families(task)
    if task.prompt.chat is not None:
        yield from (f"prompt.chat.{problem}" for problem in _problems_of_chat(task.prompt.chat, task))


def _shares_of(learned: str, splits: Mapping[str, Split]) -> Iterator[str]:
    """Yield problems of splits that share examples with one that is learned from."""
    train = splits.get(learned)
    for name, split in splits.items():
        if train is None or split is train or name in train.without or learned in split.without:
            continue
        if (learned, name) == ("rl", "train"):
            continue  # said of train already
        if split.source == train.source and max(split.begin, train.begin) < min(split.end, train.end):
            yield (
                f"data.splits.{name}: overlaps {learned}, a share of the same {split.source!r}, so that its answers "
                'would be learned; separate the shares, or give one `without = ["…"]` the other.'
            )


def _problems_of_chat(chat: Chat, task: Task) -> Iterator[str]:
    try:
        places = [name for _, name, _, _ in string.Formatter().parse(chat.user) if name is not None]
        plain = all(not shape and not convert for _, _, shape, convert in string.Formatter().parse(chat.user))
    except ValueError as error:
        yield f"user: {error}; write {{{{ and }}}} for braces."
        return
    if not chat.user.strip():
        yield "user: is empty; write the question, with {prompt} in it."
    elif strange := [name for name in places if name != "prompt"] or ([] if plain else ["prompt with a format"]):
        yield f"user: unknown placeholder {{{strange[0]}}}; the only one is {{prompt}}, and {{{{ and }}}} are braces."
    elif not places:
        yield "user: has no {prompt}, so that every example would get the same question."
    if chat.shots and ("train" not in task.data.splits or task.data.evaluation == "train"):
        yield "shots: are drawn from the split train, which the task lacks or evaluates on; write examples."
    for number, shot in enumerate(chat.examples, start=1):
        if not shot.prompt.strip() or not shot.answer.strip():
            yield f"examples[{number - 1}]: an empty prompt or answer is useless; fill it in, or leave it out."
    if chat.marker and chat.pattern:
        yield "marker: cannot be combined with pattern; leave one of them out."
    try:
        re.compile(chat.pattern)
    except re.error as error:
        yield f"pattern: not a regular expression: {error}."


def _problems_of_families(task: Task) -> Iterator[str]:
    scored = [spec.name for spec in task.metrics if spec.axis != "diversity"]
    named = [name for family in task.families for name in family]
    for name in sorted(set(named)):
        if name not in scored:
            yield f"families: {name!r} is not a scored metric of the task.{instead(name, scored)}"
        elif named.count(name) > 1:
            yield f"families: {name!r} is listed twice; metrics that move together are one family."
    if any(len(family) < 2 for family in task.families):
        yield "families: a family has at least two metrics; leave out single ones."

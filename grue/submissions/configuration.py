"""The configuration that a submission carries, `<task>/config.json`, so that anyone can train its runs again.

It is untrusted like the rest of a submission: names in it are compared with those that grue has, and never imported,
opened or downloaded because a submission says so. As JSON it keeps the settings that are turned off (null), so that the
hash which a result records follows from it exactly.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grue import files
from grue.algorithms import BUILT_IN, SUPERVISED
from grue.errors import ConfigError, DataError, visible
from grue.evaluation.rewards import REWARDS, parse_reward
from grue.metrics.card import CARDS, MODEL
from grue.records import Result
from grue.shapes import from_dict
from grue.submissions.checks.budgets import other_calls
from grue.submissions.folder import CONFIG, nests_too_deep
from grue.submissions.problems import Problem, error, warning
from grue.submissions.reading import Scan, without_path
from grue.task_files import load_task
from grue.tasks import Task

SCHEMA_VERSION = 1
ALGORITHMS = frozenset(BUILT_IN)

Value = bool | int | float | str | None
Origin = Literal["known", "hub", "path"]

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


@dataclass(frozen=True, slots=True)
class Stage:
    """One run that training took: what its `config.toml` says, without its seed and without what is one machine's.

    Attributes:
        backbone_weights: See `grue.lm.load.weights_id`.
        data_sha256: Of the contents of the task's local files; empty for a task without any.
        config: Every setting of the algorithm.
    """

    suite: str
    task: str
    task_hash: str
    algorithm: str
    reward: str
    backbone: str
    backbone_weights: str
    data_sha256: str
    config: Mapping[str, Value]

    def record(self, seed: int, start: str) -> dict[str, Any]:
        """Return what a run of this stage records, see `grue.runs.plan.Plan.record`; its hash is in the result.

        Args:
            start: `weights` of the checkpoint that it began from; empty if it was none.
        """
        return {**files.plain(self), "seed": seed, "data_dir": "", "init_sha256": start}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of `config.json`: the runs behind a system on a task, the last of which is the system."""

    schema: int
    stages: tuple[Stage, ...]

    @property
    def last(self) -> Stage:
        """The run whose predictions were submitted."""
        return self.stages[-1]


def read_configuration(path: Path) -> Configuration:
    """Read a `config.json`.

    Raises:
        DataError: It cannot be read, or is no configuration of one or two runs.
    """
    data = files.read_json(path)
    if nests_too_deep(data):
        raise DataError(f"{path}: nests too deeply.")
    try:
        found = from_dict(Configuration, data, str(path))
    except ConfigError as error:
        raise DataError(visible(str(error))) from error
    if found.schema != SCHEMA_VERSION:
        raise DataError(f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {found.schema}.")
    names = [stage.algorithm for stage in found.stages]
    if names != names_of_stages(names[-1] if names else ""):
        raise DataError(f"{path}: stages: expected one run, or a supervised one and one that began from it: {names!r}.")
    return found


def names_of_stages(algorithm: str) -> list[str]:
    """Return the algorithms that a chain's runs record: the last has the name of the whole chain."""
    first, plus, _ = algorithm.partition("+")
    return [first, algorithm] if plus else [algorithm]


def differences(configuration: Configuration, result: Result, usual: str) -> Iterator[str]:
    """Yield where a configuration is not the one that a result was made with.

    Args:
        usual: The task's default reward, for which a result counts that does not name its own, as older ones do.
    """
    last, system = configuration.last, result.system
    default = "" if last.algorithm == SUPERVISED else usual
    for key, said, found in (
        ("suite", last.suite, result.suite),
        ("task", last.task, result.task),
        ("task_hash", last.task_hash, result.task_hash),
        ("algorithm", last.algorithm, system.get("algorithm")),
        ("backbone", last.backbone, system.get("backbone")),
        ("reward", last.reward if last.algorithm != SUPERVISED else "", system.get("reward", default)),
    ):
        if said != found:
            yield f"{key}: states {said!r}; the result of seed {result.seed} {found!r}."
    hashed = files.sha256_json(last.record(result.seed, str(system.get("start", ""))))
    if hashed != system.get("config_sha256"):
        recorded = system.get("config_sha256")
        yield f"its hash with seed {result.seed} is {hashed!r}; the result records {recorded!r}."


# --- what a submission may ask for -----------------------------------------------------------------------------------


def demands(configuration: Configuration, task: Task) -> Iterator[str]:
    """Yield what a configuration asks for that no submission may: code beside grue's own, or files of one machine."""
    for stage in configuration.stages:
        for name in stage.algorithm.split("+"):
            if name not in ALGORITHMS:
                yield f"algorithm {name!r} is code that is not grue's."
        for name in foreign_terms(stage.reward):
            what = "a folder of one machine" if name.startswith(MODEL) else "code that is not grue's"
            yield f"reward {name!r} is {what}."
        if origin_of(stage.backbone, task) == "path":
            yield f"backbone {stage.backbone!r} is a folder of one machine."
        yield from _files_of_one_machine(stage.config)


def _files_of_one_machine(config: Mapping[str, Value]) -> Iterator[str]:
    """Yield the settings that name files or folders of the machine that trained."""
    for name in ("data", "reference"):
        if config.get(name) is not None:
            yield f"{name} = {config[name]!r} names files of one machine."
    select = config.get("select")
    if isinstance(select, str) and select.startswith("limr"):
        yield f"select = {select!r} names a run of one machine."


def foreign_terms(reward: str) -> list[str]:
    """Return the terms of a reward that are not grue's own; all of it if it cannot be read as a sum of terms."""
    try:
        names = [name for _, name in parse_reward(reward)] if reward.isprintable() else [reward]
    except ConfigError:
        return [reward]  # a function that was passed as an object
    return [name for name in names if name not in CARDS and name not in REWARDS.built_in()]


def origin_of(backbone: str, task: Task) -> Origin:
    """Return where a backbone is from: "known" is the task's own and what ships with grue.

    What could be a hub's id and is also a file or folder here is taken for a path, since loading would take it for one.
    """
    own = {task.backbone.model, task.backbone.warm_start} - {""}
    if backbone in own or re.fullmatch(r"(mini|small):[a-z0-9_-]+", backbone):
        return "known"
    return "hub" if HUB_ID.fullmatch(backbone) and not Path(backbone).exists() else "path"


# --- checks ----------------------------------------------------------------------------------------------------------


def check_configurations(system: Path, found: Scan, results: Mapping[Path, Result]) -> Iterator[Problem]:
    """Yield what is wrong with the configurations in a system's folder."""
    suite = system.absolute().parent.name
    for name in sorted(name for name in found.readable if name.endswith(f"/{CONFIG}")):
        path = system / name
        by_path = {p: one for p, one in results.items() if p.parent == path.parent and one.status == "complete"}
        of_task = list(by_path.values())
        if not of_task:
            yield error(1, path, "belongs to no result.")
            continue
        try:
            configuration = read_configuration(path)
        except DataError as refusal:
            yield error(70, path, without_path(refusal, path))
            continue
        task = load_task(path.parent.name, suite)
        yield from (error(71, path, line) for one in of_task for line in differences(configuration, one, task.reward))
        asked = list(demands(configuration, task))
        yield from (error(70, path, line) for line in asked)
        for at, one in by_path.items() if not asked else ():
            lines = other_calls(configuration.last.config, len(configuration.stages) == 1, one)
            yield from (warning(80, at, line) for line in lines)

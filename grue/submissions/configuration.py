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
from grue.errors import ConfigError, DataError
from grue.evaluation.rewards import REWARDS, parse_reward
from grue.evaluation.rewriter import REWRITER
from grue.metrics.card import CARDS, MODEL
from grue.records import Result
from grue.submissions.checks.claims import other_calls
from grue.submissions.problems import Problem, problem
from grue.submissions.reading import without_path
from grue.tasks import Task

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
        """Return what a run records that began from weights, or from none; its hash is in the result."""
        return {**files.plain(self), "seed": seed, "data_dir": "", "init_sha256": start}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of `config.json`: the runs behind a system on a task, the last of which is the system."""

    schema: Literal[1]
    stages: tuple[Stage, ...]


def read_configuration(path: Path) -> Configuration:
    """Read a `config.json`."""
    configuration = files.load_json(path, Configuration)
    names = [stage.algorithm for stage in configuration.stages]
    if names != names_of_stages(names[-1] if names else ""):
        raise DataError(f"{path}: stages: expected one run, or a supervised one and one that began from it: {names!r}.")
    return configuration


def names_of_stages(algorithm: str) -> list[str]:
    """Return the algorithms that a chain's runs record: the last has the name of the whole chain."""
    first, plus, _ = algorithm.partition("+")
    return [first, algorithm] if plus else [algorithm]


def differences(configuration: Configuration, result: Result) -> Iterator[str]:
    """Yield where a configuration is not the one that a result was made with."""
    last, system = configuration.stages[-1], result.system
    for key, configured, recorded in (
        ("suite", last.suite, result.suite),
        ("task", last.task, result.task),
        ("task_hash", last.task_hash, result.task_hash),
        ("algorithm", last.algorithm, system.get("algorithm")),
        ("backbone", last.backbone, system.get("backbone")),
        ("reward", "" if last.algorithm == SUPERVISED else last.reward, system.get("reward", "")),
    ):
        if configured != recorded:
            yield f"{key}: states {configured!r}; the result of seed {result.seed} {recorded!r}."
    hashed = files.sha256_json(last.record(result.seed, str(system.get("start", ""))))
    if hashed != (recorded := system.get("config_sha256")):
        yield f"its hash with seed {result.seed} is {hashed!r}; the result records {recorded!r}."


# --- what a submission may ask for -----------------------------------------------------------------------------------


def demands(configuration: Configuration, task: Task) -> Iterator[str]:
    """Yield what a configuration asks for that no submission may: code beside grue's own, or files of one machine."""
    for stage in configuration.stages:
        for name in stage.algorithm.split("+"):
            if name not in ALGORITHMS:
                yield f"algorithm {name!r} is code that is not grue's."
        for name in foreign_terms(stage.reward):
            what = "a folder of one machine" if name.startswith((MODEL, REWRITER)) else "code that is not grue's"
            yield f"reward {name!r} is {what}."
        if origin_of(stage.backbone, task) == "path":
            yield f"backbone {stage.backbone!r} is a folder of one machine."
        for name in ("data", "reference"):
            if stage.config.get(name) is not None:
                yield f"{name} = {stage.config[name]!r} names files of one machine."
        select = stage.config.get("select")
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
    """Return where a backbone is from; "known" are the task's own and those that ship with grue.

    A hub's id that is also a path here is a path, since loading would take it for one.
    """
    own = {task.backbone.model, task.backbone.warm_start} - {""}
    if backbone in own or re.fullmatch(r"(mini|small):[a-z0-9_-]+", backbone):
        return "known"
    return "hub" if HUB_ID.fullmatch(backbone) and not Path(backbone).exists() else "path"


def check_configuration(path: Path, task: Task, results: Mapping[Path, Result]) -> Iterator[Problem]:
    """Yield what is wrong with a task's `config.json`, given the task's results."""
    complete = {at: result for at, result in results.items() if result.status == "complete"}
    if not complete:
        yield problem(1, path, "belongs to no result.")
        return
    try:
        configuration = read_configuration(path)
    except DataError as refusal:
        yield problem(70, path, without_path(refusal, path))
        return
    for result in complete.values():
        yield from (problem(71, path, line) for line in differences(configuration, result))
    forbidden = [problem(70, path, line) for line in demands(configuration, task)]
    yield from forbidden
    for at, result in complete.items() if not forbidden else ():
        lines = other_calls(configuration.stages[-1].config, len(configuration.stages) == 1, result)
        yield from (problem(80, at, line) for line in lines)

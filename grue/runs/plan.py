"""What a run will do, and the folder that it claims: made from the command line before anything is loaded."""

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue import files
from grue.data.load import local_data_id
from grue.errors import ConfigError, DataError
from grue.lm import checkpoint
from grue.lm.load import weights_id
from grue.rl.settings import Common
from grue.runs.recipes import make_config, split_algorithm
from grue.tasks import Backbone, Task


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides how a run goes.

    Attributes:
        system: Name of the system, and of its folder.
        init: Checkpoint that the policy starts from; None starts from the backbone.
        backbone: Model to start from instead of the task's own.
        folder: Where the run lies.
    """

    task: Task
    algorithm: str
    config: Common
    reward: str
    seed: int
    system: str
    folder: Path
    init: Path | None = None
    backbone: Backbone | None = None
    data_dir: Path | None = None
    offline: bool = False

    @property
    def start(self) -> Backbone:
        """The model that the policy starts from where there is no checkpoint to start from."""
        return self.backbone or self.task.backbone

    @property
    def title(self) -> str:
        """What the run is, in a few words."""
        return f"{self.algorithm} on {self.task.name}, seed {self.seed}"

    @property
    def checkpoint(self) -> Path:
        """Where the best checkpoint lies once there is one."""
        return self.folder / "checkpoint"

    def record(self) -> dict[str, Any]:
        """Return the content of `config.toml`; its hash is the identity of the configuration."""
        manifest = None if self.init is None else checkpoint.read_manifest(self.init)
        return {
            "suite": self.task.suite,
            "task": self.task.name,
            "task_hash": self.task.hash,
            "algorithm": self.algorithm,
            "reward": self.reward,
            "seed": self.seed,
            "backbone": self.start.model,
            "backbone_weights": weights_id(self.start.model, self.start.revision),
            "data_sha256": local_data_id(self.task),
            "data_dir": "" if self.data_dir is None else str(self.data_dir.resolve()),
            "init_sha256": "" if manifest is None else files.sha256_json(manifest.files),
            "config": files.plain(self.config),
        }


def plan_stages(
    task: Task,
    algorithm: str,
    seed: int,
    runs: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    preset: str | None = None,
    reward: str | None = None,
    system: str | None = None,
    init: Path | None = None,
    backbone: str | None = None,
    warm_start: bool = False,
    data_dir: Path | None = None,
    offline: bool = False,
) -> list[Plan]:
    """Return the runs that an algorithm takes: `supervised+nlpo` is two, the first shared by all that start from it.

    Args:
        warm_start: Leave the supervised stage out and start from the published model that the task file names.

    Raises:
        UnknownName, ConfigError: The algorithm, a key of its configuration or a value is wrong.
    """
    stages = split_algorithm(algorithm)
    if warm_start:
        _check_warm_start(task, stages, init, backbone)
        stages, backbone = stages[1:], task.backbone.warm_start
    if init is not None and len(stages) > 1:
        raise ConfigError(
            f"--init starts from a checkpoint; with it, write --algo {stages[-1]} instead of {algorithm}."
        )
    plans: list[Plan] = []
    for stage in stages:
        last = stage == stages[-1]
        name = algorithm if last else stage  # a warm start keeps its name, and with it its recipe
        config = make_config(task, name, (overrides or {}) if last else {}, preset if last else None)
        title = (system or algorithm) if last else stage
        plans.append(
            Plan(
                task=task,
                algorithm=name,
                config=config,
                reward=(reward or task.reward) if last else task.reward,
                seed=seed,
                system=title,
                folder=runs / task.suite / task.name / title / f"seed-{seed}",
                init=plans[-1].checkpoint if plans else init,
                backbone=Backbone(task.backbone.family, backbone) if backbone else None,
                data_dir=data_dir,
                offline=offline,
            )
        )
    return plans


def _check_warm_start(task: Task, stages: tuple[str, ...], init: Path | None, backbone: str | None) -> None:
    where = f"{task.suite}/{task.name}"
    if not task.backbone.warm_start:
        raise ConfigError(f"--warm-start: {where} names no published model; write --algo {'+'.join(stages)} alone.")
    if len(stages) < 2 or init is not None or backbone is not None:
        raise ConfigError(
            f"--warm-start takes the place of the supervised stage ({task.backbone.warm_start} on {where}): "
            "write it with --algo supervised+ALGORITHM, and without --init and --backbone."
        )


def finished(plan: Plan) -> bool:
    """Whether the folder holds this very run, finished.

    Raises:
        ConfigError: It holds a run of another configuration.
    """
    log = plan.folder / "train.jsonl"
    if not log.exists() or not (plan.folder / "config.toml").exists():
        return False
    lines = log.read_bytes().rstrip(b"\n").rsplit(b"\n", 1)
    if not lines[-1].startswith(b'{"finished":true'):
        return False
    _refuse_other_configuration(plan)
    return True


def claim_folder(plan: Plan) -> None:
    """Write `config.toml`, or make sure that the one that is there says the same."""
    if (plan.folder / "config.toml").exists():
        _refuse_other_configuration(plan)
    else:
        files.write_toml(plan.folder / "config.toml", plan.record())


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold the run's folder, so that no second process trains in it; a process that dies lets go of it.

    Raises:
        ConfigError: Another process holds it.
        DataError: The folder cannot be written.
    """
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}.") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"{folder}: another process is training here; wait for it, or choose --system NAME."
            ) from error
        yield


def _refuse_other_configuration(plan: Plan) -> None:
    path = plan.folder / "config.toml"
    old, new = _flat(files.read_toml(path)), _flat(plan.record())
    differing = [key for key in sorted(old | new) if old.get(key) != new.get(key)]
    if differing:
        key = differing[0]
        raise ConfigError(
            f"{path}: this folder holds a run with {key} = {old.get(key)!r}, not {new.get(key)!r}"
            f"{f' (and {len(differing) - 1} more differences)' if len(differing) > 1 else ''}. "
            "Choose another --system name for the new configuration, or remove the folder."
        )


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    nested = {f"config.{key}": value for key, value in record.get("config", {}).items() if value is not None}
    return {key: value for key, value in record.items() if key != "config"} | nested

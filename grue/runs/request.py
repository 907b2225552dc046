"""A request for a run: the one noun that the command line, the Python API and sweeps make runs from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grue.records import check_seed
from grue.tasks import Task


def canonical(algorithm: str) -> str:
    """Return an algorithm's name with the names that its stages are registered by: "reinforce++" is no module's."""
    return algorithm.replace("reinforce++", "reinforce_plus_plus")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request for a run; `plan.stages_of` turns it into plans.

    Attributes:
        algorithm: "ppo", say, or with a warm start "supervised+ppo", which is two runs.
        seed: Of every draw.
        runs: Folder of all runs; this one is SUITE/TASK/SYSTEM/seed-N in it.
        settings: Values of the algorithm's settings; they override the task's recipe and the preset.
        preset: Named values of the algorithm's settings: "paper", "rl4lms" or "stable" for NLPO.
        reward: A metric, a weighted sum, or "module:function"; None takes the task's.
        system: Name of the system, and of its folder; None takes the algorithm's.
        init: A run's folder or a checkpoint to start from, instead of the backbone.
        backbone: Model to start from instead of the task's: a folder, a hub id or `mini:<name>`.
        warm_start: Start from the published supervised model that the task file names, instead of training one.
        data_dir: Folder with the data set in its original layout, instead of the task's sources.
        offline: Use only what is on this machine.

    Raises:
        ConfigError: The seed cannot be one.
    """

    task: Task
    algorithm: str = "ppo"
    seed: int = 1
    runs: Path = Path("runs")
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    reward: str | None = None
    system: str | None = None
    init: Path | None = None
    backbone: str | None = None
    warm_start: bool = False
    data_dir: Path | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithm", canonical(self.algorithm))
        object.__setattr__(self, "seed", check_seed(self.seed))

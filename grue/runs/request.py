"""A request for a run, from which the command line, the Python API and sweeps all make runs.

Options of commands are derived from its fields (`grue.cli.options.run`), keyword arguments of `grue.train` are its
fields, and a sweep varies them: a new argument of a run is a new field here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from grue.errors import ConfigError
from grue.records import LARGEST_SEED, check_seed
from grue.tasks import Task

MOST_SEEDS = 10_000


def canonical(algorithm: str) -> str:
    """Return an algorithm's name with the names that its stages are registered by: "reinforce++" is no module's."""
    return algorithm.replace("reinforce++", "reinforce_plus_plus")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request for a run; `plan.stages_of` turns it into plans. A field's description is also its option's help.

    Attributes:
        task: Name of a task, or the path of a task file.
        algorithm: Name of an algorithm (`grue algorithms list`), or after supervised training supervised+NAME.
        seed: Of every draw.
        runs: Folder of all runs; this one is SUITE/TASK/SYSTEM/seed-N in it.
        settings: Values of the algorithm's settings; they override the task's recipe and the preset.
        preset: NLPO as the paper describes it (paper), as RL4LMs ran it (rl4lms), or stable.
        reward: A metric, a weighted sum (0.5*meteor+0.5*coverage), or module:function. [default: the task's]
        system: Name of the system, and of its folder. [default: the algorithm, with --backbone]
        init: A run's folder or a checkpoint to start from, instead of the task's backbone.
        backbone: Model to start from instead of the task's: a folder, a hub id, or mini:seq2seq, say.
        warm_start: With supervised+NAME: start from the published supervised model that the task file names.
        data_dir: Folder with the data set in its original layout, instead of the task's sources.
        offline: Use only local files; open no connection.

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


ARGUMENTS = tuple(field.name for field in fields(RunRequest) if field.name not in ("task", "algorithm", "settings"))
"""Keyword arguments of a run besides its task, its algorithm and the algorithm's settings."""
VARIED = ("reward", "preset", "backbone")
"""What a sweep may vary besides the algorithm's settings."""


def parse_seeds(text: str) -> list[int]:
    """Parse seeds written as 1-5 or 1,2,7.

    Raises:
        ConfigError: The text has another form, or the seeds are too large or too many.
    """
    shown, seeds = repr(text if len(text) <= 40 else f"{text[:40]}…"), dict[int, None]()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        are_numbers = first.isdecimal() and last.isdecimal()
        if are_numbers and (
            max(len(first), len(last)) > len(str(LARGEST_SEED)) or int(max(first, last, key=int)) > LARGEST_SEED
        ):
            raise ConfigError(f"seeds {shown}: choose whole numbers from 0 to {LARGEST_SEED}.")
        drawn = range(int(first), int(last) + 1) if are_numbers else range(0)
        if not drawn:
            raise ConfigError(f"seeds {shown}: write a range such as 1-5, or a list such as 1,2,7.")
        if len(seeds) + len(drawn) > MOST_SEEDS:
            raise ConfigError(f"seeds {shown}: more than {MOST_SEEDS:,} at once.")
        seeds |= dict.fromkeys(drawn)
    return list(seeds)


def seeds_of(texts: Sequence[str]) -> list[int]:
    """Return the seeds of several such texts, each once; [1] if there are none."""
    return list(dict.fromkeys(seed for text in texts for seed in parse_seeds(text))) or [1]


def seeds_given(seeds: str | Sequence[int]) -> list[int]:
    """Return seeds given as such a text or as numbers, each once; a ConfigError if one is invalid."""
    return parse_seeds(seeds) if isinstance(seeds, str) else list(dict.fromkeys(map(check_seed, seeds)))

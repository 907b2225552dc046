"""The algorithms, one file each, and their names."""

from collections.abc import Iterable
from pathlib import Path
from pkgutil import iter_modules

from grue.records import LONGEST_NAME, model_word

SUPERVISED = "supervised"
"""The one that others may start from, as in `supervised+ppo`."""
BUILT_IN = tuple(sorted(module.name for module in iter_modules(__path__)))


def system_of(algorithm: str) -> str:
    """Return the name of a system that nobody named: its algorithm's, without the object of "module:NAME"."""
    return "+".join(stage.partition(":")[0] for stage in algorithm.split("+"))


def with_backbone(system: str, backbone: str | None) -> str:
    """Return the name of a system that nobody named, with the backbone that it starts from instead of the task's.

    Args:
        backbone: A folder, a hub id or `mini:<name>`; None, or empty, for the task's own.
    """
    if not backbone:
        return system
    model = str(Path(backbone).resolve()) if Path(backbone).is_dir() else backbone
    return f"{system}-{model_word(model)}"[:LONGEST_NAME].rstrip("_.+-")


def with_warm_starts(names: Iterable[str]) -> list[str]:
    """Return names of algorithms, and each after supervised training."""
    every = list(names)
    return [*every, *(f"{SUPERVISED}+{name}" for name in every if name != SUPERVISED)]

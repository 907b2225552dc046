"""The algorithms, one file each, and their names."""

from collections.abc import Iterable
from pkgutil import iter_modules

SUPERVISED = "supervised"
"""The one that others may start from, as in `supervised+ppo`."""
BUILT_IN = tuple(sorted(module.name for module in iter_modules(__path__) if not module.ispkg))


def system_of(algorithm: str) -> str:
    """Return the name of a system that nobody named: its algorithm's, without the object of "module:NAME"."""
    return "+".join(stage.partition(":")[0] for stage in algorithm.split("+"))


def with_warm_starts(names: Iterable[str]) -> list[str]:
    """Return names of algorithms, and each after supervised training."""
    every = list(names)
    return [*every, *(f"{SUPERVISED}+{name}" for name in every if name != SUPERVISED)]

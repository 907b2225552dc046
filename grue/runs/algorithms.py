"""Algorithms by name: the files of `grue/algorithms`, installed plug-ins (`grue.algorithms`), and the user's own."""

from typing import Any

from grue.algorithms import BUILT_IN, SUPERVISED
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.metrics.own import import_from
from grue.registry import Registry
from grue.rl.settings import Common
from grue.rl.trainer import Algorithm
from grue.runs.request import canonical

ALGORITHMS: Registry[Algorithm[Any]] = Registry(
    "algorithm",
    modules={name: f"grue.algorithms.{name}:ALGORITHM" for name in BUILT_IN},
    entry_points="grue.algorithms",
    listed_by="grue algorithms list",
)


def find_algorithm(name: str) -> Algorithm[Any]:
    """Return an algorithm by its name, or by "module:NAME": an object of a module that the user wrote.

    Raises:
        UnknownName: Nothing has that name.
        ConfigError: The module cannot be imported, or the object is not an algorithm.
    """
    found: Any
    name = canonical(name)
    if name not in ALGORITHMS and ":" in name:
        module, wanted = import_from(name, "algorithm", known=ALGORITHMS.names()), name.partition(":")[2]
        if not hasattr(module, wanted):
            close = did_you_mean(wanted, vars(module))
            raise ConfigError(f"The algorithm {name!r}: {module.__name__} has no {wanted!r}.{close}")
        found = getattr(module, wanted)
    else:
        found = ALGORITHMS[name]
    if not (isinstance(found, Algorithm) and issubclass(found.settings, Common)):
        raise ConfigError(
            f"The algorithm {name!r} must be a grue.rl.trainer.Algorithm whose settings extend a class of "
            f"grue.rl.settings, found {type(found).__name__}; see docs/how-to/your-own.md."
        )
    return found


def split_algorithm(name: str) -> tuple[str, ...]:
    """Split `supervised+nlpo` into its stages.

    Raises:
        UnknownName: A stage is no algorithm.
        ConfigError: A warm start that is not supervised.
    """
    stages = tuple(canonical(name).split("+"))
    for stage in stages:
        if stage not in ALGORITHMS and ":" not in stage:
            raise UnknownName(_unknown(stage))
    if len(stages) > 2 or (len(stages) == 2 and (stages[0] != SUPERVISED or stages[1] == SUPERVISED)):
        raise ConfigError(f"{name!r} is no chain of stages; write supervised+ALGORITHM, such as supervised+nlpo.")
    return stages


def _unknown(name: str) -> str:
    for algorithm in BUILT_IN:
        for preset in ALGORITHMS[algorithm].presets:
            if preset.replace("_", "-") == name.replace("_", "-").lower():
                return f"There is no algorithm {name!r}. It is a preset: --algo {algorithm} --preset {preset}."
    return f"There is no algorithm {name!r}.{instead(name, ALGORITHMS.names(), ALGORITHMS.listed_by)}"

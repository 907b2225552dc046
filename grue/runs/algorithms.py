"""Algorithms by name: the files of `grue/algorithms`, installed plug-ins (`grue.algorithms`), and the user's own."""

from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from grue.algorithms import BUILT_IN, SUPERVISED, cards
from grue.errors import ConfigError, UnknownName, did_you_mean
from grue.registry import Registry
from grue.rl.card import AlgorithmCard
from grue.rl.settings import Common
from grue.runs.request import canonical

if TYPE_CHECKING:
    from grue.rl.trainer import Algorithm

ALGORITHMS: "Registry[Algorithm[Any]]" = Registry(
    "algorithm",
    modules={name: f"grue.algorithms.{name}:ALGORITHM" for name in BUILT_IN},
    entry_points="grue.algorithms",
)
CARDS: Registry[AlgorithmCard[Any]] = Registry(
    "algorithm", modules={name: f"grue.algorithms.cards.{name}:CARD" for _, name, _ in iter_modules(cards.__path__)}
)


def find_card(name: str) -> "AlgorithmCard[Any] | Algorithm[Any]":
    """Return what can be set of an algorithm: its card, which imports no torch, or where it has none, itself.

    Raises:
        UnknownName, ConfigError: As for `find_algorithm`.
    """
    name = canonical(name)
    return CARDS[name] if name in CARDS else find_algorithm(name)


def find_algorithm(name: str) -> "Algorithm[Any]":
    """Return an algorithm by its name, or by "module:NAME": an object of a module that the user wrote.

    Raises:
        UnknownName: Nothing has that name.
        ConfigError: The module cannot be imported, or the object is not an algorithm.
    """
    from grue.metrics.own import import_from
    from grue.rl.trainer import Algorithm

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
    known = ALGORITHMS.names()
    presets = [(preset, algorithm) for algorithm in BUILT_IN for preset in find_card(algorithm).presets]
    close = did_you_mean(name, known)
    for preset, algorithm in presets:
        if preset.replace("_", "-") == name.replace("_", "-").lower():
            close = f" It is a preset: --algo {algorithm} --preset {preset}."
    return (
        f"There is no algorithm {name!r}.{close} Known: {', '.join(known)}; after supervised training: supervised+NAME."
    )

"""Algorithms by name: the files of `grue/algorithms`, installed plug-ins (`grue.algorithms`), and the user's own."""

import inspect
import secrets
import sys
from collections.abc import Mapping
from dataclasses import fields
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from grue import files
from grue.algorithms import BUILT_IN, SUPERVISED, cards
from grue.errors import ConfigError, UnknownName, did_you_mean, instead
from grue.registry import Registry
from grue.rl.settings import AlgorithmCard, Common
from grue.runs.request import canonical

if TYPE_CHECKING:
    from grue.rl.trainer import Algorithm

ALGORITHMS: "Registry[Algorithm[Any]]" = Registry(
    "algorithm",
    modules={name: f"grue.algorithms.{name}:ALGORITHM" for name in BUILT_IN},
    entry_points="grue.algorithms",
    listed_by="grue algorithms list",
)
CARDS: Registry[AlgorithmCard[Any]] = Registry(
    "algorithm", modules={name: f"grue.algorithms.cards.{name}:CARD" for _, name, _ in iter_modules(cards.__path__)}
)


def find_card(name: str) -> "AlgorithmCard[Any] | Algorithm[Any]":
    """Return an object that has an algorithm's settings: its card, which imports no torch, or else the algorithm.

    Raises:
        UnknownName, ConfigError: As for `find_algorithm`.
    """
    name = canonical(name)
    return CARDS[name] if name in CARDS else find_algorithm(name)


OWN_SETTINGS = "own settings"
"""What settings are called that are neither the paper's nor another preset's."""


def preset_of(algorithm: str, config: Mapping[str, Any]) -> str:
    """Return the preset that a run's settings agree with, however they were set; empty if the defaults are the paper's.

    Args:
        algorithm: The last stage counts, as in `supervised+nlpo`.
        config: The run's settings; one that is turned off is None or missing.
    """
    last = algorithm.rpartition("+")[2]
    presets = CARDS[last].presets if last in CARDS else {}
    for name, settings in presets.items():
        if all(config.get(key) == value for key, value in settings.items()):
            return name
    return OWN_SETTINGS if "paper" in presets else ""


def find_algorithm(name: str) -> "Algorithm[Any]":
    """Return an algorithm by its name, or by "module:NAME": an object of a module that the user wrote.

    Raises:
        UnknownName: Nothing has that name.
        ConfigError: The module cannot be imported, or the object is not an algorithm; or the name belongs to an
            algorithm that was passed as an object to another process.
    """
    from grue.metrics.own import import_from
    from grue.rl.trainer import Algorithm

    algorithm: Any
    name = canonical(name)
    if name in PASSED:
        return PASSED[name]
    if name.endswith(")"):  # a name of `give_name`
        raise ConfigError(
            f"The algorithm {name!r} was passed as an object, and this process was not given it: call grue.train with "
            "the same object, unchanged."
        )
    if name not in ALGORITHMS and ":" in name:
        module, attribute = import_from(name, "algorithm", suggestions=ALGORITHMS.names()), name.partition(":")[2]
        if not hasattr(module, attribute):
            close = did_you_mean(attribute, vars(module))
            raise ConfigError(f"The algorithm {name!r}: {module.__name__} has no {attribute!r}.{close}")
        algorithm = getattr(module, attribute)
    else:
        algorithm = ALGORITHMS[name]
    if not (isinstance(algorithm, Algorithm) and issubclass(algorithm.settings, Common)):
        raise ConfigError(
            f"The algorithm {name!r} must be a grue.rl.trainer.Algorithm whose settings extend a class of "
            f"grue.rl.settings, found {type(algorithm).__name__}; see docs/how-to/your-own.md."
        )
    return algorithm


PASSED: "dict[str, Algorithm[Any]]" = {}
"""Algorithms that were passed as objects, by the names that `give_name` gave them."""


def give_name(algorithm: "Algorithm[Any]") -> str:
    """Return the name by which a run's record knows an algorithm that is passed as an object.

    It is "module:NAME" if the module's file defines NAME. An algorithm of a script, of a notebook, or one that
    its module does not name is kept here under a name that ends with the sha256 of its functions, of the functions of
    their modules that they call, and of the fields and methods of its settings; so a run resumes only with the same
    code. If these cannot be read, the name has a random part instead: no other process can resume such a run.

    Raises:
        ConfigError: The module's file has changed since the object was made.
    """
    for builtin in BUILT_IN:
        if ALGORITHMS[builtin] is algorithm:
            return builtin
    attribute = algorithm.settings.__name__
    for module in dict.fromkeys(part.__module__ for part in (algorithm.settings, algorithm.update, algorithm.start)):
        place = vars(sys.modules.get(module, sys))
        named = next((name for name, value in place.items() if value is algorithm), None)
        if named is None:
            continue
        if module != "__main__" and place.get("__file__"):
            if find_algorithm(f"{module}:{named}") is not algorithm:
                raise ConfigError(f"The algorithm {module}:{named}: {place['__file__']} has changed; import it anew.")
            return f"{module}:{named}"
        attribute = named
    known = (name for name, value in PASSED.items() if value is algorithm)
    name = next(known, f"{algorithm.update.__module__}:{attribute} ({_fingerprint(algorithm)})")
    PASSED[name] = algorithm
    return name


def _fingerprint(algorithm: "Algorithm[Any]") -> str:
    from grue.metrics.own import NO_SOURCE, sources_of

    own = [cls for cls in algorithm.settings.__mro__ if cls.__module__.partition(".")[0] not in ("grue", "builtins")]
    items = [item for cls in own for item in vars(cls).items() if item[0] == "__post_init__" or item[0][:2] != "__"]
    values = [value.fget if isinstance(value, property) else value for _, value in items]
    functions = [value for value in values if inspect.isfunction(value)]  # dataclass makes the other methods
    settings = [[field.name, str(field.type), repr(field.default)] for field in fields(algorithm.settings)]
    try:
        sources = sources_of([algorithm.update, algorithm.start, algorithm.parts, *functions])
        content = [settings, sources, files.plain(algorithm.presets), sorted(algorithm.without_effect)]
        return f"sha256 {files.sha256_json(content)[:16]}"
    except NO_SOURCE:
        return f"unknown {secrets.token_hex(8)}"


def split_algorithm(name: str) -> tuple[str, ...]:
    """Split `supervised+nlpo` into its stages.

    Raises:
        UnknownName: A stage is not an algorithm.
        ConfigError: The warm start is not supervised.
    """
    stages = tuple(canonical(name).split("+"))
    for stage in stages:
        if stage not in ALGORITHMS and ":" not in stage:
            raise UnknownName(_unknown(stage))
    if len(stages) > 2 or (len(stages) == 2 and (stages[0] != SUPERVISED or stages[1] == SUPERVISED)):
        raise ConfigError(f"{name!r} is not a chain of stages; write supervised+ALGORITHM, such as supervised+nlpo.")
    return stages


def _unknown(name: str) -> str:
    for algorithm in CARDS.names():
        for preset in CARDS[algorithm].presets:
            if preset.replace("_", "-") == name.replace("_", "-").lower():
                return f"There is no algorithm {name!r}. It is a preset: --algo {algorithm} --preset {preset}."
    return f"There is no algorithm {name!r}.{instead(name, ALGORITHMS.names(), ALGORITHMS.listed_by)}"

"""GRUE: a benchmark harness and leaderboard for reinforcement learning on language generation.

The names of `__all__` are those of the rooms of `grue.api`, classes that these are given, and the modules `errors` and
`rewards`, each imported when it is first used; `__init__.pyi` tells type checkers.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = [
    *("Endpoint", "Example", "Prediction", "Trained", "compare", "diagnose", "errors", "evaluate", "examples"),
    *("export", "generate", "import_predictions", "push", "rewards", "score", "train"),
]

_ROOMS = {
    **{"Trained": "train", "compare": "score", "diagnose": "train", "generate": "evaluate"},
    **dict.fromkeys(("export", "import_predictions", "push"), "exchange"),
}
"""Where a name of `grue.api` is, if not in the module of its own name."""


def __getattr__(name: str) -> Any:
    """Return a name of the API."""
    if name not in __all__:
        raise AttributeError(f"module 'grue' has no attribute {name!r}")
    if name == "errors":
        return import_module("grue.errors")
    if name == "rewards":
        return import_module("grue.rewards")
    if name in ("Example", "Prediction"):
        return getattr(import_module("grue.records"), name)
    if name == "Endpoint":
        return import_module("grue.evaluation.endpoint").Endpoint
    return getattr(import_module(f"grue.api.{_ROOMS.get(name, name)}"), name)


def __dir__() -> list[str]:
    """Return the names that completion offers."""
    return [*__all__, "__version__"]

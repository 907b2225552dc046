"""GRUE: a benchmark harness and leaderboard for reinforcement learning on language generation.

The names of `__all__` are those of `grue.api`, classes of their arguments and results, and the modules `callbacks`,
`errors` and `rewards`, each imported when first used; `__init__.pyi` declares them for type checkers.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = [
    *("Endpoint", "Example", "Prediction", "Trained", "bench", "board", "callbacks", "compare", "diagnose", "errors"),
    *("evaluate", "examples", "export", "generate", "import_predictions", "push", "rewards", "score", "train"),
]

_ROOMS = {
    **{"Trained": "train", "compare": "score", "diagnose": "train", "generate": "evaluate"},
    **dict.fromkeys(("export", "import_predictions", "push"), "exchange"),
}
"""The module of `grue.api` with a name, if it is not the module of that name."""


def __getattr__(name: str) -> Any:
    """Return a name of the API."""
    if name not in __all__:
        raise AttributeError(f"module 'grue' has no attribute {name!r}")
    if name == "callbacks":
        return import_module("grue.callbacks")
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
    """Return the names for completion."""
    return [*__all__, "__version__"]

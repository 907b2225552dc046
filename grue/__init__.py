"""GRUE: a benchmark harness and leaderboard for reinforcement learning on language generation.

`train`, `diagnose`, `evaluate`, `score`, `examples` and `compare` are those of `grue.api`, which is imported when one
of them is first used; `__init__.pyi` tells type checkers.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Trained", "compare", "diagnose", "evaluate", "examples", "score", "train"]


def __getattr__(name: str) -> Any:
    """Return a name of the API."""
    if name not in __all__:
        raise AttributeError(f"module 'grue' has no attribute {name!r}")
    return getattr(import_module("grue.api"), name)

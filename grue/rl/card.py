"""What can be set of an algorithm, without its code: checking names and values imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from grue.rl.settings import Common

C = TypeVar("C", bound=Common)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmCard(Generic[C]):
    """`CARD` of a file of `grue/algorithms/cards`; the fields are those of `grue.rl.trainer.Algorithm`."""

    settings: type[C]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without_effect: frozenset[str] = frozenset()

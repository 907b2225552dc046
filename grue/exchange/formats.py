"""The formats that results are exported to, by name; a writer is imported when it is needed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from grue.registry import Registry

if TYPE_CHECKING:
    from grue.exchange.measured import Described, Measured

Writer: TypeAlias = "Callable[[Sequence[Measured], Described], str]"

FORMATS: Registry[Writer] = Registry(
    "format",
    modules={
        "every-eval-ever": "grue.exchange.every_eval_ever:every_eval_ever",
        "model-index": "grue.exchange.hub_results:model_index",
        "eval-results": "grue.exchange.hub_results:eval_results",
    },
)

"""The settings of `grue/algorithms/supervised.py`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import POSITIVE
from grue.rl.settings import AlgorithmCard, Common


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedConfig(Common):
    """Maximum likelihood of the references, over the response only.

    Attributes:
        epochs: Passes over the training pairs.
        batch_size: Pairs of one optimiser step.
    """

    learning_rate: Annotated[float, POSITIVE] = 1e-5
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    epochs: Annotated[int, POSITIVE] = 4
    batch_size: Annotated[int, POSITIVE] = 32
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    validate_every: Annotated[int, POSITIVE] = 1
    save_every: Annotated[int, POSITIVE] = 40

    @property
    def length(self) -> int:
        """Number of epochs of a run."""
        return self.epochs


CARD = AlgorithmCard(settings=SupervisedConfig)

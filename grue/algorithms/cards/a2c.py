"""The settings of `grue/algorithms/a2c.py`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from grue.bounds import POSITIVE, UNIT
from grue.rl.settings import ActorCriticConfig, AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class A2CConfig(ActorCriticConfig):
    """Advantage actor-critic (Mnih et al. 2016): one step of the plain policy gradient on each update's rollouts.

    RL4LMs' values: λ = 1, RMSprop, advantages not whitened.
    """

    gae_lambda: Annotated[float, UNIT] = 1.0
    epochs: Annotated[int, POSITIVE] = 1
    optimizer: Literal["adamw", "rmsprop"] = "rmsprop"
    adam_epsilon: Annotated[float, POSITIVE] = 1e-5
    whiten_advantages: bool = False

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; a minibatch is always all rollouts."""
        yield from ActorCriticConfig.problems(replace(self, minibatch_size=self.rollouts))


CARD = AlgorithmCard(settings=A2CConfig, without_effect=frozenset({"epochs", "minibatch_size", "stop_kl"}))

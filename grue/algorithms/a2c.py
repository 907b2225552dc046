"""Advantage actor-critic: rollouts, advantages, one step of the plain policy gradient, again.

Mnih et al. (2016), without its asynchrony; for text as in RL4LMs. It is PPO with a single step an update on all its
rollouts and without a clipped ratio (Huang et al. 2022), since a policy gradient holds for the policy that was sampled.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from torch import Tensor

from grue.algorithms import ppo
from grue.bounds import POSITIVE, UNIT
from grue.rl.experience import Minibatch
from grue.rl.settings import ActorCriticConfig
from grue.rl.trainer import Algorithm, Trainer, TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class A2CConfig(ActorCriticConfig):
    """Advantage actor-critic (Mnih et al. 2016): one step of the plain policy gradient on each update's rollouts.

    RL4LMs' values: λ = 1, RMSprop, advantages as they are.
    """

    gae_lambda: Annotated[float, UNIT] = 1.0
    epochs: Annotated[int, POSITIVE] = 1
    optimizer: Literal["adamw", "rmsprop"] = "rmsprop"
    adam_epsilon: Annotated[float, POSITIVE] = 1e-5
    whiten_advantages: bool = False

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values together; a minibatch is always all rollouts."""
        yield from ActorCriticConfig.problems(replace(self, minibatch_size=self.rollouts))


def update(trainer: Trainer, state: TrainState, config: A2CConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    one_step = replace(config, epochs=1, minibatch_size=config.rollouts, stop_kl=None)
    return ppo.improve(trainer, state, one_step, n, gradient_loss)


def gradient_loss(batch: Minibatch, advantages: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return −log π·A of each token [b, T], and the largest |ratio − 1|."""
    error = ((batch.new.detach() - batch.old).exp() - 1.0).abs() * batch.mask
    return -batch.new * advantages, {"ratio_error": error.max()}


ALGORITHM = Algorithm(
    settings=A2CConfig, update=update, without_effect=frozenset({"epochs", "minibatch_size", "stop_kl"})
)

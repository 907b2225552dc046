"""Advantage actor-critic: rollouts, advantages, one step of the plain policy gradient, repeated.

Mnih et al. (2016), without its asynchrony; for text as in RL4LMs. It is PPO with a single step per update, on all of
its rollouts and without a clipped ratio (Huang et al. 2022), since a policy gradient is valid for the sampled policy.
"""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from grue.algorithms import ppo
from grue.algorithms.cards.a2c import CARD, A2CConfig
from grue.rl import functional as rl
from grue.rl.experience import Minibatch
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: A2CConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    one_step = replace(config, epochs=1, minibatch_size=config.rollouts, stop_kl=None)
    return ppo.improve(trainer, state, one_step, n, gradient_loss)


def gradient_loss(batch: Minibatch, advantages: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return −log π·A of each token [b, T], and how far the ratio is from 1."""
    return -batch.new * advantages, rl.ratio_errors(batch.new - batch.old, batch.mask)


ALGORITHM = implement(CARD, update)

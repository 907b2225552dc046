"""Proximal policy optimisation with a KL penalty: rollouts, advantages, a few epochs of clipped updates, repeated.

Schulman et al. (2017); for text as in Ramamurthy et al. (2023), §3 and App. A. NLPO (`nlpo.py`) is PPO with a
restricted sampler, A2C (`a2c.py`) PPO with one step and another policy loss.

B = responses of an update, b = rows of a micro-batch, T = response time.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from grue.algorithms.cards.ppo import CARD, PPOConfig
from grue.rl import functional as rl
from grue.rl.experience import (
    Experience,
    Minibatch,
    advantages_and_returns,
    collect_valued,
    describe,
    explained_variance,
    next_kl_coefficient,
    regularised,
    score_minibatch,
)
from grue.rl.optimize import mismatch, optimize
from grue.rl.settings import ActorCriticConfig
from grue.rl.trainer import Trainer, TrainState, implement

# (minibatch, advantages [b, T]) → the policy's loss of each token [b, T], and sums over the tokens for the log.
PolicyLoss = Callable[[Minibatch, Tensor], tuple[Tensor, Mapping[str, Tensor]]]


def update(trainer: Trainer, state: TrainState, config: PPOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    return improve(trainer, state, config, n, partial(clipped_loss, config))


def improve(
    trainer: Trainer,
    state: TrainState,
    config: ActorCriticConfig,
    n: int,
    policy_loss: PolicyLoss,
    experience: Experience | None = None,
) -> dict[str, float]:
    """Collect rollouts, estimate advantages, take the optimiser steps, adapt the penalty; return the log's figures."""
    experience = experience or collect_valued(trainer, state, config, n)
    advantages, returns = advantages_and_returns(experience, config)
    advantages = advantages * experience.weights

    def losses_of(rows: Tensor) -> Mapping[str, Tensor]:
        batch = score_minibatch(trainer, state, config, experience, rows)
        return token_losses(batch, config, experience, advantages, returns, policy_loss)

    losses = optimize(trainer, state, config, experience.mask.float(), losses_of, n)
    figures = describe(experience, state) | explained_variance(experience, config) | losses
    state.kl_coefficient = next_kl_coefficient(state.kl_coefficient, experience, config)
    return figures


def token_losses(
    batch: Minibatch,
    config: ActorCriticConfig,
    experience: Experience,
    advantages: Tensor,
    returns: Tensor,
    policy_loss: PolicyLoss,
) -> Mapping[str, Tensor]:
    """Return sums over the tokens of a minibatch: the loss, its parts and figures of the ratio.

    `advantages` and `returns` are [B, T].
    """
    current, mask = batch.current, batch.mask
    assert current.values is not None and experience.policy.values is not None
    policy, figures = policy_loss(batch, batch.part(advantages))
    value = rl.value_loss(current.values, batch.part(returns), batch.part(experience.policy.values), config.value_clip)
    loss = regularised(policy + config.value_coefficient * value, current, config)
    return {
        "loss": (loss * mask).sum(),
        "policy_loss": (policy * mask).sum(),
        "value_loss": (value * mask).sum(),
        **figures,
        **mismatch(current.restricted, batch.drawn, mask),
    }


def clipped_loss(config: PPOConfig, batch: Minibatch, advantages: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return PPO's clipped loss of each token [b, T], and figures of the ratio."""
    loss = rl.clipped_policy_loss(batch.new, batch.old, advantages, config.clip, dual=config.dual_clip)
    return loss, rl.ratio_figures(batch.new, batch.old, batch.mask, config.clip)


ALGORITHM = implement(CARD, update)

"""REINFORCE: the policy gradient of whole responses, without a critic.

Williams (1992). A response is one action. Its return is its score less β times its summed KL, and all of its tokens
have the same advantage: the return less a baseline, the mean of the batch. RLOO (`rloo.py`) is this with another
baseline.

Several steps on the same rollouts are corrected token by token, with PPO's clipped ratio, since the ratio of a whole
response leaves any clip range after a step or two. verl and OpenRLHF do the same for RLOO; TRL clips the response's
ratio.

B = responses of an update, b = rows of a micro-batch, T = response time.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from grue.algorithms.cards.reinforce import CARD, ReinforceConfig
from grue.rl import functional as rl
from grue.rl.experience import (
    Experience,
    Minibatch,
    collect,
    describe,
    next_kl_coefficient,
    regularised,
    score_minibatch,
)
from grue.rl.optimize import mismatch, optimize
from grue.rl.trainer import Trainer, TrainState, implement

# (returns [B], size of a group) → returns less the baseline of their group.
Baseline = Callable[[Tensor, int], Tensor]


def update(trainer: Trainer, state: TrainState, config: ReinforceConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    return improve(trainer, state, config, n, partial(response_advantages, config, rl.centre_groups, config.rollouts))


def improve(
    trainer: Trainer,
    state: TrainState,
    config: ReinforceConfig,
    n: int,
    advantages_of: Callable[[Experience], Tensor],
) -> dict[str, float]:
    """Collect rollouts, take the optimiser steps, adapt the penalty; return figures for the log.

    `advantages_of` returns the advantages of the tokens, [B, T], or of whole responses, [B, 1].
    """
    experience = collect(trainer, state, config, n)
    advantages = advantages_of(experience) * experience.weights

    def losses_of(rows: Tensor) -> Mapping[str, Tensor]:
        return token_losses(score_minibatch(trainer, state, config, experience, rows), config, advantages)

    losses = optimize(trainer, state, config, experience.mask.float(), losses_of, n)
    figures = describe(experience, state) | losses
    state.kl_coefficient = next_kl_coefficient(state.kl_coefficient, experience, config)
    return figures


def response_advantages(config: ReinforceConfig, less_baseline: Baseline, size: int, experience: Experience) -> Tensor:
    """Return the advantage of each response, [B, 1]; whitened over the responses if so configured.

    `less_baseline` subtracts the baseline that `size` adjacent responses share.
    """
    advantages = rl.judge_counted(experience.scored, less_baseline, experience.rewards.sum(1), size)
    if config.whiten_advantages:
        advantages = rl.whiten(advantages, experience.scored.float())
    return advantages.unsqueeze(1)


def token_losses(batch: Minibatch, config: ReinforceConfig, advantages: Tensor) -> Mapping[str, Tensor]:
    """Return sums over the tokens of a minibatch: the loss and figures of the ratio; `advantages` as above.

    As long as the policy is the sampled one, the clipped ratio has the gradient of A·log π.
    """
    policy = rl.clipped_policy_loss(batch.new, batch.old, batch.part(advantages), config.clip)
    loss = regularised(policy, batch.current, config)
    return {
        "loss": (loss * batch.mask).sum(),
        "policy_loss": (policy * batch.mask).sum(),
        **rl.ratio_figures(batch.new, batch.old, batch.mask, config.clip),
        **mismatch(batch.current.restricted, batch.drawn, batch.mask),
    }


ALGORITHM = implement(CARD, update)

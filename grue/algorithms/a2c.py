"""Advantage actor-critic: rollouts, advantages, one step of the plain policy gradient, again.

Mnih et al. (2016), without its asynchrony; for text as in RL4LMs. A policy gradient holds for the policy that was
sampled, so there is one step an update, on all its rollouts: `epochs`, `minibatch_size` and `stop_kl` have no say.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from torch import Tensor

from grue.rl import functional as rl
from grue.rl.experience import (
    Experience,
    advantages_and_returns,
    collect,
    describe,
    next_kl_coefficient,
    score_tokens,
)
from grue.rl.optimisation import set_learning_rate
from grue.rl.optimize import improve
from grue.rl.rollout import rollout_settings
from grue.rl.settings import A2CConfig
from grue.rl.state import Learner, make_learner
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@ALGORITHMS.register("a2c")
def train(run: Run, config: A2CConfig) -> None:
    """Train `run.policy` in place."""
    config = replace(config, epochs=1, minibatch_size=config.rollouts, stop_kl=None)
    learner = make_learner(run.policy, config)
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        line = one_update(run, learner, config, update)
        run.end_update(update + 1, config.updates, line, learner)


def one_update(run: Run, learner: Learner, config: A2CConfig, update: int) -> dict[str, float]:
    """Collect rollouts, take a step, steer the penalty; return the line for the log."""
    experience = collect(run, learner, config, update)
    advantages, returns = advantages_and_returns(experience, config)
    losses_of = partial(token_losses, run, learner, config, experience, advantages, returns)
    losses = improve(run, learner, config, experience.mask.float(), losses_of, update)
    line = describe(experience, learner) | losses
    learner.kl_coefficient = next_kl_coefficient(learner.kl_coefficient, experience, config)
    return line


def token_losses(
    run: Run,
    learner: Learner,
    config: A2CConfig,
    experience: Experience,
    advantages: Tensor,
    returns: Tensor,
    rows: Tensor,
) -> Mapping[str, Tensor]:
    """Return sums over the tokens of some rows: the loss −log π·A + c·(V − R)² − c'·H, its parts, and |ratio − 1|."""
    with run.autocast():
        scored = score_tokens(
            learner.policy,
            learner.critic,
            experience.rollout,
            rows,
            rollout_settings(run.task, config).temperature,
            config,
            entropy=config.entropy_coefficient != 0.0,
        )
    new, width = scored.over(config.ratio_over), scored.restricted.shape[1]
    mask, old = experience.mask[rows, :width], experience.log_probs[rows, :width]
    assert scored.values is not None and experience.policy.values is not None
    policy_loss = -new * advantages[rows, :width]
    value_loss = rl.value_loss(
        scored.values, returns[rows, :width], experience.policy.values[rows, :width], config.value_clip
    )
    loss = policy_loss + config.value_coefficient * value_loss
    if scored.entropy is not None:
        loss = loss - config.entropy_coefficient * scored.entropy
    return {
        "loss": (loss * mask).sum(),
        "policy_loss": (policy_loss * mask).sum(),
        "value_loss": (value_loss * mask).sum(),
        "ratio_error": (((new.detach() - old).exp() - 1.0).abs() * mask).max(),
    }

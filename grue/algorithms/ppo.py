"""Proximal policy optimisation with a KL penalty: rollouts, advantages, a few epochs of clipped updates, again.

Schulman et al. (2017); for text as in Ramamurthy et al. (2023), §3 and App. A. NLPO (`nlpo.py`) is this with a
restricted sampler.
"""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from grue.lm.sampling import Mask
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
from grue.rl.settings import NLPOConfig, PPOConfig
from grue.rl.state import Learner, make_learner
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@ALGORITHMS.register("ppo")
def train(run: Run, config: PPOConfig) -> None:
    """Train `run.policy` in place."""
    learner = make_learner(run.policy, config)
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        line = one_update(run, learner, config, update)
        run.end_update(update + 1, config.updates, line, learner)


def one_update(
    run: Run, learner: Learner, config: PPOConfig, update: int, mask: Mask | None = None
) -> dict[str, float]:
    """Collect rollouts, learn from them, steer the penalty; return the line for the log."""
    experience = collect(run, learner, config, update, mask)
    advantages, returns = advantages_and_returns(experience, config)
    losses_of = partial(token_losses, run, learner, config, experience, advantages, returns)
    losses = improve(run, learner, config, experience.mask.float(), losses_of, update)
    line = describe(experience, learner) | losses
    learner.kl_coefficient = next_kl_coefficient(learner.kl_coefficient, experience, config)
    return line


def token_losses(
    run: Run,
    learner: Learner,
    config: PPOConfig,
    experience: Experience,
    advantages: Tensor,
    returns: Tensor,
    rows: Tensor,
) -> Mapping[str, Tensor]:
    """Return sums over the tokens of some rows: the loss, its parts and what is logged of the ratio."""
    pulls_mass = isinstance(config, NLPOConfig) and config.mass_coefficient != 0.0
    with run.autocast():
        scored = score_tokens(
            learner.policy,
            learner.critic,
            experience.rollout,
            rows,
            rollout_settings(run.task, config).temperature,
            config,
            entropy=config.entropy_coefficient != 0.0,
            plain=config.ratio_over == "vocabulary" or pulls_mass,
        )
    new, width = scored.over(config.ratio_over), scored.restricted.shape[1]
    mask, old = experience.mask[rows, :width], experience.log_probs[rows, :width]
    assert scored.values is not None and experience.policy.values is not None
    policy_loss = rl.clipped_policy_loss(new, old, advantages[rows, :width], config.clip, dual=config.dual_clip)
    value_loss = rl.value_loss(
        scored.values, returns[rows, :width], experience.policy.values[rows, :width], config.value_clip
    )
    loss = policy_loss + config.value_coefficient * value_loss
    if scored.entropy is not None:
        loss = loss - config.entropy_coefficient * scored.entropy
    if isinstance(config, NLPOConfig) and pulls_mass:
        loss = loss - config.mass_coefficient * scored.log_mass
    return {
        "loss": (loss * mask).sum(),
        "policy_loss": (policy_loss * mask).sum(),
        "value_loss": (value_loss * mask).sum(),
        **rl.ratio_figures(new, old, mask, config.clip),
    }

"""REINFORCE and RLOO: the policy gradient of whole responses, without a critic.

A response is one action. It is worth its score less β times its summed KL, and every token of it has the same
advantage: that worth less a baseline. REINFORCE (Williams 1992) takes the mean of the batch; RLOO (Kool et al. 2019;
Ahmadian et al. 2024) the mean of the other responses to the same prompt.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from grue.rl import functional as rl
from grue.rl.experience import Experience, collect, describe, next_kl_coefficient, score_tokens
from grue.rl.optimisation import set_learning_rate
from grue.rl.optimize import improve
from grue.rl.rollout import rollout_settings
from grue.rl.settings import ReinforceConfig, RLOOConfig
from grue.rl.state import Learner, make_learner
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@ALGORITHMS.register("rloo")
@ALGORITHMS.register("reinforce")
def train(run: Run, config: ReinforceConfig) -> None:
    """Train `run.policy` in place; the configuration says which of the two it is."""
    learner = make_learner(run.policy, config)
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        line = one_update(run, learner, config, update)
        run.end_update(update + 1, config.updates, line, learner)


def one_update(run: Run, learner: Learner, config: ReinforceConfig, update: int) -> dict[str, float]:
    """Collect rollouts, learn from them, steer the penalty; return the line for the log."""
    experience = collect(run, learner, config, update)
    losses_of = partial(token_losses, run, learner, config, experience, response_advantages(experience, config))
    losses = improve(run, learner, config, experience.mask.float(), losses_of, update)
    line = describe(experience, learner) | losses
    learner.kl_coefficient = next_kl_coefficient(learner.kl_coefficient, experience, config)
    return line


def response_advantages(experience: Experience, config: ReinforceConfig) -> Tensor:
    """Return what each response is worth above the baseline, [B]; whitened over the responses if so configured."""
    worth = experience.rewards.sum(1)
    if isinstance(config, RLOOConfig):
        advantages = rl.leave_one_out(worth, config.samples_per_prompt)
    else:
        advantages = rl.centre_groups(worth, len(worth))
    return rl.whiten(advantages, torch.ones_like(advantages)) if config.whiten_advantages else advantages


def token_losses(
    run: Run, learner: Learner, config: ReinforceConfig, experience: Experience, advantages: Tensor, rows: Tensor
) -> Mapping[str, Tensor]:
    """Return sums over the tokens of some rows: the loss and what is logged of the ratio.

    While the policy is the one that was sampled, the clipped ratio has the gradient of A·log π.
    """
    with run.autocast():
        scored = score_tokens(
            learner.policy,
            None,
            experience.rollout,
            rows,
            rollout_settings(run.task, config).temperature,
            config,
            entropy=config.entropy_coefficient != 0.0,
        )
    new, width = scored.over(config.ratio_over), scored.restricted.shape[1]
    mask, old = experience.mask[rows, :width], experience.log_probs[rows, :width]
    policy_loss = rl.clipped_policy_loss(new, old, advantages[rows].unsqueeze(1), config.clip)
    loss = policy_loss
    if scored.entropy is not None:
        loss = loss - config.entropy_coefficient * scored.entropy
    return {
        "loss": (loss * mask).sum(),
        "policy_loss": (policy_loss * mask).sum(),
        **rl.ratio_figures(new, old, mask, config.clip),
    }

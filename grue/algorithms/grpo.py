"""Group relative policy optimisation: a response is judged against its siblings, the other responses to its prompt.

Shao et al. (2024), §4.1. No critic: the advantage of every token is the response's score, standardised within the
group. The penalty against the reference is part of the loss, not of the scores. `scale_by = "nothing"` is Dr. GRPO's
advantage (Liu et al. 2025); `clip_high` and `loss_over = "tokens"` are DAPO's (Yu et al. 2025).
"""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from grue.rl import functional as rl
from grue.rl.experience import Experience, collect, describe, next_kl_coefficient, score_tokens
from grue.rl.optimisation import set_learning_rate
from grue.rl.optimize import improve
from grue.rl.rollout import rollout_settings
from grue.rl.settings import GRPOConfig
from grue.rl.state import Learner, make_learner
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@ALGORITHMS.register("grpo")
def train(run: Run, config: GRPOConfig) -> None:
    """Train `run.policy` in place."""
    learner = make_learner(run.policy, config)
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        line = one_update(run, learner, config, update)
        run.end_update(update + 1, config.updates, line, learner)


def one_update(run: Run, learner: Learner, config: GRPOConfig, update: int) -> dict[str, float]:
    """Collect rollouts, learn from them, steer the penalty's weight; return the line for the log."""
    experience = collect(run, learner, config, update)
    weights = token_weights(experience.mask, config)
    advantages = group_advantages(experience.scores, config)
    losses_of = partial(token_losses, run, learner, config, experience, advantages, weights)
    losses = improve(run, learner, config, weights, losses_of, update)
    line = describe(experience, learner) | losses | {"objective/flat_groups": flat_share(experience.scores, config)}
    learner.kl_coefficient = next_kl_coefficient(learner.kl_coefficient, experience, config)
    return line


def group_advantages(scores: Tensor, config: GRPOConfig) -> Tensor:
    """Return the advantages of responses whose groups stand side by side, [B]; exactly 0 in a group of equal scores."""
    judge = rl.standardise_groups if config.scale_by == "group" else rl.centre_groups
    return judge(scores, config.samples_per_prompt)


def flat_share(scores: Tensor, config: GRPOConfig) -> float:
    """Return the share of groups whose scores are all equal: nothing is learnt from them but the penalty."""
    groups = scores.view(-1, config.samples_per_prompt)
    return float((groups == groups[:, :1]).all(1).float().mean())


def token_weights(mask: Tensor, config: GRPOConfig) -> Tensor:
    """Return what each token counts in the loss, [B, T]: 1, or 1 over its response's length."""
    return mask.float() if config.loss_over == "tokens" else mask / mask.sum(1, keepdim=True).clamp(min=1)


def token_losses(
    run: Run,
    learner: Learner,
    config: GRPOConfig,
    experience: Experience,
    advantages: Tensor,
    weights: Tensor,
    rows: Tensor,
) -> Mapping[str, Tensor]:
    """Return weighted sums over the tokens of some rows: the loss, its parts and what is logged of the ratio."""
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
    weight, old = weights[rows, :width], experience.log_probs[rows, :width]
    policy_loss = rl.clipped_policy_loss(new, old, advantages[rows].unsqueeze(1), config.clip, config.clip_high)
    penalty = rl.kl_k3(scored.over(config.kl_over), experience.reference[rows, :width])
    loss = policy_loss + learner.kl_coefficient * penalty
    if scored.entropy is not None:
        loss = loss - config.entropy_coefficient * scored.entropy
    return {
        "loss": (loss * weight).sum(),
        "policy_loss": (policy_loss * weight).sum(),
        "reference_kl": (penalty * weight).sum(),
        **rl.ratio_figures(new, old, weight, config.clip, config.clip_high),
    }

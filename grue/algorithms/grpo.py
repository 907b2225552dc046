"""Group relative policy optimisation: a response is compared with the other responses to its prompt.

Shao et al. (2024), §4.1. No critic: the advantage of every token is the response's score, standardised within the
group. The penalty against the reference is part of the loss, not of the scores. Variants are settings, and
those of other papers are presets: `dr_grpo` (Liu et al. 2025, arXiv 2503.20783), `dapo` (Yu et al. 2025,
2503.14476; with `overlong_buffer`) and `gspo` (Zheng et al. 2025, 2507.18071). `normalize_terms` is GDPO's
advantage (Liu et al. 2026).

Differences from the papers: rewards have any scale, so a group is flat if its rewards are equal, not if all are right
or wrong; the group's deviation is the sample's; a group that stays flat still learns the penalty.

B = responses of an update, b = rows of a micro-batch, T = response time.
"""

from collections.abc import Mapping

from torch import Tensor

from grue.algorithms.cards.grpo import CARD, GRPOConfig
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
from grue.rl.settings import rollout_settings
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: GRPOConfig, n: int) -> dict[str, float]:
    """Collect rollouts, take the optimiser steps, adapt the penalty's weight; return figures for the log."""
    experience = collect(trainer, state, config, n)
    weights = token_weights(experience.mask, config, rollout_settings(trainer.task, config).max_new_tokens)
    counts = experience.scored.float() if config.loss_over == "constant" else None
    advantages = group_advantages(experience.scores, experience.scored, config)

    def losses_of(rows: Tensor) -> Mapping[str, Tensor]:
        batch = score_minibatch(trainer, state, config, experience, rows, vocabulary=True)
        return token_losses(batch, config, experience, advantages, weights, state.kl_coefficient)

    losses = optimize(trainer, state, config, weights, losses_of, n, counts)
    flat = {"objective/flat_groups": flat_share(advantages, config)}
    figures = describe(experience, state) | losses | flat
    state.kl_coefficient = next_kl_coefficient(state.kl_coefficient, experience, config)
    return figures


def group_advantages(scores: Tensor, scored: Tensor, config: GRPOConfig) -> Tensor:
    """Return the advantages of responses ordered by groups, [B]; exactly 0 in a group of equal scores.

    Scores whose terms were standardised in the group are not divided again. A response without a score, where `scored`
    [B] is False, has no advantage.
    """
    divided = config.scale_by == "group" and not config.normalize_terms
    judge = rl.standardise_groups if divided else rl.centre_groups
    return rl.judge_counted(scored, judge, scores, config.samples_per_prompt)


def flat_share(advantages: Tensor, config: GRPOConfig) -> float:
    """Return the share of groups without advantages because their scores are equal; they learn only the penalty."""
    return float((advantages.view(-1, config.samples_per_prompt) == 0).all(1).float().mean())


def token_weights(mask: Tensor, config: GRPOConfig, longest: int) -> Tensor:
    """Return the weight of each token in the loss, [B, T]: 1, or 1 over its response's length or the longest length."""
    if config.loss_over == "tokens":
        return mask.float()
    return mask / (longest if config.loss_over == "constant" else mask.sum(1, keepdim=True).clamp(min=1))


def token_losses(
    batch: Minibatch,
    config: GRPOConfig,
    experience: Experience,
    advantages: Tensor,
    weights: Tensor,
    kl_coefficient: float,
) -> Mapping[str, Tensor]:
    """Return weighted sums over the tokens of a minibatch: the loss, its parts and figures of the ratio.

    `advantages` are [B], `weights` [B, T].
    """
    current, weight = batch.current, batch.part(weights)
    log_weights = batch.part(experience.mask).float()  # ratio figures are token means even if the loss is not
    if config.loss_over != "tokens":
        log_weights = log_weights * experience.scored.sum() / experience.mask.sum()
    log_ratio = batch.new - batch.old
    new = batch.new if config.ratio_of == "tokens" else batch.old + rl.row_mean(log_ratio, batch.mask)
    worth = advantages[batch.rows].unsqueeze(1) * batch.part(experience.weights)
    policy = rl.clipped_policy_loss(new, batch.old, worth, config.clip, config.clip_high)
    reference = batch.part(experience.reference)
    penalty = rl.kl_loss(current.over(config.kl_over), reference, log_ratio, config.kl_estimator, config.kl_corrected)
    loss = regularised(policy + kl_coefficient * penalty, current, config)
    return {
        "loss": (loss * weight).sum(),
        "policy_loss": (policy * weight).sum(),
        "reference_kl": (penalty * weight).sum(),
        **rl.ratio_figures(
            new, batch.old, log_weights if config.ratio_of == "tokens" else weight, config.clip, config.clip_high
        ),
        "approx_kl": (rl.kl_k3(batch.old, batch.new.detach()) * log_weights).sum(),
        **mismatch(current.restricted, batch.drawn, batch.mask),
    }


ALGORITHM = implement(CARD, update)

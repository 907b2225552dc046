"""Group relative policy optimisation: a response is judged against its siblings, the other responses to its prompt.

Shao et al. (2024), §4.1. No critic: the advantage of every token is the response's score, standardised within the
group. The penalty against the reference is part of the loss, not of the scores. `scale_by = "nothing"` is Dr. GRPO's
advantage (Liu et al. 2025); `clip_high` and `loss_over = "tokens"` are DAPO's (Yu et al. 2025); `normalize_terms` is
GDPO's advantage (Liu et al. 2026).

B = responses of an update, b = rows of a micro-batch, T = response time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from grue.bounds import NON_NEGATIVE, POSITIVE, SEVERAL
from grue.rl import functional as rl
from grue.rl.experience import Experience, Minibatch, collect, describe, next_kl_coefficient, score_minibatch
from grue.rl.optimize import optimize
from grue.rl.settings import RolloutConfig
from grue.rl.trainer import Algorithm, Trainer, TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOConfig(RolloutConfig):
    """Group relative policy optimisation (Shao et al. 2024): scores are standardised within a prompt's group.

    Attributes:
        kl_coefficient: Weight of the k3 estimate against the reference in the loss; scores carry no penalty.
        clip: ε below 1.
        clip_high: ε above 1 (DAPO's clip-higher); none takes `clip`.
        scale_by: What an advantage is divided by: the group's standard deviation, or nothing (Dr. GRPO). With
            `normalize_terms` the terms are divided instead.
        loss_over: Mean over all tokens of the batch (DAPO), or of each response's mean (the paper's).
    """

    samples_per_prompt: Annotated[int, SEVERAL] = 8
    epochs: Annotated[int, POSITIVE] = 1
    kl_coefficient: Annotated[float, NON_NEGATIVE] = 0.04
    clip: float = 0.2
    clip_high: float | None = None
    scale_by: Literal["group", "nothing"] = "group"
    loss_over: Literal["tokens", "responses"] = "responses"

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values together; see `Common.problems`."""
        yield from RolloutConfig.problems(self)
        if self.normalize_terms and self.scale_by == "nothing":
            yield 'scale_by = "nothing" does not go with normalize_terms, which divides each term; drop one of them.'


def update(trainer: Trainer, state: TrainState, config: GRPOConfig, n: int) -> dict[str, float]:
    """Collect rollouts, take the optimiser steps, adapt the penalty's weight; return figures for the log."""
    experience = collect(trainer, state, config, n)
    weights = token_weights(experience.mask, config)
    advantages = group_advantages(experience.scores, experience.scored, config)

    def losses_of(rows: Tensor) -> Mapping[str, Tensor]:
        batch = score_minibatch(trainer, state, config, experience, rows)
        return token_losses(batch, config, experience, advantages, weights, state.kl_coefficient)

    losses = optimize(trainer, state, config, weights, losses_of, n)
    flat = {"objective/flat_groups": flat_share(advantages, config)}
    figures = describe(experience, state) | losses | flat
    state.kl_coefficient = next_kl_coefficient(state.kl_coefficient, experience, config)
    return figures


def group_advantages(scores: Tensor, scored: Tensor, config: GRPOConfig) -> Tensor:
    """Return the advantages of responses whose groups stand side by side, [B]; exactly 0 in a group of equal scores.

    Scores made of terms that were standardised in the group are not divided again.

    Args:
        scores: [B].
        scored: [B], True where a response has a score; the others' advantage is 0.
    """
    divided = config.scale_by == "group" and not config.normalize_terms
    judge = rl.standardise_groups if divided else rl.centre_groups
    return rl.among(scored, judge, scores, config.samples_per_prompt)


def flat_share(advantages: Tensor, config: GRPOConfig) -> float:
    """Return the share of groups without an advantage, their scores being equal: only the penalty is learnt there."""
    return float((advantages.view(-1, config.samples_per_prompt) == 0).all(1).float().mean())


def token_weights(mask: Tensor, config: GRPOConfig) -> Tensor:
    """Return what each token counts in the loss, [B, T]: 1, or 1 over its response's length."""
    return mask.float() if config.loss_over == "tokens" else mask / mask.sum(1, keepdim=True).clamp(min=1)


def token_losses(
    batch: Minibatch,
    config: GRPOConfig,
    experience: Experience,
    advantages: Tensor,
    weights: Tensor,
    kl_coefficient: float,
) -> Mapping[str, Tensor]:
    """Return weighted sums over the tokens of a minibatch: the loss, its parts and what is logged of the ratio.

    Args:
        advantages: [B].
        weights: [B, T].
    """
    now, weight = batch.now, batch.part(weights)
    policy = rl.clipped_policy_loss(
        batch.new, batch.old, advantages[batch.rows].unsqueeze(1), config.clip, config.clip_high
    )
    penalty = rl.kl_k3(now.over(config.kl_over), batch.part(experience.reference))
    loss = policy + kl_coefficient * penalty
    if now.entropy is not None:
        loss = loss - config.entropy_coefficient * now.entropy
    return {
        "loss": (loss * weight).sum(),
        "policy_loss": (policy * weight).sum(),
        "reference_kl": (penalty * weight).sum(),
        **rl.ratio_figures(batch.new, batch.old, weight, config.clip, config.clip_high),
    }


ALGORITHM = Algorithm(settings=GRPOConfig, update=update)

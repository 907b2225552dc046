"""Scores: what a reward gave to responses, its terms added up, scaled and clipped.

B = responses of an update, K = terms of the reward, T = response time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from grue.lm.distributed import DistributedContext
from grue.lm.sampling import Rollout
from grue.lm.tokens import Tokens, decode_responses
from grue.records import Example
from grue.rl import functional as rl
from grue.rl.settings import ActorCriticConfig, RewardedConfig
from grue.rl.trainer import Trainer, TrainState

if TYPE_CHECKING:
    from grue.evaluation.rewards import Value


@dataclass(frozen=True, slots=True)
class Rewarded:
    """What the reward's K terms gave to responses.

    Attributes:
        sums: [B], their weighted sum; NaN where no term applies.
        terms: [B, K], not weighted; NaN where a term does not apply.
        tokens: [B, T, K], what of it was given to single tokens.
    """

    sums: Tensor
    terms: Tensor
    tokens: Tensor


def reward_responses(trainer: Trainer, examples: Sequence[Example], rollout: Rollout, n: int) -> Rewarded:
    """Return what the reward gives to a rollout of responses to some examples, in update `n`."""
    responses = rollout.responses
    parts = trainer.reward.parts(
        examples,
        said(trainer, rollout),
        token_ids=responses.lists(),
        truncated=rollout.truncated.tolist(),
        step=n,
    )
    sums = [math.nan if one is None else one for one in trainer.reward.sums(parts)]
    return as_rewarded(sums, parts, responses)


def said(trainer: Trainer, rollout: Rollout) -> list[str]:
    """Return the texts of a rollout's responses."""
    return decode_responses(trainer.tokenizer, rollout.responses, rollout.truncated, trainer.task.rollout.stop)


def as_rewarded(sums: Sequence[float], parts: Sequence[Sequence["Value"]], responses: Tokens) -> Rewarded:
    """Return what the reward's terms gave to responses as tensors.

    Args:
        sums: Of each response.
        parts: Of each term, of each response.
    """
    terms = torch.zeros(*responses.ids.shape[:1], len(parts), dtype=torch.float32)
    tokens = torch.zeros(*responses.ids.shape, len(parts), dtype=torch.float32)
    for k, values in enumerate(parts):
        for row, value in enumerate(values):
            if isinstance(value, list):
                tokens[row, : len(value), k] = torch.tensor(value)
                value = math.fsum(value)
            terms[row, k] = math.nan if value is None else value
    device = responses.ids.device
    return Rewarded(torch.tensor(sums, dtype=torch.float32, device=device), terms.to(device), tokens.to(device))


def summed(given: Rewarded, weights: Sequence[float], config: RewardedConfig) -> tuple[Tensor, Tensor]:
    """Return the weighted sums of the terms, [B], and what of them falls on single tokens, [B, T].

    With `normalize_terms` each term is standardised before, within the samples to a prompt if there are several and no
    critic, else over the batch; and the sum after, over the batch (GDPO: Liu et al. 2026, arXiv 2601.05242). What was
    given to single tokens then counts by its sum.
    """
    scored = ~given.sums.isnan()
    if not config.normalize_terms:
        own = given.tokens @ given.tokens.new_tensor(weights)
        return given.sums.masked_fill(~scored, 0.0), own
    batch = len(given.sums)
    alone = config.samples_per_prompt == 1 or isinstance(config, ActorCriticConfig)
    size = batch if alone else config.samples_per_prompt
    sums = torch.zeros_like(given.sums)
    for weight, values in zip(weights, given.terms.unbind(1), strict=True):
        sums = sums + weight * rl.among(~values.isnan(), rl.standardise_groups, values, size)
    return rl.among(scored, rl.standardise_groups, sums, batch), torch.zeros_like(given.tokens[..., 0])


def scaled_scores(
    scores: Tensor, own: Tensor, scored: Tensor, state: TrainState, config: RewardedConfig
) -> tuple[Tensor, Tensor]:
    """Return scores [B], and what of them falls on single tokens [B, T], scaled as the configuration says.

    Both are divided by the standard deviation of the scores so far. Clipping is of a score as a whole: what it takes
    off is missing at the last token.
    """
    if config.reward_scale == "running":
        state.moments.add(scores[scored])
        scores, own = scores / state.moments.deviation, own / state.moments.deviation
    return (scores if config.reward_clip is None else scores.clamp(-config.reward_clip, config.reward_clip)), own


def gather_rewarded(given: Rewarded, distributed: DistributedContext) -> Rewarded:
    """Return what the reward gave to the responses of all ranks as one."""
    return Rewarded(*(distributed.gather_rows(getattr(given, field.name)) for field in fields(given)))

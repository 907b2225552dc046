"""Contrastive policy gradient: differences of log-ratios regress on differences of rewards, off-policy.

Flet-Berliac et al. (2024, arXiv 2406.19185). With h = log π(y) − log π_0(y), the loss of two responses to a prompt is
(Δr − βΔh)²/(2β), whose gradient is the paper's. Whichever policy drew the responses, the only fixed point maximises
E[r] − β·KL(π‖π_0): no importance weights are needed, and equal rewards are informative, too.

Difference from the paper: the mean over all pairs of a prompt's responses replaces one pair.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from grue.algorithms.cards.copg import CARD, CoPGConfig
from grue.rl.groups import GroupBatch, better_pairs, collect_groups, improve, mean_over_pairs, pair_figures, start
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: CoPGConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    several = (groups.counts.sum(1) > 1).float()
    loss = partial(contrast_loss, config)
    return {**figures, **improve(trainer, state, config, groups, loss, n, several, reference=True)}


def contrast_loss(config: CoPGConfig, batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the mean loss of each group's pairs [b], and figures of the pairs."""
    ratios, scores, counts = batch.log_ratios, batch.scores, batch.counts
    gaps, differences = (values.unsqueeze(2) - values.unsqueeze(1) for values in (ratios, scores))
    losses = (differences - config.beta * gaps).square() / (2.0 * config.beta)
    once = torch.ones_like(gaps, dtype=torch.bool).triu(1)
    pairs = counts.unsqueeze(2) & counts.unsqueeze(1) & once
    return mean_over_pairs(losses, pairs), pair_figures(ratios, better_pairs(scores, counts))


ALGORITHM = implement(CARD, update, start=start)

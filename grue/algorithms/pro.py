"""Preference ranking optimisation: each response becomes likelier than all that score lower.

Song et al. (2023, arXiv 2306.17492). With s = log π(y)/|y| and responses in the order of their scores, the loss of a
prompt is −Σ_k log(exp(τ_kk·s_k) / (exp(τ_kk·s_k) + Σ_{i below k} exp(τ_ki·s_i))), and the best response's −log π(y),
weighted by `best_coefficient`·(K − 1)². τ is 1, or follows the scores: τ_ki = r_k − r_i, and τ_kk the largest of them.

Differences from the paper: "below" means a lower score, so that responses with equal scores are not ordered at random;
rewards are the metric's, mostly between 0 and 1, so that τ is small.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from grue.algorithms.cards.pro import CARD, PROConfig
from grue.rl.groups import GroupBatch, better_pairs, collect_groups, improve, start
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: PROConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    return {
        **figures,
        **improve(trainer, state, config, groups, partial(ranking_loss, config), n, (~groups.flat).float()),
    }


def ranking_loss(config: PROConfig, batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the loss of each group's ranking [b], and its parts."""
    scores, counts = batch.scores, batch.counts
    below = better_pairs(scores, counts)
    tau = torch.where(below, scores.unsqueeze(2) - scores.unsqueeze(1), 0.0)
    if config.temperature == "constant":
        tau = below.float()
    means = batch.log_probs / batch.lengths.clamp(min=1)
    own = tau.amax(2) * means
    rivals = (tau * means.unsqueeze(1)).masked_fill(~below, -torch.inf)
    terms = torch.cat([own.unsqueeze(2), rivals], 2).logsumexp(2) - own
    ranking = torch.where(below.any(2), terms, 0.0).sum(1)
    best = scores.masked_fill(~counts, -torch.inf).argmax(1, keepdim=True)
    likelihood = -batch.log_probs.gather(1, best)[:, 0]
    size = counts.sum(1)
    loss = ranking + config.best_coefficient * (size - 1).square() * likelihood
    return loss, {"ranking_loss": ranking, "best_loss": likelihood}


ALGORITHM = implement(CARD, update, start=partial(start, reference=False))

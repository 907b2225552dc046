"""Direct preference optimisation: the better of two responses gains on the worse, regularised by β.

With h = log π(y) − log π_0(y), the loss of a pair is −log σ(β(h_w − h_l)) (Rafailov et al. 2023, arXiv 2305.18290), or
(h_w − h_l − 1/(2β))² (IPO: Azar et al. 2023, arXiv 2310.12036). Pairs are made of a prompt's responses by their scores:
drawn with the policy at each update (online: Guo et al. 2024, arXiv 2402.04792), with the initial policy, or read from
a file of preferences.

Differences from the papers: a metric decides which response is better, and the size of the difference does not matter;
responses with equal scores make no pair; the loss is a mean over prompts of means over their pairs.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from grue.algorithms.cards.dpo import CARD, DPOConfig
from grue.rl.groups import GroupBatch, better_pairs, collect_groups, improve, mean_over_pairs, pair_figures, start
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: DPOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    differ = ~groups.flat
    if config.pairs == "extremes":
        groups = groups.columns(torch.stack([groups.best(), groups.worst()], 1))
    loss = partial(pair_loss, config)
    reference = not config.reference_free
    return {**figures, **improve(trainer, state, config, groups, loss, n, differ.float(), reference=reference)}


def pair_loss(config: DPOConfig, batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the mean loss of each group's pairs [b], and figures of the pairs."""
    ratios = batch.log_probs if config.reference_free else batch.log_ratios
    better = better_pairs(batch.scores, batch.counts)
    figures = pair_figures(ratios, better)
    if config.per_token:
        ratios = ratios / batch.lengths.clamp(min=1)
    gaps = ratios.unsqueeze(2) - ratios.unsqueeze(1)
    losses = -logsigmoid(config.beta * gaps) if config.loss == "sigmoid" else (gaps - 0.5 / config.beta).square()
    return mean_over_pairs(losses, better), figures


ALGORITHM = implement(CARD, update, start=start)

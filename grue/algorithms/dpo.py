"""Direct preference optimisation: the better of two responses shall gain on the worse, as far as β allows.

With h = log π(y) − log π_0(y), a pair costs −log σ(β(h_w − h_l)) (Rafailov et al. 2023, arXiv 2305.18290), or
(h_w − h_l − 1/(2β))² (IPO: Azar et al. 2023, arXiv 2310.12036). Pairs are made of a prompt's responses by their scores:
drawn with the policy at each update (online: Guo et al. 2024, arXiv 2402.04792), with the initial policy, or read from
a file of preferences.

What differs from the papers: a metric says which response is better, and how much better does not matter; responses
with equal scores make no pair; the mean is over prompts, each the mean over its pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from grue.bounds import POSITIVE
from grue.rl.groups import (
    GroupBatch,
    better_pairs,
    collect_groups,
    improve,
    mean_over_pairs,
    pair_figures,
    start,
    with_reference,
)
from grue.rl.presets import PRESETS
from grue.rl.settings import ScoredConfig
from grue.rl.trainer import Algorithm, Trainer, TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class DPOConfig(ScoredConfig):
    """Direct preference optimisation (Rafailov et al. 2023) on pairs of scored responses.

    Attributes:
        loss: "sigmoid" is DPO's, "ipo" the squared one of Azar et al. (2023).
        beta: β, the strength of the regularisation (τ in IPO).
        pairs: "extremes": the best and the worst response to a prompt; "all": every two with different scores.
        per_token: Divide a response's log-ratio by its tokens, as in IPO's experiments.
    """

    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    beta: Annotated[float, POSITIVE] = 0.1
    pairs: Literal["extremes", "all"] = "extremes"
    per_token: bool = False


def update(trainer: Trainer, state: TrainState, config: DPOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    differ = ~groups.flat
    if config.pairs == "extremes":
        groups = groups.columns(torch.stack([groups.best(), groups.worst()], 1))
    groups = with_reference(trainer, state, config, groups)
    return {**figures, **improve(trainer, state, config, groups, partial(pair_loss, config), n, differ.float())}


def pair_loss(config: DPOConfig, batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the mean loss of each group's pairs [b], and figures of the pairs."""
    ratios = batch.log_ratios
    better = better_pairs(batch.scores, batch.counts)
    figures = pair_figures(ratios, better)
    if config.per_token:
        ratios = ratios / batch.lengths.clamp(min=1)
    gaps = ratios.unsqueeze(2) - ratios.unsqueeze(1)
    losses = -logsigmoid(config.beta * gaps) if config.loss == "sigmoid" else (gaps - 0.5 / config.beta).square()
    return mean_over_pairs(losses, better), figures


ALGORITHM = Algorithm(settings=DPOConfig, update=update, start=start, presets=PRESETS["dpo"])

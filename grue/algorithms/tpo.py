"""Triple preference optimisation: a pair and the reference, in one step and without the initial policy.

Saeidi et al. (2024, arXiv 2405.16681). The loss of a prompt is −log σ(β(log π(y_w) − log π(y_l)) − γ) + α·(−log
π(reference)), where y_w and y_l are the best and the worst of its responses. `per_token` divides the pair's
log-probabilities by their tokens and takes a margin γ: the paper's TPO-L.

Differences from the paper: the reference's negative log-likelihood is a mean over its tokens, as in the authors' code
(the paper has the sum); a prompt without a reference has only the loss of the pair.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from grue.algorithms.cards.tpo import CARD, TPOConfig
from grue.rl.groups import GroupBatch, collect_groups, improve, start, with_references
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: TPOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    differ = (~groups.flat).float()
    pairs = groups.columns(torch.stack([groups.best(), groups.worst()], 1))
    triples = with_references(trainer, pairs, n)
    return {**figures, **improve(trainer, state, config, triples, partial(triple_loss, config), n, differ)}


def triple_loss(config: TPOConfig, batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the loss of each triple [b] of the better response, the worse one and the reference; and its parts."""
    lengths = batch.lengths.clamp(min=1)
    means = batch.log_probs / lengths
    better, worse, _ = (means if config.per_token else batch.log_probs).unbind(1)
    pair = -logsigmoid(config.beta * (better - worse) - config.margin)
    likelihood = -means[:, 2]
    return pair + config.alpha * likelihood, {"pair_loss": pair, "supervised_loss": likelihood}


ALGORITHM = implement(CARD, update, start=partial(start, reference=False))

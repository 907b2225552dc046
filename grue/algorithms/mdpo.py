"""Mirror descent policy optimisation: several steps towards the advantages, with a KL penalty to the sampled policy.

Tomar et al. (2020, arXiv 2005.09814), on-policy. An update from π_k maximises E[(π/π_k)·A] − KL(π‖π_k)/t_k by `epochs`
passes over its rollouts; t_k decreases linearly over the run, so that late updates move little. The ratio is
not clipped. It is PPO with another policy loss, and shares its code (`ppo.py`).

Differences from the paper: KL(π‖π_k) of a token is estimated from the drawn token as r·log r − r + 1 with r = π/π_k,
which is unbiased, in its gradient too, and never negative; there is also a KL penalty against the initial policy, in
the reward; steps are on minibatches.
"""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from grue.algorithms import ppo
from grue.algorithms.cards.mdpo import CARD, MDPOConfig
from grue.rl import functional as rl
from grue.rl.experience import Minibatch
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: MDPOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    size = config.step_size * (1.0 - n / config.updates if config.anneal else 1.0)
    return ppo.improve(trainer, state, config, n, partial(mirror_loss, size)) | {"policy/step_size": size}


def mirror_loss(step_size: float, batch: Minibatch, advantages: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return −r·A + KL(π‖π_k)/t of each token [b, T], and figures of the ratio r."""
    log_ratio = batch.new - batch.old
    ratio = log_ratio.exp()
    divergence = ratio * log_ratio - ratio + 1.0
    figures = {
        "approx_kl": (rl.kl_k3(batch.old, batch.new.detach()) * batch.mask).sum(),
        **rl.ratio_errors(log_ratio, batch.mask),
    }
    return divergence / step_size - ratio * advantages, figures


ALGORITHM = implement(CARD, update)

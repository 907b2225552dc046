"""REINFORCE++: PPO's clipped ratio without a critic, advantages standardised over the whole batch.

Hu et al. (2025, arXiv 2501.03262). The advantage of a token is the response's score less β times the KL of this token
and all after it, standardised over all tokens of the batch, so that one response per prompt is enough.

Differences from the paper: the loss is a mean over the tokens of a minibatch, as in its authors' library OpenRLHF, not
a mean of response means; rewards and KL are not clipped unless the settings say so.
"""

from torch import Tensor

from grue.algorithms import reinforce
from grue.algorithms.cards.reinforce_plus_plus import CARD, ReinforcePlusPlusConfig
from grue.rl import functional as rl
from grue.rl.experience import Experience
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: ReinforcePlusPlusConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    return reinforce.improve(trainer, state, config, n, token_advantages)


def token_advantages(experience: Experience) -> Tensor:
    """Return the advantage of each token, [B, T]: the sum of its and all later rewards, standardised over all tokens.

    The first value is subtracted, so that equal values have exactly no advantage, without rounding errors.
    """
    worth, mask = rl.rewards_to_go(experience.rewards), experience.mask
    return rl.whiten(worth - worth[mask][0], mask)


ALGORITHM = implement(CARD, update)

"""RLOO: REINFORCE leave-one-out, where the baseline of a response is the mean of the others to the same prompt.

Kool et al. (2019); Ahmadian et al. (2024). Everything else is REINFORCE's (`reinforce.py`).
"""

from functools import partial

from grue.algorithms import reinforce
from grue.algorithms.cards.rloo import CARD, RLOOConfig
from grue.rl import functional as rl
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: RLOOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    advantages = partial(reinforce.response_advantages, config, rl.leave_one_out, config.samples_per_prompt)
    return reinforce.improve(trainer, state, config, n, advantages)


ALGORITHM = implement(CARD, update)

"""RLOO: REINFORCE leave-one-out, where a response is judged against the others to the same prompt.

Kool et al. (2019); Ahmadian et al. (2024). All but the baseline is REINFORCE's (`reinforce.py`).
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from grue.algorithms import reinforce
from grue.bounds import SEVERAL
from grue.rl import functional as rl
from grue.rl.trainer import Algorithm, Trainer, TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class RLOOConfig(reinforce.ReinforceConfig):
    """REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al. 2024).

    A response's baseline is the mean score of the other responses to its prompt.
    """

    samples_per_prompt: Annotated[int, SEVERAL] = 4


def update(trainer: Trainer, state: TrainState, config: RLOOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    advantages = partial(reinforce.response_advantages, config, rl.leave_one_out, config.samples_per_prompt)
    return reinforce.improve(trainer, state, config, n, advantages)


ALGORITHM = Algorithm(settings=RLOOConfig, update=update)

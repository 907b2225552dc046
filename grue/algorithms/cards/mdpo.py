"""The settings of `grue/algorithms/mdpo.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import POSITIVE
from grue.rl.settings import ActorCriticConfig, AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class MDPOConfig(ActorCriticConfig):
    """Mirror descent policy optimisation (Tomar et al. 2020): advantages, less the KL from the sampled policy.

    Attributes:
        step_size: t of the first update.
        anneal: Decrease t linearly to 0 after the last update, as in the paper.
    """

    epochs: Annotated[int, POSITIVE] = 10
    step_size: Annotated[float, POSITIVE] = 1.0
    anneal: bool = True


CARD = AlgorithmCard(settings=MDPOConfig)

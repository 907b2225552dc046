"""The settings of `grue/algorithms/copg.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import POSITIVE
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class CoPGConfig(ScoredConfig):
    """Contrastive policy gradient (Flet-Berliac et al. 2024) on pairs of responses with rewards.

    Attributes:
        beta: β, the weight of the KL divergence from the initial policy, in units of the score.
    """

    beta: Annotated[float, POSITIVE] = 0.1

    @property
    def needs_rewards(self) -> bool:
        """True: the loss uses differences of rewards."""
        return True


CARD = AlgorithmCard(settings=CoPGConfig)

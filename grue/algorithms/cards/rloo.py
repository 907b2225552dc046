"""The settings of `grue/algorithms/rloo.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.algorithms.cards.reinforce import ReinforceConfig
from grue.bounds import SEVERAL
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class RLOOConfig(ReinforceConfig):
    """REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al. 2024).

    A response's baseline is the mean score of the other responses to its prompt.
    """

    samples_per_prompt: Annotated[int, SEVERAL] = 4


CARD = AlgorithmCard(settings=RLOOConfig)

"""The settings of `grue/algorithms/reinforce.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import POSITIVE
from grue.rl.settings import AlgorithmCard, RolloutConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforceConfig(RolloutConfig):
    """REINFORCE on whole responses (Williams 1992), with the mean of the batch as baseline.

    The KL penalty is part of a response's score, as in RLOO.

    Attributes:
        clip: ε of a token's policy ratio; it matters only after the first step on a rollout.
        whiten_advantages: Give the advantages mean 0 and standard deviation 1 over the responses.
    """

    epochs: Annotated[int, POSITIVE] = 1
    clip: Annotated[float, POSITIVE] = 0.2
    whiten_advantages: bool = False


CARD = AlgorithmCard(settings=ReinforceConfig)

"""The settings of `grue/algorithms/pro.py`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import NON_NEGATIVE
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class PROConfig(ScoredConfig):
    """Preference ranking optimisation (Song et al. 2023) on the ranks of several responses to a prompt.

    Attributes:
        temperature: Factor of a response's log-likelihood: "rewards", the differences of the scores, as in the paper;
            or "constant", 1.
        best_coefficient: Weight of the best response's negative log-likelihood, times (K − 1)².
    """

    temperature: Literal["rewards", "constant"] = "rewards"
    best_coefficient: Annotated[float, NON_NEGATIVE] = 0.05

    @property
    def needs_rewards(self) -> bool:
        """Whether temperatures are differences of rewards."""
        return self.temperature == "rewards"


CARD = AlgorithmCard(settings=PROConfig, without_effect=frozenset({"reference"}))

"""The settings of `grue/algorithms/tpo.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import NON_NEGATIVE, POSITIVE
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class TPOConfig(ScoredConfig):
    """Triple preference optimisation (Saeidi et al. 2024) on pairs of responses and the references.

    Attributes:
        beta: β of the pair.
        alpha: α, the weight of the reference's negative log-likelihood.
        per_token: Divide the pair's log-probabilities by their tokens (TPO-L).
        margin: γ, the margin between better and worse response, after β (TPO-L).
    """

    beta: Annotated[float, POSITIVE] = 0.01
    alpha: Annotated[float, NON_NEGATIVE] = 1.0
    per_token: bool = False
    margin: Annotated[float, NON_NEGATIVE] = 0.0


CARD = AlgorithmCard(
    settings=TPOConfig, presets={"tpo-l": {"per_token": True, "margin": 0.5}}, without_effect=frozenset({"reference"})
)

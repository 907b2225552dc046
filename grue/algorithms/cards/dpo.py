"""The settings of `grue/algorithms/dpo.py`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import POSITIVE
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class DPOConfig(ScoredConfig):
    """Direct preference optimisation (Rafailov et al. 2023) on pairs of scored responses.

    Attributes:
        loss: "sigmoid" is DPO's, "ipo" the squared one of Azar et al. (2023).
        beta: β, the strength of the regularisation (τ in IPO).
        pairs: "extremes": the best and the worst response to a prompt; "all": all pairs with different scores.
        reference_free: Leave π_0 out: h = log π(y), as GenARM's reward models are trained (Xu et al. 2024).
        per_token: Divide a response's log-ratio by its tokens, as in IPO's experiments.
    """

    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    beta: Annotated[float, POSITIVE] = 0.1
    pairs: Literal["extremes", "all"] = "extremes"
    reference_free: bool = False
    per_token: bool = False


CARD = AlgorithmCard(settings=DPOConfig, presets={"ipo": {"loss": "ipo"}})

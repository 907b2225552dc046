"""The settings of `grue/algorithms/ppo.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import POSITIVE, Paper
from grue.rl.settings import ActorCriticConfig, AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """Proximal policy optimisation (Schulman et al. 2017) with a KL penalty against the initial policy.

    Attributes:
        clip: ε of the policy ratio.
        dual_clip: Bound on a token's loss, in units of its advantage, where the advantage is negative (Ye et al. 2020,
            who take 3); none does not bound it.
    """

    clip: Annotated[float, POSITIVE, Paper("0.2")] = 0.2
    dual_clip: Annotated[float | None, POSITIVE] = None


CARD = AlgorithmCard(settings=PPOConfig)

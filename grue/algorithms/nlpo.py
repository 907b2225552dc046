"""Natural language policy optimisation: PPO that samples inside the nucleus of a masking policy.

Ramamurthy et al. (2023), §4 and Algorithm 1. The mask is a restriction of the sampler (`rl/masking.py`), which any
algorithm that samples can have by the same settings. The mask of each drawn token is stored and replayed in the update,
so that the ratio is one of the restricted, renormalised policies.
"""

from dataclasses import dataclass
from typing import Annotated

from grue.algorithms import ppo
from grue.bounds import Paper
from grue.rl.presets import PRESETS
from grue.rl.settings import MaskName
from grue.rl.trainer import Algorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class NLPOConfig(ppo.PPOConfig):
    """Natural language policy optimisation: PPO whose sampler a masking policy restricts (paper §4)."""

    mask: Annotated[MaskName | None, Paper("learned_top_p")] = "learned_top_p"


ALGORITHM = Algorithm(settings=NLPOConfig, update=ppo.update, presets=PRESETS["nlpo"])

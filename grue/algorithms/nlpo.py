"""Natural language policy optimisation: PPO that samples inside the nucleus of a masking policy.

Ramamurthy et al. (2023), §4 and Algorithm 1. The mask is a restriction of the sampler (`rl/masking.py`), which any
algorithm that samples can have by the same settings. The mask of each drawn token is stored and replayed in the update,
so that the ratio is one of the restricted, renormalised policies.
"""

from dataclasses import dataclass
from typing import Annotated

from grue.algorithms import ppo
from grue.bounds import Paper
from grue.rl.settings import MaskName
from grue.rl.trainer import Algorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class NLPOConfig(ppo.PPOConfig):
    """Natural language policy optimisation: PPO whose sampler a masking policy restricts (paper §4)."""

    mask: Annotated[MaskName | None, Paper("learned_top_p")] = "learned_top_p"


# NLPO as the paper describes it, as the published code really ran it, and as it is stable.
PRESETS = {
    "paper": {"mask_source": "periodic", "mass_coefficient": 0.0, "kl_over": "vocabulary", "ratio_over": "support"},
    "rl4lms": {
        "mask_source": "frozen",
        "mass_coefficient": 0.0,
        "min_tokens_to_keep": 100,
        "always_open": "special",
        "kl_over": "vocabulary",
        "ratio_over": "vocabulary",
    },
    "stable": {"mask_source": "periodic", "mass_coefficient": 0.1, "kl_over": "support", "ratio_over": "support"},
}

ALGORITHM = Algorithm(settings=NLPOConfig, update=ppo.update, presets=PRESETS)

"""The settings of `grue/algorithms/nlpo.py`."""

from dataclasses import dataclass
from typing import Annotated

from grue.algorithms.cards.ppo import PPOConfig
from grue.bounds import Paper
from grue.rl.settings import AlgorithmCard, MaskName


@dataclass(frozen=True, slots=True, kw_only=True)
class NLPOConfig(PPOConfig):
    """Natural language policy optimisation: PPO with a sampler restricted by a masking policy (paper §4)."""

    mask: Annotated[MaskName | None, Paper("learned_top_p")] = "learned_top_p"


CARD = AlgorithmCard(
    settings=NLPOConfig,
    presets={  # as in the paper, as the published code ran, and as training is stable
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
    },
)

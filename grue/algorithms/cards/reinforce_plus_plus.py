"""The settings of `grue/algorithms/reinforce_plus_plus.py`."""

from dataclasses import dataclass

from grue.algorithms.cards.reinforce import ReinforceConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforcePlusPlusConfig(ReinforceConfig):
    """REINFORCE++ (Hu et al. 2025): PPO's clipped ratio without a critic; advantages standardised over the batch."""


CARD = AlgorithmCard(settings=ReinforcePlusPlusConfig, without_effect=frozenset({"whiten_advantages"}))

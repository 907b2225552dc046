"""The settings of `grue/algorithms/props.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from grue.algorithms.cards.ppo import PPOConfig
from grue.bounds import NON_NEGATIVE, POSITIVE, SEVERAL, UNIT
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class PROPSConfig(PPOConfig):
    """PPO on samples of a behaviour policy that undoes their sampling error (PROPS: Corrado and Hanna 2023).

    Attributes:
        rounds: Parts in which an update's responses are drawn; before each part but the first, the behaviour policy is
            fitted to those before it. Responses to the same prompt are spread over the parts.
        behaviour_learning_rate: Of the behaviour policy; none takes `learning_rate`.
        behaviour_epochs: Passes of the behaviour policy over the responses so far.
        behaviour_clip: ε of the ratio of behaviour policy and policy: a token's probability is lowered by no more than
            that share.
        behaviour_kl: λ, the weight of KL(policy‖behaviour policy) in the behaviour policy's loss.
        behaviour_stop_kl: δ, the approximate KL of a minibatch at which the behaviour policy's fit stops early.
    """

    rounds: Annotated[int, SEVERAL] = 4
    behaviour_learning_rate: Annotated[float | None, POSITIVE] = None
    behaviour_epochs: Annotated[int, POSITIVE] = 4
    behaviour_clip: Annotated[float, UNIT] = 0.3
    behaviour_kl: Annotated[float, NON_NEGATIVE] = 0.1
    behaviour_stop_kl: Annotated[float | None, POSITIVE] = 0.03

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from PPOConfig.problems(self)
        if self.rounds > self.rollouts:
            yield f"rounds {self.rounds} exceeds rollouts {self.rollouts}."
        if self.redraws:
            yield "redraws cannot be combined with PROPS, whose rounds draw each response once; leave it out."
        if self.sharded:
            yield "sharded cannot be combined with PROPS, which sets the policy's weights back; set it to false."


CARD = AlgorithmCard(settings=PROPSConfig)

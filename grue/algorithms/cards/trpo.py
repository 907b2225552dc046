"""The settings of `grue/algorithms/trpo.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from grue.bounds import NON_NEGATIVE, POSITIVE, SHARE, UNIT
from grue.rl.settings import ActorCriticConfig, AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class TRPOConfig(ActorCriticConfig):
    """Trust region policy optimisation (Schulman et al. 2015), with sb3-contrib's values, which RL4LMs uses, too.

    Attributes:
        learning_rate: Of the critic; the policy's step comes from the trust region.
        trust_region: δ, the largest mean KL of a token between the policy before and after a step, in nats.
        cg_steps: Iterations of the conjugate gradient.
        cg_damping: Added to the diagonal of the Fisher matrix.
        line_search_shrink: Factor by which the step shrinks until it improves and stays inside the region.
        line_search_steps: Attempts before the update is given up.
        critic_epochs: Passes of the critic over an update's rollouts.
        fisher_share: Share of the rollouts on which the Fisher matrix is estimated.
    """

    learning_rate: Annotated[float, POSITIVE] = 1e-3
    minibatch_size: Annotated[int, POSITIVE] = 64
    trust_region: Annotated[float, POSITIVE] = 0.01
    cg_steps: Annotated[int, POSITIVE] = 15
    cg_damping: Annotated[float, NON_NEGATIVE] = 0.1
    line_search_shrink: Annotated[float, UNIT] = 0.8
    line_search_steps: Annotated[int, POSITIVE] = 10
    critic_epochs: Annotated[int, POSITIVE] = 10
    fisher_share: Annotated[float, SHARE] = 1.0

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from ActorCriticConfig.problems(self)
        if self.sharded:
            yield "sharded cannot be combined with TRPO, whose step needs all weights as one vector; set it to false."
        if self.dropout:
            yield "dropout cannot be combined with TRPO, whose step needs the policy to be one function; leave it out."


CARD = AlgorithmCard(
    settings=TRPOConfig,
    without_effect=frozenset(
        {"epochs", "stop_kl", "value_coefficient", "log_prob_chunk", "supervised_coefficient", "mass_coefficient"}
    ),
)

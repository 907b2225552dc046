"""The settings of `grue/algorithms/dapo_advantage.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import POSITIVE, UNIT
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectAdvantageConfig(ScoredConfig):
    """Direct advantage policy optimisation (Liu et al. 2024): log-ratios regress on a fixed critic's advantages.

    It is not the DAPO of Yu et al. (2025), which is `grpo` with the preset `dapo`.

    Attributes:
        beta: β, the weight of the KL divergence from the initial policy, in units of the score.
        gae_lambda: λ of the advantages; 0 takes the critic's word for what follows a token, as in the paper; 1 the
            response's score.
        value_prompts: Training prompts that the initial policy answers once, to fit the critic.
    """

    samples_per_prompt: Annotated[int, POSITIVE] = 8
    sample_from: Literal["policy", "start"] = "start"
    beta: Annotated[float, POSITIVE] = 0.1
    gae_lambda: Annotated[float, UNIT] = 0.0
    value_prompts: Annotated[int, POSITIVE] = 256

    @property
    def needs_rewards(self) -> bool:
        """True: advantages are computed from rewards."""
        return True

    @property
    def draws_beside_data(self) -> bool:
        """True: the critic is fitted to samples of the initial policy."""
        return True

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from ScoredConfig.problems(self)
        if self.reward_scale or self.normalize_terms:
            yield "reward_scale and normalize_terms change what the critic predicts between updates; leave both out."


CARD = AlgorithmCard(settings=DirectAdvantageConfig)

"""The settings of `grue/algorithms/alol.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import NON_NEGATIVE, POSITIVE, UNIT
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class ALoLConfig(ScoredConfig):
    """Advantage-leftover Lunch (A-LoL: Baheti et al. 2023): likelihood of responses weighted by their advantage.

    Attributes:
        variant: The weight of a response besides its advantage; "r_lol" weights by the reward instead.
        clip: ε of the ratio to the initial policy; none does not clip.
        beta: β of the variant "kl".
        priority: Draw as many responses as have an advantage above 0, with replacement and in proportion to it; else
            each is learnt once.
        value_prompts: Training prompts that the initial policy answers once, to fit V_0.
    """

    samples_per_prompt: Annotated[int, POSITIVE] = 8
    sample_from: Literal["policy", "start"] = "start"
    variant: Literal["alol", "sequence", "reference_free", "kl", "r_lol"] = "alol"
    clip: Annotated[float | None, UNIT] = 0.9
    beta: Annotated[float, NON_NEGATIVE] = 0.1
    priority: bool = True
    value_prompts: Annotated[int, POSITIVE] = 256

    @property
    def needs_rewards(self) -> bool:
        """True: advantages are computed from rewards."""
        return True

    @property
    def draws_beside_data(self) -> bool:
        """Whether V_0 is fitted to samples of the initial policy."""
        return self.variant != "r_lol"

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from ScoredConfig.problems(self)
        if self.reward_scale or self.normalize_terms:
            yield "reward_scale and normalize_terms change what V_0 predicts from update to update; leave both out."


CARD = AlgorithmCard(settings=ALoLConfig)

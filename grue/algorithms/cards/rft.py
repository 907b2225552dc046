"""The settings of `grue/algorithms/rft.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import POSITIVE
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import AlgorithmCard


@dataclass(frozen=True, slots=True, kw_only=True)
class RFTConfig(ScoredConfig):
    """Rejection sampling fine-tuning (RAFT: Dong et al. 2023): maximum likelihood of the best of several samples.

    Attributes:
        train_from: The policy that a round starts training from: that of the last round, or the initial one.
        rewrite: Learn to write the best response to a prompt from the prompt and any of its responses: a reward model
            that corrects (Zhou et al. 2024).
    """

    epochs: Annotated[int, POSITIVE] = 2
    train_from: Literal["last", "start"] = "last"
    rewrite: bool = False

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from ScoredConfig.problems(self)
        if self.train_from == "start" and (self.lora_rank or self.sharded):
            yield 'train_from = "start" needs a whole copy of the initial policy; leave out lora_rank and sharded.'
        if self.rewrite and self.keep == "best":
            yield 'rewrite cannot be combined with keep = "best", since validation answers prompts; set keep = "last".'


CARD = AlgorithmCard(settings=RFTConfig, without_effect=frozenset({"reference"}))

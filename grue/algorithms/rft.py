"""Rejection sampling fine-tuning: learn the best of several samples by maximum likelihood, again and again.

RAFT (Dong et al. 2023, arXiv 2304.06767), expert iteration (Anthony et al. 2017, arXiv 1705.08439). An update is a
round: responses are drawn to each prompt, and the one with the highest score is learnt for `epochs` passes. The loss is
−log π of the tokens of the best response, a mean over tokens. `train_from = "start"` begins each round's learning from
the initial policy, as ReST-EM does (Singh et al. 2023, arXiv 2312.06585).

What differs from RAFT: a response's rank does not see the KL divergence from the start; a prompt whose responses all
score alike is left out of a round, since its best is none (the paper takes the first).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from torch import Tensor

from grue.bounds import POSITIVE
from grue.lm.sharding import load_whole
from grue.rl.groups import GroupBatch, collect_groups, improve, start
from grue.rl.settings import ScoredConfig
from grue.rl.trainer import Algorithm, Trainer, TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class RFTConfig(ScoredConfig):
    """Rejection sampling fine-tuning (RAFT: Dong et al. 2023): maximum likelihood of the best of several samples.

    Attributes:
        train_from: What a round's learning begins from: the policy as the last round left it, or the initial policy.
    """

    epochs: Annotated[int, POSITIVE] = 2
    train_from: Literal["last", "start"] = "last"

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values together; see `Common.problems`."""
        yield from ScoredConfig.problems(self)
        if self.train_from == "start" and (self.lora_rank or self.sharded):
            yield 'train_from = "start" needs a whole copy of the initial policy; leave out lora_rank and sharded.'


def update(trainer: Trainer, state: TrainState, config: RFTConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    best = groups.columns(groups.best().unsqueeze(1))
    if config.train_from == "start" and n:
        assert state.reference is not None
        load_whole(state.policy, state.reference.state_dict())
        state.optimizer.state.clear()
    counts = best.lengths[:, 0].float() * ~groups.flat
    return {**figures, **improve(trainer, state, config, best, likelihood_loss, n, counts)}


def likelihood_loss(batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return −log π of the only response of each group, [b]."""
    return -batch.log_probs[:, 0], {}


ALGORITHM = Algorithm(
    settings=RFTConfig, update=update, start=partial(start, reference=False), without_effect=frozenset({"reference"})
)

"""Transfer Q*: a token is worth what an aligned model makes of it (Chakraborty et al. 2024, arXiv 2405.20495).

The next token z is drawn with probability ∝ π(z) exp(Q(z) / α), where Q(z) is the mean reward of responses that an
aligned model writes after z: direct transfer. If that model is aligned with another reward r', the responses count with
weights ∝ exp((r − r') / β): indirect transfer, from a model ∝ π exp(r'/β).

Differences from the paper: Q is taken for the likeliest tokens only, as in its experiments, and the others are closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from grue.bounds import NON_NEGATIVE, POSITIVE, SEVERAL
from grue.errors import ConfigError
from grue.evaluation.best_of import Guides
from grue.evaluation.guided import Ahead, Decoder, Lookahead, Place, finite, reach
from grue.evaluation.predict import Response, plain_sampling
from grue.records import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQSettings:
    """Settings of Transfer Q*.

    Attributes:
        policy: The aligned model: a run, a folder or a hub id.
        reward: The target reward r. [default: the task's]
        aligned_to: The reward r' that the model is aligned with, if it is not r: indirect transfer.
        top_k: Candidates for the next token.
        length: Tokens written after a candidate; 0 writes to the end of the response.
        rollouts: Responses written after each candidate.
        alpha: α.
        beta: β of the model's alignment; for indirect transfer.
    """

    policy: str = ""
    reward: str = ""
    aligned_to: str = ""
    top_k: Annotated[int, SEVERAL] = 4
    length: Annotated[int, NON_NEGATIVE] = 0
    rollouts: Annotated[int, POSITIVE] = 1
    alpha: Annotated[float, POSITIVE] = 0.05
    beta: Annotated[float, POSITIVE] = 0.05


def make(settings: TransferQSettings, place: Place) -> Guides:
    """Return what makes the guide of a batch."""
    worth = place.worth(settings.reward)
    other = place.worth(settings.aligned_to) if settings.aligned_to else None
    if other is not None and settings.rollouts < 2:
        raise ConfigError("--decode transfer_q: aligned_to weighs several rollouts; give rollouts=4, say.")

    def pool(values: Tensor, examples: Sequence[Example], texts: Sequence[Sequence[Response]]) -> Tensor:
        if other is None:
            return values.mean(1)
        aligned = finite(torch.tensor([other(examples, drawn) for drawn in texts]).T)
        return (((values - aligned) / settings.beta).softmax(1) * values).sum(1)

    ahead = Ahead(
        loaded=place.model(settings.policy),
        candidates=settings.top_k,
        generation=replace(plain_sampling(place.task), stop=place.generation.stop),
        length=reach(settings.length, place),
        rollouts=settings.rollouts,
        worth=worth,
        weight=1.0 / settings.alpha,
        pool=pool,
    )
    return lambda batch: Lookahead(ahead, place, batch)


DECODER = Decoder(TransferQSettings, make, models=("policy",))

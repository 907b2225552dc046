"""DeAL: search for the next token with a reward as heuristic (Huang et al. 2024, arXiv 2402.06147).

Each of the likeliest next tokens is continued greedily for some tokens, and the reward of that text is its heuristic:
its score is its log-probability plus `weight` times the reward.

Difference from the paper: one prefix is kept (a beam of one), so that a candidate's score needs no sum over earlier
tokens.
"""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import NON_NEGATIVE, POSITIVE, SEVERAL
from grue.evaluation.best_of import Guides
from grue.evaluation.guided import Ahead, Decoder, Lookahead, Place, greedy, reach


@dataclass(frozen=True, slots=True, kw_only=True)
class DealSettings:
    """Settings of DeAL.

    Attributes:
        reward: The heuristic, as for training. [default: the task's]
        top_k: Candidates for the next token.
        length: Tokens of the look-ahead; 0 looks to the end of the response.
        weight: Nats that one unit of reward adds to a candidate's log-probability.
    """

    reward: str = ""
    top_k: Annotated[int, SEVERAL] = 4
    length: Annotated[int, NON_NEGATIVE] = 0
    weight: Annotated[float, POSITIVE] = 20.0


def make(settings: DealSettings, place: Place) -> Guides:
    """Return what makes the guide of a batch; a ConfigError if the look-ahead is longer than the task's limit."""
    ahead = Ahead(
        loaded=place.loaded,
        candidates=settings.top_k,
        generation=greedy(place.generation),
        length=reach(settings.length, place),
        rollouts=1,
        worth=place.worth(settings.reward),
        weight=settings.weight,
        pool=lambda values, examples, texts: values.mean(1),
    )
    return lambda batch: Lookahead(ahead, place, batch)


DECODER = Decoder(DealSettings, make)

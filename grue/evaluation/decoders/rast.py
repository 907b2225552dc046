"""RAST: what training changed in a small model is added to a larger one (Ouyang et al. 2025, arXiv 2506.15710).

The logits are those of the guided model plus λ times the difference of a trained model's and its start's.
"""

from dataclasses import dataclass
from typing import Annotated

from grue.bounds import NON_NEGATIVE
from grue.evaluation.best_of import Guides
from grue.evaluation.guided import AddedLogits, Decoder, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RastSettings:
    """Settings of RAST.

    Attributes:
        trained: The small model after training: a run, a folder or a hub id.
        start: The small model before.
        strength: λ.
    """

    trained: str = ""
    start: str = ""
    strength: Annotated[float, NON_NEGATIVE] = 1.0


def make(settings: RastSettings, place: Place) -> Guides:
    """Return what makes the guide of a batch."""
    trained, start = place.model(settings.trained), place.model(settings.start)
    parts = [(settings.strength, trained), (-settings.strength, start)]
    return lambda batch: AddedLogits(parts, batch.prompts, place.spent)


DECODER = Decoder(RastSettings, make, models=("trained", "start"))

"""GenARM: an autoregressive reward model values every next token (Xu et al. 2024, arXiv 2410.08193).

The next token's distribution is π(y) Π π_i(y)^w_i, with w = 1/β in the paper. A reward model π_i is a language model
that was trained on pairs so that log π_i of the better response exceeds that of the worse: `grue train --algo dpo --set
reference_free=true --set data=PAIRS`. Several are mixed by their weights.

Difference from the paper: whether responses are sampled or the likeliest token is taken is the task's choice.
"""

from dataclasses import dataclass

from grue.errors import ConfigError
from grue.evaluation.best_of import Guides
from grue.evaluation.guided import SEPARATOR, AddedLogits, Decoder, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class GenarmSettings:
    """Settings of GenARM.

    Attributes:
        model: The autoregressive reward model: a run, a folder or a hub id; several are separated by ";".
        weight: 1/β; several are separated by ";", one for each model.
    """

    model: str = ""
    weight: str = "1"


def make(settings: GenarmSettings, place: Place) -> Guides:
    """Return what makes the guide of a batch."""
    names, weights = settings.model.split(SEPARATOR), settings.weight.split(SEPARATOR)
    try:
        parts = [(float(weight), name) for weight, name in zip(weights, names, strict=True)]
    except ValueError as error:
        raise ConfigError(
            f"--decode genarm: weight={settings.weight} for model={settings.model}: give one number for each model."
        ) from error
    loaded = [(weight, place.model(name)) for weight, name in parts]
    return lambda batch: AddedLogits(loaded, batch.prompts, place.spent)


DECODER = Decoder(GenarmSettings, make, models=("model",))

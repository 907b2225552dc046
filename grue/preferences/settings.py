"""Settings of training a reward model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from grue.bounds import NON_NEGATIVE, POSITIVE, RATE
from grue.shapes import from_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelConfig:
    """Settings of training a reward model.

    Attributes:
        epochs: Most passes over the pairs: the weights with the lowest log-loss on the part "validation"
            are kept.
        learning_rate: Peak of AdamW's, reached after the warm-up; it then falls to 0 linearly.
        warmup: Share of the steps in which it rises.
        weight_decay: On all weights.
        batch_size: Pairs a step.
        micro_batch_size: Pairs in one forward pass; gradients are accumulated exactly.
        max_grad_norm: Clipping norm.
        max_tokens: Tokens of prompt and text that are read, at most as many as the backbone reads; the prompt's
            beginning is cut.
        validations: Number in each epoch, at equal intervals.
        save_every: Steps between two saved states, from which an interrupted training resumes.
        seed: Of the head's start and the order of the pairs.
    """

    epochs: Annotated[int, POSITIVE] = 4
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    warmup: Annotated[float, RATE] = 0.1
    weight_decay: Annotated[float, NON_NEGATIVE] = 0.01
    batch_size: Annotated[int, POSITIVE] = 32
    micro_batch_size: Annotated[int, POSITIVE] = 32
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    max_tokens: Annotated[int, POSITIVE] = 512
    validations: Annotated[int, POSITIVE] = 2
    save_every: Annotated[int, POSITIVE] = 100
    seed: Annotated[int, NON_NEGATIVE] = 1


def reward_settings(values: Mapping[str, Any]) -> RewardModelConfig:
    """Return values as settings, the others at their defaults; a ConfigError if a key or a value is invalid."""
    return from_dict(RewardModelConfig, values, "reward train")

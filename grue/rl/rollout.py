"""Rollouts: drawing responses, with the seeds and the supports that make every draw repeatable.

The sampler stores, for every token, which part of the vocabulary was open when it was drawn. Log-probabilities are
later renormalised over exactly that support, so that what is optimised is what was sampled: for top-k, top-p, a
minimum length and NLPO's mask alike.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from grue.errors import ConfigError
from grue.lm.seeds import generator
from grue.records import Example
from grue.rl.settings import RolloutConfig
from grue.tasks import Generation, Task


def rollout_settings(task: Task, config: RolloutConfig) -> Generation:
    """Return how rollouts are sampled: as the task says, but for what the configuration says of it."""
    own = {"temperature": config.rollout_temperature, "top_k": config.rollout_top_k}
    return replace(task.rollout, **{key: value for key, value in own.items() if value is not None})  # type: ignore[arg-type]


def some_examples(examples: Sequence[Example], share: float, seed: int) -> list[Example]:
    """Return a share of the examples, drawn with the seed, in their own order.

    The order in which they are drawn does not depend on the share: the first tenth is part of the first half.

    Args:
        share: Above 0, at most 1; the number of examples is rounded.

    Raises:
        ConfigError: Not even one example is left.
    """
    count = round(share * len(examples))
    if not count:
        raise ConfigError(f"train_share = {share:g} leaves none of {len(examples)} training examples; raise it.")
    drawn = torch.randperm(len(examples), generator=generator(seed, "train_share"))[:count]
    return [examples[index] for index in sorted(drawn.tolist())]


def draw_examples(examples: Sequence[Example], count: int, seed: int, update: int) -> list[Example]:
    """Return the examples of one update: every example comes once before any comes twice.

    The order is a function of seed and update alone, so that an interrupted run goes on where it was.
    """
    drawn: list[Example] = []
    for position in range(update * count, (update + 1) * count):
        epoch, index = divmod(position, len(examples))
        if index == 0 or not drawn:
            order = torch.randperm(len(examples), generator=generator(seed, "order", epoch)).tolist()
        drawn.append(examples[order[index]])
    return drawn

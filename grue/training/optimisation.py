"""The optimiser, the learning-rate schedule and gradient clipping that every algorithm shares."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from grue.errors import TrainingError
from grue.training.config import Common


def make_optimizer(modules: Iterable[nn.Module], config: Common) -> torch.optim.Optimizer:
    """Return AdamW over every trainable parameter, without weight decay on biases and norms (vectors)."""
    # Keyed by identity: tied weights, and a critic's unused copy of a head, come up once.
    parameters = {id(p): p for module in modules for p in module.parameters() if p.requires_grad}.values()
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, eps=config.adam_epsilon)


def set_learning_rate(optimizer: torch.optim.Optimizer, config: Common, step: int, total: int) -> float:
    """Set and return the learning rate of step `step` of `total`; it depends on nothing else, so resuming is exact."""
    warmup = config.warmup * total
    if step < warmup:
        factor = (step + 1) / (warmup + 1)
    else:
        done = (step - warmup) / max(1.0, total - warmup)
        factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[
            config.schedule
        ]
    rate = config.learning_rate * factor
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def step(optimizer: torch.optim.Optimizer, config: Common, where: str) -> Tensor:
    """Clip the gradients jointly, take one step, clear them, and return their norm before clipping.

    Raises:
        TrainingError: The gradients are not finite; the weights are as they were.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
    if not norm.isfinite():
        raise TrainingError(
            f"{where}: the gradient is not finite. Lower learning_rate, or raise kl_coefficient; "
            "the run goes on from its last saved state."
        )
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm

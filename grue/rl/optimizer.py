"""The optimiser and the schedule of its learning rate."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from grue.rl.settings import Common


def make_optimizer(modules: Iterable[nn.Module], config: Common) -> torch.optim.Optimizer:
    """Return AdamW over every trainable parameter, without weight decay on biases and norms (vectors)."""
    # Keyed by identity: tied weights, and a critic's unused copy of a head, come up once.
    parameters = {id(p): p for module in modules for p in module.parameters() if p.requires_grad}.values()
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(groups, lr=config.learning_rate, eps=config.adam_epsilon, alpha=0.99)
    return torch.optim.AdamW(groups, lr=config.learning_rate, eps=config.adam_epsilon, fused=True)


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

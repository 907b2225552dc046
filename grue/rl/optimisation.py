"""The optimiser, its schedule, and the exact gradient of a minibatch of sequences, which every algorithm shares."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from grue.errors import TrainingError
from grue.lm.distributed import DistributedContext
from grue.lm.sharding import ShardedWeights, whole
from grue.lm.tokens import length_batches
from grue.rl.settings import Common, RolloutConfig

# The first minibatch meets the very policy that was sampled: its ratio is 1 up to the rounding of other batch shapes.
RATIO_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.3}

# Rows of a minibatch → sums over their tokens, each weighted: "loss", which is minimised, and whatever is logged of
# the policy: "ratio_error" is a maximum, "approx_kl" can end an update.
TokenLosses = Callable[[Tensor], Mapping[str, Tensor]]


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


def step(optimizer: torch.optim.Optimizer, config: Common, where: str) -> Tensor:
    """Clip the gradients jointly, take one step, clear them, and return their norm before clipping.

    Raises:
        TrainingError: The gradients are not finite; the weights are as they were.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = whole(nn.utils.clip_grad_norm_(parameters, config.max_grad_norm))
    if not norm.isfinite():
        raise TrainingError(
            f"{where}: the gradient is not finite. Lower learning_rate, or raise kl_coefficient; "
            "the run goes on from its last saved state."
        )
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def minibatch_gradient(
    rows: Tensor,
    weights: Tensor,
    losses_of: TokenLosses,
    micro_batch_size: int,
    world: DistributedContext,
    split: ShardedWeights | None = None,
) -> dict[str, Tensor]:
    """Accumulate this rank's part of the gradient of a minibatch's mean loss, exactly, in micro-batches.

    Each micro-batch adds its sum over the whole minibatch's weight; a mean of means would favour short responses.
    Where weights are `split`, the gradient is summed over the ranks at once, and each keeps its part.
    """
    total = weights[rows].sum()
    sums: dict[str, Tensor] = {}
    mine = rows[world.rank :: world.size]
    parts = [(part, 1.0) for part in length_batches(weights != 0, mine, micro_batch_size) if len(part)]
    # A rank without rows, or with fewer passes than others who can make them only together, runs one row that counts
    # nothing.
    passes = max(1, len(parts)) if split is None else int(world.maximum(torch.tensor(len(parts))))
    parts += [(rows[:1], 0.0)] * (passes - len(parts))
    for part, counts in parts:
        compute = partial(losses_of, part)
        losses = compute() if split is None else split(compute)
        (losses["loss"] * counts / total).backward()
        for name, value in losses.items():
            value = value.detach() * counts
            if name in sums:
                value = torch.maximum(sums[name], value) if name == "ratio_error" else sums[name] + value
            sums[name] = value
    return _over_ranks(sums, total, world)


def _over_ranks(sums: Mapping[str, Tensor], total: Tensor, world: DistributedContext) -> dict[str, Tensor]:
    """Return each sum over all ranks, divided by the minibatch's weight; maxima stay maxima."""
    ranks = world.gather_rows(torch.stack([value.float() for value in sums.values()]).unsqueeze(0))
    names = {"loss": "loss/total", "policy_loss": "loss/policy", "value_loss": "loss/value"}
    return {
        names.get(name, f"policy/{name}"): column.max() if name == "ratio_error" else column.sum() / total
        for name, column in zip(sums, ranks.unbind(1), strict=True)
    }


def check_ratio(measured: Mapping[str, Tensor], config: RolloutConfig, update: int) -> None:
    """Make sure that the policy about to learn is the one that was sampled.

    Raises:
        TrainingError: A ratio is off 1 by more than rounding.
    """
    error = float(measured["policy/ratio_error"])
    if not error <= RATIO_TOLERANCE[config.precision]:  # nor is NaN one
        raise TrainingError(
            f"update {update}: the first policy ratio is off 1 by {error:.2g}: sampling and training see different "
            "policies. This is a bug; please report it with config.toml."
        )

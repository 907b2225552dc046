"""An update's optimiser steps: epochs of minibatches, each with its exact gradient, and when to stop early."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from grue.errors import TrainingError
from grue.lm.adapters import dropping_out, recomputing
from grue.lm.distributed import DistributedContext
from grue.lm.seeds import derived_seed, generator
from grue.lm.sharding import whole
from grue.lm.tokens import length_batches
from grue.rl.settings import Common, RolloutConfig
from grue.rl.trainer import Trainer, TrainState

# The first minibatch meets the very policy that was sampled: its ratio is 1 up to the rounding of other batch shapes.
RATIO_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.3}

# Rows of a minibatch → sums over their tokens, each weighted: "loss", which is minimised, and what is logged of
# the policy: "ratio_error" is a maximum, "approx_kl" can end an update.
TokenLosses = Callable[[Tensor], Mapping[str, Tensor]]


def optimize(
    trainer: Trainer, state: TrainState, config: RolloutConfig, weights: Tensor, losses_of: TokenLosses, n: int
) -> dict[str, float]:
    """Take the optimiser steps of update `n`; return the means of what was measured at each.

    Args:
        weights: [B, T], what each token counts in the mean that is minimised: 1 or 0 for the mean over tokens.

    Raises:
        TrainingError: The first minibatch does not find the policy that was sampled, or a gradient is not finite.
    """
    chance = generator(trainer.seed, "minibatches", n)
    seen: list[dict[str, Tensor]] = []
    learnt = rows_that_count(weights)
    for _ in range(config.epochs):
        for rows in learnt[torch.randperm(len(learnt), generator=chance)].split(config.minibatch_size):
            seed = derived_seed(trainer.seed, "dropout", n, len(seen), trainer.distributed.rank)
            with recomputing(state.policy, state.critic), dropping_out(state.policy, config.dropout, seed):
                measured = minibatch_gradient(trainer, rows, weights, losses_of, config.micro_batch_size)
            if not seen and not config.dropout:  # with dropout, the ratio differs from 1 by what was dropped
                check_ratio(measured, config, n)
            if config.stop_kl is not None and seen and measured["policy/approx_kl"] > config.stop_kl:
                state.optimizer.zero_grad(set_to_none=True)
                return _means(seen)
            measured["policy/grad_norm"] = step(trainer, state.optimizer, config, f"update {n}")
            seen.append(measured)
    return _means(seen)


def rows_that_count(weights: Tensor) -> Tensor:
    """Return the rows of [B, T] in which a token counts, on the CPU, where minibatches are drawn."""
    return (weights != 0).any(1).nonzero()[:, 0].cpu()


def _means(seen: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    means = {name: float(torch.stack([one[name].detach().float() for one in seen]).mean()) for name in seen[0]}
    return means | {"policy/ratio_error": float(seen[0]["policy/ratio_error"]), "policy/steps": float(len(seen))}


def step(trainer: Trainer, optimizer: torch.optim.Optimizer, config: Common, where: str) -> Tensor:
    """Sum the gradients over the processes, clip them jointly, take one step, clear them; return their norm before.

    Raises:
        TrainingError: The gradients are not finite; the weights are as they were.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if trainer.sharded is None:  # else the backward pass has summed them
        trainer.distributed.sum_gradients(parameters)
    norm = whole(nn.utils.clip_grad_norm_(parameters, config.max_grad_norm))
    if not norm.isfinite():
        raise TrainingError(
            f"{where}: the gradient is not finite. Lower learning_rate, or raise kl_coefficient; "
            "the same command resumes from the last saved state."
        )
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def minibatch_gradient(
    trainer: Trainer, rows: Tensor, weights: Tensor, losses_of: TokenLosses, micro_batch_size: int
) -> dict[str, Tensor]:
    """Accumulate this rank's part of the gradient of a minibatch's mean loss, exactly, in micro-batches.

    Each micro-batch adds its sum over the whole minibatch's weight; a mean of means would favour short responses.
    Where weights are sharded, the gradient is summed over the ranks at once, and each keeps its part.
    """
    distributed, sharded = trainer.distributed, trainer.sharded
    total = weights[rows].sum()
    sums: dict[str, Tensor] = {}
    mine = rows[distributed.rank :: distributed.size]
    parts = [(part, 1.0) for part in length_batches(weights != 0, mine, micro_batch_size) if len(part)]
    # A rank without rows, or with fewer passes than others who can make them only together, runs one row that counts
    # nothing.
    passes = max(1, len(parts)) if sharded is None else int(distributed.maximum(torch.tensor(len(parts))))
    parts += [(rows[:1], 0.0)] * (passes - len(parts))
    for part, counts in parts:
        compute = partial(losses_of, part)
        losses = compute() if sharded is None else sharded(compute)
        (losses["loss"] * counts / total).backward()
        for name, value in losses.items():
            value = value.detach() * counts
            if name in sums:
                value = torch.maximum(sums[name], value) if name == "ratio_error" else sums[name] + value
            sums[name] = value
    return _over_ranks(sums, total, distributed)


def _over_ranks(sums: Mapping[str, Tensor], total: Tensor, distributed: DistributedContext) -> dict[str, Tensor]:
    """Return each sum over all ranks, divided by the minibatch's weight; maxima stay maxima."""
    ranks = distributed.gather_rows(torch.stack([value.float() for value in sums.values()]).unsqueeze(0))
    names = {"loss": "loss/total", "policy_loss": "loss/policy", "value_loss": "loss/value"}
    return {
        names.get(name, f"policy/{name}"): column.max() if name == "ratio_error" else column.sum() / total
        for name, column in zip(sums, ranks.unbind(1), strict=True)
    }


def check_ratio(measured: Mapping[str, Tensor], config: RolloutConfig, n: int) -> None:
    """Make sure that the policy about to learn is the one that was sampled.

    Raises:
        TrainingError: A ratio is off 1 by more than rounding.
    """
    error = float(measured["policy/ratio_error"])
    if not error <= RATIO_TOLERANCE[config.precision]:  # nor is NaN one
        raise TrainingError(
            f"update {n}: the first policy ratio is off 1 by {error:.2g}: sampling and training see different "
            "policies. This is a bug; please report it with config.toml."
        )

"""An update's optimiser steps: epochs of minibatches, and when to stop early."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from grue.errors import TrainingError
from grue.lm.adapters import dropping_out, recomputing
from grue.lm.seeds import derived_seed, generator
from grue.rl.gradient import TokenLosses, minibatch_gradient, step
from grue.rl.references import supervised_gradient
from grue.rl.settings import RewardedConfig, RolloutConfig
from grue.rl.trainer import Trainer, TrainState

# The first minibatch meets the very policy that was sampled: its ratio is 1 up to the rounding of other batch shapes.
RATIO_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.3}


def optimize(
    trainer: Trainer,
    state: TrainState,
    config: RewardedConfig,
    weights: Tensor,
    losses_of: TokenLosses,
    n: int,
    counts: Tensor | None = None,
    sequences: int = 1,
) -> dict[str, float]:
    """Take the optimiser steps of update `n`; return the means of what was measured in each minibatch.

    Each minibatch is judged by itself: one without a gradient makes no step, whatever the others do.

    Args:
        weights: [B, T], what each token counts in the mean that is minimised: 1 or 0 for the mean over tokens.
        counts: [B], what each row counts in the mean; None for the sum of its weights.
        sequences: How many a row stands for: the responses of a group.

    Raises:
        TrainingError: The first minibatch does not find the policy that was sampled, or a gradient is not finite.
    """
    chance = generator(trainer.seed, "minibatches", n)
    seen: list[dict[str, Tensor]] = []
    learnt = rows_that_count(weights)
    minibatch, micro_batch = (max(1, size // sequences) for size in (config.minibatch_size, config.micro_batch_size))
    stop_kl = config.stop_kl if isinstance(config, RolloutConfig) else None
    for _ in range(config.epochs if len(learnt) else 0):
        for rows in learnt[torch.randperm(len(learnt), generator=chance)].split(minibatch):
            seed = derived_seed(trainer.seed, "dropout", n, len(seen), trainer.distributed.rank)
            with recomputing(state.policy, state.critic), dropping_out(state.policy, config.dropout, seed):
                measured = minibatch_gradient(trainer, rows, weights, losses_of, micro_batch, counts)
            if not seen and not config.dropout:  # with dropout, the ratio differs from 1 by what was dropped
                check_ratio(measured, config, n)
            if stop_kl is not None and seen and measured["policy/approx_kl"] > stop_kl:
                state.optimizer.zero_grad(set_to_none=True)
                return _means(seen)
            if config.supervised_coefficient:
                count = len(rows) * sequences
                measured["loss/supervised"] = supervised_gradient(trainer, state, config, n, len(seen), count)
            measured["policy/grad_norm"] = step(trainer, state.optimizer, config, f"update {n}")
            seen.append(measured)
    return _means(seen)


def rows_that_count(weights: Tensor) -> Tensor:
    """Return the rows of [B, T] in which a token counts, on the CPU, where minibatches are drawn."""
    return (weights != 0).any(1).nonzero()[:, 0].cpu()


def _means(seen: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    names = seen[0] if seen else ()
    means = {name: float(torch.stack([one[name].detach().float() for one in seen]).mean()) for name in names}
    if "policy/ratio_error" in means:
        means["policy/ratio_error"] = float(seen[0]["policy/ratio_error"])
    steps = float(sum(bool(one["policy/grad_norm"] > 0) for one in seen))
    return means | {"policy/steps": steps, "steps": steps}


def check_ratio(measured: Mapping[str, Tensor], config: RewardedConfig, n: int) -> None:
    """Make sure that the policy about to learn is the one that was sampled, where a loss has a ratio.

    Raises:
        TrainingError: A ratio is off 1 by more than rounding.
    """
    error = float(measured.get("policy/ratio_error", 0.0))
    if not error <= RATIO_TOLERANCE[config.precision]:  # nor is NaN one
        raise TrainingError(
            f"update {n}: the first policy ratio is off 1 by {error:.2g}: sampling and training see different "
            "policies. This is a bug; please report it with config.toml."
        )

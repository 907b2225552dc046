"""An update's optimiser steps: epochs of minibatches, and when to stop early."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from grue.lm.adapters import dropping_out, recomputing
from grue.lm.seeds import derived_seed
from grue.rl.agreement import FIGURES, check_ratio, figures_of
from grue.rl.gradient import TokenLosses, epochs, minibatch_gradient, rows_that_count, step
from grue.rl.references import supervised_gradient
from grue.rl.settings import RewardedConfig, RolloutConfig
from grue.rl.trainer import Trainer, TrainState


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
    seen: list[dict[str, Tensor]] = []
    micro_batch = max(1, config.micro_batch_size // sequences)
    stop_kl = config.stop_kl if isinstance(config, RolloutConfig) else None
    for minibatches in epochs(trainer, config, rows_that_count(weights), n, sequences):
        for rows in minibatches:
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


def _means(seen: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    names = [name for name in (seen[0] if seen else ()) if name not in FIGURES]
    means = {name: float(torch.stack([one[name].detach().float() for one in seen]).mean()) for name in names}
    if seen:
        means |= figures_of(seen[0])
    steps = float(sum(bool(one["policy/grad_norm"] > 0) for one in seen))
    return means | {"policy/steps": steps, "steps": steps}

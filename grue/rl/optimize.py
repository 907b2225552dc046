"""One update's optimiser steps: epochs, minibatches, exact gradients, and when to stop early."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from grue.lm.adapters import dropping_out, recomputing
from grue.lm.seeds import derived_seed, generator
from grue.rl.optimisation import TokenLosses, check_ratio, minibatch_gradient, step
from grue.rl.settings import RolloutConfig
from grue.rl.state import Learner
from grue.runs.train import Run


def improve(
    run: Run, learner: Learner, config: RolloutConfig, weights: Tensor, losses_of: TokenLosses, update: int
) -> dict[str, float]:
    """Take the optimiser steps of one update; return the means of what was measured on the way.

    Args:
        weights: [B, T], what each token counts in the mean that is minimised: 1 or 0 for the mean over tokens.

    Raises:
        TrainingError: The first minibatch does not find the policy that was sampled, or a gradient is not finite.
    """
    chance = generator(run.seed, "minibatches", update)
    seen: list[dict[str, Tensor]] = []
    for _ in range(config.epochs):
        for rows in torch.randperm(len(weights), generator=chance).split(config.minibatch_size):
            seed = derived_seed(run.seed, "dropout", update, len(seen), run.world.rank)
            with recomputing(learner.policy, learner.critic), dropping_out(learner.policy, config.dropout, seed):
                measured = minibatch_gradient(rows, weights, losses_of, config.micro_batch_size, run.world, run.split)
            if not seen and not config.dropout:  # whose ratio is off 1 by what was dropped
                check_ratio(measured, config, update)
            if config.stop_kl is not None and seen and measured["policy/approx_kl"] > config.stop_kl:
                learner.optimizer.zero_grad(set_to_none=True)
                return _means(seen)
            if run.split is None:
                run.world.sum_gradients(p for group in learner.optimizer.param_groups for p in group["params"])
            measured["policy/grad_norm"] = step(learner.optimizer, config, f"update {update}")
            seen.append(measured)
    return _means(seen)


def _means(seen: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    means = {name: float(torch.stack([one[name].detach().float() for one in seen]).mean()) for name in seen[0]}
    return means | {"policy/ratio_error": float(seen[0]["policy/ratio_error"]), "policy/steps": float(len(seen))}

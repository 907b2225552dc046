"""Trust region policy optimisation: rollouts, advantages, one natural gradient step, a critic fitted after, again.

Schulman et al. (2015), with sb3-contrib's values; `trust_region.py` is the step. The critic fits the returns by an
optimiser of its own. A shared critic learns its head alone: a gradient into the trunk would move the policy out of
the region. `epochs`, `stop_kl` and `value_coefficient` have no say, nor has `log_prob_chunk`, since the KL divergence
takes whole distributions.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from grue.lm.adapters import recomputing
from grue.lm.forward import trunk_states
from grue.lm.seeds import generator
from grue.rl import functional as rl
from grue.rl.experience import Experience, advantages_and_returns, collect, describe, next_kl_coefficient
from grue.rl.optimisation import make_optimizer, minibatch_gradient, set_learning_rate, step
from grue.rl.settings import TRPOConfig
from grue.rl.state import Learner, make_learner
from grue.rl.trust_region import Problem, improve_policy, part_of
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@ALGORITHMS.register("trpo")
def train(run: Run, config: TRPOConfig) -> None:
    """Train `run.policy` in place."""
    learner = make_learner(run.policy, config)
    assert learner.critic is not None
    learner.optimizer = make_optimizer([learner.critic], config)  # the policy's step has no state to keep
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        line = one_update(run, learner, config, update)
        run.end_update(update + 1, config.updates, line, learner)


def one_update(run: Run, learner: Learner, config: TRPOConfig, update: int) -> dict[str, float]:
    """Collect rollouts, move the policy, fit the critic, steer the penalty; return the line for the log."""
    experience = collect(run, learner, config, update)
    advantages, returns = advantages_and_returns(experience, config)
    line = describe(experience, learner)
    line |= improve_policy(Problem(run, learner.policy, config, experience, advantages), update)
    line |= improve_critic(run, learner, config, experience, returns, update)
    learner.kl_coefficient = next_kl_coefficient(learner.kl_coefficient, experience, config)
    return line


def improve_critic(
    run: Run, learner: Learner, config: TRPOConfig, experience: Experience, returns: Tensor, update: int
) -> dict[str, float]:
    """Fit the critic to the returns in some epochs of minibatches; return its mean loss on the way."""
    chance, weights = generator(run.seed, "critic", update), experience.mask.float()
    losses_of = partial(value_losses, run, learner, config, experience, returns)
    seen = []
    for _ in range(config.critic_epochs):
        for rows in torch.randperm(len(weights), generator=chance).split(config.minibatch_size):
            with recomputing(learner.critic):
                measured = minibatch_gradient(rows, weights, losses_of, config.micro_batch_size, run.world)
            run.world.sum_gradients(p for group in learner.optimizer.param_groups for p in group["params"])
            step(learner.optimizer, config, f"update {update}")
            seen.append(measured["loss/total"])
    return {"loss/value": float(torch.stack(seen).mean())}


def value_losses(
    run: Run, learner: Learner, config: TRPOConfig, experience: Experience, returns: Tensor, rows: Tensor
) -> Mapping[str, Tensor]:
    """Return the sum over the tokens of some rows of the critic's loss."""
    critic = learner.critic
    assert critic is not None and experience.policy.values is not None
    prompts, responses, encoded = part_of(experience.rollout, rows)
    with run.autocast():
        states = None
        if critic.trunk is None:
            with torch.no_grad():
                states = trunk_states(learner.policy, prompts, responses, encoded)
        values = critic(prompts, responses, states, encoded)
    width = values.shape[1]
    old = experience.policy.values[rows, :width]
    loss = rl.value_loss(values, returns[rows, :width], old, config.value_clip) * experience.mask[rows, :width]
    return {"loss": loss.sum()}

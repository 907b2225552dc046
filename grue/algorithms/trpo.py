"""Trust region policy optimisation: rollouts, advantages, one natural gradient step, then fitting the critic, repeated.

Schulman et al. (2015), with sb3-contrib's values. The step maximises the mean over the tokens of r·A + c·H, with
r = π/π_old, subject to a mean KL(π_old‖π) below δ. Its direction solves (F + damping)·x = gradient by conjugate
gradients, where F is the Fisher matrix of the ratio's distributions: over the sampler's support or the full vocabulary,
as `ratio_over` says. A backtracking line search then takes the longest step inside the region that improves the mean,
or none.

The critic fits the returns with its own optimiser. A shared critic trains only its head: a gradient into the trunk
would move the policy out of the region.

B = responses of an update, b = rows of a micro-batch, T = response time, V = vocabulary, N = trained weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, isnan, sqrt

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from grue.algorithms.cards.trpo import CARD, TRPOConfig
from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.adapters import recomputing
from grue.lm.forward import forward, trunk_states
from grue.lm.model import freeze
from grue.lm.seeds import generator
from grue.rl import functional as rl
from grue.rl import trainer as base
from grue.rl.experience import (
    Experience,
    advantages_and_returns,
    collect_valued,
    describe,
    explained_variance,
    next_kl_coefficient,
)
from grue.rl.optimize import check_ratio, figures_of, micro_batches, minibatch_gradient, mismatch, rows_that_count, step
from grue.rl.settings import rollout_settings
from grue.rl.trainer import Trainer, TrainState, implement, make_optimizer


def start(trainer: Trainer, config: TRPOConfig) -> TrainState:
    """Return the state before the first update; the optimiser is only for the critic."""
    state = base.start(trainer, config)
    assert state.critic is not None
    state.optimizer = make_optimizer([state.critic], config)
    return state


def update(trainer: Trainer, state: TrainState, config: TRPOConfig, n: int) -> dict[str, float]:
    """Collect rollouts, move the policy, fit the critic, adapt the penalty; return figures for the log."""
    experience = collect_valued(trainer, state, config, n, lambda learnt: [learnt])
    advantages, returns = advantages_and_returns(experience, config)
    advantages = advantages * experience.weights
    figures = describe(experience, state) | explained_variance(experience, config)
    figures |= improve_policy(TrustRegion(trainer, state.policy, config, experience, advantages), n)
    figures |= improve_critic(trainer, state, config, experience, returns, n)
    figures["steps"] += figures["policy/step_size"] > 0.0  # the policy's step, unless the line search failed
    state.kl_coefficient = next_kl_coefficient(state.kl_coefficient, experience, config)
    return figures


# --- the policy's step -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrustRegion:
    """The inputs of a policy step; `advantages` are [B, T]."""

    trainer: Trainer
    policy: PreTrainedModel
    config: TRPOConfig
    experience: Experience
    advantages: Tensor


def improve_policy(region: TrustRegion, n: int) -> dict[str, float]:
    """Take the natural gradient step, or leave the weights unchanged; return the figures.

    It is a TrainingError if the policy is not the sampled one, or the gradient or the step is not finite.
    """
    config, trainer = region.config, region.trainer
    parameters = [p for p in region.policy.parameters() if p.requires_grad]
    mask = region.experience.mask
    losses_of, learnt = partial(surrogate_losses, region), rows_that_count(mask)
    product = partial(fisher_product, region, parameters, fisher_rows(region, n))
    with recomputing(region.policy):
        measured = minibatch_gradient(trainer, learnt, mask.float(), losses_of, config.micro_batch_size)
        check_ratio(measured, config, n)
        trainer.distributed.sum_gradients(parameters)
        gradient = -flatten([p.grad for p in parameters], parameters)
        region.policy.zero_grad(set_to_none=True)
        direction, residual = conjugate_gradient(product, gradient, config.cg_steps)
    curvature = float(direction.dot(gradient - residual))  # xᵀHx, without another product
    if not (direction.isfinite().all() and curvature >= 0.0):
        raise TrainingError(f"update {n}: the natural gradient is not finite. Raise cg_damping or kl_coefficient.")
    longest = sqrt(2.0 * config.trust_region / curvature) if curvature else 0.0
    return {
        "loss/policy": float(measured["loss/total"]),
        **figures_of(measured),
        "policy/grad_norm": float(gradient.norm()),
        "policy/cg_residual": float(residual.norm()),
        **line_search(region, parameters, longest * direction, -float(measured["loss/total"])),
    }


def line_search(
    region: TrustRegion, parameters: Sequence[Tensor], longest: Tensor, surrogate: float
) -> dict[str, float]:
    """Shorten a step until it improves on `surrogate` inside the trust region; if none does, restore the weights.

    The figures are the length of the step taken, its mean KL divergence, and the number of attempts. It is a
    TrainingError if the KL divergence of the shortest step is not a number.
    """
    config, before = region.config, freeze(region.policy)
    start, share, attempts = flatten(parameters, parameters).detach().clone(), 1.0, 0
    while attempts < config.line_search_steps and longest.any():
        place(parameters, start + share * longest)
        attempts += 1
        reached, kl = surrogate_and_kl(region, before)
        if reached > surrogate and kl <= config.trust_region:
            break
        share *= config.line_search_shrink
    else:
        place(parameters, start)
        if attempts and isnan(kl):
            raise TrainingError(
                "The KL divergence of even the shortest step is not a number. Lower trust_region, or raise cg_damping."
            )
        share = kl = 0.0
    return {
        "policy/step_size": share * float(longest.norm()),
        "policy/kl_after": kl,
        "policy/line_search_steps": float(attempts),
    }


def surrogate_losses(region: TrustRegion, rows: Tensor) -> Mapping[str, Tensor]:
    """Return the sum over some rows' tokens of −(r·A + c·H), the errors of r, and the mismatch with the sampler."""
    experience, logits = region.experience, open_logits(region, region.policy, rows)
    surrogate, log_ratio = surrogate_and_log_ratio(region, logits, rows)
    mask, old, drawn = (
        values[rows, : logits.shape[1]] for values in (experience.mask, experience.policy.restricted, experience.drawn)
    )
    return {"loss": -surrogate.sum(), **rl.ratio_errors(log_ratio, mask), **mismatch(old, drawn, mask)}


def surrogate_and_log_ratio(region: TrustRegion, logits: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return r·A + c·H of each token of some rows, 0 where no token counts, and log r; [b, T] each."""
    experience, width = region.experience, logits.shape[1]
    mask = experience.mask[rows, :width]
    new = distributions.log_probs(logits, experience.rollout.responses.ids[rows, :width]).masked_fill(~mask, 0.0)
    log_ratio = new - experience.log_probs[rows, :width]
    surrogate = log_ratio.exp() * region.advantages[rows, :width]
    if region.config.entropy_coefficient:
        surrogate = surrogate + region.config.entropy_coefficient * distributions.entropy(logits)
    return surrogate * mask, log_ratio


@torch.no_grad()
def surrogate_and_kl(region: TrustRegion, before: PreTrainedModel) -> tuple[float, float]:
    """Return the means over all tokens of r·A + c·H and of KL(before‖policy), over all ranks."""
    mask = region.experience.mask
    sums = torch.zeros(2, device=mask.device)
    for rows in own_parts(region, rows_that_count(mask)):
        logits = open_logits(region, region.policy, rows)
        surrogate, _ = surrogate_and_log_ratio(region, logits, rows)
        kl = distributions.kl_divergence(open_logits(region, before, rows), logits)
        kl = kl.masked_fill(~mask[rows, : logits.shape[1]], 0.0)
        sums += torch.stack([surrogate.sum(), kl.sum()])
    surrogate, kl = (region.trainer.distributed.sum(sums) / mask.sum()).tolist()
    return surrogate, kl


def fisher_product(region: TrustRegion, parameters: Sequence[Tensor], rows: Tensor, vector: Tensor) -> Tensor:
    """Return (F + damping)·vector, [N], where F is the mean over the tokens of some rows of Jᵀ(diag p − p pᵀ)J.

    J is the Jacobian of a token's logits. J·v is the derivative of Jᵀu, which is linear in u, along v.
    """
    mask, product = region.experience.mask, torch.zeros_like(vector)
    with sdpa_kernel(SDPBackend.MATH):  # the other attention kernels have no second derivative
        for part in own_parts(region, rows):
            logits = open_logits(region, region.policy, part)
            u = torch.zeros_like(logits, requires_grad=True)
            back = torch.autograd.grad(logits, parameters, u, create_graph=True, allow_unused=True)
            used = [(g, v) for g, v in zip(back, unflatten(vector, parameters), strict=True) if g is not None]
            (along,) = torch.autograd.grad([g for g, _ in used], u, [v for _, v in used])
            weighted = softmax_fisher_product(logits.detach(), along) * mask[part, : logits.shape[1], None]
            product += flatten(torch.autograd.grad(logits, parameters, weighted, allow_unused=True), parameters)
    return region.trainer.distributed.sum(product) / mask[rows].sum() + region.config.cg_damping * vector


def softmax_fisher_product(logits: Tensor, vector: Tensor) -> Tensor:
    """Return (diag p − p pᵀ)·vector, [..., V], with p = softmax(logits): the Fisher matrix of the logits, applied."""
    p = logits.float().softmax(-1)
    return p * (vector - (p * vector).sum(-1, keepdim=True))


def fisher_rows(region: TrustRegion, n: int) -> Tensor:
    """Return the rows on which the Fisher matrix is estimated, at least one per process."""
    rows, trainer = rows_that_count(region.experience.mask), region.trainer
    chosen = max(trainer.distributed.size, ceil(region.config.fisher_share * len(rows)))
    return rows[torch.randperm(len(rows), generator=generator(trainer.seed, "fisher", n))[:chosen]]


def open_logits(region: TrustRegion, policy: PreTrainedModel, rows: Tensor) -> Tensor:
    """Return the logits [b, T, V] of the ratio's distributions, minus infinity for tokens outside their support."""
    rollout, trainer = region.experience.rollout, region.trainer
    prompts, responses, encoded = rollout.rows(rows)
    with trainer.autocast():
        logits, _ = forward(policy, prompts, responses, encoded=encoded)
    logits = logits.float() / rollout_settings(trainer.task, region.config).temperature
    if region.config.ratio_over == "vocabulary":
        return logits
    return distributions.restrict(logits, rollout.open_vocabulary(rows, logits.shape[1], logits.shape[2]))


def own_parts(region: TrustRegion, rows: Tensor) -> list[Tensor]:
    """Return this rank's share of some rows in micro-batches."""
    return micro_batches(region.trainer, region.experience.mask, rows, region.config.micro_batch_size)


# --- the critic ------------------------------------------------------------------------------------------------------


def improve_critic(
    trainer: Trainer, state: TrainState, config: TRPOConfig, experience: Experience, returns: Tensor, n: int
) -> dict[str, float]:
    """Fit the critic to the returns in epochs of minibatches; return its mean loss and its number of steps."""
    chance, weights = generator(trainer.seed, "critic", n), experience.mask.float()
    learnt = rows_that_count(weights)
    losses_of = partial(value_losses, trainer, state, config, experience, returns)
    losses, steps = [], 0
    for _ in range(config.critic_epochs):
        for rows in learnt[torch.randperm(len(learnt), generator=chance)].split(config.minibatch_size):
            with recomputing(state.critic):
                measured = minibatch_gradient(trainer, rows, weights, losses_of, config.micro_batch_size)
            steps += bool(step(trainer, state.optimizer, config, f"update {n}") > 0)
            losses.append(measured["loss/total"])
    return {"loss/value": float(torch.stack(losses).mean()), "steps": float(steps)}


def value_losses(
    trainer: Trainer, state: TrainState, config: TRPOConfig, experience: Experience, returns: Tensor, rows: Tensor
) -> Mapping[str, Tensor]:
    """Return the sum over the tokens of some rows of the critic's loss."""
    critic = state.critic
    assert critic is not None and experience.policy.values is not None
    prompts, responses, encoded = experience.rollout.rows(rows)
    with trainer.autocast():
        hidden = None
        if critic.trunk is None:
            with torch.no_grad():
                hidden = trunk_states(state.policy, prompts, responses, encoded)
        values = critic(prompts, responses, hidden, encoded)
    width = values.shape[1]
    old = experience.policy.values[rows, :width]
    loss = rl.value_loss(values, returns[rows, :width], old, config.value_clip) * experience.mask[rows, :width]
    return {"loss": loss.sum()}


# --- vectors, and linear equations -----------------------------------------------------------------------------------


def flatten(tensors: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """Return tensors of the shapes of `like` as one vector [N], with zeros for those that are missing."""
    return torch.cat([(torch.zeros_like(b) if a is None else a).flatten() for a, b in zip(tensors, like, strict=True)])


def unflatten(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Undo `flatten`."""
    parts = vector.split([tensor.numel() for tensor in like])
    return [part.view_as(tensor) for part, tensor in zip(parts, like, strict=True)]


@torch.no_grad()
def place(parameters: Sequence[Tensor], vector: Tensor) -> None:
    """Set the parameters to the values of a vector [N]."""
    for parameter, part in zip(parameters, unflatten(vector, parameters), strict=True):
        parameter.copy_(part)


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Solve H x = target for a positive definite H that is given by its products with vectors.

    Hestenes and Stiefel (1952), from x = 0, until ‖target − H x‖² is no more than 1e-10 ‖target‖².

    Args:
        product: v → H v, [N] → [N].
        target: [N].
        steps: Most products.

    Returns:
        x and the residual target − H x, [N] each.
    """
    solution, residual = torch.zeros_like(target), target.clone()
    direction, squared = residual.clone(), residual.dot(residual)
    enough = 1e-10 * squared
    for _ in range(steps):
        if squared <= enough:
            break
        image = product(direction)
        length = squared / direction.dot(image)
        solution, residual = solution + length * direction, residual - length * image
        before, squared = squared, residual.dot(residual)
        direction = residual + squared / before * direction
    return solution, residual


ALGORITHM = implement(CARD, update, start=start)

"""The trust region's step: as far along the natural gradient as a bound on the KL divergence lets the policy go.

The policy maximises mean(r·A + c·H) over the tokens, with r = π_new/π_old and H the entropy, subject to
mean KL(π_old‖π_new) ≤ δ. Its direction solves (F + damping)·x = gradient by conjugate gradient, where F is the exact
Fisher matrix of the tokens' distributions: over the sampler's support or the full vocabulary, as `ratio_over` says.
A backtracking line search then takes the longest step that improves the mean inside the region, or none.

B = batch, b = rows of a micro-batch, T = response time, V = vocabulary, N = weights that learn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, sqrt

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.adapters import recomputing
from grue.lm.forward import forward
from grue.lm.model import freeze
from grue.lm.sampling import Rollout
from grue.lm.seeds import generator
from grue.lm.tokens import Tokens, length_batches
from grue.rl import functional as rl
from grue.rl.experience import Experience
from grue.rl.optimisation import check_ratio, minibatch_gradient
from grue.rl.rollout import rollout_settings
from grue.rl.settings import TRPOConfig
from grue.runs.train import Run


@dataclass(frozen=True, slots=True)
class Problem:
    """What a step of the policy is taken on; `advantages` are [B, T]."""

    run: Run
    policy: PreTrainedModel
    config: TRPOConfig
    experience: Experience
    advantages: Tensor


def improve_policy(problem: Problem, update: int) -> dict[str, float]:
    """Take the natural gradient step, or leave the weights as they are; return what was measured on the way.

    Raises:
        TrainingError: The policy is not the one that was sampled, or the gradient or the step is not finite.
    """
    config, world = problem.config, problem.run.world
    parameters = [p for p in problem.policy.parameters() if p.requires_grad]
    mask = problem.experience.mask
    losses_of, everything = partial(surrogate_losses, problem), torch.arange(len(mask))
    product = partial(fisher_product, problem, parameters, fisher_rows(problem, update))
    with recomputing(problem.policy):
        measured = minibatch_gradient(everything, mask.float(), losses_of, config.micro_batch_size, world)
        check_ratio(measured, config, update)
        world.sum_gradients(parameters)
        gradient = -flatten([p.grad for p in parameters], parameters)
        problem.policy.zero_grad(set_to_none=True)
        direction, residual = rl.conjugate_gradient(product, gradient, config.cg_steps)
    curvature = float(direction.dot(gradient - residual))  # xᵀHx, without another product
    if not (direction.isfinite().all() and curvature >= 0.0):
        raise TrainingError(f"update {update}: the natural gradient is not finite. Raise cg_damping or kl_coefficient.")
    longest = sqrt(2.0 * config.trust_region / curvature) if curvature else 0.0
    return {
        "loss/policy": float(measured["loss/total"]),
        "policy/ratio_error": float(measured["policy/ratio_error"]),
        "policy/grad_norm": float(gradient.norm()),
        "policy/cg_residual": float(residual.norm()),
        **line_search(problem, parameters, longest * direction, -float(measured["loss/total"])),
    }


def line_search(problem: Problem, parameters: Sequence[Tensor], longest: Tensor, surrogate: float) -> dict[str, float]:
    """Shorten a step until it improves on `surrogate` inside the trust region; without success go back, bit for bit.

    Returns:
        The length of the step that was taken, its mean KL divergence, and the attempts.
    """
    config, before = problem.config, freeze(problem.policy)
    start, share, attempts = flatten(parameters, parameters).detach().clone(), 1.0, 0
    while attempts < config.line_search_steps and longest.any():
        place(parameters, start + share * longest)
        attempts += 1
        reached, kl = surrogate_and_kl(problem, before)
        if reached > surrogate and kl <= config.trust_region:
            break
        share *= config.line_search_shrink
    else:
        place(parameters, start)
        share = kl = 0.0
    return {
        "policy/step_size": share * float(longest.norm()),
        "policy/kl_after": kl,
        "policy/line_search_steps": float(attempts),
    }


def surrogate_losses(problem: Problem, rows: Tensor) -> Mapping[str, Tensor]:
    """Return the sum over the tokens of some rows of −(r·A + c·H), and the largest |r − 1|."""
    logits = open_logits(problem, problem.policy, rows)
    surrogate, ratio = surrogate_and_ratio(problem, logits, rows)
    error = (ratio.detach() - 1.0).abs() * problem.experience.mask[rows, : logits.shape[1]]
    return {"loss": -surrogate.sum(), "ratio_error": error.max()}


def surrogate_and_ratio(problem: Problem, logits: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return r·A + c·H of each token of some rows, 0 where nothing counts, and r; [b, T] each."""
    experience, width = problem.experience, logits.shape[1]
    mask = experience.mask[rows, :width]
    new = distributions.log_probs(logits, experience.rollout.responses.ids[rows, :width]).masked_fill(~mask, 0.0)
    ratio = (new - experience.log_probs[rows, :width]).exp()
    surrogate = ratio * problem.advantages[rows, :width]
    if problem.config.entropy_coefficient:
        surrogate = surrogate + problem.config.entropy_coefficient * distributions.entropy(logits)
    return surrogate * mask, ratio


@torch.no_grad()
def surrogate_and_kl(problem: Problem, before: PreTrainedModel) -> tuple[float, float]:
    """Return the means over all tokens of r·A + c·H and of KL(before‖policy), over all ranks."""
    mask = problem.experience.mask
    sums = torch.zeros(2, device=mask.device)
    for rows in own_parts(problem, torch.arange(len(mask))):
        logits = open_logits(problem, problem.policy, rows)
        surrogate, _ = surrogate_and_ratio(problem, logits, rows)
        kl = rl.kl_divergence(open_logits(problem, before, rows), logits) * mask[rows, : logits.shape[1]]
        sums += torch.stack([surrogate.sum(), kl.sum()])
    surrogate, kl = (problem.run.world.sum(sums) / mask.sum()).tolist()
    return surrogate, kl


def fisher_product(problem: Problem, parameters: Sequence[Tensor], rows: Tensor, vector: Tensor) -> Tensor:
    """Return (F + damping)·vector, [N], where F is the mean over the tokens of some rows of Jᵀ(diag p − p pᵀ)J.

    J is the Jacobian of a token's logits. J·v is the derivative of Jᵀu, which is linear in u, along v.
    """
    mask, product = problem.experience.mask, torch.zeros_like(vector)
    with sdpa_kernel(SDPBackend.MATH):  # the other attention kernels have no second derivative
        for part in own_parts(problem, rows):
            logits = open_logits(problem, problem.policy, part)
            u = torch.zeros_like(logits, requires_grad=True)
            back = torch.autograd.grad(logits, parameters, u, create_graph=True, allow_unused=True)
            used = [(g, v) for g, v in zip(back, unflatten(vector, parameters), strict=True) if g is not None]
            (along,) = torch.autograd.grad([g for g, _ in used], u, [v for _, v in used])
            weighted = rl.softmax_fisher_product(logits.detach(), along) * mask[part, : logits.shape[1], None]
            product += flatten(torch.autograd.grad(logits, parameters, weighted, allow_unused=True), parameters)
    return problem.run.world.sum(product) / mask[rows].sum() + problem.config.cg_damping * vector


def fisher_rows(problem: Problem, update: int) -> Tensor:
    """Return the rows that the Fisher matrix is estimated on, at least one for each process."""
    count, run = len(problem.experience.mask), problem.run
    chosen = max(run.world.size, ceil(problem.config.fisher_share * count))
    return torch.randperm(count, generator=generator(run.seed, "fisher", update))[:chosen]


def open_logits(problem: Problem, policy: PreTrainedModel, rows: Tensor) -> Tensor:
    """Return the logits [b, T, V] that the ratio is about, minus infinity where the sampler's vocabulary was closed."""
    rollout, run = problem.experience.rollout, problem.run
    prompts, responses, encoded = part_of(rollout, rows)
    with run.autocast():
        logits, _ = forward(policy, prompts, responses, encoded=encoded)
    logits = logits.float() / rollout_settings(run.task, problem.config).temperature
    if problem.config.ratio_over == "vocabulary":
        return logits
    return distributions.restrict(logits, rollout.open_vocabulary(rows, logits.shape[1], logits.shape[2]))


def own_parts(problem: Problem, rows: Tensor) -> list[Tensor]:
    """Return this rank's share of some rows in micro-batches."""
    world = problem.run.world
    return length_batches(problem.experience.mask, rows[world.rank :: world.size], problem.config.micro_batch_size)


# --- rows and vectors ------------------------------------------------------------------------------------------------


def part_of(rollout: Rollout, rows: Tensor) -> tuple[Tokens, Tokens, Tensor | None]:
    """Return prompts, responses and a frozen encoder's states of some rows."""
    encoded = None if rollout.encoded is None else rollout.encoded[rows]
    return rollout.prompts.rows(rows), rollout.responses.rows(rows), encoded


def flatten(tensors: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    """Return tensors of the shapes of `like` as one vector [N], with zeros for those that are missing."""
    return torch.cat([(torch.zeros_like(b) if a is None else a).flatten() for a, b in zip(tensors, like, strict=True)])


def unflatten(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Undo `flatten`."""
    parts = vector.split([one.numel() for one in like])
    return [part.view_as(one) for part, one in zip(parts, like, strict=True)]


@torch.no_grad()
def place(parameters: Sequence[Tensor], vector: Tensor) -> None:
    """Set the parameters to the values of a vector [N]."""
    for parameter, part in zip(parameters, unflatten(vector, parameters), strict=True):
        parameter.copy_(part)

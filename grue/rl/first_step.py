"""A trainer's first step on one batch, beside grue's: what is learned, the gradient, the change of the weights.

Two trainers never draw the same, but from the same responses they compute the same up to rounding, or they do not.
Each stage is recomputed from the other trainer's input (mask and advantages from its tokens and rewards, the gradient
from its batch, the step from its gradient), so that a difference shows where it arises. The first step starts a little
off the reference, since where the two are equal a KL penalty has no gradient.

B = responses, T = longest response.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.lm.seeds import generator
from grue.rl import functional as rl
from grue.rl.fixed_batch import PENALTIES, FixedBatch, Method, Objective, advantages_of, learned_by, log_probs_of
from grue.rl.settings import Common
from grue.rl.trainer import make_optimizer

Weights = Mapping[str, Tensor]
"""Parameter → its value, gradient or change."""

EXACT = 1e-4
"""Relative error ‖theirs − ours‖/‖ours‖ that rounding in float32 explains."""
NOISE = 0.1
"""How far the first step starts from the reference: Gaussian noise, as a share of each parameter's root mean square."""


@dataclass(frozen=True, slots=True, eq=False)
class FirstStep:
    """What another trainer made of a batch; None where that is unknown.

    Attributes:
        start: The weights before the step.
        loss: As it was minimised.
        gradient: Before clipping.
        learned: [B, T], where it learns a token of a response.
        advantages: [B].
        kl: In nats a token, as it logs it.
        change: The weights after the step less those before.
    """

    batch: FixedBatch
    start: Weights
    loss: float
    gradient: Weights
    learned: Tensor | None = None
    advantages: Tensor | None = None
    kl: float | None = None
    change: Weights | None = None


@torch.no_grad()
def push_off(model: nn.Module, seed: int) -> None:
    """Move a model a little off the reference."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator(seed, "start", name)).to(parameter)
        parameter.add_(noise * parameter.square().mean().sqrt() * NOISE)


# --- grue's side ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ours:
    """grue's side of a batch: gradients of any objective at one model's weights.

    Attributes:
        reference: π₀; None if its log-probabilities are only those of the batch, as for a loss of one's own.
        passes: Forward passes done so far: log π with its graph and log π₀, by what they depend on.
    """

    method: Method
    batch: FixedBatch
    model: PreTrainedModel
    reference: PreTrainedModel | None
    passes: dict[tuple[str, ...], tuple[Tensor, Tensor]]

    def scores(self, objective: Objective) -> tuple[Tensor, Tensor, Tensor]:
        """Return log π with gradients, log π₀ and what is learned, [B, T] each."""
        padding = objective.learned if objective.learned == "padding" else ""
        key = (padding, objective.temperature, objective.positions)
        if key not in self.passes:
            reference = self.batch.reference[:, self.batch.prompt_length :]
            if self.reference is not None:
                with torch.no_grad():
                    reference = log_probs_of(self.reference, self.batch, objective)
            self.passes[key] = log_probs_of(self.model, self.batch, objective), reference
        return *self.passes[key], learned_by(objective, self.batch)

    def loss(self, objective: Objective) -> Tensor:
        """Return the loss, with gradients."""
        return self.method.loss(objective, self.batch, *self.scores(objective))

    def gradient(self, objective: Objective, names: Sequence[str] | None = None) -> Weights:
        """Return the gradient, of some parameters alone if they are named."""
        chosen = {name: p for name, p in self.model.named_parameters() if names is None or name in names}
        found = torch.autograd.grad(self.loss(objective), list(chosen.values()), retain_graph=True, allow_unused=True)
        return {
            name: torch.zeros_like(p) if part is None else part
            for (name, p), part in zip(chosen.items(), found, strict=True)
        }


def step_of(model: PreTrainedModel, start: Weights, gradient: Weights, config: Common) -> Weights:
    """Return the change of the weights by grue's first optimiser step; the model's weights are `start` after it."""
    optimizer = make_optimizer([model], config)
    for name, parameter in model.named_parameters():
        parameter.grad = gradient[name].clone()
    nn.utils.clip_grad_norm_(list(model.parameters()), config.max_grad_norm)
    optimizer.step()
    model.zero_grad(set_to_none=True)
    with torch.no_grad():
        change = {name: parameter - start[name] for name, parameter in model.named_parameters()}
        for name, parameter in model.named_parameters():
            parameter.copy_(start[name])
    return change


# --- the comparison ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alike:
    """How alike two vectors over all parameters are.

    Attributes:
        ratio: ‖theirs‖/‖ours‖.
        cosine: Of the angle between them.
        error: ‖theirs − ours‖/‖ours‖.
        scale: The factor by which ours fits best.
        error_scaled: The error that this leaves, as a share of theirs.
    """

    ratio: float
    cosine: float
    error: float
    scale: float
    error_scaled: float


def alike(theirs: Weights, ours: Weights) -> Alike:
    """Compare the parameters that `ours` names; without a direction on a side, nothing is alike but 0 and 0."""
    pairs = [(theirs[name].double(), value.double()) for name, value in ours.items()]
    square_a, square_b = (sum(float(pair[side].square().sum()) for pair in pairs) for side in (0, 1))
    if not square_a or not square_b:
        same = square_a == square_b
        ratio = 1.0 if same else math.inf if square_a else 0.0
        return Alike(ratio, float(same), 0.0 if same else math.inf, 1.0, 0.0 if same else math.inf)
    dot = sum(float((a * b).sum()) for a, b in pairs)
    gap = sum(float((a - b).square().sum()) for a, b in pairs)
    scale = dot / square_b
    left = sum(float((a - scale * b).square().sum()) for a, b in pairs)
    cosine = dot / math.sqrt(square_a * square_b)
    return Alike(math.sqrt(square_a / square_b), cosine, math.sqrt(gap / square_b), scale, math.sqrt(left / square_a))


@dataclass(frozen=True, slots=True)
class StepStage:
    """One stage of a first step, on both sides.

    Attributes:
        ours, theirs: A number of it: how many tokens, the size of advantages, a norm.
        error: Largest difference of the numbers it consists of, or for a gradient and a step ‖theirs − ours‖/‖ours‖.
        agrees: Whether it is the same up to rounding.
        ratio, cosine: Of gradients and steps.
        causes: What explains a difference of gradients or steps exactly, each by itself.
    """

    name: str
    ours: float
    theirs: float
    error: float
    agrees: bool
    ratio: float | None = None
    cosine: float | None = None
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepCompared:
    """A first step beside grue's.

    Attributes:
        responses: In the batch; `ended` of them with an end token.
        stages: In the order of computation; gradient and step come last.
        unseen: Known variants that come to the same as grue on this batch, and so cannot be seen on it.
    """

    responses: int
    ended: int
    stages: tuple[StepStage, ...]
    unseen: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether gradient or step differ; what is only logged otherwise changes nothing."""
        return any(not stage.agrees for stage in self.stages if stage.cosine is not None)


def compare_step(
    theirs: FirstStep, method: Method, model: PreTrainedModel, reference: PreTrainedModel | None, config: Common
) -> StepCompared:
    """Compare a first step with grue's; a ConfigError if the models have other parameters.

    Args:
        model: Its weights are replaced by those that the other trainer started from.
        reference: π₀; None if the other was given its log-probabilities.
        config: Settings of the optimiser.
    """
    shapes = {name: p.shape for name, p in model.named_parameters()}
    other_shapes = {name: p.shape for name, p in theirs.start.items()}
    if shapes != other_shapes:
        odd = next(name for name in [*shapes, *other_shapes] if shapes.get(name) != other_shapes.get(name))
        raise ConfigError(
            f"The two models differ in the parameter {odd}: train the same model whole on both sides, without adapters."
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(theirs.start[name])
    model.eval()
    ours = Ours(method, theirs.batch, model, reference, {})
    gradient = ours.gradient(method.own)
    of_gradient, stages = _stage("gradient", gradient, theirs.gradient), list(_before(theirs, ours))
    last = [name for name, part in gradient.items() if part.any()][-1:]

    def beside(objective: Objective) -> tuple[Alike, Alike]:
        """Return how alike a variant's gradient is to theirs and to grue's; far off, by the last parameter alone."""
        found = ours.gradient(objective, last)  # without a backward pass through the whole model
        both = alike(theirs.gradient, found), alike(gradient, found)
        if both[0].error_scaled > 10 * EXACT and both[1].error > 10 * EXACT:
            return both
        found = ours.gradient(objective)
        return alike(theirs.gradient, found), alike(gradient, found)

    singles = [(told, *beside(objective)) for objective, told in method.variants(1)]
    if not of_gradient.agrees:
        compared = alike(theirs.gradient, gradient)
        causes = [told for told, other, _ in singles if other.error < EXACT]
        if not causes and compared.error_scaled > EXACT:
            pairs = ((told, beside(objective)[0]) for objective, told in method.variants(2))
            causes = [told for told, other in pairs if other.error < EXACT]
        if compared.error_scaled < EXACT:
            scaled = [("grue's own loss", compared)]
        else:
            scaled = [(told, other) for told, other, _ in singles if other.error_scaled < EXACT]
        causes = causes or [f"{told}, times {other.scale:.4g}" for told, other in scaled]
        of_gradient = replace(of_gradient, causes=tuple(causes))
    stages.append(of_gradient)
    ours.passes.clear()
    if theirs.change is not None:
        step = step_of(model, theirs.start, theirs.gradient, config)
        of_step = _stage("optimiser's step", step, theirs.change)
        stages.append(of_step if of_step.agrees else replace(of_step, causes=_of_step(theirs, model, config)))
    unseen = tuple(told for told, _, own in singles if own.error < EXACT)
    return StepCompared(len(theirs.batch.ids), int(theirs.batch.ended.sum()), tuple(stages), unseen)


def _before(theirs: FirstStep, ours: Ours) -> Iterator[StepStage]:
    """Yield the stages before the gradient, as far as they are known of the other trainer."""
    own, batch = ours.method.own, theirs.batch
    with torch.no_grad():
        new, reference, mask = ours.scores(own)
        if theirs.learned is not None:
            wrong = int((theirs.learned.bool() != mask).sum())
            yield StepStage("tokens learned", float(mask.sum()), float(theirs.learned.sum()), wrong, wrong == 0)
        if theirs.advantages is not None:
            advantages = advantages_of(own, batch, new - reference, mask)
            gap = float((theirs.advantages - advantages).abs().max())
            size = float(advantages.abs().max())
            yield StepStage("largest advantage", size, float(theirs.advantages.abs().max()), gap, gap <= EXACT * size)
        if theirs.kl is not None:
            estimate = rl.kl_k3 if PENALTIES[own.penalty][1] else rl.kl_k1
            yield _number("KL, nats a token", float(rl.masked_mean(estimate(new, reference), mask)), theirs.kl)
        yield _number("loss", float(ours.loss(own)), theirs.loss)


def _number(name: str, ours: float, theirs: float) -> StepStage:
    gap = abs(theirs - ours)
    return StepStage(name, ours, theirs, gap, gap <= EXACT * max(abs(ours), 0.01))


def _stage(name: str, ours: Weights, theirs: Weights) -> StepStage:
    compared, norms = alike(theirs, ours), [_norm(side) for side in (ours, theirs)]
    return StepStage(name, norms[0], norms[1], compared.error, compared.error < EXACT, compared.ratio, compared.cosine)


def _norm(values: Weights) -> float:
    return math.sqrt(sum(float(part.double().square().sum()) for part in values.values()))


def _of_step(theirs: FirstStep, model: PreTrainedModel, config: Common) -> tuple[str, ...]:
    """Return what explains another step from the same gradient: the rate, a weight decay."""
    assert theirs.change is not None
    if not any(part.any() for part in theirs.change.values()):
        return ("the weights do not move (a learning rate of 0, as at the start of a warm-up)",)
    for decay in (config.weight_decay, 0.001, 0.01, 0.1):
        step = step_of(model, theirs.start, theirs.gradient, replace(config, weight_decay=decay))
        compared = alike(theirs.change, step)
        if compared.error_scaled < EXACT:
            rate = [f"the learning rate is × {compared.scale:.4g}"] if abs(compared.scale - 1) >= EXACT else []
            return ("; ".join([*rate, *([f"the weight decay is {decay:g}"] if decay != config.weight_decay else [])]),)
    return ()

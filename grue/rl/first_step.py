"""A trainer's first step on one batch, beside grue's: what is learned, the gradient, the change of the weights.

Two trainers never draw the same, but from the same responses they compute the same up to rounding, or they do not.
Each stage is recomputed from the other trainer's input (mask and advantages from its tokens and rewards, the gradient
from its batch, the step from its gradient), so that a difference shows where it arises. The first step starts a little
off the reference, since where the two are equal a KL penalty has no gradient.

B = responses, P = longest prompt, T = longest response, L = P + T.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.lm.forward import of_responses
from grue.lm.log_probs import token_scores
from grue.lm.seeds import generator
from grue.lm.tokens import Tokens
from grue.rl import functional as rl
from grue.rl.settings import Common
from grue.rl.trainer import make_optimizer

Weights = Mapping[str, Tensor]
"""Parameter → its value, gradient or change."""

EXACT = 1e-4
"""Relative error ‖theirs − ours‖/‖ours‖ that rounding in float32 explains."""
NOISE = 0.1
"""How far the first step starts from the reference: Gaussian noise, as a share of each parameter's root mean square."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedBatch:
    """What a trainer learns from; responses to one prompt are adjacent.

    Attributes:
        ids: [B, L]; prompts are padded on the left, responses, which begin at column `prompt_length`, on the right.
        attention_mask: [B, L], 1 where there is a token.
        position_ids: [B, L], positions that do not count the padding.
        response_mask: [B, L], True where a token is learned: those of the response, its end token included.
        rewards: [B]; for DPO 1 for the better and 0 for the worse response of a pair, for supervised training 0.
        reference: [B, L], log π₀ of each token that is learned; 0 elsewhere.
        ended: [B], whether the last token is an end token; else the response was cut.
        group_size: Responses to a prompt.
        penalty: β, of the KL penalty or of DPO.
        temperature: Of the sampling; grue's log-probabilities are those of logits divided by it.
        max_new_tokens: The most tokens that a response may have.
    """

    ids: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    response_mask: Tensor
    rewards: Tensor
    reference: Tensor
    ended: Tensor
    prompt_length: int
    group_size: int
    penalty: float
    temperature: float
    max_new_tokens: int


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


def fixed_batch(
    prompts: Tokens,
    responses: Tokens,
    rewards: Tensor,
    ends: Sequence[int],
    reference: PreTrainedModel,
    *,
    temperature: float,
    **more: Any,
) -> FixedBatch:
    """Return a batch of the tokens that a trainer holds.

    What is to be learned is read off the ids, up to the first end token, and not off the trainer's mask, which is to be
    checked. Where a response has no end, the mask says how long it is.

    Args:
        ends: The ids that end a response.
        more: `group_size`, `penalty`, `max_new_tokens`.

    Raises:
        ConfigError: A response has no reward.
    """
    if rewards.isnan().any():
        raise ConfigError("The reward applies to some responses alone; first steps need a reward of every response.")
    is_end = torch.isin(responses.ids, torch.tensor(ends, device=responses.ids.device))
    mask = (responses.mask | is_end) & (is_end.cumsum(1) - is_end.long() == 0)
    attention = torch.cat([prompts.mask, mask], 1).long()
    nowhere = torch.zeros_like(prompts.mask)
    batch = FixedBatch(
        ids=torch.cat([prompts.ids, responses.ids], 1),
        attention_mask=attention,
        position_ids=(attention.cumsum(1) - 1).clamp(min=0),
        response_mask=torch.cat([nowhere, mask], 1),
        rewards=rewards,
        reference=nowhere.float(),
        ended=(is_end & mask).any(1),
        prompt_length=prompts.ids.shape[1],
        temperature=temperature,
        **more,
    )
    with torch.no_grad():
        scores = log_probs_of(reference, batch, Objective())
    return replace(batch, reference=torch.cat([nowhere.float(), scores * mask], 1))


@torch.no_grad()
def push_off(model: nn.Module, seed: int) -> None:
    """Move a model a little off the reference."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator(seed, "start", name)).to(parameter)
        parameter.add_(noise * parameter.square().mean().sqrt() * NOISE)


# --- objectives: grue's own, and known variants -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised: the attributes are axes; `Method.axes` says what their values mean."""

    mean: str = "tokens"
    advantages: str = "rewards"
    penalty: str = "none"
    learned: str = "responses"
    temperature: str = "sampling"
    positions: str = "tokens"


def _over(deviation: Callable[[Tensor], Tensor], epsilon: float = 1e-4) -> Callable[[Tensor, int], Tensor]:
    def judge(scores: Tensor, size: int) -> Tensor:
        divisor = deviation(scores.view(-1, size)) + epsilon
        return (rl.centre_groups(scores, size).view(-1, size) / divisor).flatten()

    return judge


ADVANTAGES: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "rewards": lambda scores, size: scores,
    "group": rl.standardise_groups,
    "centred": rl.centre_groups,
    "leave one out": rl.leave_one_out,
    "population": _over(lambda groups: groups.std(1, correction=0, keepdim=True)),
    "epsilon": _over(lambda groups: groups.std(1, keepdim=True), 1e-8),
    "batch deviation": _over(torch.std),
    "batch": lambda scores, size: rl.standardise_groups(scores, len(scores)),
    "batch mean": lambda scores, size: rl.centre_groups(scores, len(scores)),
}
"""How advantages [B] come from scores [B] in groups of a size."""

MEANS: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "tokens": lambda mask, longest: mask / mask.sum(),
    "responses": lambda mask, longest: mask / mask.sum(1, keepdim=True).clamp(min=1) / len(mask),
    "constant": lambda mask, longest: mask / (longest * len(mask)),
    "sums": lambda mask, longest: mask / len(mask),
    "sum": lambda mask, longest: mask.float(),
}
"""The weight of each token in the loss, [B, T], where `mask` says what is learned."""

PENALTIES: Mapping[str, tuple[float, float, str]] = {
    "none": (0, 0, "k3"),
    "loss": (0, 1, "k3"),
    "loss, sign": (0, -1, "k3"),
    "loss, k2": (0, 1, "k2"),
    "reward": (1, 0, "k1"),
    "reward, sign": (-1, 0, "k1"),
}
"""How often β counts on the reward and in the loss, and there by which estimate."""

Loss = Callable[[Objective, FixedBatch, Tensor, Tensor, Tensor], Tensor]
"""(objective, batch, log π, log π₀, where a token is learned; [B, T] each) → the loss."""


def policy_loss(objective: Objective, batch: FixedBatch, new: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """Return the loss of GRPO or RLOO on the policy's own samples."""
    _, in_loss, estimator = PENALTIES[objective.penalty]
    worth = advantages_of(objective, batch, new.detach() - reference, mask).unsqueeze(1)
    loss = rl.clipped_policy_loss(new, new.detach(), worth, 0.2)
    penalty = rl.kl_loss(new, reference, new - new.detach(), estimator, corrected=False)
    weights = MEANS[objective.mean](mask, batch.max_new_tokens)
    return ((loss + in_loss * batch.penalty * penalty) * weights).sum()


def advantages_of(objective: Objective, batch: FixedBatch, kl: Tensor, mask: Tensor) -> Tensor:
    """Return the advantages, [B]; `kl` is the tokens' log-ratio to the reference, [B, T]."""
    on_reward = PENALTIES[objective.penalty][0]
    scores = batch.rewards - on_reward * batch.penalty * (kl * mask).sum(1)
    return ADVANTAGES[objective.advantages](scores, batch.group_size)


def pair_loss(objective: Objective, batch: FixedBatch, new: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """Return the loss of DPO."""
    ratios = (new - (reference if objective.penalty == "loss" else 0.0)) * mask
    responses = ratios.sum(1) / (mask.sum(1) if objective.mean == "responses" else 1)
    pairs, rewards = responses.view(-1, 2), batch.rewards.view(-1, 2)
    gaps = (pairs[:, 0] - pairs[:, 1]) * (rewards[:, 0] - rewards[:, 1]).sign()
    return -logsigmoid(batch.penalty * gaps).mean()


def likelihood_loss(objective: Objective, batch: FixedBatch, new: Tensor, reference: Tensor, mask: Tensor) -> Tensor:
    """Return the negative log-likelihood."""
    return -(new * MEANS[objective.mean](mask, batch.max_new_tokens)).sum()


OF_MEANS = {
    "tokens": "the loss is a mean over all tokens of the batch",
    "responses": "the loss is a mean over responses of the mean over their tokens",
    "constant": "the loss is a mean over responses of their sums, over the longest length",
    "sums": "the loss is a mean over responses of the sums over their tokens",
    "sum": "the loss is a sum over all tokens",
}
OF_TOKENS = {
    "no ends": "end tokens are not learned",
    "no last": "the last token of each response, ended or cut, is not learned",
    "padding": "padding is learned",
    "unread padding": "padding is learned, though attention leaves it out",
}
OF_FORWARD = {
    "temperature": {"none": "log-probabilities are of logits that are not divided by the temperature"},
    "positions": {"columns": "positions count the padding on the left (no position_ids)"},
}
OF_POLICIES: Mapping[str, Mapping[str, str]] = {
    "mean": OF_MEANS,
    "advantages": {
        "rewards": "advantages are the rewards, without a baseline",
        "group": "advantages are divided by the group's standard deviation",
        "centred": "advantages are rewards less the group's mean, not divided",
        "leave one out": "advantages are rewards less the mean of the others, not divided",
        "population": "advantages are divided by the group's deviation with denominator n, not n − 1",
        "epsilon": "nothing (or less than 1e-4) is added to the group's deviation",
        "batch deviation": "advantages are divided by the batch's deviation, after the group's mean is taken off",
        "batch": "advantages are standardised over the batch, not the group",
        "batch mean": "advantages are rewards less the mean of the batch, not the group",
    },
    "penalty": {
        "none": "the KL penalty is left out",
        "loss": "the KL penalty is in the loss, by k3",
        "loss, sign": "the KL penalty has the wrong sign",
        "loss, k2": "the KL penalty has an unbiased gradient: k3 weighted by the policy's ratio, or k2",
        "reward": "the KL penalty is on the reward",
        "reward, sign": "the KL penalty on the reward has the wrong sign",
    },
    "learned": OF_TOKENS,
    **OF_FORWARD,
}


@dataclass(frozen=True, slots=True)
class Method:
    """A method: grue's own objective, its loss, and axis → value → what a trainer does that has this value."""

    own: Objective
    loss: Loss
    axes: Mapping[str, Mapping[str, str]]

    def variants(self, count: int) -> Iterator[tuple[Objective, str]]:
        """Yield the objectives that differ from grue's on `count` axes, and what they do."""
        for axes in combinations(self.axes, count):
            values = [[value for value in self.axes[axis] if value != getattr(self.own, axis)] for axis in axes]
            for chosen in product(*values):
                other = dict(zip(axes, chosen, strict=True))
                yield replace(self.own, **other), "; ".join(self.axes[axis][value] for axis, value in other.items())


METHODS: Mapping[str, Method] = {
    "grpo": Method(Objective("responses", "group", "loss"), policy_loss, OF_POLICIES),
    "rloo": Method(Objective("tokens", "leave one out", "reward"), policy_loss, OF_POLICIES),
    "dpo": Method(
        Objective("sums", penalty="loss"),
        pair_loss,
        {
            "mean": {"responses": "log-ratios are divided by the response's length"},
            "penalty": {"none": "the reference is left out"},
            "learned": OF_TOKENS,
            "positions": OF_FORWARD["positions"],
        },
    ),
    "supervised": Method(
        Objective(),
        likelihood_loss,
        {"mean": OF_MEANS, "learned": OF_TOKENS, "positions": OF_FORWARD["positions"]},
    ),
}


# --- grue's side ------------------------------------------------------------------------------------------------------


def learned_by(objective: Objective, batch: FixedBatch) -> Tensor:
    """Return where a token of a response is learned, [B, T]."""
    mask = batch.response_mask[:, batch.prompt_length :]
    if "padding" in objective.learned:
        return torch.ones_like(mask)
    last = mask & (mask.cumsum(1) == mask.sum(1, keepdim=True))
    left_out = {"no ends": last & batch.ended.unsqueeze(1), "no last": last}
    return mask & ~left_out.get(objective.learned, torch.zeros_like(mask))


def log_probs_of(model: PreTrainedModel, batch: FixedBatch, objective: Objective) -> Tensor:
    """Return log π of every token of the responses, padding included, [B, T]."""
    attention, positions = batch.attention_mask, batch.position_ids
    if objective.learned == "padding":
        attention = attention.clone()
        attention[:, batch.prompt_length :] = 1
        positions = (attention.cumsum(1) - 1).clamp(min=0)
    if objective.positions == "columns":
        positions = torch.arange(attention.shape[1], device=attention.device).expand_as(attention)
    ids = batch.ids[:, batch.prompt_length :]
    before = torch.arange(batch.prompt_length - 1, attention.shape[1] - 1, device=attention.device)
    passed = {"attention_mask": attention, "position_ids": positions, "logits_to_keep": before}
    logits = of_responses(model(batch.ids, **passed, use_cache=False).logits, ids.shape[1])
    temperature = batch.temperature if objective.temperature == "sampling" else 1.0
    return token_scores(logits, ids, None, temperature, False, False)[0]


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
    """Compare a first step with grue's.

    Args:
        model: Its weights are replaced by those that the other trainer started from.
        reference: π₀; None if the other was given its log-probabilities.
        config: Settings of the optimiser.

    Raises:
        ConfigError: The models have other parameters.
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

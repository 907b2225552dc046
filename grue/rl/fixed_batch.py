"""One batch of responses, and the objectives that a trainer may minimise on it: grue's own, and known variants.

B = responses, P = longest prompt, T = longest response, L = P + T.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.lm.forward import of_responses
from grue.lm.log_probs import token_scores
from grue.lm.tokens import Tokens
from grue.rl import functional as rl


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
    """Return a batch of the tokens that a trainer holds; a ConfigError if a response has no reward.

    What is to be learned is read off the ids, up to the first end token, and not off the trainer's mask, which is to be
    checked. Where a response has no end, the mask says how long it is. `ends` are the ids that end a response, `more`
    the batch's other fields.
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


# --- what is learned, and its log-probabilities -----------------------------------------------------------------------


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

"""Groups: several scored responses to a prompt, drawn or from a file, and steps on losses that compare them.

The algorithms that learn from groups differ only in the loss of a group. A file's responses are encoded once, before
the first update, and so are the initial policy's log-probabilities computed.

P = groups of an update, b = some of them, K = responses of a group, T = response time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.data.scored import ScoredBudget, ScoredData, read_scored
from grue.data.scored_lines import ScoredResponse
from grue.errors import DataError
from grue.lm.distributed import rows_of
from grue.lm.forward import encode
from grue.lm.log_probs import token_log_probs
from grue.lm.model import is_seq2seq
from grue.lm.seeds import generator
from grue.lm.sharding import gathered
from grue.lm.tokens import Tokens, encode_prompts, encode_responses, length_batches
from grue.records import Example
from grue.rl import trainer as base
from grue.rl.optimize import epochs, micro_batches, optimize, rows_that_count
from grue.rl.responses import (
    Responses,
    describe_responses,
    draw_positions,
    gather,
    mask_of_update,
    own_mask,
    sample,
    score,
)
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import RewardedConfig
from grue.rl.trainer import Trainer, TrainState
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class Groups:
    """Scored responses to some prompts.

    Attributes:
        positions: [P], the position of each prompt's example in the training examples.
        prompts: One per group, [P, L].
        responses: [P·K, T]; a group's responses are adjacent.
        scores: [P, K], higher is better.
        counts: [P, K], True where there is a response with a score.
        reference: [P, K, T], log π_0 of the tokens; None until it is computed.
    """

    positions: Tensor
    prompts: Tokens
    responses: Tokens
    scores: Tensor
    counts: Tensor
    reference: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """Tokens of each response, [P, K]."""
        return self.responses.mask.sum(1).view_as(self.scores)

    @property
    def flat(self) -> Tensor:
        """Whether all scores of a group are equal, [P]."""
        low = self.scores.masked_fill(~self.counts, torch.inf).amin(1)
        return low >= self.scores.masked_fill(~self.counts, -torch.inf).amax(1)

    def rows(self, index: Tensor) -> "Groups":
        """Return some groups."""
        return self.pick(index, torch.arange(self.scores.shape[1]).expand(len(index), -1))

    def columns(self, chosen: Tensor) -> "Groups":
        """Return some responses of each group, by their indices [P, m]."""
        return self.pick(torch.arange(len(self.scores)), chosen)

    def pick(self, index: Tensor, chosen: Tensor) -> "Groups":
        """Return some responses, by their indices [p, m], of the groups at `index`, [p]."""
        index, chosen = index.to(self.scores.device), chosen.to(self.scores.device)
        whole = index.unsqueeze(1), chosen
        responses = (index.unsqueeze(1) * self.scores.shape[1] + chosen).flatten()
        return Groups(
            self.positions[index],
            Tokens(self.prompts.ids[index], self.prompts.mask[index]),
            Tokens(self.responses.ids[responses], self.responses.mask[responses]),
            self.scores[whole],
            self.counts[whole],
            None if self.reference is None else self.reference[whole],
        )

    def best(self) -> Tensor:
        """Return the index of the best response of each group, [P]; of equals, the first."""
        return self.scores.masked_fill(~self.counts, -torch.inf).argmax(1)

    def worst(self) -> Tensor:
        """Return the index of the worst response of each group, [P]; of equals, the first."""
        return self.scores.masked_fill(~self.counts, torch.inf).argmin(1)


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """Some groups, with the current policy's log-probabilities; 0 where no token counts.

    Attributes:
        tokens: log π of each token with gradients, [b, K, T].
        reference: log π_0 of each token; None unless requested.
        lengths: Tokens of each response, [b, K].
        scores: [b, K].
        counts: [b, K], True where there is a response with a score.
        rows: [b], the groups' rows in the update.
    """

    tokens: Tensor
    reference: Tensor | None
    lengths: Tensor
    scores: Tensor
    counts: Tensor
    rows: Tensor

    @property
    def log_probs(self) -> Tensor:
        """Log π of each response, [b, K]."""
        return self.tokens.sum(-1)

    @property
    def log_ratios(self) -> Tensor:
        """H = log π − log π_0 of each response, [b, K]."""
        assert self.reference is not None, "the loss did not request the reference's log-probabilities"
        return (self.tokens - self.reference).sum(-1)


# Some groups → the loss of each [b], and the figures to log of each [b].
GroupLoss = Callable[[GroupBatch], tuple[Tensor, Mapping[str, Tensor]]]


# --- sources of groups ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedGroups:
    """The groups of a file of so many lines that a run learns from.

    Attributes:
        row: Line → its row of `groups`, for the lines that the run reaches.
        budget: What making the file cost.
    """

    lines: int
    row: Mapping[int, int]
    groups: Groups
    budget: ScoredBudget


def start(trainer: Trainer, config: ScoredConfig, reference: bool = True) -> TrainState:
    """Return the state before the first update, with the file's responses if the settings name a file.

    It has no masking policy if the initial policy is sampled, which masks itself.

    Raises:
        DataError: The file cannot be read, or states what cannot be learnt from.
    """
    state = base.start(trainer, replace(config, mask=None) if config.sample_from == "start" else config)
    if config.data is not None:
        data = trainer.data or read_data(config, trainer.task, trainer.examples)
        state.fixed = encode_file(trainer, state, config, data, reference)
    return state


def read_data(config: ScoredConfig, task: Task, examples: Sequence[Example]) -> ScoredData:
    """Return the part to learn from of the file that the settings name; errors as for `start`."""
    assert config.data is not None
    data = read_scored(Path(config.data), task, examples)
    if not data.learned:
        raise DataError(f"{data.path}: all of its lines are held out; use a file with lines of the part train.")
    if config.needs_rewards and not data.rewards:
        raise DataError(
            f"{config.data}: orders its responses but has no rewards, which this algorithm needs; "
            'use dpo, tpo, rft or pro with temperature = "constant", or a file of responses with rewards.'
        )
    return replace(data, groups=data.learned)


def encode_file(
    trainer: Trainer, state: TrainState, config: ScoredConfig, data: ScoredData, reference: bool
) -> FixedGroups:
    """Encode the lines of a file that a run reaches, with the initial policy's log-probabilities if needed."""
    lines = len(data.groups)
    used = sorted({line for n in range(config.updates) for line in line_numbers(lines, config, trainer.seed, n)})
    groups = encode_groups(trainer, data, used)
    if reference:
        groups = with_reference_log_probs(trainer, state, config, groups, by_length(trainer, config, groups))
    return FixedGroups(lines, {line: row for row, line in enumerate(used)}, groups, data.budget)


def line_numbers(lines: int, config: ScoredConfig, seed: int, n: int) -> list[int]:
    """Return the lines of a file that update `n` learns from: no line repeats before all have come once."""
    return [int(line) for line in draw_positions(lines, config.prompts, seed, n)]


def encode_groups(trainer: Trainer, data: ScoredData, lines: list[int]) -> Groups:
    """Return some lines of a file as groups; responses are cut at the task's limit."""
    policy, tokenizer, task = trainer.policy, trainer.tokenizer, trainer.task
    position = {example.id: index for index, example in enumerate(trainer.examples)}
    chosen = [data.groups[line] for line in lines]
    size = max(len(group.texts) for group in chosen)
    filler = ScoredResponse("", 0.0)
    rows = [response for group in chosen for response in (*group.responses, *[filler] * (size - len(group.responses)))]
    counts = torch.tensor([[k < len(group.texts) for k in range(size)] for group in chosen], device=policy.device)
    responses = encode_responses(
        policy,
        tokenizer,
        [response.text for response in rows],
        task.rollout.max_new_tokens,
        [response.truncated for response in rows],
        [response.token_ids for response in rows],
        task.rollout.stop,
    )
    scores = [[*group.scores, *[0.0] * (size - len(group.scores))] for group in chosen]
    return Groups(
        torch.tensor([position[group.example.id] for group in chosen], device=policy.device),
        encode_prompts(policy, tokenizer, [group.example.prompt for group in chosen], task.prompt),
        Tokens(responses.ids, responses.mask & counts.view(-1, 1)),
        torch.tensor(scores, device=policy.device),
        counts,
    )


def collect_groups(
    trainer: Trainer, state: TrainState, config: ScoredConfig, n: int
) -> tuple[Groups, Mapping[str, float]]:
    """Return the groups of update `n` and figures for the log."""
    if state.fixed is not None:
        fixed: FixedGroups = state.fixed
        index = torch.tensor([fixed.row[line] for line in line_numbers(fixed.lines, config, trainer.seed, n)])
        groups = fixed.groups.rows(index)
        return groups, describe_groups(groups) | flat_share(groups)
    if config.sample_from == "policy":
        drawn = draw(trainer, state, config, n)
    else:
        with state.initial_policy() as policy:
            drawn = draw(trainer, state, config, n, policy)
    groups = grouped(drawn, config)
    return groups, describe_responses(drawn) | flat_share(groups)


def draw(
    trainer: Trainer, state: TrainState, config: RewardedConfig, n: int, policy: PreTrainedModel | None = None
) -> Responses:
    """Sample responses to the prompts of update `n` and score them; return those of all ranks.

    Args:
        policy: The initial policy, to sample from it, masked by itself; None samples the policy that learns.
    """
    mask = mask_of_update(trainer, state, config) if policy is None else own_mask(trainer, config)
    with gathered(trainer.sharded):
        sampled = sample(trainer, state, config, n, mask, policy)
    return score(trainer, state, config, n, gather(trainer, sampled))


def flat_share(groups: Groups) -> dict[str, float]:
    """Return the share of groups whose scores are all equal; nothing if no group has two to compare."""
    if not (groups.counts.sum(1) > 1).any():
        return {}
    return {"objective/flat_groups": float(groups.flat.float().mean())}


def grouped(drawn: Responses, config: RewardedConfig) -> Groups:
    """Return drawn responses as groups."""
    size, responses, prompts = config.samples_per_prompt, drawn.rollout.responses, drawn.rollout.prompts
    return Groups(
        drawn.positions[::size],
        Tokens(prompts.ids[::size], prompts.mask[::size]),
        Tokens(responses.ids, drawn.mask),
        drawn.scores.view(-1, size),
        drawn.scored.view(-1, size),
    )


def describe_groups(groups: Groups) -> dict[str, float]:
    """Return the figures of groups of a file, whose cost is counted once, with the file."""
    scores = groups.scores[groups.counts]
    return {
        "objective/reward": float(scores.mean()),
        "objective/reward_sd": float(scores.std(correction=0)),
        "objective/length": float(groups.lengths[groups.counts].float().mean()),
        "tokens": float(groups.responses.mask.sum()),
        "episodes": float(groups.counts.sum()),
        "prompts": 0.0,
        "generated_tokens": 0.0,
        "reward_calls": 0.0,
    }


def with_references(trainer: Trainer, groups: Groups, n: int) -> Groups:
    """Return groups with a reference of each example appended as a last response that does not count.

    One of several references is drawn at random; if an example has none, no token of that response counts.
    """
    chance = torch.rand(len(groups.scores), generator=generator(trainer.seed, "references", n)).tolist()
    references = [trainer.examples[position].references for position in groups.positions.tolist()]
    texts = [choices[int(u * len(choices))] if choices else "" for u, choices in zip(chance, references, strict=True)]
    new = encode_responses(trainer.policy, trainer.tokenizer, texts, trainer.task.rollout.max_new_tokens)
    present = torch.tensor([bool(choices) for choices in references], device=new.ids.device)
    count, size = groups.scores.shape
    own = torch.arange(count * size, device=new.ids.device).view(count, size)
    order = torch.cat([own, count * size + torch.arange(count, device=new.ids.device).unsqueeze(1)], 1).flatten()
    ids = rows_of(groups.responses.ids, new.ids)[order]
    mask = rows_of(groups.responses.mask, new.mask & present.unsqueeze(1))[order]
    return replace(
        groups,
        responses=Tokens(ids, mask),
        scores=torch.nn.functional.pad(groups.scores, (0, 1)),
        counts=torch.nn.functional.pad(groups.counts, (0, 1)),
        reference=None,
    )


# --- log-probabilities -----------------------------------------------------------------------------------------------


def with_reference_log_probs(
    trainer: Trainer, state: TrainState, config: RewardedConfig, groups: Groups, batches: Sequence[Tensor]
) -> Groups:
    """Return groups with the log-probabilities of π_0: the initial policy, or what the setting `reference` names.

    `batches` are the groups that this rank scores together; groups that no rank scores stay 0.
    """
    count, size = groups.scores.shape
    log_probs = torch.zeros(count, size, groups.responses.ids.shape[1], device=groups.scores.device)
    with state.reference_policy() as policy, torch.no_grad(), trainer.autocast():
        for part in batches:
            tokens = response_log_probs(policy, groups, part, config)
            log_probs[part.to(log_probs.device), :, : tokens.shape[-1]] = tokens.float()
    return replace(groups, reference=trainer.distributed.sum(log_probs))


def by_length(trainer: Trainer, config: RewardedConfig, groups: Groups) -> list[Tensor]:
    """Return this rank's share of groups, in batches of similar length."""
    count, size = groups.scores.shape
    mine = torch.arange(count)[trainer.distributed.share(count)]
    batches = length_batches(_longest(groups), mine, max(1, config.micro_batch_size // size))
    return [part for part in batches if len(part)]


def response_log_probs(policy: PreTrainedModel, groups: Groups, rows: Tensor, config: RewardedConfig) -> Tensor:
    """Return log π of the tokens of some groups, [b, K, t] with t the longest; with gradients if enabled.

    An encoder reads each prompt once for all of its responses.
    """
    size = groups.scores.shape[1]
    prompts = groups.prompts.rows(rows)
    encoded = encode(policy, prompts).repeat_interleave(size, 0) if is_seq2seq(policy) else None
    repeated = Tokens(prompts.ids.repeat_interleave(size, 0), prompts.mask.repeat_interleave(size, 0))
    responses = groups.responses.rows((rows.unsqueeze(1) * size + torch.arange(size)).flatten())
    scores = token_log_probs(
        policy, repeated, responses, 1.0, chunk=config.log_prob_chunk, want_plain=False, encoded=encoded
    )
    return scores.restricted.view(len(rows), size, -1)


def _longest(groups: Groups) -> Tensor:
    """Return whether any response of a group has a token at each position, [P, T]."""
    return groups.responses.mask.view(*groups.scores.shape, groups.responses.ids.shape[1]).any(1)


# --- steps -----------------------------------------------------------------------------------------------------------


def improve(
    trainer: Trainer,
    state: TrainState,
    config: ScoredConfig,
    groups: Groups,
    loss: GroupLoss,
    n: int,
    counts: Tensor,
    reference: bool = False,
) -> dict[str, float]:
    """Take the optimiser steps of update `n` on groups; return the mean figures over the steps.

    Args:
        counts: [P], weight of each group in the mean of the losses; groups of weight 0 are left out.
        reference: Whether the loss compares with π_0. In bfloat16, π_0 scores drawn groups in the micro-batches of the
            first epoch, so that rounding does not look like a change of the policy.
    """
    size = groups.scores.shape[1]
    weights = _longest(groups) * counts.unsqueeze(1)
    if reference and groups.reference is None:
        batches = by_length(trainer, config, groups)
        if trainer.precision != "float32":
            first = next(epochs(trainer, config, rows_that_count(weights), n, size), ())
            micro_batch = max(1, config.micro_batch_size // size)
            batches = [part for rows in first for part in micro_batches(trainer, weights, rows, micro_batch)]
        groups = with_reference_log_probs(trainer, state, config, groups, batches)
    losses_of = partial(_losses, trainer, state, config, groups, loss)
    return optimize(trainer, state, config, weights, losses_of, n, counts, size)


def _losses(
    trainer: Trainer, state: TrainState, config: ScoredConfig, groups: Groups, loss: GroupLoss, rows: Tensor
) -> dict[str, Tensor]:
    with trainer.autocast():
        tokens = response_log_probs(state.policy, groups, rows, config).float()
    reference = groups.reference
    index = rows.to(tokens.device)
    batch = GroupBatch(
        tokens=tokens,
        reference=None if reference is None else reference[index, :, : tokens.shape[-1]],
        lengths=groups.lengths[index],
        scores=groups.scores[index],
        counts=groups.counts[index],
        rows=index,
    )
    losses, figures = loss(batch)
    return {"loss": losses.sum(), **{name: value.detach().sum() for name, value in figures.items()}}


def pair_figures(log_ratios: Tensor, better: Tensor) -> dict[str, Tensor]:
    """Return for each group the mean gap of its pairs' log-ratios, and the share of pairs in the right order, [b].

    `log_ratios` are [b, K]; `better` [b, K, K] is True where the first response of a pair is better.
    """
    gaps = (log_ratios.unsqueeze(2) - log_ratios.unsqueeze(1)).detach()
    pairs = better.sum((1, 2)).clamp(min=1)
    return {
        "pair_gap": (gaps * better).sum((1, 2)) / pairs,
        "pair_accuracy": ((gaps > 0) & better).sum((1, 2)) / pairs,
    }


def better_pairs(scores: Tensor, counts: Tensor) -> Tensor:
    """Return whether the first response of a pair has the higher score, and both count, [b, K, K]."""
    both = counts.unsqueeze(2) & counts.unsqueeze(1)
    return (scores.unsqueeze(2) > scores.unsqueeze(1)) & both


def mean_over_pairs(values: Tensor, pairs: Tensor) -> Tensor:
    """Return the mean of each group's values [b, K, K] over its pairs, [b]; 0 where it has none."""
    return torch.where(pairs, values, 0.0).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)

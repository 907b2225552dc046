"""Groups: several scored responses to a prompt, drawn or from a file, and steps on losses that compare them.

The algorithms that learn from groups differ in their loss of a group alone. A file's responses are encoded, and the
initial policy's log-probabilities of them computed, once, before the first update.

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
from grue.lm.forward import encode
from grue.lm.log_probs import token_log_probs
from grue.lm.model import is_seq2seq
from grue.lm.seeds import generator
from grue.lm.tokens import Tokens, encode_prompts, encode_responses, length_batches
from grue.records import Example
from grue.rl import trainer as base
from grue.rl.optimize import epochs, micro_batches, optimize, rows_that_count
from grue.rl.responses import Responses, describe_responses, draw, draw_positions, replace_rows
from grue.rl.settings import RewardedConfig, ScoredConfig
from grue.rl.trainer import Trainer, TrainState
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class Groups:
    """Scored responses to some prompts.

    Attributes:
        positions: [P], where the example of each prompt stands among the training examples.
        prompts: One a group, [P, L].
        responses: [P·K, T]; those of a group stand side by side.
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
        """Where all scores of a group are equal, [P]: nothing in it is better than anything else."""
        low = self.scores.masked_fill(~self.counts, torch.inf).amin(1)
        return low >= self.scores.masked_fill(~self.counts, -torch.inf).amax(1)

    def rows(self, index: Tensor) -> "Groups":
        """Return some groups."""
        return self.pick(index, torch.arange(self.scores.shape[1]).expand(len(index), -1))

    def columns(self, chosen: Tensor) -> "Groups":
        """Return some responses of each group, by their places [P, m]."""
        return self.pick(torch.arange(len(self.scores)), chosen)

    def pick(self, index: Tensor, chosen: Tensor) -> "Groups":
        """Return some responses, by their places [p, m], of the groups at `index`, [p]."""
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
        """Return the place of the best response of each group, [P]; of equals, the first."""
        return self.scores.masked_fill(~self.counts, -torch.inf).argmax(1)

    def worst(self) -> Tensor:
        """Return the place of the worst response of each group, [P]; of equals, the first."""
        return self.scores.masked_fill(~self.counts, torch.inf).argmin(1)


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """Some groups, and what the policy says of their responses now; 0 where nothing counts.

    Attributes:
        tokens: log π of each token with gradients, [b, K, T].
        reference: log π_0 of each token; None if it was not asked for.
        lengths: Tokens of each response, [b, K].
        scores: [b, K].
        counts: [b, K], True where there is a response with a score.
        rows: [b], which groups of the update these are.
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
        assert self.reference is not None, "the loss did not ask for the reference's log-probabilities"
        return (self.tokens - self.reference).sum(-1)


# Some groups → the loss of each [b], and what is logged of each [b].
GroupLoss = Callable[[GroupBatch], tuple[Tensor, Mapping[str, Tensor]]]


# --- where groups are from -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FixedGroups:
    """What a run learns from of a file.

    Attributes:
        lines: How many groups the file has.
        row: Line → its row of `groups`, for the lines that the run comes to.
        budget: What making the file took.
    """

    lines: int
    row: Mapping[int, int]
    groups: Groups
    budget: ScoredBudget


def start(trainer: Trainer, config: ScoredConfig, reference: bool = True) -> TrainState:
    """Return the state before the first update, with the file's responses where the settings name one.

    Args:
        reference: Whether the initial policy's log-probabilities are needed.

    Raises:
        DataError: The file cannot be read, or states what cannot be learnt from.
    """
    state = base.start(trainer, config)
    if config.data is not None:
        data = trainer.data or read_data(config, trainer.task, trainer.examples)
        state.fixed = fix(trainer, state, config, data, reference)
    return state


def read_data(config: ScoredConfig, task: Task, examples: Sequence[Example]) -> ScoredData:
    """Return what a run learns from of the file that its settings name.

    Raises:
        DataError: The file cannot be read, or states what cannot be learnt from.
    """
    assert config.data is not None
    data = learnable(read_scored(Path(config.data), task, examples))
    if config.needs_rewards and not data.rewards:
        raise DataError(
            f"{config.data}: states which response is better, and no rewards, which this algorithm learns from; "
            'take dpo, tpo, rft or pro with temperature = "constant", or a file of responses with rewards.'
        )
    return data


def learnable(data: ScoredData) -> ScoredData:
    """Return the content of a file without what is held out.

    Raises:
        DataError: All of it is.
    """
    if not data.learned:
        raise DataError(f"{data.path}: all of its lines are held out; learn from a file with a part train.")
    return replace(data, groups=data.learned)


def fix(trainer: Trainer, state: TrainState, config: ScoredConfig, data: ScoredData, reference: bool) -> FixedGroups:
    """Encode what a run comes to of a file, with the initial policy's log-probabilities."""
    lines = len(data.groups)
    seen = sorted({at for n in range(config.updates) for at in line_numbers(lines, config, trainer.seed, n)})
    groups = encode_groups(trainer, data, seen)
    if reference:
        groups = with_reference(trainer, state, config, groups, by_length(trainer, config, groups))
    return FixedGroups(lines, {line: row for row, line in enumerate(seen)}, groups, data.budget)


def line_numbers(lines: int, config: ScoredConfig, seed: int, n: int) -> list[int]:
    """Return the lines of a file that update `n` learns from: each comes once before any comes twice."""
    return [int(at) for at in draw_positions(lines, config.prompts, seed, n)]


def encode_groups(trainer: Trainer, data: ScoredData, lines: list[int]) -> Groups:
    """Return some lines of a file as groups; a response longer than the task allows is cut there."""
    policy, tokenizer, task = trainer.policy, trainer.tokenizer, trainer.task
    position = {example.id: at for at, example in enumerate(trainer.examples)}
    found = [data.groups[line] for line in lines]
    size = max(len(group.texts) for group in found)
    filler = ScoredResponse("", 0.0)
    rows = [one for group in found for one in (*group.responses, *[filler] * (size - len(group.responses)))]
    counts = torch.tensor([[k < len(group.texts) for k in range(size)] for group in found], device=policy.device)
    responses = encode_responses(
        policy,
        tokenizer,
        [one.text for one in rows],
        task.rollout.max_new_tokens,
        [one.truncated for one in rows],
        [one.token_ids for one in rows],
        task.rollout.stop,
    )
    scores = [[*group.scores, *[0.0] * (size - len(group.scores))] for group in found]
    return Groups(
        torch.tensor([position[group.example.id] for group in found], device=policy.device),
        encode_prompts(policy, tokenizer, [group.example.prompt for group in found], task.prompt),
        Tokens(responses.ids, responses.mask & counts.view(-1, 1)),
        torch.tensor(scores, device=policy.device),
        counts,
    )


def collect_groups(
    trainer: Trainer, state: TrainState, config: ScoredConfig, n: int
) -> tuple[Groups, Mapping[str, float]]:
    """Return the groups of update `n`, and figures for the log."""
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


def flat_share(groups: Groups) -> dict[str, float]:
    """Return the share of groups whose scores are all equal; nothing where no group has two to compare."""
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
    """Return the figures of groups that a file stated; what they took is counted once, with the file."""
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
    """Return groups with a reference of each example as another response, the last, that does not count.

    Chance draws one of several; where an example has none, no token of it counts.
    """
    chance = torch.rand(len(groups.scores), generator=generator(trainer.seed, "references", n)).tolist()
    references = [trainer.examples[at].references for at in groups.positions.tolist()]
    texts = [found[int(u * len(found))] if found else "" for u, found in zip(chance, references, strict=True)]
    new = encode_responses(trainer.policy, trainer.tokenizer, texts, trainer.task.rollout.max_new_tokens)
    some = torch.tensor([bool(found) for found in references], device=new.ids.device)
    count, size = groups.scores.shape
    rows = torch.arange(count * (size + 1)).view(count, -1)
    old, last = rows[:, :-1].flatten(), rows[:, -1]

    def beside(values: Tensor, more: Tensor) -> Tensor:
        return replace_rows(replace_rows(values.new_zeros(count * (size + 1), 1), old, values), last, more)

    ids, mask = (beside(getattr(groups.responses, key), getattr(new, key)) for key in ("ids", "mask"))
    mask[last] &= some.unsqueeze(1)
    return replace(
        groups,
        responses=Tokens(ids, mask),
        scores=torch.nn.functional.pad(groups.scores, (0, 1)),
        counts=torch.nn.functional.pad(groups.counts, (0, 1)),
        reference=None,
    )


# --- log-probabilities -----------------------------------------------------------------------------------------------


def with_reference(
    trainer: Trainer, state: TrainState, config: RewardedConfig, groups: Groups, batches: Sequence[Tensor]
) -> Groups:
    """Return groups with the log-probabilities of π_0: the initial policy, or what `reference` names in its place.

    Args:
        batches: The groups that this rank reads together; what no rank reads stays 0.
    """
    count, size = groups.scores.shape
    found = torch.zeros(count, size, groups.responses.ids.shape[1], device=groups.scores.device)
    with state.reference_policy() as policy, torch.no_grad(), trainer.autocast():
        for part in batches:
            tokens = response_log_probs(policy, groups, part, config)
            found[part.to(found.device), :, : tokens.shape[-1]] = tokens.float()
    return replace(groups, reference=trainer.distributed.sum(found))


def by_length(trainer: Trainer, config: RewardedConfig, groups: Groups) -> list[Tensor]:
    """Return this rank's share of groups, in batches of similar length."""
    count, size = groups.scores.shape
    mine = torch.arange(count)[trainer.distributed.share(count)]
    batches = length_batches(_longest(groups), mine, max(1, config.micro_batch_size // size))
    return [part for part in batches if len(part)]


def response_log_probs(policy: PreTrainedModel, groups: Groups, rows: Tensor, config: RewardedConfig) -> Tensor:
    """Return log π of the tokens of some groups, [b, K, t] with t of the longest; with gradients if enabled.

    An encoder reads each prompt once, for all responses to it.
    """
    size = groups.scores.shape[1]
    prompts = groups.prompts.rows(rows)
    encoded = encode(policy, prompts).repeat_interleave(size, 0) if is_seq2seq(policy) else None
    repeated = Tokens(prompts.ids.repeat_interleave(size, 0), prompts.mask.repeat_interleave(size, 0))
    responses = groups.responses.rows((rows.unsqueeze(1) * size + torch.arange(size)).flatten())
    said = token_log_probs(
        policy, repeated, responses, 1.0, chunk=config.log_prob_chunk, want_plain=False, encoded=encoded
    )
    return said.restricted.view(len(rows), size, -1)


def _longest(groups: Groups) -> Tensor:
    """Return where any response of a group has a token, [P, T]."""
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
    """Take the optimiser steps of update `n` on groups; return the means of what was measured at each.

    Args:
        counts: [P], what each group counts in the mean of the losses; one that counts 0 is left out.
        reference: Whether the loss compares with π_0. In bfloat16 that reads drawn groups in the very micro-batches
            that learning reads first, so that a policy that has not moved does not seem to have.
    """
    size = groups.scores.shape[1]
    weights = _longest(groups) * counts.unsqueeze(1)
    if reference and groups.reference is None:
        batches = by_length(trainer, config, groups)
        if trainer.precision != "float32":
            first = next(epochs(trainer, config, rows_that_count(weights), n, size), ())
            micro_batch = max(1, config.micro_batch_size // size)
            batches = [part for rows in first for part in micro_batches(trainer, weights, rows, micro_batch)]
        groups = with_reference(trainer, state, config, groups, batches)
    losses_of = partial(_losses, trainer, state, config, groups, loss)
    return optimize(trainer, state, config, weights, losses_of, n, counts, size)


def _losses(
    trainer: Trainer, state: TrainState, config: ScoredConfig, groups: Groups, loss: GroupLoss, rows: Tensor
) -> dict[str, Tensor]:
    with trainer.autocast():
        tokens = response_log_probs(state.policy, groups, rows, config).float()
    reference = groups.reference
    at = rows.to(tokens.device)
    batch = GroupBatch(
        tokens=tokens,
        reference=None if reference is None else reference[at, :, : tokens.shape[-1]],
        lengths=groups.lengths[at],
        scores=groups.scores[at],
        counts=groups.counts[at],
        rows=at,
    )
    losses, figures = loss(batch)
    return {"loss": losses.sum(), **{name: value.detach().sum() for name, value in figures.items()}}


def pair_figures(log_ratios: Tensor, better: Tensor) -> dict[str, Tensor]:
    """Return of each group how its pairs stand: the mean gap of their log-ratios, and the share that is in order, [b].

    Args:
        log_ratios: [b, K].
        better: [b, K, K], True where the first response of a pair is the better one.
    """
    gaps = (log_ratios.unsqueeze(2) - log_ratios.unsqueeze(1)).detach()
    pairs = better.sum((1, 2)).clamp(min=1)
    return {
        "pair_gap": (gaps * better).sum((1, 2)) / pairs,
        "pair_accuracy": ((gaps > 0) & better).sum((1, 2)) / pairs,
    }


def better_pairs(scores: Tensor, counts: Tensor) -> Tensor:
    """Return where the first response of a pair has the higher score, and both count, [b, K, K]."""
    both = counts.unsqueeze(2) & counts.unsqueeze(1)
    return (scores.unsqueeze(2) > scores.unsqueeze(1)) & both


def mean_over_pairs(values: Tensor, pairs: Tensor) -> Tensor:
    """Return the mean of each group's values [b, K, K] over its pairs, [b]; 0 where it has none."""
    return torch.where(pairs, values, 0.0).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)

"""Direct advantage policy optimisation: a critic is fitted first, then log-ratios of tokens regress on its advantages.

Liu et al. (2024, arXiv 2412.18279), who abbreviate it to DAPO; it is not the DAPO of Yu et al. (2025), which is GRPO
with the preset `dapo`. The critic V_0 is of the initial policy π_0 and never changes. With A the advantage of a token,
V_0 after it less V_0 before it, and the response's score in place of V_0 after the last token, the loss of a token is

    (A − β·log π/π_0)²/(2β),

a mean over tokens. Nothing is estimated from the policy that learns, so the responses may come from anywhere: from
π_0, the default, or from a file. Its gradient at π_0 is that of −A·log π, the policy gradient.

Differences from the paper: an action is a token, not a line of reasoning; V_0 is a ridge regression on π_0's states,
fitted to one sample for each of `value_prompts` training prompts by the squared error of any score (the paper trains a
model by cross-entropy to the share of correct completions); actions are those of whole responses, not several from
each state; the loss has the paper's form, the square of A/β − log π/π_0, with a factor of β/2 of our own, so that the
gradient at π_0 does not depend on β; `gae_lambda` above 0 mixes in the response's score.

P = groups of an update, K = responses of a group, B = responses, T = response time, H = size of a state.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from grue.algorithms.alol import add, fitted, keep_fit, samples_of_start
from grue.algorithms.cards.dapo_advantage import CARD, DirectAdvantageConfig
from grue.lm.forward import trunk_states
from grue.lm.model import hidden_size
from grue.lm.tokens import length_batches
from grue.rl import functional as rl
from grue.rl.groups import GroupBatch, Groups, collect_groups, improve, start
from grue.rl.optimize import rows_that_count
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: DirectAdvantageConfig, n: int) -> dict[str, float]:
    """Carry out update `n`, the first one after fitting the critic; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    if n == 0:
        figures = add(figures, fit_critic(trainer, state, config))
    loss = partial(advantage_loss, config, advantages_of(state, config, groups))
    tokens = (groups.lengths * groups.counts).sum(1).float()
    return {**figures, **improve(trainer, state, config, groups, loss, n, tokens, reference=True)}


def advantage_loss(
    config: DirectAdvantageConfig, advantages: Tensor, batch: GroupBatch
) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the sum over the tokens of each group of their losses, [b]; `advantages` are [P, K, T]."""
    assert batch.reference is not None
    wanted = advantages[batch.rows, :, : batch.tokens.shape[-1]]
    missed = wanted - config.beta * (batch.tokens - batch.reference)
    losses = (missed.square() / (2.0 * config.beta)).sum(-1)
    return torch.where(batch.counts, losses, 0.0).sum(1), {}


def advantages_of(state: TrainState, config: DirectAdvantageConfig, groups: Groups) -> Tensor:
    """Return the advantages of the tokens of some groups under the initial policy, [P, K, T]; 0 where none counts."""
    mask = groups.responses.mask & groups.counts.view(-1, 1)
    values = torch.zeros(mask.shape, device=mask.device)
    for rows, states in initial_states(state, config, groups):
        values[rows, : states.shape[1]] = fitted(state, states)
    no_penalty = torch.zeros_like(values)
    rewards = rl.token_rewards(groups.scores.flatten(), no_penalty, mask, 0.0)
    advantages, _ = rl.gae(rewards, values * mask, mask, 1.0, config.gae_lambda)
    return advantages.view(*groups.scores.shape, -1)


def fit_critic(trainer: Trainer, state: TrainState, config: DirectAdvantageConfig) -> dict[str, float]:
    """Fit V_0 to the initial policy's rewards and keep it; return the cost and the quality of the fit."""
    groups, spent = samples_of_start(trainer, state, config, config.value_prompts)
    mask = groups.responses.mask & groups.counts
    states = torch.zeros(*mask.shape, hidden_size(state.policy), device=mask.device)
    for rows, part in initial_states(state, config, groups):
        states[rows, : part.shape[1]] = part
    targets = groups.scores.expand_as(mask)[mask].double()
    prompts = groups.positions.unsqueeze(1).expand_as(mask)[mask]
    return {**spent, **keep_fit(state, states[mask], targets, prompts)}


@torch.no_grad()
def initial_states(state: TrainState, config: DirectAdvantageConfig, groups: Groups) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of responses, by their rows [b], and the initial policy's states before their tokens, [b, t, H]."""
    size, mask = groups.scores.shape[1], groups.responses.mask & groups.counts.view(-1, 1)
    with state.initial_policy() as policy:
        for rows in length_batches(mask, rows_that_count(mask), config.micro_batch_size):
            states = trunk_states(policy, groups.prompts.rows(rows // size), groups.responses.rows(rows))
            yield rows.to(mask.device), states.float()


ALGORITHM = implement(CARD, update, start=start)

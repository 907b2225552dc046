"""Advantage-leftover Lunch: weighted maximum likelihood of responses that beat the initial policy's expected reward.

A-LoL (Baheti et al. 2023, arXiv 2305.14718). A response is one action with the advantage A = r − V_0(x), where V_0 is
the initial policy's mean reward on the prompt. Responses with A ≤ 0 are left out; the others are drawn with a
probability that grows with A, and their loss is −A·sg(w)·log π(y), averaged over responses. The variants differ in w:

- alol: the clipped ratio of the response, clip(π/π_0, 1 ± ε);
- sequence: the clipped ratio of each token (the paper's name);
- reference_free: 1;
- kl: 1, and β·log(π/π_0) is added;
- r_lol: as alol, with the reward in place of A, which must not be negative.

Differences from the paper: V_0 is a ridge regression on the initial policy's state at the end of the prompt, fitted to
one sample for each of `value_prompts` training prompts (the paper trains attention over the prompt's states on the
validation split); responses are filtered and drawn per update, not over the whole data.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from grue.algorithms.cards.alol import CARD, ALoLConfig
from grue.errors import TrainingError
from grue.lm.critic import ridge
from grue.lm.forward import trunk_states
from grue.lm.seeds import generator
from grue.lm.tokens import Tokens, length_batches
from grue.rl.experience import explained
from grue.rl.groups import GroupBatch, Groups, collect_groups, draw, grouped, improve, start
from grue.rl.scored_settings import ScoredConfig
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: ALoLConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log. With r_lol, a negative reward is a TrainingError."""
    groups, figures = collect_groups(trainer, state, config, n)
    worth = groups.scores
    if config.variant == "r_lol":
        if (worth[groups.counts] < 0).any():
            raise TrainingError(f"update {n}: r_lol weights responses by their rewards, but one is negative; use alol.")
    else:
        if n == 0:
            figures = add(figures, fit_value(trainer, state, config))
        worth = worth - fitted(state, prompt_states(state, config, groups.prompts)).unsqueeze(1)
    usable = (groups.counts & (worth > 0)).flatten()
    chosen = usable.nonzero()[:, 0].cpu()
    if config.priority and len(chosen):
        chance = generator(trainer.seed, "priority", n)
        weights = worth.flatten()[chosen].double().cpu()
        chosen = chosen[torch.multinomial(weights, len(chosen), replacement=True, generator=chance)]
    size = groups.scores.shape[1]
    singles = replace(groups, scores=worth).pick(chosen // size, (chosen % size).unsqueeze(1))
    counts = torch.ones(len(chosen), device=worth.device)
    figures = {**figures, "objective/used": float(usable.sum() / groups.counts.sum())}
    loss = partial(weighted_loss, config)
    return {**figures, **improve(trainer, state, config, singles, loss, n, counts, reference=True)}


def weighted_loss(config: ALoLConfig, batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return the loss of each response, [b], and its ratio to the initial policy before clipping."""
    assert batch.reference is not None
    gaps = batch.tokens - batch.reference
    tokenwise = config.variant == "sequence"
    ratio = (gaps if tokenwise else gaps.sum(-1, keepdim=True)).detach().exp()
    weight = torch.ones_like(ratio) if config.variant in ("reference_free", "kl") else ratio
    if config.clip is not None:
        weight = weight.clamp(1.0 - config.clip, 1.0 + config.clip)
    loss = -(batch.scores.unsqueeze(-1) * weight * batch.tokens).sum((1, 2))
    if config.variant == "kl":
        loss = loss + config.beta * batch.log_ratios.sum(1)
    return loss, {"log_ratio": batch.log_ratios.sum(1)}


def fit_value(trainer: Trainer, state: TrainState, config: ALoLConfig) -> dict[str, float]:
    """Fit V_0 to the initial policy's rewards and keep it; return the cost and the quality of the fit."""
    groups, spent = samples_of_start(trainer, state, config, config.value_prompts)
    scored = groups.counts[:, 0]
    targets = groups.scores[:, 0][scored].double()
    states = prompt_states(state, config, groups.prompts)[scored]
    return {**spent, **keep_fit(state, states, targets, groups.positions[scored])}


def keep_fit(state: TrainState, states: Tensor, targets: Tensor, positions: Tensor) -> dict[str, float]:
    """Fit targets [M] to states [M, H] of the examples at `positions`, and keep the fit; return its quality."""
    weight, bias, held_out = ridge(states.double(), targets, positions)
    state.memory = {"value_weight": weight[0].float(), "value_bias": bias[0].float()}
    return explained(targets, targets - held_out)


def fitted(state: TrainState, states: Tensor) -> Tensor:
    """Return the kept fit's values of states [..., H]."""
    return states @ state.memory["value_weight"] + state.memory["value_bias"]


def samples_of_start(
    trainer: Trainer, state: TrainState, config: ScoredConfig, count: int
) -> tuple[Groups, Mapping[str, float]]:
    """Return a scored sample of the initial policy for each of `count` training prompts, and what they cost."""
    once = replace(config, rollouts=count, samples_per_prompt=1, redraws=0, mask=None, minibatch_size=1)
    with state.initial_policy() as policy:
        drawn = draw(trainer.apart("value"), state, once, 0, policy)
    return grouped(drawn, once), drawn.spent


@torch.no_grad()
def prompt_states(state: TrainState, config: ALoLConfig, prompts: Tokens) -> Tensor:
    """Return the initial policy's states from which it predicts the first response token, [P, H]."""
    by_row: dict[int, Tensor] = {}
    with state.initial_policy() as policy:
        for rows in length_batches(prompts.mask, torch.arange(len(prompts.ids)), config.micro_batch_size):
            batch = prompts.rows(rows)
            first = torch.zeros_like(batch.ids[:, :1])
            states = trunk_states(policy, batch, Tokens(first, torch.ones_like(first, dtype=torch.bool)))[:, 0]
            by_row |= dict(zip(rows.tolist(), states.float(), strict=True))
    return torch.stack([by_row[row] for row in range(len(by_row))])


def add(figures: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """Return the figures of both; those with the same name are added up."""
    return {**figures, **{name: figures.get(name, 0.0) + value for name, value in more.items()}}


ALGORITHM = implement(CARD, update, start=start)

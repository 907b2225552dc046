"""Proximal robust on-policy sampling: PPO on samples of a behaviour policy that undoes their sampling error.

PROPS (Corrado and Hanna 2023, arXiv 2311.08290). Few samples of the policy π leave some tokens rarer among them than π
says, and others more frequent. An update's responses are therefore drawn in `rounds`. Before each round but the first,
a behaviour policy b starts from π and learns to make the tokens drawn so far less likely; the next round is drawn from
it. With r = b/π, the loss of a token is

    max(r, clip(r, 1 − ε, 1 + ε)) + λ·KL(π‖b),

a mean over the tokens so far, which stops pushing where r < 1 − ε. PPO then learns from all rounds as if they were
samples of π: ratios and advantages are π's, and nothing is weighted by π/b. It shares its code (`ppo.py`).

Differences from the paper: an action is a token, a round a part of an update's responses; responses of earlier updates
are not kept (the paper's buffer holds those of several, its published code by default none); KL(π‖b) is estimated from
the drawn tokens by k3; b's optimiser starts anew in each round.

In the code: b is the policy itself, whose own weights are restored from a copy, bit for bit. Where the sampler is
truncated or masked, a token's probabilities are over what was open when it was drawn.

B = responses of an update, T = response time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from grue.algorithms import ppo
from grue.algorithms.cards.props import CARD, PROPSConfig
from grue.errors import ConfigError
from grue.lm.distributed import Side
from grue.lm.sampling import KeptScores, Mask
from grue.rl import functional as rl
from grue.rl import trainer as base
from grue.rl.experience import Experience, Reading, collect_valued, score_all, score_tokens
from grue.rl.optimize import importance_weights, micro_batches, optimize, rows_that_count
from grue.rl.responses import Sampled, by_rows, completed, draw_rows, gather, own_rows, replaced, shares_groups
from grue.rl.settings import rollout_settings
from grue.rl.trainer import Trainer, TrainState, implement, make_optimizer


def start(trainer: Trainer, config: PROPSConfig) -> TrainState:
    """Return the state before the first update; a ConfigError if a process draws fewer responses than rounds."""
    size = config.samples_per_prompt if shares_groups(config) else 1
    if config.rollouts // size // trainer.distributed.size * size < config.rounds:
        raise ConfigError(
            f"{trainer.distributed.size} processes share {config.rollouts} rollouts, which leaves one of them fewer "
            f"than {config.rounds} rounds; raise rollouts, or lower rounds."
        )
    return base.start(trainer, config)


def update(trainer: Trainer, state: TrainState, config: PROPSConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    experience, fits = collect(trainer, state, config, n)
    figures = ppo.improve(trainer, state, config, n, partial(ppo.clipped_loss, config), experience)
    steps = sum(fit["steps"] for fit in fits)
    means = {
        f"behaviour/{name}": sum(fit[f"policy/{name}"] for fit in fits) / len(fits)
        for name in ("approx_kl", "clip_fraction")
    }
    return {**figures, **means, "behaviour/steps": steps, "steps": figures["steps"] + steps}


def collect(
    trainer: Trainer, state: TrainState, config: PROPSConfig, n: int
) -> tuple[Experience, list[Mapping[str, float]]]:
    """Collect the rollouts of update `n` in rounds; return them as the policy's, and the figures of each fit."""
    fits: list[Mapping[str, float]] = []
    experience = collect_valued(trainer, state, config, n, sampler=partial(draw_in_rounds, fits))
    # Those of the first round are the policy's own samples, so that its sampler is known; the others count as such.
    first = torch.arange(len(experience.mask), device=experience.mask.device) % config.rounds == 0
    policy = experience.policy.restricted
    drawn = torch.where(first.unsqueeze(1), experience.drawn, policy)
    weight = importance_weights(policy, drawn, config, config.importance_cap)
    return replace(experience, drawn=drawn, weights=weight), fits


def draw_in_rounds(
    fits: list[Mapping[str, float]],
    trainer: Trainer,
    state: TrainState,
    config: PROPSConfig,
    n: int,
    mask: Mask | None,
    keep: KeptScores,
) -> Sampled:
    """Return this rank's share of an update's responses, drawn in rounds; the policy's weights are set back.

    Of R rounds, round k draws the rows k, k + R, k + 2R …; the figures of each fit are added to `fits`.
    """
    weights = [weight for weight in state.policy.parameters() if weight.requires_grad]
    own = [weight.detach().clone() for weight in weights]
    if mask is not None:  # even one that was just refreshed is not the behaviour policy's
        mask = replace(mask, model=state.mask_model)
    draw = partial(draw_rows, trainer, state.policy, config, n, mask, keep=keep)
    rows = own_rows(trainer.distributed, config)
    first = rows[rows % config.rounds == 0]
    drawn = copies(draw(rows=first), ((rows - first[0]) // config.rounds).clamp(min=0))
    try:
        for done in range(1, config.rounds):
            restore(weights, own)
            fits.append(fit_behaviour(trainer, state, config, n, drawn, done))
            places = (rows % config.rounds == done).nonzero()[:, 0]
            drawn = replaced(drawn, places, draw(rows=rows[places]), state.policy)
    finally:
        restore(weights, own)
    return completed(trainer, state, config, n, drawn)


def copies(sampled: Sampled, rows: Tensor) -> Sampled:
    """Return copies of some responses, at the cost of all: rows of later rounds until they are drawn."""

    def take(values: Tensor, side: Side = "right") -> Tensor:
        return values[rows.to(values.device)]

    return Sampled(
        take(sampled.positions),
        by_rows(take, "right", sampled.rollout),
        by_rows(take, "right", sampled.rewarded),
        take(sampled.worth),
        sampled.spent,
    )


def fit_behaviour(
    trainer: Trainer, state: TrainState, config: PROPSConfig, n: int, drawn: Sampled, done: int
) -> Mapping[str, float]:
    """Turn the policy into the behaviour policy that follows `done` rounds; return figures of the fit.

    `drawn` are this rank's responses, of which those of later rounds are still missing.
    """
    settings = replace(
        config,
        learning_rate=config.behaviour_learning_rate or config.learning_rate,
        value_learning_rate=None,
        epochs=config.behaviour_epochs,
        stop_kl=config.behaviour_stop_kl,
        supervised_coefficient=0.0,
        dropout=None,
    )
    rollout, temperature = gather(trainer, drawn).rollout, rollout_settings(trainer.task, config).temperature
    so_far = torch.arange(len(rollout.truncated), device=rollout.truncated.device) % config.rounds < done
    mask = rollout.responses.mask & so_far.unsqueeze(1)
    batches = micro_batches(trainer, mask, rows_that_count(mask), config.micro_batch_size)
    with trainer.autocast():
        reading = Reading(rollout, batches, trainer.distributed.sum)
        before = score_all(state.policy, None, reading, temperature, config).restricted

    def losses_of(rows: Tensor) -> Mapping[str, Tensor]:
        with trainer.autocast():
            new = score_tokens(state.policy, None, rollout, rows, temperature, config, plain=False).restricted
        width = new.shape[1]
        return behaviour_loss(config, new, before[rows, :width], mask[rows, :width])

    fitted = replace(state, optimizer=make_optimizer([state.policy], settings))
    return optimize(trainer.apart("behaviour", done), fitted, settings, mask.float(), losses_of, n)


def behaviour_loss(config: PROPSConfig, new: Tensor, old: Tensor, mask: Tensor) -> Mapping[str, Tensor]:
    """Return sums over tokens [b, T] of the behaviour policy's loss, and figures of its ratio to the policy.

    The log-probabilities are the behaviour policy's, with gradients, and the policy's.
    """
    pushed = rl.clipped_policy_loss(new, old, -torch.ones_like(new), config.behaviour_clip)
    loss = pushed + config.behaviour_kl * rl.kl_k3(old, new)
    return {"loss": (loss * mask).sum(), **rl.ratio_figures(new, old, mask, config.behaviour_clip)}


@torch.no_grad()
def restore(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Set weights to the values that were kept of them."""
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)


ALGORITHM = implement(CARD, update, start=start)

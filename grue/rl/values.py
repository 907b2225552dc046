"""What a critic starts from, and how good it is: a regression on the first rollouts, and the variance it explains.

A head that starts at 0 knows nothing for many updates: all advantages of a response are then its return, whatever was
likely from the prompt. The states that the head reads predict returns linearly to some degree, so the head is fitted to
those of the first update by ridge regression. How strongly it is held to 0 is chosen by cross-validation over prompts,
since the tokens of a response have nearly the same return; and the first update takes each value from the fit that has
not seen its prompt.

B = responses, T = response time, M = tokens, H = hidden size.
"""

from dataclasses import replace

import torch
from torch import Tensor

from grue.lm.forward import trunk_states
from grue.lm.tokens import length_batches
from grue.rl import functional as rl
from grue.rl.experience import Experience, Minibatches, collect, step_rewards
from grue.rl.settings import ActorCriticConfig
from grue.rl.trainer import Trainer, TrainState

FOLDS = 5
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""Ridge penalties, in units of a feature's variance; the last leaves little but the mean."""

EQUAL = 1e-6
"""Targets that differ by less, as a share of the largest, are equal but for rounding."""


def collect_valued(
    trainer: Trainer, state: TrainState, config: ActorCriticConfig, n: int, minibatches: Minibatches | None = None
) -> Experience:
    """Collect the rollouts of update `n`, as `collect`; before the first update, fit the critic to them."""
    experience = collect(trainer, state, config, n, minibatches)
    if n == 0 and config.value_start == "regression":
        values = fit_head(state, config, experience)
        experience = replace(experience, policy=replace(experience.policy, values=values))
    return experience


def explained_variance(experience: Experience, config: ActorCriticConfig) -> dict[str, float]:
    """Return the share of the returns' variance over tokens that the values explain, as `explained` does.

    The returns are those that came, discounted, without any part that the critic predicts. What the values miss by the
    same at every token does not count.
    """
    assert experience.policy.values is not None
    returns = discounted_returns(experience, config)[experience.mask].double()
    missed = returns - experience.policy.values[experience.mask].double()
    return explained(returns, missed - missed.mean())


def explained(targets: Tensor, missed: Tensor) -> dict[str, float]:
    """Return by its name in the log what share of the variance is explained; nothing where all targets are equal.

    Below 0 a constant would be better.

    Args:
        targets: [M].
        missed: What the predictions are short of them, [M].
    """
    spread = targets - targets.mean()
    if spread.abs().max() <= EQUAL * targets.abs().max():
        return {}
    return {"critic/explained_variance": 1.0 - float(missed.square().sum() / spread.square().sum())}


def discounted_returns(experience: Experience, config: ActorCriticConfig) -> Tensor:
    """Return the discounted sum of the rewards from each token on, [B, T]."""
    rewards = step_rewards(experience, config)
    return rl.gae(rewards, torch.zeros_like(rewards), experience.mask, config.gamma, 1.0)[1]


@torch.no_grad()
def fit_head(state: TrainState, config: ActorCriticConfig, experience: Experience) -> Tensor:
    """Set the critic's head by regression; return the values [B, T] of fits that have not seen their prompts."""
    assert state.critic is not None
    rollout, mask = experience.rollout, experience.mask
    model = state.policy if state.critic.trunk is None else state.critic.trunk
    rows_of, found = mask.nonzero()[:, 0], torch.zeros(*mask.shape, state.critic.head.in_features, device=mask.device)
    for rows in length_batches(mask, torch.arange(len(mask)), config.micro_batch_size):
        responses = rollout.responses.rows(rows)
        encoded = None if rollout.encoded is None else rollout.encoded[rows]
        states = trunk_states(model, rollout.prompts.rows(rows), responses, encoded)
        found[rows.to(mask.device), : states.shape[1]] = states.float()
    targets = discounted_returns(experience, config)[mask]
    weight, bias, held_out = ridge(found[mask].double(), targets.double(), _first_places(experience)[rows_of])
    state.critic.head.weight.copy_(weight)
    state.critic.head.bias.copy_(bias)
    values = torch.zeros_like(experience.rewards)
    values[mask] = held_out.to(values.dtype)
    return values


def _first_places(experience: Experience) -> Tensor:
    """Return for each response the row of the first one to its prompt, [B]: an update may have a prompt twice."""
    positions = experience.responses.positions
    return (positions.unsqueeze(0) == positions.unsqueeze(1)).int().argmax(1).to(experience.mask.device)


def ridge(features: Tensor, targets: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fit a linear function by ridge regression, as strong as cross-validation over groups finds best.

    Args:
        features: [M, H].
        targets: [M].
        groups: [M], a whole number for each; those of a group are held out together.

    Returns:
        Weight [1, H], bias [1], and the predictions [M] of fits without the group. With a single group, the function
        and the predictions are the mean.
    """
    folds = torch.unique(groups, return_inverse=True)[1] % FOLDS
    if not folds.any():
        mean = targets.mean()
        return torch.zeros_like(features[:1]), mean.reshape(1), mean.expand_as(targets)
    best: tuple[float, float, Tensor] | None = None
    for strength in STRENGTHS:
        predicted = torch.empty_like(targets)
        for fold in folds.unique():
            here = folds == fold
            weight, bias = _fit(features[~here], targets[~here], strength)
            predicted[here] = features[here] @ weight + bias
        error = float((predicted - targets).square().mean())
        if best is None or error < best[0]:
            best = (error, strength, predicted)
    assert best is not None
    weight, bias = _fit(features, targets, best[1])
    return weight.unsqueeze(0), bias.reshape(1), best[2]


def _fit(features: Tensor, targets: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    centre, scale = features.mean(0), features.std(0, correction=0).clamp(min=1e-6)
    scaled, mean = (features - centre) / scale, targets.mean()
    products = scaled.T @ scaled / len(scaled)
    held = products + strength * torch.eye(len(products), dtype=products.dtype, device=products.device)
    weight = torch.linalg.solve(held, scaled.T @ (targets - mean) / len(scaled)) / scale
    return weight, mean - centre @ weight

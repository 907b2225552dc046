"""Experience: an update's responses, and their tokens' scores under policy, critic and reference.

Every rank scores its own share; then everything is gathered, so that what follows (advantages, the penalty's
controller, the log) is computed identically on all ranks, over the whole batch.

B = responses of an update, b = some of them, T = response time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.lm.critic import Critic, ridge
from grue.lm.forward import trunk_states
from grue.lm.log_probs import TokenLogProbs, token_log_probs
from grue.lm.sampling import KeptScores, Rollout
from grue.lm.sharding import gathered
from grue.lm.tokens import length_batches
from grue.rl import functional as rl
from grue.rl.optimize import epochs, importance_weights, micro_batches, rows_that_count
from grue.rl.responses import Responses, Sampled, describe_responses, gather, mask_of_update, sample, score
from grue.rl.settings import ActorCriticConfig, RolloutConfig, rollout_settings
from grue.rl.trainer import Trainer, TrainState


@dataclass(frozen=True, slots=True)
class Experience:
    """A rollout and everything that an update learns from; tensors are [B, T] and 0 where no token counts.

    A response without a score is ignored: none of its tokens counts, and the others are treated as if it had not been
    drawn. The log's KL, entropy and lengths are of all responses.

    Attributes:
        responses: The responses and their scores.
        policy: The rollout policy's scores of their tokens.
        log_probs: The rollout policy's log-probabilities over the set that the ratio uses.
        drawn: The sampler's log-probabilities, over the support.
        weights: Importance weight of each token in the policy's loss, which corrects for the sampler; 1 in float32.
        kl: Estimate against the reference at each token, over the set that the penalty uses.
        kl_vocabulary: The same over the full vocabulary, for the log.
        reference: log π_0 over the same set as `kl`.
        rewards: −β·KL, plus the score at the last token that counts (the paper's Eq. 1), except for rewards of single
            tokens.
    """

    responses: Responses
    policy: TokenLogProbs
    log_probs: Tensor
    drawn: Tensor
    weights: Tensor
    kl: Tensor
    kl_vocabulary: Tensor
    reference: Tensor
    rewards: Tensor

    @property
    def rollout(self) -> Rollout:
        """The responses' rollout."""
        return self.responses.rollout

    @property
    def scores(self) -> Tensor:
        """The responses' scores, [B]."""
        return self.responses.scores

    @property
    def scored(self) -> Tensor:
        """Where a response has a score, [B]."""
        return self.responses.scored

    @property
    def mask(self) -> Tensor:
        """Where a token of a response with a score counts, [B, T]."""
        return self.responses.mask


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Some rows of an experience, trimmed to their longest response, scored by the current policy; [b, T] each.

    Attributes:
        current: Scores of the current policy and critic, with gradients.
        new: The current policy's log-probabilities over the set that the ratio uses, with gradients.
        old: The same of the policy that was sampled.
        drawn: The sampler's log-probabilities, over the support.
    """

    rows: Tensor
    current: TokenLogProbs
    new: Tensor
    old: Tensor
    drawn: Tensor
    mask: Tensor

    def part(self, values: Tensor) -> Tensor:
        """Return these rows of [B, T], trimmed alike."""
        return values[self.rows, : self.mask.shape[1]]


# Rows to learn from → the minibatches of an update's first epoch.
Minibatches = Callable[[Tensor], Sequence[Tensor]]

# Draws a rank's share of an update's responses with the arguments of `sample`, but not all of them from the policy.
Sampler = Callable[..., Sampled]


def collect(
    trainer: Trainer,
    state: TrainState,
    config: RolloutConfig,
    n: int,
    minibatches: Minibatches | None = None,
    sampler: Sampler | None = None,
) -> Experience:
    """Sample responses to the prompts of update `n`, reward them, and score them under policy, critic and reference.

    The experience is that of all ranks; responses to the same prompt are adjacent. It is a TrainingError if no response
    has a score.

    Args:
        minibatches: Splits rows into the minibatches of the first epoch; None for those of `optimize`.
        sampler: None for `sample`.
    """
    temperature = rollout_settings(trainer.task, config).temperature
    mask = mask_of_update(trainer, state, config)
    keep = scores_to_keep(trainer, state, n) if sampler is None else "drawn"
    with gathered(trainer.sharded):
        sampled = (sampler or sample)(trainer, state, config, n, mask, keep=keep)
        responses = score(trainer, state, config, n, gather(trainer, sampled))
        first_epoch = minibatches or (lambda learnt: next(epochs(trainer, config, learnt, n)))
        reading = reading_of(trainer, config, sampled.rollout, responses, first_epoch)
        policy = state.policy if keep == "drawn" else None
        with trainer.autocast():
            current = score_all(policy, state.critic, reading, temperature, config, entropy=True)
    with state.reference_policy() as reference, trainer.autocast():
        before = score_all(reference, None, reading, temperature, config)
    sampler_scores = sampled.rollout.sampler_scores
    assert sampler_scores is not None, "the sampler must keep the policy's scores"
    drawn = trainer.distributed.gather_rows(sampler_scores.restricted)
    kl = rl.kl_k1(current.over(config.kl_over), before.over(config.kl_over))
    return Experience(
        responses=responses,
        policy=current,
        log_probs=current.over(config.ratio_over),
        drawn=drawn,
        weights=importance_weights(current.restricted, drawn, config, config.importance_cap),
        kl=kl,
        kl_vocabulary=rl.kl_k1(current.over("vocabulary"), before.over("vocabulary")),
        reference=before.over(config.kl_over),
        rewards=rl.token_rewards(responses.scores, kl, responses.mask, state.kl_coefficient, responses.token_scores),
    )


def scores_to_keep(trainer: Trainer, state: TrainState, n: int) -> KeptScores:
    """Return which scores the sampler keeps at update `n`: all if the policy need not score its responses again.

    In bfloat16 it must, because a pass over whole responses gives other log-probabilities than decoding token by token.
    At the first update it must, too, because the policy is the reference: the same pass for both gives a KL of exactly
    0, where rounding would be all that there is to learn if no response had a reward.
    """
    if trainer.precision != "float32" or n == 0:
        return "drawn"
    return "states" if state.critic is not None and state.critic.trunk is None else "scores"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a rank scores a rollout: the rows that it scores together, and what joins the ranks' tensors, [B, T]."""

    rollout: Rollout
    batches: Sequence[Tensor]
    join: Callable[[Tensor], Tensor]


def reading_of(
    trainer: Trainer, config: RolloutConfig, drawn: Rollout, responses: Responses, minibatches: Minibatches
) -> Reading:
    """Return how tokens are scored: in bfloat16, in exactly the micro-batches of the first epoch.

    Values in bfloat16 depend on the shapes of the matrices. With other shapes the first ratio would not be 1; with
    different shapes for policy and reference, their first KL would not be 0. In float32 shapes affect only the sixth
    digit, and each rank scores what it has `drawn`, in the order of length.
    """
    size, distributed = config.micro_batch_size, trainer.distributed
    if trainer.precision == "float32":
        mask = drawn.responses.mask
        return Reading(drawn, length_batches(mask, torch.arange(len(mask)), size), distributed.gather_rows)
    learnt = rows_that_count(responses.mask)
    without_score = rows_that_count(~responses.scored.unsqueeze(1))
    together = [*minibatches(learnt), without_score]
    batches = [part for rows in together for part in micro_batches(trainer, responses.mask, rows, size)]
    return Reading(responses.rollout, batches, distributed.sum)


def score_minibatch(
    trainer: Trainer,
    state: TrainState,
    config: RolloutConfig,
    experience: Experience,
    rows: Tensor,
    vocabulary: bool = False,
) -> Minibatch:
    """Score some rows of an experience under the current policy and critic, with gradients.

    With `vocabulary`, the loss needs log-probabilities over the whole vocabulary even if no setting does.
    """
    vocabulary = vocabulary or config.ratio_over == "vocabulary" or config.mass_coefficient != 0.0
    with trainer.autocast():
        current = score_tokens(
            state.policy,
            state.critic,
            experience.rollout,
            rows,
            rollout_settings(trainer.task, config).temperature,
            config,
            entropy=config.entropy_coefficient != 0.0,
            plain=vocabulary,
        )
    width = current.restricted.shape[1]
    return Minibatch(
        rows=rows,
        current=current,
        new=current.over(config.ratio_over),
        old=experience.log_probs[rows, :width],
        drawn=experience.drawn[rows, :width],
        mask=experience.mask[rows, :width],
    )


def score_tokens(
    policy: PreTrainedModel | None,
    critic: Critic | None,
    rollout: Rollout,
    rows: Tensor,
    temperature: float,
    config: RolloutConfig,
    entropy: bool = False,
    plain: bool = True,
) -> TokenLogProbs:
    """Run policy and critic over some rows of a rollout, trimmed to their longest; with gradients if enabled.

    Without a policy, the scores are those that the sampler kept.
    """
    prompts, responses, encoded = rollout.rows(rows)
    length = responses.ids.shape[1]
    if policy is None:
        assert rollout.sampler_scores is not None, "the sampler must keep the policy's scores"
        scores = rollout.sampler_scores.part(rows, length)
    else:
        scores = token_log_probs(
            policy,
            prompts,
            responses,
            temperature,
            None if rollout.support is None else rollout.support[rows, :length],
            chunk=config.log_prob_chunk,
            want_plain=plain,
            want_entropy=entropy,
            want_states=critic is not None and critic.trunk is None,
            encoded=encoded,
        )
    values = None if critic is None else critic(prompts, responses, scores.states, encoded) * responses.mask
    return replace(scores, states=None, values=values)


@torch.no_grad()
def score_all(
    policy: PreTrainedModel | None,
    critic: Critic | None,
    reading: Reading,
    temperature: float,
    config: RolloutConfig,
    entropy: bool = False,
) -> TokenLogProbs:
    """Run `score_tokens` over each rank's batches of a rollout; return the scores of all ranks, padded to [B, T]."""
    rollout = reading.rollout
    size, width = rollout.responses.ids.shape
    parts: dict[str, Tensor] = {}
    for rows in reading.batches:
        scored = score_tokens(policy, critic, rollout, rows, temperature, config, entropy)
        for name in TokenLogProbs.__slots__:
            part = getattr(scored, name)
            if part is not None:
                whole = parts.setdefault(name, torch.zeros(size, width, device=part.device))
                whole[rows.to(part.device), : part.shape[1]] = part.float()
    joined = {name: reading.join(parts[name]) if name in parts else None for name in TokenLogProbs.__slots__}
    return TokenLogProbs(**joined)  # type: ignore[arg-type]


def advantages_and_returns(experience: Experience, config: ActorCriticConfig) -> tuple[Tensor, Tensor]:
    """Return generalised advantage estimates and the critic's targets, [B, T] each."""
    assert experience.policy.values is not None
    mask, rewards = experience.mask, step_rewards(experience, config)
    advantages, returns = rl.gae(rewards, experience.policy.values, mask, config.gamma, config.gae_lambda)
    return rl.whiten(advantages, mask) if config.whiten_advantages else advantages, returns


def step_rewards(experience: Experience, config: ActorCriticConfig) -> Tensor:
    """Return the tokens' rewards as the critic learns them, [B, T]."""
    return rl.whiten(experience.rewards, experience.mask) if config.normalize_rewards else experience.rewards


def next_kl_coefficient(coefficient: float, experience: Experience, config: RolloutConfig) -> float:
    """Return β for the next update; without a target it does not change."""
    if config.kl_target is None:
        return coefficient
    if config.kl_controller == "rl4lms":
        kl = float(rl.masked_mean(experience.kl, experience.rollout.responses.mask))
        return rl.rl4lms_kl_step(coefficient, kl, config.kl_target, config.kl_gain)
    kl = float(experience.kl.sum(1).mean())
    return rl.ziegler_kl_step(coefficient, kl, config.kl_target, len(experience.kl), config.kl_horizon)


def describe(experience: Experience, state: TrainState) -> dict[str, float]:
    """Return the logged figures of a rollout, by name."""
    rollout, scored = experience.rollout, experience.scored
    mask = rollout.responses.mask

    def mean(values: Tensor) -> float:
        return float(rl.masked_mean(values, mask))

    assert experience.policy.entropy is not None
    return describe_responses(experience.responses) | {
        "objective/penalised_reward": float(experience.rewards.sum(1)[scored].mean()),
        "objective/kl": mean(experience.kl),
        "objective/kl_k3": mean(rl.kl_k3(experience.reference + experience.kl, experience.reference)),
        "objective/kl_vocabulary": mean(experience.kl_vocabulary),
        "objective/kl_sequence": float(experience.kl.sum(1).mean()),
        "objective/kl_coefficient": state.kl_coefficient,
        "objective/entropy": mean(experience.policy.entropy),
        "mask/mass": mean(experience.policy.log_mass.exp()),
    }


def regularised(loss: Tensor, current: TokenLogProbs, config: RolloutConfig) -> Tensor:
    """Return a loss of each token [b, T] less the weighted entropy, plus the weighted −log(probability in the mask)."""
    if current.entropy is not None:
        loss = loss - config.entropy_coefficient * current.entropy
    if config.mass_coefficient:
        loss = loss - config.mass_coefficient * current.log_mass
    return loss


# --- a critic's start and its quality ---------------------------------------------------------------------------------


EQUAL = 1e-6
"""Targets that differ by less, as a share of the largest, are equal up to rounding."""


def collect_valued(
    trainer: Trainer,
    state: TrainState,
    config: ActorCriticConfig,
    n: int,
    minibatches: Minibatches | None = None,
    sampler: Sampler | None = None,
) -> Experience:
    """Collect the rollouts of update `n`, as `collect`; before the first update, fit the critic to them."""
    experience = collect(trainer, state, config, n, minibatches, sampler)
    if n == 0 and config.value_start == "regression":
        values = fit_head(state, config, experience)
        experience = replace(experience, policy=replace(experience.policy, values=values))
    return experience


def explained_variance(experience: Experience, config: ActorCriticConfig) -> dict[str, float]:
    """Return the share of the returns' variance over tokens that the values explain, as `explained` does.

    The returns are discounted sums of the observed rewards, without bootstrapping. A constant offset of the values does
    not count.
    """
    assert experience.policy.values is not None
    returns = discounted_returns(experience, config)[experience.mask].double()
    missed = returns - experience.policy.values[experience.mask].double()
    return explained(returns, missed - missed.mean())


def explained(targets: Tensor, missed: Tensor) -> dict[str, float]:
    """Return the share of the variance that is explained, by its name in the log; nothing if all targets are equal.

    Below 0, a constant would be better. `missed` are the targets less the predictions; both are [M].
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
    """Set the critic's head by regression; return held-out values [B, T], from fits without their prompts.

    A head that starts at 0 predicts nothing for many updates: all advantages of a response are then its return,
    whatever was to be expected of the prompt. The states that the head reads predict returns linearly to some degree.
    The ridge penalty is chosen by cross-validation over prompts, since the tokens of a response have nearly the same
    return.
    """
    assert state.critic is not None
    rollout, mask = experience.rollout, experience.mask
    model = state.policy if state.critic.trunk is None else state.critic.trunk
    features = torch.zeros(*mask.shape, state.critic.head.in_features, device=mask.device)
    for rows in length_batches(mask, torch.arange(len(mask)), config.micro_batch_size):
        states = trunk_states(model, *rollout.rows(rows))
        features[rows.to(mask.device), : states.shape[1]] = states.float()
    targets = discounted_returns(experience, config)[mask]
    positions = experience.responses.positions
    groups = (positions.unsqueeze(0) == positions.unsqueeze(1)).int().argmax(1)  # an update may have a prompt twice
    weight, bias, held_out = ridge(
        features[mask].double(), targets.double(), groups.to(mask.device)[mask.nonzero()[:, 0]]
    )
    state.critic.head.weight.copy_(weight)
    state.critic.head.bias.copy_(bias)
    values = torch.zeros_like(experience.rewards)
    values[mask] = held_out.to(values.dtype)
    return values

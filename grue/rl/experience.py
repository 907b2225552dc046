"""Experience: responses to an update's prompts, and what each of their tokens is worth.

Every rank samples and scores its own share of the prompts; then everything is gathered, so that what follows
(advantages, the penalty's controller, the log) is computed alike everywhere, over the whole batch.

B = responses of an update, b = some of them, T = response time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.errors import TrainingError
from grue.lm.critic import Critic
from grue.lm.distributed import DistributedContext
from grue.lm.forward import encode
from grue.lm.log_probs import token_log_probs
from grue.lm.model import eos_id, is_seq2seq
from grue.lm.sampling import Mask, Rollout, sample_responses
from grue.lm.seeds import generator
from grue.lm.sharding import gathered
from grue.lm.tokens import Tokens, decode_responses, encode_prompts, length_batches
from grue.records import Example
from grue.rl import functional as rl
from grue.rl.scores import Rewarded, as_rewarded, gather_rewarded, scaled_scores, summed
from grue.rl.settings import ActorCriticConfig, RolloutConfig
from grue.rl.trainer import Trainer, TrainState
from grue.tasks import Generation, Task

SHOWN_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """What a model says of drawn tokens, each [B, T], 0 where nothing counts.

    Attributes:
        plain: log π over the whole vocabulary; None unless asked for.
        restricted: log π renormalised over the support.
        entropy: Of the restricted distribution; None unless asked for.
        values: The critic's; None without one.
    """

    plain: Tensor | None
    restricted: Tensor
    entropy: Tensor | None
    values: Tensor | None

    @property
    def log_mass(self) -> Tensor:
        """The log of the probability inside the support: what renormalising takes off."""
        return self.over("vocabulary") - self.restricted

    def over(self, what: str) -> Tensor:
        """Return the log-probabilities over the "support" or the "vocabulary"."""
        if what == "support":
            return self.restricted
        assert self.plain is not None, "log-probabilities over the vocabulary were not asked for"
        return self.plain


@dataclass(frozen=True, slots=True)
class Experience:
    """A rollout with all that an update learns from; tensors are [B, T] and 0 where nothing counts.

    A response without a score, to which no term of the reward applies, takes no part: none of its tokens counts, and
    the others are judged as if it had not been drawn. The log's KL, entropy and lengths are of all responses.

    Attributes:
        scored: [B], True where a response has a score.
        terms: The reward's terms by name, [B] each, not weighted; NaN where a term does not apply.
        raw_scores: [B], the reward function's values.
        scores: [B], the same less the penalty of those that never ended, scaled and clipped; with `normalize_terms`,
            made of standardised terms.
        policy: What the rollout policy said of its tokens.
        log_probs: The same as the ratio needs it.
        kl: Estimate against the reference at each token, as the penalty takes it.
        kl_vocabulary: The same over the full vocabulary, for the log.
        reference: log π_0 over the same set as `kl`.
        rewards: −β·KL, and the score at the last token that counts (the paper's Eq. 1), but for what the reward gave
            to single tokens.
    """

    rollout: Rollout
    scored: Tensor
    terms: Mapping[str, Tensor]
    raw_scores: Tensor
    scores: Tensor
    policy: ScoredTokens
    log_probs: Tensor
    kl: Tensor
    kl_vocabulary: Tensor
    reference: Tensor
    rewards: Tensor

    @property
    def mask(self) -> Tensor:
        """Where a token of a response with a score counts, [B, T]."""
        return self.rollout.responses.mask & self.scored.unsqueeze(1)


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Some rows of an experience, trimmed to their longest response, and what the policy says of them now; [b, T] each.

    Attributes:
        now: Policy and critic as they are, with gradients.
        new: Log-probabilities as the ratio needs them, with gradients.
        old: The same of the policy that was sampled.
        mask: Where a token counts.
    """

    rows: Tensor
    now: ScoredTokens
    new: Tensor
    old: Tensor
    mask: Tensor

    def part(self, values: Tensor) -> Tensor:
        """Return these rows of [B, T], trimmed alike."""
        return values[self.rows, : self.mask.shape[1]]


def collect(trainer: Trainer, state: TrainState, config: RolloutConfig, n: int, mask: Mask | None = None) -> Experience:
    """Sample responses to the prompts of update `n`, reward them, and score them under policy, critic and reference.

    Args:
        mask: NLPO's restriction of the sampler.

    Returns:
        The experience of all ranks; responses to the same prompt stand side by side.

    Raises:
        TrainingError: No response has a score, or one has what cannot be a score.
    """
    temperature, distributed = rollout_settings(trainer.task, config).temperature, trainer.distributed
    with gathered(trainer.sharded):
        rollout, given = sample(trainer, state.policy, config, n, mask)
        with trainer.autocast():
            now = score_all(state.policy, state.critic, rollout, temperature, config, entropy=True)
    with state.initial_policy() as reference, trainer.autocast():
        before = score_all(reference, None, rollout, temperature, config)
    padded: Literal["left", "right"] = "right" if is_seq2seq(state.policy) else "left"
    rollout, given = gather_rollout(rollout, distributed, padded), gather_rewarded(given, distributed)
    now, before = gather_scored(now, distributed), gather_scored(before, distributed)
    scored = ~given.sums.isnan()
    if not scored.any():
        raise TrainingError(
            f"update {n}: the reward applies to none of {len(scored)} responses (None for all of them), so there is "
            "nothing to learn from. Add a term that applies to every text, or raise rollouts."
        )
    weights = [term.weight for term in trainer.reward.terms]
    raw_scores = given.sums.masked_fill(~scored, 0.0)
    scores, own = summed(given, weights, config)
    scores = scores - config.missing_eos_penalty * rollout.truncated
    scores, own = scaled_scores(scores, own, scored, state, config)
    kl_vocabulary = rl.kl_k1(now.over("vocabulary"), before.over("vocabulary"))
    kl = rl.kl_k1(now.over(config.kl_over), before.over(config.kl_over))
    return Experience(
        rollout=rollout,
        scored=scored,
        terms={term.name: given.terms[:, k] for k, term in enumerate(trainer.reward.terms)},
        raw_scores=raw_scores,
        scores=scores,
        policy=now,
        log_probs=now.over(config.ratio_over),
        kl=kl,
        kl_vocabulary=kl_vocabulary,
        reference=before.over(config.kl_over),
        rewards=rl.token_rewards(scores, kl, rollout.responses.mask & scored.unsqueeze(1), state.kl_coefficient, own),
    )


def sample(
    trainer: Trainer, policy: PreTrainedModel, config: RolloutConfig, n: int, mask: Mask | None
) -> tuple[Rollout, Rewarded]:
    """Return this rank's share of an update's rollouts, and what the reward gave to them."""
    drawn = draw_examples(trainer.examples, config.rollouts // config.samples_per_prompt, trainer.seed, n)
    examples = [example for example in drawn for _ in range(config.samples_per_prompt)]
    settings = rollout_settings(trainer.task, config)
    uniforms = torch.rand(len(examples), settings.max_new_tokens, generator=generator(trainer.seed, "rollout", n))
    share = trainer.distributed.share(len(examples))
    examples, uniforms = examples[share], uniforms[share]
    prompts = encode_prompts(policy, trainer.tokenizer, [one.prompt for one in examples], trainer.task.prompt)
    eos = eos_id(policy, trainer.tokenizer)
    with torch.no_grad(), trainer.autocast():
        encoded = encode(policy, prompts) if config.freeze_encoder else None
        rollout = sample_responses(policy, prompts, settings, uniforms, eos, mask, encoded)
    responses = rollout.responses
    texts = decode_responses(trainer.tokenizer, responses)
    parts = trainer.reward.parts(
        examples, texts, token_ids=responses.lists(), truncated=rollout.truncated.tolist(), step=n
    )
    sums = [math.nan if one is None else one for one in trainer.reward.sums(parts)]
    for shown in list(zip(examples, texts, sums, strict=True))[:: config.samples_per_prompt][:SHOWN_SAMPLES]:
        trainer.shown(*shown)
    return rollout, as_rewarded(sums, parts, responses)


def rollout_settings(task: Task, config: RolloutConfig) -> Generation:
    """Return how rollouts are sampled: the task's settings, overridden by the algorithm's where it has any."""
    own = {"temperature": config.rollout_temperature, "top_k": config.rollout_top_k}
    return replace(task.rollout, **{key: value for key, value in own.items() if value is not None})  # type: ignore[arg-type]


def draw_examples(examples: Sequence[Example], count: int, seed: int, n: int) -> list[Example]:
    """Return the examples of update `n`: every example comes once before any comes twice.

    The order is a function of seed and update alone, so that an interrupted run resumes exactly.
    """
    drawn: list[Example] = []
    for position in range(n * count, (n + 1) * count):
        epoch, index = divmod(position, len(examples))
        if index == 0 or not drawn:
            order = torch.randperm(len(examples), generator=generator(seed, "order", epoch)).tolist()
        drawn.append(examples[order[index]])
    return drawn


def score_minibatch(
    trainer: Trainer,
    state: TrainState,
    config: RolloutConfig,
    experience: Experience,
    rows: Tensor,
    vocabulary: bool = True,
) -> Minibatch:
    """Score some rows of an experience under the policy and critic as they are, with gradients.

    Args:
        vocabulary: Whether log-probabilities over the whole vocabulary are needed besides those over the support.
    """
    with trainer.autocast():
        now = score_tokens(
            state.policy,
            state.critic,
            experience.rollout,
            rows,
            rollout_settings(trainer.task, config).temperature,
            config,
            entropy=config.entropy_coefficient != 0.0,
            plain=vocabulary,
        )
    width = now.restricted.shape[1]
    return Minibatch(
        rows=rows,
        now=now,
        new=now.over(config.ratio_over),
        old=experience.log_probs[rows, :width],
        mask=experience.mask[rows, :width],
    )


def score_tokens(
    policy: PreTrainedModel,
    critic: Critic | None,
    rollout: Rollout,
    rows: Tensor,
    temperature: float,
    config: RolloutConfig,
    entropy: bool = False,
    plain: bool = True,
) -> ScoredTokens:
    """Run policy and critic over some rows of a rollout, trimmed to their longest; with gradients if enabled."""
    prompts, responses = rollout.prompts.rows(rows), rollout.responses.rows(rows)
    encoded = None if rollout.encoded is None else rollout.encoded[rows]
    said = token_log_probs(
        policy,
        prompts,
        responses,
        temperature,
        None if rollout.support is None else rollout.support[rows, : responses.ids.shape[1]],
        chunk=config.log_prob_chunk,
        want_plain=plain,
        want_entropy=entropy,
        want_states=critic is not None and critic.trunk is None,
        encoded=encoded,
    )
    values = None if critic is None else critic(prompts, responses, said.states, encoded) * responses.mask
    return ScoredTokens(said.plain, said.restricted, said.entropy, values)


@torch.no_grad()
def score_all(
    policy: PreTrainedModel,
    critic: Critic | None,
    rollout: Rollout,
    temperature: float,
    config: RolloutConfig,
    entropy: bool = False,
) -> ScoredTokens:
    """Run `score_tokens` over a whole rollout in micro-batches of similar length, padded back to [B, T]."""
    size, width = rollout.responses.ids.shape
    parts: dict[str, Tensor] = {}
    for rows in length_batches(rollout.responses.mask, torch.arange(size), config.micro_batch_size):
        scored = score_tokens(policy, critic, rollout, rows, temperature, config, entropy)
        for name in ScoredTokens.__slots__:
            part = getattr(scored, name)
            if part is not None:
                whole = parts.setdefault(name, torch.zeros(size, width, device=part.device))
                whole[rows.to(part.device), : part.shape[1]] = part.float()
    return ScoredTokens(**{name: parts.get(name) for name in ScoredTokens.__slots__})  # type: ignore[arg-type]


def gather_rollout(rollout: Rollout, distributed: DistributedContext, padded: Literal["left", "right"]) -> Rollout:
    """Return the rollouts of all ranks as one, with prompts `padded` on the side that they are padded on already."""
    if distributed.size == 1:
        return rollout

    def whole(tokens: Tokens, side: Literal["left", "right"]) -> Tokens:
        return Tokens(distributed.gather_rows(tokens.ids, side=side), distributed.gather_rows(tokens.mask, side=side))

    rest = {
        name: None if (value := getattr(rollout, name)) is None else distributed.gather_rows(value)
        for name in ("support", "truncated", "mask_size", "disagreement", "encoded")
    }
    responses = whole(rollout.responses, "right")
    return Rollout(whole(rollout.prompts, padded), responses, **rest)  # type: ignore[arg-type]


def gather_scored(scored: ScoredTokens, distributed: DistributedContext) -> ScoredTokens:
    """Return what all ranks scored as one."""
    if distributed.size == 1:
        return scored
    values = {field.name: getattr(scored, field.name) for field in fields(scored)}
    return replace(
        scored, **{name: distributed.gather_rows(value) for name, value in values.items() if value is not None}
    )


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
    """Return β for the next update; it stays where it is without a target."""
    if config.kl_target is None:
        return coefficient
    if config.kl_controller == "rl4lms":
        kl = float(rl.masked_mean(experience.kl, experience.rollout.responses.mask))
        return rl.rl4lms_kl_step(coefficient, kl, config.kl_target, config.kl_gain)
    kl = float(experience.kl.sum(1).mean())
    return rl.ziegler_kl_step(coefficient, kl, config.kl_target, len(experience.kl), config.kl_horizon)


def describe(experience: Experience, state: TrainState) -> dict[str, float]:
    """Return the figures of a rollout, by the names that the field knows."""
    rollout, scored = experience.rollout, experience.scored
    mask = rollout.responses.mask

    def mean(values: Tensor) -> float:
        return float(rl.masked_mean(values, mask))

    assert experience.policy.entropy is not None
    line = {
        "objective/reward": float(experience.raw_scores[scored].mean()),
        "objective/reward_sd": float(experience.raw_scores[scored].std(correction=0)),
        "objective/penalised_reward": float(experience.rewards.sum(1)[scored].mean()),
        "objective/kl": mean(experience.kl),
        "objective/kl_k3": mean(rl.kl_k3(experience.reference + experience.kl, experience.reference)),
        "objective/kl_vocabulary": mean(experience.kl_vocabulary),
        "objective/kl_sequence": float(experience.kl.sum(1).mean()),
        "objective/kl_coefficient": state.kl_coefficient,
        "objective/entropy": mean(experience.policy.entropy),
        "objective/length": float(mask.sum(1).float().mean()),
        "objective/ended": 1.0 - float(rollout.truncated.float().mean()),
        "mask/size": mean(rollout.mask_size),
        "mask/mass": mean(experience.policy.log_mass.exp()),
        "tokens": float(mask.sum()),
        "episodes": float(len(mask)),
    }
    if rollout.disagreement is not None:
        line["mask/disagreement"] = mean(rollout.disagreement)
    if not scored.all():
        line["objective/scored"] = float(scored.float().mean())
    if len(experience.terms) > 1:
        means = {name: float(values.nanmean()) for name, values in experience.terms.items()}
        line |= {f"reward/{name}": value for name, value in means.items() if not math.isnan(value)}
    return line

"""Responses: drawn by the sampler for an update's prompts, and scored.

Every rank samples and scores its own share of the prompts; then everything is gathered, so that what follows is
computed identically on all ranks, over the whole batch. A response to which no term of the reward applies has no score
and is ignored.

B = responses of an update, K = terms of the reward, T = response time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.constraints import find_stops
from grue.lm.distributed import DistributedContext, Side, rows_of
from grue.lm.forward import encode
from grue.lm.model import cast_once, eos_id, is_seq2seq
from grue.lm.sampling import KeptScores, Mask, Rollout, sample_responses
from grue.lm.seeds import generator
from grue.lm.sharding import whole
from grue.lm.tokens import decode_responses, encode_prompts
from grue.records import Example
from grue.rl import functional as rl
from grue.rl.settings import ActorCriticConfig, RewardedConfig, rollout_settings
from grue.rl.trainer import Trainer, TrainState
from grue.tasks import Generation

R = TypeVar("R")


# --- scores: the terms of the reward, added up, scaled and clipped ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The values of the reward's K terms for responses.

    Attributes:
        sums: [B], their weighted sum; NaN where no term applies.
        terms: [B, K], not weighted; NaN where a term does not apply.
        tokens: [B, T, K], the parts of the terms that belong to single tokens.
    """

    sums: Tensor
    terms: Tensor
    tokens: Tensor


def reward_responses(trainer: Trainer, examples: Sequence[Example], rollout: Rollout, n: int) -> Rewarded:
    """Return the rewards of a rollout of responses to some examples, in update `n`."""
    responses = rollout.responses
    parts = trainer.reward.parts(
        examples,
        response_texts(trainer, rollout),
        token_ids=responses.lists(),
        truncated=rollout.truncated.tolist(),
        step=n,
    )
    sums = [math.nan if total is None else total for total in trainer.reward.sums(parts)]
    terms = torch.zeros(len(responses.ids), len(parts), dtype=torch.float32)
    tokens = torch.zeros(*responses.ids.shape, len(parts), dtype=torch.float32)
    for k, values in enumerate(parts):
        for row, value in enumerate(values):
            if isinstance(value, list):
                tokens[row, : len(value), k] = torch.tensor(value)
                value = math.fsum(value)
            terms[row, k] = math.nan if value is None else value
    device = responses.ids.device
    return Rewarded(torch.tensor(sums, dtype=torch.float32, device=device), terms.to(device), tokens.to(device))


def response_texts(trainer: Trainer, rollout: Rollout) -> list[str]:
    """Return the texts of a rollout's responses."""
    return decode_responses(trainer.tokenizer, rollout.responses, rollout.truncated, trainer.task.rollout.stop)


def summed(rewarded: Rewarded, weights: Sequence[float], config: RewardedConfig) -> tuple[Tensor, Tensor]:
    """Return the weighted sums of the terms, [B], and the parts of them that belong to single tokens, [B, T].

    With `normalize_terms`, each term is standardised first, within the samples of a prompt if there are several and no
    critic, else over the batch; then their sum, over the batch (GDPO: Liu et al. 2026, arXiv 2601.05242). Rewards of
    single tokens then count by their sum.
    """
    scored = ~rewarded.sums.isnan()
    if not config.normalize_terms:
        token_scores = rewarded.tokens @ rewarded.tokens.new_tensor(weights)
        return rewarded.sums.masked_fill(~scored, 0.0), token_scores
    batch = len(rewarded.sums)
    alone = config.samples_per_prompt == 1 or isinstance(config, ActorCriticConfig)
    size = batch if alone else config.samples_per_prompt
    sums = torch.zeros_like(rewarded.sums)
    for weight, values in zip(weights, rewarded.terms.unbind(1), strict=True):
        sums = sums + weight * rl.judge_counted(~values.isnan(), rl.standardise_groups, values, size)
    return rl.judge_counted(scored, rl.standardise_groups, sums, batch), torch.zeros_like(rewarded.tokens[..., 0])


def scaled_scores(
    scores: Tensor, token_scores: Tensor, scored: Tensor, state: TrainState, config: RewardedConfig
) -> tuple[Tensor, Tensor]:
    """Return scores [B], and their parts that belong to single tokens [B, T], scaled as the configuration says.

    Both are divided by the standard deviation of the scores so far. A score is clipped as a whole; the difference is
    taken off at the last token.
    """
    if config.reward_scale == "running":
        state.moments.add(scores[scored])
        scores, token_scores = scores / state.moments.deviation, token_scores / state.moments.deviation
    clip = config.reward_clip
    return scores if clip is None else scores.clamp(-clip, clip), token_scores


# --- masks of the sampler ---------------------------------------------------------------------------------------------


def mask_of_update(trainer: Trainer, state: TrainState, config: RewardedConfig) -> Mask | None:
    """Return the mask with which an update samples the policy, refreshed if due; None without a mask.

    Ramamurthy et al. (2023), §4 and Algorithm 1: the masking policy is a copy of the policy, refreshed every μ updates;
    RL4LMs' code never refreshed it (`mask_source = "frozen"`).
    """
    if config.mask_source == "periodic" and state.mask_model is not None and state.mask_age >= config.mask_updates:
        state.mask_model.load_state_dict(whole(state.policy.state_dict()))
        state.mask_age = 0
    # A masking policy that was just refreshed equals the policy, so it need not be run.
    return own_mask(trainer, config, None if not state.mask_age else state.mask_model)


def own_mask(trainer: Trainer, config: RewardedConfig, masking: PreTrainedModel | None = None) -> Mask | None:
    """Return the mask of a policy that is its own masking policy, if there is no other; None without a mask."""
    if config.mask is None:
        return None
    if config.mask == "learned_top_p":
        rule = partial(distributions.top_p_support, p=config.top_p, min_tokens_to_keep=config.min_tokens_to_keep)
    else:
        rule = partial(distributions.top_k_support, k=max(config.top_k, config.min_tokens_to_keep))
    return Mask(masking, rule, tuple(trainer.tokenizer.all_special_ids) if config.always_open == "special" else ())


# --- calibrated rewards -----------------------------------------------------------------------------------------------


def calibrated(
    trainer: Trainer, state: TrainState, config: RewardedConfig, examples: list[Example], sums: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Return rewards calibrated against the initial policy's, [B], NaN where there is none, and the cost, [3].

    InfAlign (Balashankar et al. 2024, arXiv 2412.19792), Eq. 9 and §4: a reward whose scale differs between
    prompts becomes a share, which is then transformed to suit how the policy is decoded (best of n, say).

    The samples for a prompt depend only on the run's seed and the example.
    """
    count, settings = config.calibration_samples, rollout_settings(trainer.task, config)
    prompted, rewards, tokens = examples[:: config.samples_per_prompt], [], 0.0
    together = max(1, config.rollouts // count)  # prompts at once, so that no more is drawn together than in an update
    with state.initial_policy() as policy:
        for start in range(0, len(prompted), together):
            part = prompted[start : start + together]
            repeated = [example for example in part for _ in range(count)]
            chances = [generator(trainer.seed, "calibration", example.id) for example in part]
            draws = [torch.rand(count, settings.max_new_tokens, generator=chance) for chance in chances]
            rollout = draw_responses(trainer, policy, settings, repeated, torch.cat(draws))
            rewards.append(reward_responses(trainer, repeated, rollout, n).sums.view(-1, count))
            tokens += float(rollout.responses.mask.sum())
    initial_rewards = torch.cat(rewards).repeat_interleave(config.samples_per_prompt, 0)
    worth = rl.tilted(rl.share_below(sums, initial_rewards), config.calibration_tilt)
    return worth, torch.tensor(
        [0.0, tokens, float(initial_rewards.numel() / config.samples_per_prompt)], dtype=torch.float64
    )


# --- responses --------------------------------------------------------------------------------------------------------


SHOWN_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class Sampled:
    """Responses with their rewards, before scoring.

    Attributes:
        positions: [B], the position of each response's example in the training examples.
        rewarded: Their rewards.
        worth: [B], sums of the rewards, calibrated if the settings say so; NaN where no term applies or nothing can be
            compared.
        spent: [3], prompts, tokens drawn and texts rewarded, including those that were redrawn.
    """

    positions: Tensor
    rollout: Rollout
    rewarded: Rewarded
    worth: Tensor
    spent: Tensor


@dataclass(frozen=True, slots=True)
class Responses:
    """Responses with their scores; those to the same prompt are adjacent.

    Attributes:
        positions: [B], the position of each response's example in the training examples.
        scored: [B], True where a response has a score.
        terms: The reward's terms by name, [B] each, not weighted; NaN where a term does not apply.
        raw_scores: [B], the reward function's values; 0 without a score.
        scores: [B], the raw scores less the penalties for missing ends and excess length, scaled and clipped; with
            `normalize_terms`, made of standardised terms.
        token_scores: [B, T], the parts of the scores that belong to single tokens.
        spent: The cost: "prompts", "generated_tokens" and "reward_calls".
        mask_age: Updates since the masking policy was last equal to the policy; None without a mask.
    """

    positions: Tensor
    rollout: Rollout
    scored: Tensor
    terms: Mapping[str, Tensor]
    raw_scores: Tensor
    scores: Tensor
    token_scores: Tensor
    spent: Mapping[str, float]
    mask_age: int | None = None

    @property
    def mask(self) -> Tensor:
        """Where a token of a response with a score counts, [B, T]."""
        return self.rollout.responses.mask & self.scored.unsqueeze(1)


def sample(
    trainer: Trainer,
    state: TrainState,
    config: RewardedConfig,
    n: int,
    mask: Mask | None,
    policy: PreTrainedModel | None = None,
    keep: KeptScores | None = None,
) -> Sampled:
    """Return this rank's share of an update's responses, with their rewards.

    A group whose rewards are all equal is redrawn with a prompt that the update does not have, up to `redraws` times
    (DAPO).
    """
    policy = state.policy if policy is None else policy
    rows = own_rows(trainer.distributed, config)
    sampled = draw_rows(trainer, policy, config, n, mask, rows, keep)
    for attempt in range(1, config.redraws + 1):
        flat = flat_rows(sampled.rewarded.sums, config.samples_per_prompt).cpu()
        if not len(flat):
            break
        new = draw_rows(trainer, policy, config, n, mask, rows[flat], keep, attempt)
        sampled = replaced(sampled, flat, new, policy)
    return completed(trainer, state, config, n, sampled)


def completed(trainer: Trainer, state: TrainState, config: RewardedConfig, n: int, sampled: Sampled) -> Sampled:
    """Return this rank's responses with calibrated rewards, if the settings say so; report a few of them."""
    if config.calibration_samples:
        examples = [trainer.examples[position] for position in sampled.positions.tolist()]
        worth, spent = calibrated(trainer, state, config, examples, sampled.rewarded.sums, n)
        sampled = replace(sampled, worth=worth, spent=sampled.spent + spent)
    show(trainer, sampled, config.samples_per_prompt)
    return sampled


def show(trainer: Trainer, sampled: Sampled, size: int = 1) -> None:
    """Report a few of the responses that this rank drew, one of each group of `size`."""
    texts = response_texts(trainer, sampled.rollout)
    shown = list(zip(sampled.positions.tolist(), texts, sampled.rewarded.sums.tolist(), strict=True))
    for position, text, value in shown[::size][:SHOWN_SAMPLES]:
        trainer.shown(trainer.examples[position], text, value)


def shares_groups(config: RewardedConfig) -> bool:
    """Whether a process draws whole groups: because they may be redrawn, or are calibrated per prompt."""
    return bool(config.redraws or config.calibration_samples)


def own_rows(distributed: DistributedContext, config: RewardedConfig) -> Tensor:
    """Return the rows of an update that this rank draws."""
    size = config.samples_per_prompt if shares_groups(config) else 1
    units = distributed.share(config.prompts * config.samples_per_prompt // size)
    return torch.arange(units.start * size, units.stop * size)


def draw_rows(
    trainer: Trainer,
    policy: PreTrainedModel,
    config: RewardedConfig,
    n: int,
    mask: Mask | None,
    rows: Tensor,
    keep: KeptScores | None = None,
    attempt: int = 0,
) -> Sampled:
    """Sample and reward the responses `rows` of update `n`; from attempt 1 on, with the prompts of redraws."""
    positions = draw_positions(len(trainer.examples), config.prompts, trainer.seed, n)
    if attempt:
        positions = redraw_positions(positions, len(trainer.examples), trainer.seed, n, attempt)
    positions = positions.repeat_interleave(config.samples_per_prompt)[rows]
    settings, attempt_key = rollout_settings(trainer.task, config), [attempt] if attempt else []
    chance = generator(trainer.seed, "rollout", n, *attempt_key)
    uniforms = torch.rand(config.rollouts, settings.max_new_tokens, generator=chance)[rows]
    examples = [trainer.examples[position] for position in positions.tolist()]
    rollout = draw_responses(trainer, policy, settings, examples, uniforms, mask, keep, config.freeze_encoder)
    rewarded = reward_responses(trainer, examples, rollout, n)
    prompts_drawn = len(rows) / config.samples_per_prompt
    spent = torch.tensor([prompts_drawn, float(rollout.responses.mask.sum()), len(rows)], dtype=torch.float64)
    return Sampled(positions.to(rewarded.sums.device), rollout, rewarded, rewarded.sums, spent)


@torch.no_grad()
def draw_responses(
    trainer: Trainer,
    policy: PreTrainedModel,
    settings: Generation,
    examples: Sequence[Example],
    uniforms: Tensor,
    mask: Mask | None = None,
    keep: KeptScores | None = None,
    frozen: bool = False,
) -> Rollout:
    """Let a policy answer some examples; arguments as for `sample_responses`.

    If `frozen`, the rollout keeps the states of the encoder, for other models that have the same.
    """
    tokenizer = trainer.tokenizer
    prompts = encode_prompts(policy, tokenizer, [example.prompt for example in examples], trainer.task.prompt)
    eos, stops = eos_id(policy, tokenizer), find_stops(tokenizer, settings.stop)
    with trainer.autocast(), cast_once(policy, None if mask is None else mask.model):
        encoded = encode(policy, prompts) if frozen else None
        return sample_responses(policy, prompts, settings, uniforms, eos, mask, encoded, keep, stops)


def gather(trainer: Trainer, sampled: Sampled) -> Sampled:
    """Return the responses of all ranks, without the sampler's scores: each rank has used its share of them before."""
    distributed = trainer.distributed
    rollout = replace(sampled.rollout, sampler_scores=None)
    return Sampled(
        distributed.gather_rows(sampled.positions),
        by_rows(distributed.gather_rows, _padded(trainer.policy), rollout),
        by_rows(distributed.gather_rows, "right", sampled.rewarded),
        distributed.gather_rows(sampled.worth),
        distributed.sum(sampled.spent),
    )


def score(trainer: Trainer, state: TrainState, config: RewardedConfig, n: int, sampled: Sampled) -> Responses:
    """Score gathered responses, and count one update more since the mask was refreshed.

    It is a TrainingError if no response has a score.
    """
    rewarded, rollout = sampled.rewarded, sampled.rollout
    trainer.graded([trainer.examples[place] for place in sampled.positions.tolist()], rewarded.sums.tolist())
    scored = ~sampled.worth.isnan()
    if not scored.any():
        raise TrainingError(
            f"update {n}: the reward applies to none of {len(scored)} responses (it returned None for all), so there "
            "is nothing to learn from. Add a term that applies to every text, or raise rollouts."
        )
    if config.calibration_samples:
        scores, token_scores = sampled.worth.masked_fill(~scored, 0.0), torch.zeros_like(rewarded.tokens[..., 0])
    else:
        scores, token_scores = summed(rewarded, [term.weight for term in trainer.reward.terms], config)
    scores = scores - config.missing_eos_penalty * rollout.truncated
    if config.overlong_buffer:
        limit = rollout_settings(trainer.task, config).max_new_tokens
        overlong = rl.overlong(rollout.responses.mask.sum(1), limit, config.overlong_buffer)
        scores = scores - config.overlong_penalty * overlong
    scores, token_scores = scaled_scores(scores, token_scores, scored, state, config)
    age = None if config.mask is None else state.mask_age
    # A mask computed from the policy itself never ages.
    state.mask_age += config.mask is not None and state.mask_model is not None
    return Responses(
        positions=sampled.positions,
        rollout=rollout,
        scored=scored,
        terms={term.name: rewarded.terms[:, k] for k, term in enumerate(trainer.reward.terms)},
        raw_scores=rewarded.sums.masked_fill(~scored, 0.0),
        scores=scores,
        token_scores=token_scores,
        spent=dict(zip(("prompts", "generated_tokens", "reward_calls"), sampled.spent.round().tolist(), strict=True)),
        mask_age=age,
    )


def draw_positions(total: int, count: int, seed: int, n: int) -> Tensor:
    """Return the positions of the examples of update `n`, [count], of `total`: none repeats before all have come once.

    The order depends only on seed and update, so that an interrupted run resumes exactly.
    """
    return torch.tensor(_turns(total, count, n, seed))


def redraw_positions(first: Tensor, total: int, seed: int, n: int, attempt: int) -> Tensor:
    """Return the positions that replace those of update `n` whose groups are redrawn, [count].

    They are of examples that the update does not have; over its attempts, none repeats before all have come once. If
    the update has all examples, they are of any. `first` are the update's own positions; `attempt` counts from 1.
    """
    used = set(first.tolist())
    unused = [position for position in range(total) if position not in used] or range(total)
    return torch.tensor([unused[place] for place in _turns(len(unused), len(first), attempt - 1, seed, n)])


def _turns(total: int, count: int, turn: int, seed: int, *key: int) -> list[int]:
    """Return the `count` numbers below `total` of a turn: over the turns, none repeats before all have come once."""
    places = (divmod(place, total) for place in range(turn * count, (turn + 1) * count))
    return [_order(total, seed, epoch, *key)[index] for epoch, index in places]


@lru_cache(maxsize=2)  # an update may cross the end of an epoch
def _order(total: int, seed: int, epoch: int, *key: int) -> tuple[int, ...]:
    """Return the order of an epoch, or of the redraws of an update."""
    return tuple(torch.randperm(total, generator=generator(seed, "order", epoch, *key)).tolist())


def flat_rows(sums: Tensor, size: int) -> Tensor:
    """Return the rows of the groups whose rewards, apart from NaN, are all equal; `sums` is [B]."""
    groups = sums.view(-1, size)
    low, high = groups.nan_to_num(nan=math.inf).amin(1), groups.nan_to_num(nan=-math.inf).amax(1)
    return (low >= high).repeat_interleave(size).nonzero()[:, 0]


def by_rows(function: Callable[..., Tensor], padded: Side, *alike: R, side: Side = "right") -> R:
    """Apply a function to each tensor [B, ...] of objects of a dataclass, such as rollouts; None stays None.

    Args:
        function: (one tensor of each object, side=) → tensor.
        padded: The side on which prompts are padded; everything else is padded on the right.
    """
    if isinstance(alike[0], Tensor):
        return function(*alike, side=side)  # type: ignore[return-value]
    if any(each is None for each in alike):
        return None  # type: ignore[return-value]
    values = {
        field.name: by_rows(
            function,
            padded,
            *(getattr(each, field.name) for each in alike),
            side=padded if field.name == "prompts" else side,
        )
        for field in fields(alike[0])  # type: ignore[arg-type]
    }
    return type(alike[0])(**values)


def _padded(policy: PreTrainedModel) -> Side:
    """Return the side that prompts are padded on."""
    return "right" if is_seq2seq(policy) else "left"


def replaced(sampled: Sampled, rows: Tensor, new: Sampled, policy: PreTrainedModel) -> Sampled:
    """Return `sampled` with some rows replaced by those of `new`; their costs are added up."""
    total = len(sampled.positions)
    order = torch.arange(total).index_copy(0, rows, total + torch.arange(len(rows)))

    def put(old: Tensor, by: Tensor, side: Side = "right") -> Tensor:
        return rows_of(old, by, side=side)[order.to(old.device)]

    rewarded = by_rows(put, "right", sampled.rewarded, new.rewarded)
    return Sampled(
        put(sampled.positions, new.positions),
        by_rows(put, _padded(policy), sampled.rollout, new.rollout),
        rewarded,
        rewarded.sums,
        sampled.spent + new.spent,
    )


def describe_responses(responses: Responses) -> dict[str, float]:
    """Return the logged figures of responses, by name."""
    rollout, scored = responses.rollout, responses.scored
    mask = rollout.responses.mask
    line = {
        "objective/reward": float(responses.raw_scores[scored].mean()),
        "objective/reward_sd": float(responses.raw_scores[scored].std(correction=0)),
        "objective/length": float(mask.sum(1).float().mean()),
        "objective/ended": 1.0 - float(rollout.truncated.float().mean()),
        "mask/size": float(rl.masked_mean(rollout.mask_size, mask)),
        "tokens": float(mask.sum()),
        "episodes": float(len(mask)),
        **responses.spent,
    }
    if rollout.disagreement is not None:
        line["mask/disagreement"] = float(rl.masked_mean(rollout.disagreement, mask))
    if responses.mask_age is not None:
        line["mask/age"] = float(responses.mask_age)
    if not scored.all():
        line["objective/scored"] = float(scored.float().mean())
    if len(responses.terms) > 1:
        means = {name: float(values.nanmean()) for name, values in responses.terms.items()}
        line |= {f"reward/{name}": value for name, value in means.items() if not math.isnan(value)}
    return line

"""An update's optimiser steps: epochs of minibatches, the exact gradient of each, and when to stop early.

Before the first step, sampling and training must see the same policy: only the way of computing log π differs. The
sampler decodes token by token with a cache; training, and scoring, which gives the old log π of the ratio, run over
whole responses. In float32 they agree to five digits. In bfloat16 a hidden state is rounded to eight bits whenever it
is stored, so the shape of the matrices, which decides how sums are split, changes log π: by .03 nats a token on average
and .13 at most for Gemma 3 270M, in both directions alike. A mask that is not replayed, another temperature or a
shifted position changes it more, or in one direction.

B = responses, b = rows of a micro-batch, T = response time.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.adapters import dropping_out, recomputing
from grue.lm.distributed import DistributedContext
from grue.lm.forward import forward
from grue.lm.log_probs import token_log_probs
from grue.lm.seeds import derived_seed, generator
from grue.lm.sharding import whole
from grue.lm.tokens import Tokens, encode_prompts, encode_responses, length_batches
from grue.rl import functional as rl
from grue.rl.settings import Common, RewardedConfig, RolloutConfig
from grue.rl.trainer import Trainer, TrainState

# --- the exact gradient, in micro-batches and over processes, and the step --------------------------------------------


# Rows of a minibatch → weighted sums over their tokens: "loss", which is minimised, and figures to log. Those in
# `MAXIMA` are maxima instead; "approx_kl" can end an update.
TokenLosses = Callable[[Tensor], Mapping[str, Tensor]]
MAXIMA = ("ratio_error", "mismatch_max")
COUNTED = ("mismatch", "mismatch_bias", "mismatch_kl", "mismatch_tokens")  # sums that are divided by their own count


def epochs(
    trainer: Trainer, config: RewardedConfig, learnt: Tensor, n: int, sequences: int = 1
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the minibatches of each epoch of update `n`, as rows, reshuffled for each epoch.

    Rows are of `sequences` responses each, `learnt` those to learn from.
    """
    chance = generator(trainer.seed, "minibatches", n)
    for _ in range(config.epochs if len(learnt) else 0):
        yield learnt[torch.randperm(len(learnt), generator=chance)].split(max(1, config.minibatch_size // sequences))


def micro_batches(trainer: Trainer, weights: Tensor, rows: Tensor, size: int) -> list[Tensor]:
    """Return this rank's share of some rows in micro-batches of similar length; `weights` [B, T] are 0 for no token."""
    mine = rows[trainer.distributed.rank :: trainer.distributed.size]
    return [part for part in length_batches(weights != 0, mine, size) if len(part)]


def rows_that_count(weights: Tensor) -> Tensor:
    """Return the rows of [B, T] in which a token counts, on the CPU, where minibatches are drawn."""
    return (weights != 0).any(1).nonzero()[:, 0].cpu()


def step(trainer: Trainer, optimizer: torch.optim.Optimizer, config: Common, where: str) -> Tensor:
    """Sum the gradients over the processes, clip them, take one step and clear them; return their norm before clipping.

    If the gradient is exactly 0, say because all advantages and penalties are, no step is taken: momentum would move
    the weights and weight decay shrink them for no reason. The norm is over all processes, so that they agree.

    Raises:
        TrainingError: The gradients are not finite; the weights are as they were.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if trainer.sharded is None:  # else the backward pass has already summed them
        trainer.distributed.sum_gradients(parameters)
    norm = whole(nn.utils.clip_grad_norm_(parameters, config.max_grad_norm))
    if not norm.isfinite():
        raise TrainingError(
            f"{where}: the gradient is not finite. Lower learning_rate, or raise kl_coefficient; "
            "the same command resumes from the last saved state."
        )
    if norm > 0:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def minibatch_gradient(
    trainer: Trainer,
    rows: Tensor,
    weights: Tensor,
    losses_of: TokenLosses,
    micro_batch_size: int,
    counts: Tensor | None = None,
) -> dict[str, Tensor]:
    """Accumulate this rank's part of the exact gradient of a minibatch's mean loss, in micro-batches.

    Each micro-batch's sum is divided by the weight of the whole minibatch; a mean of means would favour short
    responses. If weights are sharded, the gradient is summed over the ranks at once, and each keeps its part.

    Args:
        weights: [B, T], not 0 where a token counts.
        counts: [B], each row's share of the divisor; None for the sum of its weights.
    """
    distributed, sharded = trainer.distributed, trainer.sharded
    total = (weights if counts is None else counts)[rows].sum()
    sums: dict[str, Tensor] = {}
    parts = [(part, 1.0) for part in micro_batches(trainer, weights, rows, micro_batch_size)]
    # A rank without rows, or with fewer passes than other ranks if weights are sharded, runs a row of weight 0.
    passes = max(1, len(parts)) if sharded is None else int(distributed.maximum(torch.tensor(len(parts))))
    parts += [(rows[:1], 0.0)] * (passes - len(parts))
    for part, real in parts:
        compute = partial(losses_of, part)
        losses = compute() if sharded is None else sharded(compute)
        (losses["loss"] * real / total).backward()
        for name, value in losses.items():
            value = value.detach() * real
            if name in sums:
                value = torch.maximum(sums[name], value) if name in MAXIMA else sums[name] + value
            sums[name] = value
    return _over_ranks(sums, total, distributed)


def _over_ranks(sums: Mapping[str, Tensor], total: Tensor, distributed: DistributedContext) -> dict[str, Tensor]:
    """Return each sum over all ranks, divided by the minibatch's weight if not `COUNTED`; maxima stay maxima."""
    ranks = distributed.gather_rows(torch.stack([value.float() for value in sums.values()]).unsqueeze(0))
    names = {"loss": "loss/total", "policy_loss": "loss/policy", "value_loss": "loss/value"}
    return {
        names.get(name, f"policy/{name}"): column.max()
        if name in MAXIMA
        else column.sum() / (1.0 if name in COUNTED else total)
        for name, column in zip(sums, ranks.unbind(1), strict=True)
    }


# --- whether sampling and training see the same policy ----------------------------------------------------------------


EXACT = 1e-3
"""Largest |ratio − 1| and |log π − log π_sampler| of any token allowed in float32."""
NOISE = 0.12
"""Largest mean of the same allowed in bfloat16."""
DRIFT = 0.01
"""Largest |mean of log π − log π_sampler| allowed in bfloat16, beyond `ERRORS`."""
ERRORS = 5.0
"""Standard errors of that mean that are taken for noise."""

FIGURES = tuple(f"policy/{name}" for name in ("ratio_error", "ratio_error_mean", "mismatch_max", *COUNTED))
"""Figures that are meaningful only for the first minibatch."""


def mismatch(current: Tensor, drawn: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Return how far log π is from the sampler's, as sums over the tokens of a minibatch that count, and a maximum.

    They are sums of |log π − log π_sampler|, of the same with its sign, of k3's estimate of KL(sampler‖π), and of 1;
    and the largest |log π − log π_sampler|. All arguments are [b, T], log-probabilities over the sampler's supports.
    """
    gap = (current.detach() - drawn).masked_fill(~mask, 0.0)
    sums = (gap.abs().sum(), gap.sum(), rl.kl_k3(drawn, drawn + gap).sum(), mask.sum())
    return {"mismatch_max": gap.abs().max(), **dict(zip(COUNTED, sums, strict=True))}


def importance_weights(policy: Tensor, drawn: Tensor, config: RewardedConfig, cap: float | None) -> Tensor:
    """Return min(π_old/π_sampler, cap) of each token, [B, T]; 1 in float32 and without a cap.

    Truncated importance sampling (Ionides 2008), which corrects for sampling from another policy than the one that
    learns: Yao et al. 2025; TRL's `vllm_importance_sampling_correction` in the mode `token_truncate`, verl's
    `rollout_is = "token"`. Log-probabilities are over the sampler's supports, [B, T].
    """
    if config.precision == "float32" or cap is None:
        return torch.ones_like(policy)
    return (policy - drawn).exp().clamp(max=cap)


def figures_of(measured: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the log's figures of the first minibatch, those that the loss has measured."""
    figures = {name: float(measured[name]) for name in FIGURES[:3] if name in measured}
    if "policy/mismatch_tokens" in measured:
        figures |= {f"policy/{name}": _mean(measured, name) for name in ("mismatch", "mismatch_kl")}
    return figures


def check_ratio(measured: Mapping[str, Tensor], config: RewardedConfig, n: int) -> None:
    """Raise a TrainingError if the policy about to be trained is not the one that was sampled.

    `measured` are the figures of the first minibatch of update `n`.
    """
    disagreement = _disagreement(measured, config.precision == "float32")
    if disagreement is None:
        return
    cure = "This is a bug; please report it with config.toml."
    if config.precision != "float32":
        cure += ' If this model is too coarse in bfloat16, set precision = "float32".'
    raise TrainingError(f"update {n}: {disagreement}: sampling and training see different policies. {cure}")


def _disagreement(measured: Mapping[str, Tensor], exact: bool) -> str | None:
    """Return the first deviation larger than rounding explains, or None; NaN is a deviation."""
    limit, qualifier = (EXACT, "") if exact else (NOISE, " on average")
    ratio = float(measured.get(f"policy/ratio_error{'' if exact else '_mean'}", 0.0))
    if not ratio <= limit:
        return f"the first policy ratio is off 1 by {ratio:.2g}{qualifier}, where rounding explains {limit:g}"
    if "policy/mismatch_tokens" not in measured:
        return None
    tokens = int(measured["policy/mismatch_tokens"])
    gap = float(measured["policy/mismatch_max"]) if exact else _mean(measured, "mismatch")
    if not gap <= limit:
        return (
            f"log π of {tokens} drawn tokens differs from the sampler's by {gap:.2g}"
            f"{qualifier or ' at most'}, where rounding explains {limit:g}"
        )
    drift, noise = _mean(measured, "mismatch_bias"), DRIFT + ERRORS * gap / math.sqrt(tokens)
    if exact or abs(drift) <= noise:
        return None
    return (
        f"log π of {tokens} drawn tokens differs from the sampler's by {drift:+.2g} on average, where rounding, "
        f"which has no direction, explains {noise:.2g}"
    )


def _mean(measured: Mapping[str, Tensor], name: str) -> float:
    """Return a figure's mean over the tokens of the minibatch."""
    return float(measured[f"policy/{name}"] / measured["policy/mismatch_tokens"])


# --- the negative log-likelihood of references, given their prompts ---------------------------------------------------


def encode_pairs(trainer: Trainer, pairs: Tensor) -> tuple[Tokens, Tokens]:
    """Return prompts and references of some pairs [N, 2], tokenised; see `Trainer.pairs`."""
    policy, tokenizer, task = trainer.policy, trainer.tokenizer, trainer.task
    chosen = [(trainer.examples[example], reference) for example, reference in pairs.tolist()]
    prompts = encode_prompts(policy, tokenizer, [example.prompt for example, _ in chosen], task.prompt)
    texts = [example.references[reference] for example, reference in chosen]
    return prompts, encode_responses(policy, tokenizer, texts, task.rollout.max_new_tokens)


def pair_losses(
    trainer: Trainer, prompts: Tokens, responses: Tokens, rows: Tensor, weight: float = 1.0, chunk: int = 0
) -> dict[str, Tensor]:
    """Return the sum over the tokens of some pairs of the negative log-likelihood, times `weight`.

    `chunk` is the setting `log_prob_chunk`.
    """
    read, targets = prompts.rows(rows), responses.rows(rows)
    if chunk:
        with trainer.autocast():
            scores = token_log_probs(trainer.policy, read, targets, 1.0, chunk=chunk, want_plain=False)
        return {"loss": -weight * scores.restricted.sum()}
    with trainer.autocast():
        logits, _ = forward(trainer.policy, read, targets)
    log_probs = distributions.log_probs(logits, targets.ids).masked_fill(~targets.mask, 0.0)
    return {"loss": -weight * log_probs.sum()}


def supervised_gradient(
    trainer: Trainer, state: TrainState, config: RewardedConfig, n: int, step: int, count: int
) -> Tensor:
    """Add the gradient of the weighted negative log-likelihood of `count` random references; return the loss.

    It is of optimiser step `step` of update `n`. It is a TrainingError if no example has a reference.
    """
    chance = generator(trainer.seed, "references", n, step)
    pairs = trainer.pairs[torch.randint(len(trainer.pairs), (count,), generator=chance)]
    prompts, responses = encode_pairs(trainer, pairs)
    weight, chunk = config.supervised_coefficient, config.log_prob_chunk
    losses_of = partial(pair_losses, trainer, prompts, responses, weight=weight, chunk=chunk)
    rows, weights = torch.arange(count), responses.mask.float()
    with recomputing(state.policy):
        return minibatch_gradient(trainer, rows, weights, losses_of, config.micro_batch_size)["loss/total"]


# --- the steps of an update -------------------------------------------------------------------------------------------


def optimize(
    trainer: Trainer,
    state: TrainState,
    config: RewardedConfig,
    weights: Tensor,
    losses_of: TokenLosses,
    n: int,
    counts: Tensor | None = None,
    sequences: int = 1,
) -> dict[str, float]:
    """Take the optimiser steps of update `n`; return the mean figures over the minibatches.

    A minibatch without a gradient makes no step, whatever the others do.

    Args:
        weights: [B, T], weight of each token in the mean that is minimised: 1 or 0 for the mean over tokens.
        counts: [B], each row's share of the divisor; None for the sum of its weights.
        sequences: Responses per row: the size of a group.

    Raises:
        TrainingError: The policy of the first minibatch is not the one that was sampled, or a gradient is not finite.
    """
    history: list[dict[str, Tensor]] = []
    micro_batch = max(1, config.micro_batch_size // sequences)
    stop_kl = config.stop_kl if isinstance(config, RolloutConfig) else None
    for minibatches in epochs(trainer, config, rows_that_count(weights), n, sequences):
        for rows in minibatches:
            seed = derived_seed(trainer.seed, "dropout", n, len(history), trainer.distributed.rank)
            with recomputing(state.policy, state.critic), dropping_out(state.policy, config.dropout, seed):
                measured = minibatch_gradient(trainer, rows, weights, losses_of, micro_batch, counts)
            if not history and not config.dropout:  # with dropout, the ratio is not 1
                check_ratio(measured, config, n)
            if stop_kl is not None and history and measured["policy/approx_kl"] > stop_kl:
                state.optimizer.zero_grad(set_to_none=True)
                return _means(history)
            if config.supervised_coefficient:
                count = len(rows) * sequences
                measured["loss/supervised"] = supervised_gradient(trainer, state, config, n, len(history), count)
            measured["policy/grad_norm"] = step(trainer, state.optimizer, config, f"update {n}")
            history.append(measured)
    return _means(history)


def _means(history: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    names = [name for name in (history[0] if history else ()) if name not in FIGURES]
    means = {name: float(torch.stack([figures[name].detach().float() for figures in history]).mean()) for name in names}
    if history:
        means |= figures_of(history[0])
    steps = float(sum(bool(figures["policy/grad_norm"] > 0) for figures in history))
    return means | {"policy/steps": steps, "steps": steps}

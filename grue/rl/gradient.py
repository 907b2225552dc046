"""The exact gradient of a minibatch, in micro-batches and over processes, and the step that takes it."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from grue.errors import TrainingError
from grue.lm.distributed import DistributedContext
from grue.lm.seeds import generator
from grue.lm.sharding import whole
from grue.lm.tokens import length_batches
from grue.rl.settings import Common, RewardedConfig
from grue.rl.trainer import Trainer

# Rows of a minibatch → sums over their tokens, each weighted: "loss", which is minimised, and what is logged of
# the policy: those in `MAXIMA` are maxima, "approx_kl" can end an update.
TokenLosses = Callable[[Tensor], Mapping[str, Tensor]]
MAXIMA = ("ratio_error", "mismatch_max")
COUNTED = ("mismatch", "mismatch_bias", "mismatch_kl", "mismatch_tokens")  # sums that are logged over their own count


def epochs(
    trainer: Trainer, config: RewardedConfig, learnt: Tensor, n: int, sequences: int = 1
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the minibatches of each epoch of update `n`, as rows; chance shuffles them anew.

    Args:
        learnt: The rows that something is learnt from.
        sequences: How many responses a row stands for.
    """
    chance = generator(trainer.seed, "minibatches", n)
    for _ in range(config.epochs if len(learnt) else 0):
        yield learnt[torch.randperm(len(learnt), generator=chance)].split(max(1, config.minibatch_size // sequences))


def micro_batches(trainer: Trainer, weights: Tensor, rows: Tensor, size: int) -> list[Tensor]:
    """Return this rank's share of some rows in micro-batches of similar length.

    Args:
        weights: [B, T], not 0 where a token counts.
    """
    mine = rows[trainer.distributed.rank :: trainer.distributed.size]
    return [part for part in length_batches(weights != 0, mine, size) if len(part)]


def rows_that_count(weights: Tensor) -> Tensor:
    """Return the rows of [B, T] in which a token counts, on the CPU, where minibatches are drawn."""
    return (weights != 0).any(1).nonzero()[:, 0].cpu()


def step(trainer: Trainer, optimizer: torch.optim.Optimizer, config: Common, where: str) -> Tensor:
    """Sum the gradients over the processes, clip them jointly, take one step, clear them; return their norm before.

    No step is taken where the gradient is exactly 0, as where no advantage and no penalty is left: momentum would move
    the weights, and weight decay shrink them, for nothing. The norm is that of all processes, so that they agree.

    Raises:
        TrainingError: The gradients are not finite; the weights are as they were.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if trainer.sharded is None:  # else the backward pass has summed them
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
    """Accumulate this rank's part of the gradient of a minibatch's mean loss, exactly, in micro-batches.

    Each micro-batch adds its sum over the whole minibatch's weight; a mean of means would favour short responses.
    Where weights are sharded, the gradient is summed over the ranks at once, and each keeps its part.

    Args:
        weights: [B, T], not 0 where a token counts.
        counts: [B], what each row adds to what the sums are divided by; None for the sum of its weights.
    """
    distributed, sharded = trainer.distributed, trainer.sharded
    total = (weights if counts is None else counts)[rows].sum()
    sums: dict[str, Tensor] = {}
    parts = [(part, 1.0) for part in micro_batches(trainer, weights, rows, micro_batch_size)]
    # A rank without rows, or with fewer passes than others who can make them only together, runs one row that counts
    # nothing.
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

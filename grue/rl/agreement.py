"""Whether the pass that learns sees the policy that was sampled: what is measured in the first minibatch, and judged.

Before the first step nothing has changed but how log π is computed: the sampler goes token by token with a cache, the
pass that learns over whole responses, and scoring, which gives the old log π of the ratio, lies in between. In float32
they agree to five digits. In bfloat16 a hidden state is rounded to eight bits whenever it is stored, so what sums are
split into depends on the shape of the matrices and moves log π: by .03 nats a token on average and .13 at most for
Gemma 3 270M, up and down alike. A mask that is not replayed, another temperature or a shifted position moves it more,
or in one direction.

B = responses, b = rows of a micro-batch, T = response time.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from grue.errors import TrainingError
from grue.rl import functional as rl
from grue.rl.gradient import COUNTED
from grue.rl.settings import RewardedConfig

EXACT = 1e-3
"""Largest |ratio − 1| and |log π − log π_sampler| of any token that float32 may have."""
NOISE = 0.12
"""Largest mean of the same that bfloat16 may have."""
DRIFT = 0.01
"""Farthest that the mean of log π − log π_sampler, with its sign, may be from 0 in bfloat16, beyond `ERRORS`."""
ERRORS = 5.0
"""Standard errors of that mean which are noise."""

FIGURES = tuple(f"policy/{name}" for name in ("ratio_error", "ratio_error_mean", "mismatch_max", *COUNTED))
"""What of a minibatch tells something only in the first."""


def mismatch(now: Tensor, drawn: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Return sums over the tokens of a minibatch that count, and a maximum: how far log π is from the sampler's.

    Args:
        now: log π over the sampler's supports, [b, T].
        drawn: What the sampler said, [b, T].
        mask: [b, T], True where a token counts.

    Returns:
        Sums of |log π − log π_sampler|, of the same with its sign, of k3's estimate of KL(sampler‖π), and of 1; and
        the largest |log π − log π_sampler|.
    """
    gap = (now.detach() - drawn).masked_fill(~mask, 0.0)
    sums = (gap.abs().sum(), gap.sum(), rl.kl_k3(drawn, drawn + gap).sum(), mask.sum())
    return {"mismatch_max": gap.abs().max(), **dict(zip(COUNTED, sums, strict=True))}


def importance_weights(policy: Tensor, drawn: Tensor, config: RewardedConfig, cap: float | None) -> Tensor:
    """Return min(π_old/π_sampler, cap) of each token, [B, T]; 1 in float32, and where nothing is to be corrected.

    Truncated importance sampling (Ionides 2008), which makes up for drawing from another policy than the one that
    learns: Yao et al. 2025; TRL's `vllm_importance_sampling_correction` in the mode `token_truncate`, verl's
    `rollout_is = "token"`.

    Args:
        policy: log π_old over the sampler's supports, [B, T].
        drawn: What the sampler said, [B, T].
    """
    if config.precision == "float32" or cap is None:
        return torch.ones_like(policy)
    return (policy - drawn).exp().clamp(max=cap)


def figures_of(measured: Mapping[str, Tensor]) -> dict[str, float]:
    """Return what the log says of the first minibatch, as far as the loss told it."""
    figures = {name: float(measured[name]) for name in FIGURES[:3] if name in measured}
    if "policy/mismatch_tokens" in measured:
        figures |= {f"policy/{name}": _mean(measured, name) for name in ("mismatch", "mismatch_kl")}
    return figures


def check_ratio(measured: Mapping[str, Tensor], config: RewardedConfig, n: int) -> None:
    """Make sure that the policy about to learn is the one that was sampled, where a loss has a ratio.

    Args:
        measured: Of the first minibatch of update `n`.

    Raises:
        TrainingError: Sampler, scoring and learning see different policies.
    """
    found = _disagreement(measured, config.precision == "float32")
    if found is None:
        return
    cure = "This is a bug; please report it with config.toml."
    if config.precision != "float32":
        cure += ' Or this model is too coarse in bfloat16: then it runs with precision = "float32".'
    raise TrainingError(f"update {n}: {found}: sampling and training see different policies. {cure}")


def _disagreement(measured: Mapping[str, Tensor], exact: bool) -> str | None:
    """Return what is farther off than rounding can be; None where nothing is. What is no number is off."""
    limit, how = (EXACT, "") if exact else (NOISE, " on average")
    ratio = float(measured.get(f"policy/ratio_error{'' if exact else '_mean'}", 0.0))
    if not ratio <= limit:
        return f"the first policy ratio is off 1 by {ratio:.2g}{how}, where rounding explains {limit:g}"
    if "policy/mismatch_tokens" not in measured:
        return None
    tokens = int(measured["policy/mismatch_tokens"])
    gap = float(measured["policy/mismatch_max"]) if exact else _mean(measured, "mismatch")
    if not gap <= limit:
        return (
            f"log π of {tokens} drawn tokens differs from what the sampler said by {gap:.2g}"
            f"{how or ' at most'}, where rounding explains {limit:g}"
        )
    drift, noise = _mean(measured, "mismatch_bias"), DRIFT + ERRORS * gap / math.sqrt(tokens)
    if exact or abs(drift) <= noise:
        return None
    return (
        f"log π of {tokens} drawn tokens differs from what the sampler said by {drift:+.2g} with its sign, of which "
        f"rounding, up and down alike, explains {noise:.2g}"
    )


def _mean(measured: Mapping[str, Tensor], name: str) -> float:
    """Return a figure's mean over the tokens of the minibatch."""
    return float(measured[f"policy/{name}"] / measured["policy/mismatch_tokens"])

"""The formulas of reinforcement learning on text: tensors in, tensors out, no state.

B = batch, T = response time, V = vocabulary. `mask` [B, T] is True where a response token counts; `support` [B, T, V]
is True where the sampler's vocabulary was open, and None where all of it was. Everything is computed in float32.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

# --- the sampler's distribution --------------------------------------------------------------------------------------


def top_k_support(logits: Tensor, k: int) -> Tensor:
    """Return where the k largest logits are, [..., V] bool; equal values at the edge stay open together."""
    if k <= 0 or k >= logits.shape[-1]:
        return torch.ones_like(logits, dtype=torch.bool)
    return logits >= logits.topk(k, dim=-1).values[..., -1:]


def top_p_support(logits: Tensor, p: float, min_tokens_to_keep: int = 1) -> Tensor:
    """Return the nucleus: the smallest set of likeliest tokens whose probability reaches p, [..., V] bool.

    The paper's V^p (Eq. 6). With p ≥ 1 every token is open, whatever rounding says.
    """
    if p >= 1.0:
        return torch.ones_like(logits, dtype=torch.bool)
    probabilities, order = logits.float().softmax(-1).sort(dim=-1, descending=True, stable=True)
    mass_before = probabilities.cumsum(-1) - probabilities
    kept = mass_before < p
    kept[..., : max(1, min_tokens_to_keep)] = True
    return torch.zeros_like(kept).scatter_(-1, order, kept)


def restrict(logits: Tensor, support: Tensor | None) -> Tensor:
    """Return float32 logits with minus infinity wherever the support is closed."""
    logits = logits.float()
    return logits if support is None else logits.masked_fill(~support, float("-inf"))


def sample(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token a row by inverting the cumulative distribution.

    Args:
        logits: [B, V], minus infinity where closed.
        uniforms: [B] in [0, 1), one a row, so that a row's draw does not depend on its neighbours.

    Returns:
        [B] token ids; a closed token is never drawn.
    """
    cumulative = logits.float().softmax(-1).double().cumsum(-1)
    target = uniforms.double().unsqueeze(-1) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    # Rounding may carry a draw past the last open token; that token is the right answer then.
    last_open = logits.shape[-1] - 1 - logits.isfinite().flip(-1).int().argmax(-1)
    return torch.minimum(drawn, last_open)


def log_probs(logits: Tensor, tokens: Tensor, support: Tensor | None = None) -> Tensor:
    """Return log π(token) [B, T], renormalised over the support.

    Args:
        logits: [B, T, V], already divided by the temperature.
        tokens: [B, T].
    """
    chosen = logits.float().gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - restrict(logits, support).logsumexp(-1)


def entropy(logits: Tensor, support: Tensor | None = None) -> Tensor:
    """Return the entropy in nats of the distribution over the support, [B, T]."""
    log_p = restrict(logits, support).log_softmax(-1)
    return -(log_p.exp() * log_p.clamp(min=torch.finfo(torch.float32).min)).sum(-1)


# --- Kullback-Leibler divergence -------------------------------------------------------------------------------------


def kl_k1(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return log p − log q of the drawn tokens: the unbiased one-sample estimate of KL(p‖q) [the paper's Eq. 1]."""
    return log_p - log_q


def kl_k3(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return q/p − 1 − log(q/p) of tokens drawn from p: an unbiased estimate of KL(p‖q) that is never negative."""
    log_ratio = log_q - log_p
    return log_ratio.exp() - 1.0 - log_ratio


def rl4lms_kl_step(coefficient: float, kl: float, target: float, gain: float = 0.1) -> float:
    """Return the next KL coefficient: β(1 + gain·clip((KL − target)/target, ±0.2)) [the paper's Eq. 2–3].

    Args:
        kl: Mean over tokens, in nats.
        target: In nats a token.
        gain: K_β; the paper says 0.2, its code 0.1.
    """
    error = (kl - target) / target
    return coefficient * (1.0 + gain * min(0.2, max(-0.2, error)))


def ziegler_kl_step(coefficient: float, kl: float, target: float, samples: int, horizon: int) -> float:
    """Return the next KL coefficient of Ziegler et al. (2019): β(1 + clip((KL − target)/target, ±0.2)·n/horizon).

    Args:
        kl: Mean over sequences of the sum over tokens, in nats.
        target: In nats a sequence.
    """
    error = (kl - target) / target
    return coefficient * (1.0 + min(0.2, max(-0.2, error)) * samples / horizon)


# --- rewards, advantages, losses -------------------------------------------------------------------------------------


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the tokens that count."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


def token_rewards(scores: Tensor, kl: Tensor, mask: Tensor, coefficient: float) -> Tensor:
    """Return −β·KL at every token that counts, plus the score at the last of them, [B, T] [the paper's Eq. 1].

    Args:
        scores: [B].
        kl: [B, T] per-token estimates.
    """
    rewards = -coefficient * kl * mask
    last = (mask.sum(1) - 1).clamp(min=0).unsqueeze(1)
    return rewards.scatter_add(1, last, (scores * mask.any(1)).unsqueeze(1).to(rewards.dtype))


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Return generalised advantage estimates and the returns they imply, both [B, T] and 0 where nothing counts.

    Schulman et al. (2016), Eq. 16. The episode ends with the last token that counts: the value after it is 0.
    """
    advantages = torch.zeros_like(rewards)
    values = values * mask
    following, next_value = torch.zeros_like(rewards[:, 0]), torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        following = (delta + gamma * lam * following) * mask[:, t]
        advantages[:, t] = following
        next_value = values[:, t]
    return advantages, (advantages + values) * mask


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values with mean 0 and standard deviation 1 over the tokens that count, and 0 elsewhere."""
    centred = (values - masked_mean(values, mask)) * mask
    return centred * torch.rsqrt(masked_mean(centred.square(), mask) + 1e-8)


def clipped_policy_loss(new: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return the loss of each token, [B, T]: −min(r·A, clip(r, 1 ± ε)·A) with r = π_new/π_old.

    Schulman et al. (2017), Eq. 7.
    """
    ratio = (new - old).exp()
    return torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1.0 - clip, 1.0 + clip))


def value_loss(values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None = None) -> Tensor:
    """Return the squared error of a token's value, [B, T]; with `clip`, the worse of it and the clipped value's."""
    error = (values - returns).square()
    if clip is None:
        return error
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(error, (clipped - returns).square())


# --- storing supports ------------------------------------------------------------------------------------------------

_BITS = tuple(1 << i for i in range(8))


def pack_bits(support: Tensor) -> Tensor:
    """Pack a bool tensor [..., V] into uint8 [..., ⌈V/8⌉], an eighth of its size."""
    padded: Tensor = F.pad(support, (0, -support.shape[-1] % 8)).unflatten(-1, (-1, 8))
    weights = torch.tensor(_BITS, dtype=torch.uint8, device=support.device)
    return torch.sum(padded * weights, -1, dtype=torch.uint8)


def unpack_bits(packed: Tensor, size: int) -> Tensor:
    """Undo `pack_bits` for a vocabulary of `size`."""
    weights = torch.tensor(_BITS, dtype=torch.uint8, device=packed.device)
    return (packed.unsqueeze(-1) & weights).ne(0).flatten(-2)[..., :size]

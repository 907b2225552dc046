"""The formulas of reinforcement learning on text: tensors in, tensors out, no state.

B = batch, T = response time, V = vocabulary. `mask` [B, T] is True where a response token counts; `support` [B, T, V]
is True where the sampler could draw, and None if it could draw everything. Everything is computed in float32.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# --- Kullback-Leibler divergence -------------------------------------------------------------------------------------


def kl_k1(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return log p − log q of the drawn tokens: the unbiased one-sample estimate of KL(p‖q) [the paper's Eq. 1]."""
    return log_p - log_q


def kl_k3(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return q/p − 1 − log(q/p) of tokens drawn from p: an unbiased estimate of KL(p‖q) that is never negative."""
    log_ratio = log_q - log_p
    return log_ratio.exp() - 1.0 - log_ratio


def kl_loss(new: Tensor, reference: Tensor, log_ratio: Tensor, estimator: str, corrected: bool) -> Tensor:
    """Return an estimate of KL(π‖π_0) of the drawn tokens, [B, T], as a term of a loss.

    On samples of π_old, its gradient is that of KL(π‖π_0) at the token's position only if it is corrected: k1 and k3
    times π/π_old, k2 times that value without gradient. Without the correction and with π_old = π, k2's gradient is
    right, too; k3's is that of KL(π_0‖π), and k1's is 0 on average [Tang and Munos 2025; DeepSeek-V3.2's "unbiased KL
    estimate" is the corrected k3].

    Args:
        new: log π [B, T], with gradients.
        reference: log π_0.
        log_ratio: log π − log π_old, with gradients.
        estimator: "k1", "k2" or "k3".
        corrected: Whether to weight it by π/π_old.
    """
    if estimator == "k2":
        kl = 0.5 * (new - reference).square()
    else:
        kl = kl_k1(new, reference) if estimator == "k1" else kl_k3(new, reference)
    if not corrected:
        return kl
    ratio = log_ratio.exp()
    return kl * (ratio.detach() if estimator == "k2" else ratio)


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


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the tokens of each row that count, [B, 1]."""
    return (values * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)


def token_rewards(
    scores: Tensor, kl: Tensor, mask: Tensor, coefficient: float, token_scores: Tensor | None = None
) -> Tensor:
    """Return −β·KL at every token that counts, plus the score at the last of them, [B, T] (the paper's Eq. 1).

    Args:
        scores: [B].
        kl: [B, T] per-token estimates.
        token_scores: [B, T], the parts of the scores that belong to single tokens; the last token gets the rest.
    """
    rewards = -coefficient * kl * mask
    if token_scores is not None:
        token_scores = token_scores * mask
        rewards, scores = rewards + token_scores, scores - token_scores.sum(1)
    last = (mask.sum(1) - 1).clamp(min=0).unsqueeze(1)
    return rewards.scatter_add(1, last, (scores * mask.any(1)).unsqueeze(1).to(rewards.dtype))


def rewards_to_go(rewards: Tensor) -> Tensor:
    """Return the sum of each token's reward and those after it, [B, T]."""
    return rewards.flip(1).cumsum(1).flip(1)


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Return generalised advantage estimates and the returns they imply, both [B, T] and 0 where no token counts.

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


def clipped_policy_loss(
    new: Tensor,
    old: Tensor,
    advantages: Tensor,
    clip: float,
    clip_high: float | None = None,
    dual: float | None = None,
) -> Tensor:
    """Return the loss of each token, [B, T]: −min(r·A, clip(r, 1 − ε, 1 + ε_high)·A) with r = π_new/π_old.

    Schulman et al. (2017), Eq. 7. `clip_high` is DAPO's, else ε. With `dual` = c, the loss for a negative advantage
    is at most −c·A (Ye et al. 2020, Eq. 5).
    """
    ratio = (new - old).exp()
    high = clip if clip_high is None else clip_high
    loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1.0 - clip, 1.0 + high))
    if dual is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -dual * advantages), loss)


def ratio_figures(
    new: Tensor, old: Tensor, weights: Tensor, clip: float, clip_high: float | None = None
) -> dict[str, Tensor]:
    """Return the logged figures of the ratio r = π_new/π_old, over tokens weighted by `weights` [B, T].

    Returns:
        Weighted sums of k3's estimate of KL(old‖new) and of the tokens with r outside [1 − clip, 1 + clip_high], and
        `ratio_errors`.
    """
    new = new.detach()
    ratio = (new - old).exp()
    outside = (ratio < 1.0 - clip) | (ratio > 1.0 + (clip if clip_high is None else clip_high))
    return {
        "approx_kl": (kl_k3(old, new) * weights).sum(),
        "clip_fraction": (outside * weights).sum(),
        **ratio_errors(new - old, weights),
    }


def ratio_errors(log_ratio: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Return the largest |r − 1| and the weighted sum of |r − 1|, with r = π_new/π_old; [B, T] each."""
    error = (log_ratio.detach().exp() - 1.0).abs()
    return {"ratio_error": (error * (weights != 0)).max(), "ratio_error_mean": (error * weights).sum()}


def value_loss(values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None = None) -> Tensor:
    """Return the squared error of each value, [B, T]; with `clip`, the larger of it and the clipped value's."""
    error = (values - returns).square()
    if clip is None:
        return error
    clipped = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(error, (clipped - returns).square())


# --- scores ----------------------------------------------------------------------------------------------------------


def overlong(lengths: Tensor, limit: int, buffer: int) -> Tensor:
    """Return how far responses reach into the last `buffer` tokens before the limit, [B], from 0 to 1.

    The soft overlong penalty, without its sign [Yu et al. 2025, Eq. 13].

    Args:
        lengths: [B], tokens, the end token included.
    """
    return ((lengths.float() - (limit - buffer)) / buffer).clamp(0.0, 1.0)


def share_below(scores: Tensor, compared: Tensor) -> Tensor:
    """Return the share of the compared scores below each score, ties counting half, [B]; NaN without any to compare.

    `scores` are [B], `compared` [B, N]; NaN does not count.
    """
    comparable = ~compared.isnan()
    own = scores.unsqueeze(1)
    below = ((compared < own).float() + 0.5 * (compared == own).float()) * comparable
    return torch.where(scores.isnan(), scores, below.sum(1) / comparable.sum(1))


def tilted(share: Tensor, tilt: float) -> Tensor:
    """Return sign(t)·exp(t·u) of shares u, [B]; u itself for t = 0 [Balashankar et al. 2024, §4.3]."""
    return math.copysign(1.0, tilt) * (tilt * share).exp() if tilt else share


# --- groups of samples for one prompt ---------------------------------------------------------------------------------


def leave_one_out(scores: Tensor, size: int) -> Tensor:
    """Return each score less the mean of the others of its group, [B] (Kool et al. 2019; Ahmadian et al. 2024, Eq. 6).

    A group's scores [B] are adjacent, `size` of them, at least 2.
    """
    groups = _from_the_first(scores, size)
    other_means = (groups.sum(1, keepdim=True) - groups) / (size - 1)
    return (groups - other_means).flatten()


def centre_groups(scores: Tensor, size: int) -> Tensor:
    """Return each score less the mean of its group, [B]; exactly 0 where a group's scores are all equal."""
    groups = _from_the_first(scores, size)
    return (groups - groups.mean(1, keepdim=True)).flatten()


def standardise_groups(scores: Tensor, size: int) -> Tensor:
    """Return `centre_groups` over the group's standard deviation, [B] (Shao et al. 2024, §4.1.2).

    The deviation is the sample's, with the denominator size − 1, and 1e-4 is added to it; both as in TRL.
    """
    deviations = _from_the_first(scores, size).std(1, correction=1, keepdim=True)
    return (centre_groups(scores, size).view(-1, size) / (deviations + 1e-4)).flatten()


def judge_counted(counts: Tensor, judge: Callable[[Tensor, int], Tensor], scores: Tensor, size: int) -> Tensor:
    """Apply `judge` to the scores that count, as if the others of their groups had not been drawn; return [B].

    Args:
        counts: [B], True where a score counts; the others become 0, and so does one alone in its group.
        judge: One of the functions above.
        scores: [B], a group's scores adjacent.
        size: Scores of one group.
    """
    if counts.all():
        return judge(scores, size)
    judged = torch.zeros_like(scores, dtype=torch.float32)
    for group in torch.arange(len(scores), device=scores.device).split(size):
        rows = group[counts[group]]
        if len(rows) > 1:
            judged[rows] = judge(scores[rows], len(rows))
    return judged


def _from_the_first(scores: Tensor, size: int) -> Tensor:
    """Return scores [B / size, size] less the first of each group, so that equal scores are exactly 0."""
    groups = scores.float().view(-1, size)
    return groups - groups[:, :1]

"""Distributions over the vocabulary: supports, draws, log-probabilities and entropy of tokens.

B = batch, T = response time, V = vocabulary. `support` [B, T, V] is True for the tokens that the sampler could draw,
and None if it could draw all; it is stored bit-packed, [B, T, ⌈V/8⌉]. Everything is computed in float32.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# --- supports and draws ----------------------------------------------------------------------------------------------

SPAN = 256  # tokens whose sum or maximum is taken before single ones are looked at
LEVELS = (1e-3, 1e-4, 1e-5)  # probabilities above which a nucleus is searched
ROUNDING = 1e-5  # error allowed in a sum of probabilities


def top_k_support(logits: Tensor, k: int) -> Tensor:
    """Return where the k largest logits are, [..., V] bool; values tied with the k-th stay open together."""
    if k <= 0 or k >= logits.shape[-1]:
        return torch.ones_like(logits, dtype=torch.bool)
    return logits >= _kth_largest(logits.float().flatten(0, -2), k).view(*logits.shape[:-1], 1)


def top_p_support(logits: Tensor, p: float, min_tokens_to_keep: int = 1) -> Tensor:
    """Return the nucleus: the smallest set of likeliest tokens whose probability reaches p, [..., V] bool.

    The paper's V^p (Eq. 6). With p ≥ 1 every token is open, regardless of rounding.
    """
    if p >= 1.0:
        return torch.ones_like(logits, dtype=torch.bool)
    probabilities = logits.float().softmax(-1).flatten(0, -2)
    keep = max(1, min_tokens_to_keep)
    return _nucleus(probabilities, _likeliest(probabilities, p, keep), p, keep).view(logits.shape)


def _kth_largest(values: Tensor, k: int) -> Tensor:
    """Return the k-th largest value of each row of [N, V], [N, 1]."""
    if not values.is_cpu:
        return values.topk(k, dim=-1).values[:, -1:]
    spans = _spans(values.detach(), float("-inf"))
    if k < spans.shape[1]:  # the k largest values lie in the k spans with the largest maxima
        best = spans.amax(-1).topk(k).indices
        spans = spans.gather(1, best.unsqueeze(-1).expand(-1, -1, SPAN))
    # On a CPU numpy's partition is faster than topk.
    return torch.from_numpy(numpy.partition(spans.flatten(1).numpy(), -k, axis=-1)[:, -k, None])


def _spans(values: Tensor, fill: float) -> Tensor:
    """Split rows [N, V] into spans, the last one padded: [N, ⌈V/SPAN⌉, SPAN]; a copy only if padding is needed."""
    missing = -values.shape[-1] % SPAN
    filled = F.pad(values, (0, missing), value=fill) if missing else values
    return filled.view(len(values), -1, SPAN)


def _likeliest(probabilities: Tensor, p: float, keep: int) -> Tensor:
    """Return the largest of each row [N, V], in descending order and padded with 0: at least `keep`, and all of V^p.

    On a CPU only those are sorted that may belong: the ones above a level, if their sum reaches p; else the ones above
    half of (1 − p) / V, since all up to (1 − p) / V sum to at most 1 − p, and the half leaves room for rounding.
    """
    if not probabilities.is_cpu:
        return probabilities.sort(-1, descending=True).values
    values = probabilities.detach().numpy()
    rows = [numpy.sort(_above(row, p, keep))[::-1] for row in values]
    padded = numpy.zeros((len(rows), max(map(len, rows), default=0)), values.dtype)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(padded)


def _above(row: NDArray[numpy.float32], p: float, keep: int) -> NDArray[numpy.float32]:
    """Return those of [V] probabilities that can be among the `keep` largest or in V^p, and few others."""
    for level in LEVELS:
        some = row[row > level]
        if len(some) >= keep and some.sum() > p + ROUNDING:
            return some
    some = row[row > (1.0 - p) / (2 * len(row))]
    return some if len(some) >= keep else row


def _nucleus(probabilities: Tensor, likeliest: Tensor, p: float, keep: int) -> Tensor:
    """Return the nucleus of rows [N, V], as bool; `likeliest` [N, count] are their largest probabilities, descending.

    Of tokens tied with the last one, those with the lowest ids belong to it.
    """
    mass_before = likeliest.cumsum(-1) - likeliest
    sizes = (mass_before < p).sum(-1, keepdim=True).clamp(keep, likeliest.shape[-1])
    last = likeliest.gather(-1, sizes - 1)
    support = probabilities >= last
    tied = (support.sum(-1, keepdim=True) > sizes).squeeze(-1)
    if tied.any():
        level, above = probabilities[tied] == last[tied], probabilities[tied] > last[tied]
        missing = sizes[tied] - above.sum(-1, keepdim=True)
        support[tied] = above | (level & (level.cumsum(-1) <= missing))
    return support


def restrict(logits: Tensor, support: Tensor | None) -> Tensor:
    """Return float32 logits with minus infinity wherever the support is closed."""
    logits = logits.float()
    return logits if support is None else torch.where(support, logits, float("-inf"))


def broken(logits: Tensor) -> Tensor:
    """Return whether logits define no distribution, [..., V] → [...] bool: NaN, plus infinity or no finite number.

    Minus infinity is a probability of 0.
    """
    return ~logits.amax(-1).isfinite()


def sample(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        logits: [B, V], minus infinity where closed.
        uniforms: [B] in [0, 1), one per row, so that a row's draw does not depend on the others.

    Returns:
        [B] token ids; a closed token is never drawn. A row that is `broken` gets any id.
    """
    probabilities = logits.float().softmax(-1)
    spans = _spans(probabilities, 0.0)
    # First the span of the vocabulary, then the token in it: only sums of a few hundred numbers need double.
    until = spans.sum(-1).double().cumsum(-1)
    target = uniforms.double().unsqueeze(-1) * until[:, -1:]
    span = torch.searchsorted(until, target, right=True).clamp(max=until.shape[-1] - 1)
    inside = spans.gather(1, span.unsqueeze(-1).expand(-1, 1, SPAN)).squeeze(1).double().cumsum(-1)
    before = F.pad(until, (1, 0)).gather(-1, span)
    # Rounding must not move the target past the end of the span; the last token is then the right one.
    rest = torch.minimum(target - before, inside[:, -1:] * (1.0 - 2.0**-50))
    return (span * SPAN + torch.searchsorted(inside, rest, right=True)).squeeze(-1).clamp(max=logits.shape[-1] - 1)


# --- log-probabilities and entropy -----------------------------------------------------------------------------------

FLOOR = -87.0  # lowest logarithm taken: on a CPU, exp takes 5 to 30 times as long below, also of minus infinity
LEAST = 2e-38  # probabilities up to this, which is above exp(FLOOR), are 0
TINY = 1e-12  # probability of a support below which float32 sums over the whole vocabulary lose it
BLOCK = {"cpu": 2**18, "cuda": 2**24}  # logits processed at once; on a CPU, as many as its cache holds


class _LogProbs(torch.autograd.Function):
    """`log_probs` of tokens [N] with logits [N, V], a block of rows at a time.

    Only the logits and their gradient take memory of the vocabulary's size.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, support: Tensor | None) -> Tensor:
        out = torch.empty(len(tokens), device=logits.device)
        for rows in _blocks(logits):
            opened = _opened(logits, support, rows)
            chosen = opened.gather(-1, tokens[rows].unsqueeze(-1)).squeeze(-1)
            out[rows] = chosen - opened.logsumexp(-1)
        ctx.save_for_backward(logits, tokens, support)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits, tokens, support = ctx.saved_tensors
        out = torch.empty_like(logits)
        for rows in _blocks(logits):
            part, index = gradient[rows].unsqueeze(-1), tokens[rows].unsqueeze(-1)
            # The derivative of log π(y) is 1[token = y] − π(token); π is 0 where the support is closed.
            out[rows] = _opened(logits, support, rows).softmax(-1).mul_(-part).scatter_add_(-1, index, part)
        return out, None, None


def _blocks(logits: Tensor) -> Iterator[slice]:
    step = _block(logits)
    return (slice(start, start + step) for start in range(0, max(1, len(logits)), step))


def _block(logits: Tensor) -> int:
    """Return how many rows of [N, V] are processed at once."""
    return max(1, BLOCK.get(logits.device.type, 2**24) // logits.shape[-1])


def _opened(logits: Tensor, support: Tensor | None, rows: slice) -> Tensor:
    if support is None:
        return logits[rows].float()
    return restrict(logits[rows], _unpacked(support, rows, logits.shape[-1]))


def _unpacked(support: Tensor, rows: slice, size: int) -> Tensor:
    return support[rows] if support.dtype == torch.bool else unpack_bits(support[rows], size)


def log_probs(logits: Tensor, tokens: Tensor, support: Tensor | None = None) -> Tensor:
    """Return log π(token) [B, T], renormalised over the support; differentiable once.

    Args:
        logits: [B, T, V], already divided by the temperature.
        tokens: [B, T].
        support: As bool [B, T, V], or bit-packed.
    """
    packed = None if support is None else support.flatten(0, -2)
    out: Tensor = _LogProbs.apply(logits.flatten(0, -2), tokens.flatten(), packed)  # type: ignore[no-untyped-call]
    return out.view(tokens.shape)


def log_probs_both(logits: Tensor, tokens: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
    """Return log π(token) renormalised over the support, and over the whole vocabulary, [B, T] each.

    Equals `log_probs` with and without the support, at little more than the cost of one; differentiable once.
    """
    flat, packed = logits.flatten(0, -2), support.flatten(0, -2)
    inside, whole = _BothLogProbs.apply(flat, tokens.flatten(), packed)  # type: ignore[no-untyped-call]
    return inside.view(tokens.shape), whole.view(tokens.shape)


class _BothLogProbs(torch.autograd.Function):
    """`log_probs_both` of tokens [N] with logits [N, V], a block of rows at a time: one exponential for both sums."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
        sums = torch.empty(2, len(tokens), device=logits.device)  # log Σ exp over the support, over the vocabulary
        chosen = torch.empty_like(sums)
        for rows in _blocks(logits):
            opened = _unpacked(support, rows, logits.shape[-1])
            index = tokens[rows].unsqueeze(-1)
            part = logits[rows].float()
            top = part.amax(-1, keepdim=True)
            powers = (part - top).exp_()
            whole = powers.sum(-1)
            inside = powers.mul_(opened).sum(-1)
            sums[0, rows], sums[1, rows] = inside.log() + top[:, 0], whole.log() + top[:, 0]
            rare = inside < TINY  # float32 has lost its digits
            if rare.any():
                sums[0, rows] = torch.where(rare, restrict(part, opened).logsumexp(-1), sums[0, rows])
            chosen[1, rows] = part.gather(-1, index)[:, 0]
            chosen[0, rows] = chosen[1, rows].masked_fill(~opened.gather(-1, index)[:, 0], float("-inf"))
        ctx.save_for_backward(logits, tokens, support, sums)
        inside, whole = (chosen - sums).unbind(0)
        return inside, whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_inside: Tensor, to_whole: Tensor) -> tuple[Tensor, None, None]:
        logits, tokens, support, sums = ctx.saved_tensors
        out = torch.empty_like(logits)
        for rows in _blocks(logits):
            opened, part = _unpacked(support, rows, logits.shape[-1]), logits[rows].float()
            for_inside, for_whole = to_inside[rows].unsqueeze(-1), to_whole[rows].unsqueeze(-1)
            # ∂ log π(y) is 1[token = y] − π(token); over the support, π is 0 if closed, else larger by a factor.
            factor = (sums[1, rows] - sums[0, rows]).exp_().unsqueeze(-1)
            if factor.max() > 1.0 / TINY:
                grown = restrict(part, opened).softmax(-1).mul_(-for_inside).sub_(part.softmax(-1).mul_(for_whole))
            else:
                shares = (opened * (for_inside * factor)).add_(for_whole)
                grown = part.sub(sums[1, rows].unsqueeze(-1)).exp_().mul_(shares).neg_()
            out[rows] = grown.scatter_add_(-1, tokens[rows].unsqueeze(-1), for_inside + for_whole)
        return out, None, None


def entropy(logits: Tensor, support: Tensor | None = None) -> Tensor:
    """Return the entropy in nats of the distribution over the support (bool or bit-packed), [B, T]."""
    flat, packed = logits.flatten(0, -2), None if support is None else support.flatten(0, -2)
    out: Tensor = _Entropy.apply(flat, packed)  # type: ignore[no-untyped-call]
    return out.view(logits.shape[:-1])


class _Entropy(torch.autograd.Function):
    """`entropy` of logits [N, V], a block of rows at a time; recomputed in the backward pass instead of kept."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, support: Tensor | None) -> Tensor:
        ctx.save_for_backward(logits, support)
        return torch.cat([_entropy(_opened(logits, support, rows)) for rows in _blocks(logits)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, support = ctx.saved_tensors
        out = torch.empty_like(logits)
        for rows in _blocks(logits):
            with torch.enable_grad():
                part, packed = logits[rows].detach().requires_grad_(), None if support is None else support[rows]
                entropies = _entropy(_opened(part, packed, slice(None)))
            out[rows] = torch.autograd.grad(entropies, part, gradient[rows])[0]
        return out, None


def _entropy(logits: Tensor) -> Tensor:
    log_p = logits.log_softmax(-1).clamp(min=FLOOR)
    return -(F.threshold(log_p.exp(), LEAST, 0.0) * log_p).sum(-1)


def kl_divergence(logits: Tensor, other: Tensor) -> Tensor:
    """Return KL(p‖q) in nats of the distributions with these logits, [..., V] → [...].

    Where p is 0, a token adds nothing; where q alone is 0, the divergence is infinite.
    """
    p, q = logits.reshape(-1, logits.shape[-1]), other.reshape(-1, other.shape[-1])
    parts = zip(p.split(_block(p)), q.split(_block(p)), strict=True)
    return torch.cat([_kl_divergence(*part) for part in parts]).view(logits.shape[:-1])


def _kl_divergence(logits: Tensor, other: Tensor) -> Tensor:
    log_p, log_q = logits.float().log_softmax(-1), other.float().log_softmax(-1)
    return (log_p.exp() * (log_p - log_q).masked_fill(log_p.isneginf(), 0.0)).sum(-1)


# --- packing supports ------------------------------------------------------------------------------------------------

_BITS = tuple(1 << i for i in range(8))


def pack_bits(support: Tensor) -> Tensor:
    """Pack a bool tensor [..., V] into uint8 [..., ⌈V/8⌉], an eighth of its size."""
    missing = -support.shape[-1] % 8
    eights = (F.pad(support, (0, missing)) if missing else support).contiguous().view(torch.int64)
    # The product moves the lowest bit of the i-th byte to bit 56 + i.
    return (eights * 0x0102040810204080).bitwise_right_shift_(56).to(torch.uint8)


def unpack_bits(packed: Tensor, size: int) -> Tensor:
    """Undo `pack_bits` for a vocabulary of `size`."""
    return _eights(packed.device)[packed.int()].view(torch.bool)[..., :size]


@cache
def _eights(device: torch.device) -> Tensor:
    """Return each byte's eight bits as the eight bytes of one word, [256]."""
    bits = (torch.arange(256).unsqueeze(1) & torch.tensor(_BITS)).ne(0)
    return bits.view(torch.int64).squeeze(1).to(device)

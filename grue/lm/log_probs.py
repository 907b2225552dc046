"""Log-probabilities of drawn tokens without ever holding all logits [B, T, V].

At V = 50,257 the logits of an update and their gradient take most of its memory, at V = 262,144 also most of its time.
If the sampler left few tokens open, as with top-k, only their logits are computed: K rows of the head instead of V.
Otherwise the head's rows are taken a block at a time, and each block of its gradient is written once. The backward pass
computes the logits again if `chunk` is set; else they are kept, and only their gradient is never whole.

B = batch, P = prompt length, T = response time, V = vocabulary, H = hidden size, N = tokens that count, K = the most
tokens that were open at one position.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.lm import distributions
from grue.lm.forward import forward, of_responses
from grue.lm.model import is_seq2seq, is_wide, language_head, vocabulary_size
from grue.lm.tokens import Tokens

ALL_OPEN = 0xFF  # eight bits of a packed support
FEW = 256  # largest K, since each token's K rows of the head are copied
BLOCK = {"cpu": 2**21, "cuda": 2**25}  # logits of a block; on a CPU, few enough to stay near its cache


@dataclass(frozen=True, slots=True)
class TokenLogProbs:
    """A model's scores of drawn tokens, each [B, T] in float32, 0 where no token counts.

    Attributes:
        plain: log π over the whole vocabulary; None unless requested.
        restricted: log π renormalised over the support.
        entropy: Of the restricted distribution, in nats; None unless requested.
        states: Last hidden states [B, T, H], for a critic that shares the trunk; None unless requested.
        values: A critic's; None until one has given them.
    """

    plain: Tensor | None
    restricted: Tensor
    entropy: Tensor | None
    states: Tensor | None = None
    values: Tensor | None = None

    @property
    def log_mass(self) -> Tensor:
        """The log of the probability inside the support, which renormalising subtracts."""
        return self.over("vocabulary") - self.restricted

    def over(self, domain: str) -> Tensor:
        """Return the log-probabilities over the "support" or the "vocabulary"."""
        if domain == "support":
            return self.restricted
        assert self.plain is not None, "log-probabilities over the vocabulary were not requested"
        return self.plain

    def part(self, rows: Tensor, length: int) -> "TokenLogProbs":
        """Return the scores of some rows and the first `length` tokens."""
        values = (getattr(self, name) for name in self.__slots__)
        parts = (None if value is None else value[rows, :length] for value in values)
        return TokenLogProbs(*parts)  # type: ignore[arg-type]


def token_log_probs(
    model: PreTrainedModel,
    prompts: Tokens,
    responses: Tokens,
    temperature: float,
    support: Tensor | None = None,
    *,
    chunk: int = 0,
    want_plain: bool = True,
    want_entropy: bool = False,
    want_states: bool = False,
    encoded: Tensor | None = None,
) -> TokenLogProbs:
    """Score the tokens of responses; with gradients if enabled.

    Args:
        support: Bit-packed [B, T, ⌈V/8⌉] of the same rows and tokens, True where the vocabulary was open.
        chunk: Tokens whose logits are held at once; 0 keeps all.
        encoded: [B, P, H], see `encode`.
    """
    mask = responses.mask
    packed = None if support is None else support[mask]
    few = None if packed is None else open_tokens(model, packed)
    if few is not None or chunk or (is_wide(model) and has_plain_head(model)):
        inputs, head, states = response_states_and_head(model, prompts, responses, want_states, encoded)
        inputs, ids = inputs[mask], responses.ids[mask]
        if few is None:
            columns = head.scores(inputs, ids, packed, temperature, chunk, want_plain, want_entropy)
        else:
            columns = _few_scores(head.few(inputs, few[0]) / temperature, ids, *few)
            if want_plain:
                columns.insert(1, head.scores(inputs, ids, None, temperature, chunk, False, False)[0])
            columns = columns[: 1 + want_plain + want_entropy]
        scores = torch.stack(columns, -1)
        empty = scores.new_zeros(*mask.shape, scores.shape[-1])
        parts = list(empty.masked_scatter(mask.unsqueeze(-1), scores).unbind(-1))
    else:
        logits, states = forward(model, prompts, responses, want_states, encoded)
        if support is not None:  # else, if no token counts and all are closed, the gradient would be NaN
            support = support.masked_fill(~mask.unsqueeze(-1), ALL_OPEN)
        # After a row's end, its stored token may be closed, with a log-probability of minus infinity: mask it instead
        # of multiplying by 0.
        parts = token_scores(logits, responses.ids, support, temperature, want_plain, want_entropy)
        parts = [part.masked_fill(~mask, 0.0) for part in parts]
    restricted, *more = parts
    return TokenLogProbs(more[0] if want_plain else None, restricted, more[-1] if want_entropy else None, states)


def token_scores(
    logits: Tensor, tokens: Tensor, support: Tensor | None, temperature: float, want_plain: bool, want_entropy: bool
) -> list[Tensor]:
    """Return restricted and, if requested, plain log-probability and entropy of tokens [...] with logits [..., V]."""
    if temperature != 1.0:
        logits = logits.float() / temperature
    if want_plain and support is not None:
        scores = list(distributions.log_probs_both(logits, tokens, support))
    else:
        scores = [distributions.log_probs(logits, tokens, support)] * (2 if want_plain else 1)
    return [*scores, *([distributions.entropy(logits, support)] if want_entropy else [])]


def open_tokens(model: PreTrainedModel, packed: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the tokens that each support leaves open, if they are few and their logits can be computed alone.

    They are ids [N, K], ascending, and which of them count, [N, K], of bit-packed supports [N, ⌈V/8⌉]; None if all
    logits must be computed.
    """
    if not is_wide(model) or not len(packed) or not has_plain_head(model):
        return None
    if int(packed.count_nonzero()) > FEW * len(packed):  # seen at once, where listing them would cost much
        return None
    rows, eights = packed.nonzero(as_tuple=True)
    bits = distributions.unpack_bits(packed[rows, eights].unsqueeze(-1), 8)
    sizes = torch.zeros(len(packed), dtype=torch.long, device=packed.device).index_add_(0, rows, bits.sum(-1))
    width = int(sizes.max())
    if width > FEW or int(sizes.min()) == 0:
        return None
    counts = torch.arange(width, device=packed.device) < sizes.unsqueeze(-1)
    ids = (eights.unsqueeze(-1) * 8 + torch.arange(8, device=packed.device))[bits]
    return torch.zeros_like(counts, dtype=torch.long).masked_scatter_(counts, ids), counts


def _few_scores(logits: Tensor, tokens: Tensor, ids: Tensor, counts: Tensor) -> list[Tensor]:
    """Return log-probability [N] and entropy [N] over the open tokens, from their logits [N, K]."""
    log_p = logits.masked_fill(~counts, float("-inf")).log_softmax(-1)
    drawn = counts & (ids == tokens.unsqueeze(-1))
    chosen = torch.where(drawn, log_p, 0.0).sum(-1).masked_fill(~drawn.any(-1), float("-inf"))
    return [chosen, -(log_p.exp() * log_p.masked_fill(~counts, 0.0)).sum(-1)]


@dataclass(frozen=True, slots=True)
class Head:
    """Maps states [..., H] to logits [..., V]: the language head, with a model's bias and cap of its output."""

    layer: nn.Linear
    bias: Tensor | None
    cap: float | None

    def __call__(self, states: Tensor) -> Tensor:
        """Return all logits, [..., V]."""
        logits: Tensor = self.layer(states)
        return self._capped(logits if self.bias is None else logits + self.bias[0])

    def scores(
        self,
        states: Tensor,
        tokens: Tensor,
        support: Tensor | None,
        temperature: float,
        chunk: int,
        want_plain: bool,
        want_entropy: bool,
    ) -> list[Tensor]:
        """Return the `token_scores` of tokens [N] at states [N, H] with a bit-packed support; see `token_log_probs`."""
        bias: Tensor | None = self.layer.bias
        weight, device = self.layer.weight, states.device.type
        if self.bias is not None:
            bias = self.bias[0] if bias is None else bias + self.bias[0]
        if torch.is_autocast_enabled(device):
            states = states.to(torch.get_autocast_dtype(device))
        logits = BLOCK.get(device, 2**25)
        columns = (min(logits, chunk * len(weight)) if chunk else logits) // max(1, len(tokens)) // 8 * 8
        keep = not chunk and torch.is_grad_enabled()
        plan = _Plan(max(8, columns), keep, temperature, self.cap, want_plain and support is not None, want_entropy)
        inside, whole, entropy = _Scores.apply(states, weight, bias, tokens, support, plan)  # type: ignore[no-untyped-call]
        plain = [inside if support is None else whole] if want_plain else []
        return [inside, *plain, *([entropy] if want_entropy else [])]

    def few(self, states: Tensor, ids: Tensor) -> Tensor:
        """Return the logits of tokens ids [N, K] at states [N, H], [N, K]; in float32, which costs little for few."""
        with torch.autocast(states.device.type, enabled=False):
            logits = (self.layer.weight[ids].float() @ states.float().unsqueeze(-1)).squeeze(-1)
            for bias in (self.layer.bias, None if self.bias is None else self.bias[0]):
                logits = logits if bias is None else logits + bias[ids]
            return self._capped(logits)

    def _capped(self, logits: Tensor) -> Tensor:
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How `_Scores` goes about it: columns of a block, a multiple of 8; whether it keeps logits; what it computes."""

    columns: int
    keep: bool
    temperature: float
    cap: float | None
    whole: bool
    entropy: bool

    def blocks(self, weight: Tensor) -> list[slice]:
        """Return the blocks of the vocabulary, the rows of the head."""
        return [slice(start, start + self.columns) for start in range(0, len(weight), self.columns)]

    def logits(
        self,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        support: Tensor | None,
        part: slice,
        raw: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a block of logits [N, columns], as the head gives them, as they are scored, and over the support."""
        if raw is None:
            raw = nn.functional.linear(
                states, weight[part].to(states.dtype), None if bias is None else bias[part].to(states.dtype)
            )
        logits = raw.float()
        if self.cap is not None:
            logits = self.cap * torch.tanh(logits / self.cap)
        if self.temperature != 1.0:
            logits = logits / self.temperature
        if support is None:
            return raw, logits, logits
        opened = distributions.unpack_bits(support[:, part.start // 8 : part.stop // 8], logits.shape[-1])
        return raw, logits, distributions.restrict(logits, opened)


class _Scores(torch.autograd.Function):
    """Scores of tokens [N] at the head's inputs [N, H], over blocks of the vocabulary; see `Head.scores`.

    Sums over the vocabulary are relative to the largest logit so far, as in Milakov and Gimelshein (2018).
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tokens: Tensor,
        support: Tensor | None,
        plan: _Plan,
    ) -> tuple[Tensor, Tensor, Tensor]:
        inside, whole = _Sum(len(tokens), states.device), _Sum(len(tokens), states.device)
        drawn, kept = torch.full((2, len(tokens)), float("-inf"), device=states.device), []
        for part in plan.blocks(weight):
            raw, logits, opened = plan.logits(states, weight, bias, support, part)
            if plan.keep:
                kept.append(raw)
            inside.add(opened, plan.entropy)
            if plan.whole:
                whole.add(logits, False)
            here, index = _places(tokens, part)
            for row, values in zip(drawn, (opened, logits), strict=True):
                row.copy_(torch.where(here, values.gather(1, index)[:, 0], row))
        log_inside, log_whole, entropy = inside.log(), whole.log(), inside.entropy()
        ctx.plan = plan
        ctx.save_for_backward(states, weight, bias, tokens, support, log_inside, log_whole, entropy, *kept)
        return drawn[0] - log_inside, drawn[1] - log_whole, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_inside: Tensor, to_whole: Tensor, to_entropy: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, bias, tokens, support, log_inside, log_whole, entropy, *kept = ctx.saved_tensors
        plan, (_, of_weight, of_bias, *_) = ctx.plan, ctx.needs_input_grad
        to_states = torch.zeros_like(states, dtype=torch.float32)
        to_weight = torch.empty_like(weight) if of_weight else None
        to_bias = torch.empty_like(bias) if of_bias else None
        for part in plan.blocks(weight):
            raw = kept[part.start // plan.columns] if kept else None
            _, logits, opened = plan.logits(states, weight, bias, support, part, raw)
            surprise = (opened - log_inside.unsqueeze(-1)).clamp_(min=distributions.FLOOR)
            grown = nn.functional.threshold(surprise.exp(), distributions.LEAST, 0.0, inplace=True)
            # ∂ log π(y) is 1[token = y] − π(token), ∂ entropy −π(token)·(log π(token) + entropy).
            if plan.entropy:
                surprise.add_(entropy.unsqueeze(-1)).mul_(to_entropy.unsqueeze(-1))
                grown.mul_(surprise.add_(to_inside.unsqueeze(-1))).neg_()
            else:
                grown.mul_(-to_inside.unsqueeze(-1))
            here, index = _places(tokens, part)
            total = to_inside
            if plan.whole:
                grown.sub_((logits - log_whole.unsqueeze(-1)).exp_().mul_(to_whole.unsqueeze(-1)))
                total = to_inside + to_whole
            grown.scatter_add_(1, index, (total * here).unsqueeze(-1)).div_(plan.temperature)
            if plan.cap is not None:
                grown.mul_(1.0 - (logits * (plan.temperature / plan.cap)).square_())
            if to_bias is not None:
                to_bias[part] = grown.sum(0)
            grown = grown.to(states.dtype)
            to_states += grown @ weight[part].to(states.dtype)
            if to_weight is not None:
                to_weight[part] = grown.T @ states
        return to_states.to(states.dtype), to_weight, to_bias, None, None, None


class _Sum:
    """Σ exp(z) and Σ z·exp(z) of rows that come in blocks of columns."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.top = torch.full((rows,), torch.finfo(torch.float32).min, device=device)
        self.total, self.weighted = torch.zeros_like(self.top), torch.zeros_like(self.top)

    def add(self, logits: Tensor, weighted: bool) -> None:
        """Add columns [N, columns]; minus infinity adds nothing."""
        top = torch.maximum(self.top, logits.amax(-1))
        below, shift = (logits - top.unsqueeze(-1)).clamp_(min=distributions.FLOOR), self.top - top
        powers, scale = below.exp(), shift.exp()
        if weighted:
            self.weighted = (self.weighted + self.total * shift) * scale + below.mul_(powers).sum(-1)
        self.top, self.total = top, self.total * scale + powers.sum(-1)

    def log(self) -> Tensor:
        """Return log Σ exp(z), [N]."""
        return self.total.log() + self.top

    def entropy(self) -> Tensor:
        """Return the entropy of the distribution with these logits, [N]."""
        return self.total.log() - self.weighted / self.total


def _places(tokens: Tensor, part: slice) -> tuple[Tensor, Tensor]:
    """Return which tokens lie in a block, [N], and their places in it, [N, 1]; 0 for the others."""
    here = (tokens >= part.start) & (tokens < part.stop)
    return here, ((tokens - part.start) * here).unsqueeze(-1)


def response_states_and_head(
    model: PreTrainedModel, prompts: Tokens, responses: Tokens, want_states: bool = False, encoded: Tensor | None = None
) -> tuple[Tensor, Head, Tensor | None]:
    """Run the model up to its language head.

    Returns:
        The head's input [B, T, H]; the head; and with
        `want_states` the last hidden states [B, T, H] (T5 scales them before its head reads them).
    """
    layer = language_head(model)
    captured: list[Tensor] = []

    def keep(module: object, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        captured.append(inputs[0])
        return (inputs[0][:0, -1:], *inputs[1:])  # its output is not used

    handle = layer.register_forward_pre_hook(keep)
    try:
        _, states = forward(model, prompts, responses, want_states, encoded)
    finally:
        handle.remove()
    length = responses.ids.shape[1]
    inputs = captured[0] if is_seq2seq(model) else of_responses(captured[0], length)
    return inputs, _head(model), states


def _head(model: PreTrainedModel) -> Head:
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return Head(language_head(model), getattr(model, "final_logits_bias", None), cap)


_separable: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


def has_plain_head(model: PreTrainedModel) -> bool:
    """Whether rows of the head give single logits: it is not adapted or sharded, and `Head` covers all after it."""
    layer = language_head(model)
    if type(layer) is not nn.Linear or type(layer.weight.data) is not Tensor:
        return False
    if model not in _separable:
        _separable[model] = _head_is_separable(model)
    return _separable[model]


@torch.no_grad()
def _head_is_separable(model: PreTrainedModel) -> bool:
    ids = torch.arange(3, 7, device=model.device).reshape(2, 2) % vocabulary_size(model)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    captured: list[Tensor] = []
    handle = language_head(model).register_forward_pre_hook(lambda _, inputs: captured.append(inputs[0]))
    with torch.autocast(model.device.type, enabled=False):
        try:
            whole, _ = forward(model, tokens, tokens)
        finally:
            handle.remove()
        apart = _head(model)(captured[0])
    whole, apart = (of_responses(logits, ids.shape[1]) for logits in (whole, apart))
    return apart.shape == whole.shape and torch.allclose(apart, whole, rtol=1e-3, atol=1e-3)


def assert_head_is_separable(model: PreTrainedModel) -> None:
    """Refuse a model that changes its logits after the head in a way that `Head` does not cover.

    Raises:
        ConfigError: Log-probabilities in chunks would differ from the model's.
    """
    if not _head_is_separable(model):
        raise ConfigError(
            f"log_prob_chunk: {type(model).__name__} changes its logits after the language head in an unknown way, so "
            "they cannot be computed in chunks; set log_prob_chunk = 0."
        )

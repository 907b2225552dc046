"""Log-probabilities of drawn tokens without ever holding all logits [B, T, V].

At V = 50,257 the logits of an update and their gradient take most of its memory, at V = 262,144 also most of its time.
If the sampler left few tokens open, as with top-k, only their logits are computed: K rows of the head instead of V.
Otherwise the head can run over `chunk` tokens at a time; the backward pass recomputes its output instead of keeping it.

B = batch, P = prompt length, T = response time, V = vocabulary, H = hidden size, N = tokens that count, K = the most
tokens that were open at one position.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.lm import distributions
from grue.lm.forward import forward, of_responses
from grue.lm.model import is_seq2seq, is_wide, language_head, vocabulary_size
from grue.lm.tokens import Tokens

ALL_OPEN = 0xFF  # eight bits of a packed support
FEW = 256  # largest K, since each token's K rows of the head are copied


@dataclass(frozen=True, slots=True)
class TokenLogProbs:
    """A model's scores of drawn tokens, each [B, T] in float32, 0 where no token counts.

    Attributes:
        plain: log π over the whole vocabulary; None unless requested.
        restricted: log π renormalised over the support.
        entropy: Of the restricted distribution, in nats; None unless requested.
        states: Last hidden states [B, T, H], for a critic that shares the trunk; None unless requested.
    """

    plain: Tensor | None
    restricted: Tensor
    entropy: Tensor | None
    states: Tensor | None

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
        chunk: Tokens whose logits are held at once; 0 computes all logits at once.
        encoded: [B, P, H], see `encode`.
    """
    mask = responses.mask
    packed = None if support is None else support[mask]
    few = None if packed is None else open_tokens(model, packed)
    if few is not None or chunk:
        inputs, head, states = response_states_and_head(model, prompts, responses, want_states, encoded)
        inputs, ids = inputs[mask], responses.ids[mask]
        score = partial(token_scores, temperature=temperature, want_plain=want_plain, want_entropy=want_entropy)
        if few is None:
            scores = _in_chunks(head, inputs, ids, packed, score, chunk)
        else:
            columns = _few_scores(head.few(inputs, few[0]) / temperature, ids, *few)
            plain = partial(token_scores, temperature=temperature, want_plain=False, want_entropy=False)
            more = [_in_chunks(head, inputs, ids, None, plain, chunk or len(ids))[:, 0]] if want_plain else []
            scores = torch.stack([columns[0], *more, *columns[1:][:want_entropy]], -1)
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


def _in_chunks(
    head: "Head",
    inputs: Tensor,
    tokens: Tensor,
    support: Tensor | None,
    score: Callable[[Tensor, Tensor, Tensor | None], list[Tensor]],
    chunk: int,
) -> Tensor:
    """Return the scores of inputs [N, H] and tokens [N], stacked to [N, number of scores]."""

    def scores(inputs: Tensor, tokens: Tensor, support: Tensor | None) -> Tensor:
        return torch.stack(score(head(inputs), tokens, support), -1)

    parts = []
    for start in range(0, max(1, len(tokens)), chunk):
        part = slice(start, start + chunk)
        arguments = (inputs[part], tokens[part], None if support is None else support[part])
        if torch.is_grad_enabled():
            parts.append(checkpoint(scores, *arguments, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(scores(*arguments))
    return torch.cat(parts)


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

    def few(self, states: Tensor, ids: Tensor) -> Tensor:
        """Return the logits of tokens ids [N, K] at states [N, H], [N, K]; in float32, which costs little for few."""
        with torch.autocast(states.device.type, enabled=False):
            logits = (self.layer.weight[ids].float() @ states.float().unsqueeze(-1)).squeeze(-1)
            for bias in (self.layer.bias, None if self.bias is None else self.bias[0]):
                logits = logits if bias is None else logits + bias[ids]
            return self._capped(logits)

    def _capped(self, logits: Tensor) -> Tensor:
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


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
        return (inputs[0][:, -1:], *inputs[1:])  # computes unused logits of one position

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

"""Log-probabilities of drawn tokens without ever holding all logits [B, T, V].

At V = 50,257 the logits of an update and their gradient take most of its memory. Here the language head runs over
`chunk` tokens at a time; the backward pass recomputes it instead of keeping its output.

B = batch, P = prompt length, T = response time, V = vocabulary, H = hidden size, N = tokens that count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.lm import distributions
from grue.lm.forward import forward, of_responses
from grue.lm.model import is_seq2seq, language_head, vocabulary_size
from grue.lm.tokens import Tokens

Head = Callable[[Tensor], Tensor]
ALL_OPEN = 0xFF  # eight bits of a packed support


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
        """Return those of some rows and the first `length` tokens."""
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
    if chunk:
        inputs, head, states = response_states_and_head(model, prompts, responses, want_states, encoded)
        packed = None if support is None else support[mask]
        score = partial(token_scores, temperature=temperature, want_plain=want_plain, want_entropy=want_entropy)
        scores = _in_chunks(head, inputs[mask], responses.ids[mask], packed, score, chunk)
        empty = scores.new_zeros(*mask.shape, scores.shape[-1])
        parts = list(empty.masked_scatter(mask.unsqueeze(-1), scores).unbind(-1))
    else:
        logits, states = forward(model, prompts, responses, want_states, encoded)
        if support is not None:  # where no token counts all may be closed, and the gradient would be NaN
            support = support.masked_fill(~mask.unsqueeze(-1), ALL_OPEN)
        # After the end a row's stored token may be closed. Its log-probability is then minus infinity, so it is masked
        # rather than multiplied by 0.
        parts = token_scores(logits, responses.ids, support, temperature, want_plain, want_entropy)
        parts = [part.masked_fill(~mask, 0.0) for part in parts]
    restricted, *more = parts
    return TokenLogProbs(more[0] if want_plain else None, restricted, more[-1] if want_entropy else None, states)


def token_scores(
    logits: Tensor, tokens: Tensor, support: Tensor | None, temperature: float, want_plain: bool, want_entropy: bool
) -> list[Tensor]:
    """Return restricted and, if wanted, plain log-probability and entropy of tokens [...] with logits [..., V]."""
    if temperature != 1.0:
        logits = logits.float() / temperature
    if want_plain and support is not None:
        found = list(distributions.log_probs_both(logits, tokens, support))
    else:
        found = [distributions.log_probs(logits, tokens, support)] * (2 if want_plain else 1)
    return [*found, *([distributions.entropy(logits, support)] if want_entropy else [])]


def _in_chunks(
    head: Head,
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
        given = (inputs[part], tokens[part], None if support is None else support[part])
        if torch.is_grad_enabled():
            parts.append(checkpoint(scores, *given, use_reentrant=False, preserve_rng_state=False))
        else:
            parts.append(scores(*given))
    return torch.cat(parts)


def response_states_and_head(
    model: PreTrainedModel, prompts: Tokens, responses: Tokens, want_states: bool = False, encoded: Tensor | None = None
) -> tuple[Tensor, Head, Tensor | None]:
    """Run the model up to its language head.

    Returns:
        The head's input [B, T, H]; the rest of the model, a function from [..., H] to logits [..., V]; and with
        `want_states` the last hidden states [B, T, H] (T5 scales them before its head reads them).
    """
    layer = language_head(model)
    captured: list[Tensor] = []

    def keep(module: object, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        captured.append(inputs[0])
        return (inputs[0][:, -1:], *inputs[1:])  # logits of one position, which are not used

    handle = layer.register_forward_pre_hook(keep)
    try:
        _, states = forward(model, prompts, responses, want_states, encoded)
    finally:
        handle.remove()
    length = responses.ids.shape[1]
    inputs = captured[0] if is_seq2seq(model) else of_responses(captured[0], length)
    bias = getattr(model, "final_logits_bias", None)
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)

    def head(states: Tensor) -> Tensor:
        logits: Tensor = layer(states)
        if bias is not None:
            logits = logits + bias[0]
        return logits if cap is None else cap * torch.tanh(logits / cap)

    return inputs, head, states


@torch.no_grad()
def assert_head_is_separable(model: PreTrainedModel) -> None:
    """Refuse a model that changes its logits after the head in a way that `response_states_and_head` does not know.

    Raises:
        ConfigError: Log-probabilities in chunks would differ from the model's.
    """
    ids = torch.arange(3, 7, device=model.device).reshape(2, 2) % vocabulary_size(model)
    tokens = Tokens(ids, torch.ones_like(ids, dtype=torch.bool))
    whole, _ = forward(model, tokens, tokens)
    inputs, head, _ = response_states_and_head(model, tokens, tokens)
    apart = head(inputs)
    if apart.shape != whole.shape or not torch.allclose(apart, whole, rtol=1e-3, atol=1e-3):
        raise ConfigError(
            f"log_prob_chunk: {type(model).__name__} changes its logits after the language head in an unknown way, so "
            "they cannot be computed in chunks; set log_prob_chunk = 0."
        )

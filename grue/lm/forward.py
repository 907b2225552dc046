"""Forward passes of a language model, causal or encoder-decoder: from prompts to logits and states of the response.

B = batch, P = prompt length, T = response time, V = vocabulary, H = hidden size.

V is the number of rows of the language head, which may exceed the tokenizer's size (T5 pads its head to 32,128): the
extra ids are actions like any other and decode to nothing, as in Hugging Face's `generate`.
"""

from contextlib import AbstractContextManager
from copy import copy
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast

from grue.lm import distributions
from grue.lm.model import dropout_rates, is_seq2seq, is_wide, recomputes, start_id
from grue.lm.tokens import Tokens


def encode(model: PreTrainedModel, prompts: Tokens) -> Tensor:
    """Return the encoder's states of right-padded prompts, [B, P, H]; a prompt that occurs several times is read once.

    If the encoder is frozen, they can be computed once and passed to the functions below as `encoded`, for selected
    rows as `encoded[rows]`, whatever the length of their longest prompt.
    """
    # An encoder has no cache, but transformers would warn that checkpointing disables it.
    settings = {"use_cache": False} if model.training else {}
    dropping = model.training and any(map(dropout_rates, model.modules()))  # then copies differ
    shared = None if dropping else _shared(prompts)
    once = prompts if shared is None else shared[0]
    out = model.get_encoder()(once.ids, attention_mask=once.mask.long(), **settings)
    states: Tensor = out.last_hidden_state
    return states if shared is None else states.index_select(0, shared[1])


def _shared(prompts: Tokens) -> tuple[Tokens, Tensor] | None:
    """Return each different prompt once, and the place of every prompt among them [B]; None if all are different."""
    both, places = torch.stack([prompts.ids, prompts.mask.to(prompts.ids.dtype)], 1).unique(dim=0, return_inverse=True)
    return (Tokens(both[:, 0], both[:, 1].bool()), places) if len(both) < len(places) else None


def forward(
    model: PreTrainedModel, prompts: Tokens, responses: Tokens, states: bool = False, encoded: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Run the model over prompts and responses.

    Returns:
        Logits [B, T, V], where those at t predict response token t, and with `states` the last hidden states
        [B, T, H] that they are computed from.
    """
    if is_seq2seq(model):
        inputs = _seq2seq_inputs(model, prompts, responses, encoded)
        out = model(**inputs, use_cache=False, output_hidden_states=states)
        return out.logits, out.decoder_hidden_states[-1] if states else None
    length = responses.ids.shape[1]
    inputs = _causal_inputs(prompts, responses)
    # Exactly the positions before each response token; slicing the logits would cost two copies in the backward pass.
    last = inputs["input_ids"].shape[1] - 1
    keep = torch.arange(last - length, last, device=model.device)
    out = model(**inputs, use_cache=False, output_hidden_states=states, logits_to_keep=keep)
    return of_responses(out.logits, length), out.hidden_states[-1][:, -length - 1 : -1] if states else None


def of_responses(values: Tensor, length: int) -> Tensor:
    """Cut [B, L, ...] to the positions before each response token; some models ignore `logits_to_keep`."""
    return values if values.shape[1] == length else values[:, -length - 1 : -1]


def trunk_states(model: PreTrainedModel, prompts: Tokens, responses: Tokens, encoded: Tensor | None = None) -> Tensor:
    """Return only the last hidden states [B, T, H]: `forward` without the cost of the vocabulary."""
    if is_seq2seq(model):
        inputs = _seq2seq_inputs(model, prompts, responses, encoded)
        decoded = model.get_decoder().base_model(
            input_ids=inputs["decoder_input_ids"],
            encoder_hidden_states=inputs["encoder_outputs"].last_hidden_state,
            encoder_attention_mask=inputs["attention_mask"],
            use_cache=False,
        )
        decoder_states: Tensor = decoded.last_hidden_state
        return decoder_states
    length = responses.ids.shape[1]
    out = model.base_model(**_causal_inputs(prompts, responses), use_cache=False)
    states: Tensor = out.last_hidden_state
    return states[:, -length - 1 : -1]


@torch.no_grad()
def kl_divergence(
    policy: PreTrainedModel, other: AbstractContextManager[PreTrainedModel], prompts: Tokens, responses: Tokens
) -> Tensor:
    """Return KL(policy ‖ other) of each response, [B] in nats: the sum over its tokens of Σ_v π(v) log π(v)/π₀(v).

    The mean over responses that the policy drew at temperature 1 is an unbiased estimate of the KL of whole responses.
    It is never negative and has less variance than the sum of the drawn tokens' log-ratios, since only the contexts are
    sampled. `other` yields the model to compare with, which may be the policy without its adapter.
    """
    now, _ = forward(policy, prompts, responses)
    with other as model:
        before, _ = forward(model, prompts, responses)
    return distributions.kl_divergence(now, before).masked_fill(~responses.mask, 0.0).sum(1)


def _causal_inputs(prompts: Tokens, responses: Tokens) -> dict[str, Tensor]:
    attention = torch.cat([prompts.mask, responses.mask], dim=1).long()
    return {
        "input_ids": torch.cat([prompts.ids, responses.ids], dim=1),
        "attention_mask": attention,
        "position_ids": (attention.cumsum(1) - 1).clamp(min=0),
    }


def _seq2seq_inputs(
    model: PreTrainedModel, prompts: Tokens, responses: Tokens, encoded: Tensor | None
) -> dict[str, Any]:
    start = torch.full_like(responses.ids[:, :1], start_id(model))
    return {
        "encoder_outputs": _encoder_outputs(model, prompts, encoded),
        "attention_mask": prompts.mask.long(),
        "decoder_input_ids": torch.cat([start, responses.ids[:, :-1]], dim=1),
    }


def _encoder_outputs(model: PreTrainedModel, prompts: Tokens, encoded: Tensor | None) -> BaseModelOutput:
    states = encode(model, prompts) if encoded is None else encoded[:, : prompts.ids.shape[1]]
    return BaseModelOutput(last_hidden_state=states)


INDEXED = (DynamicLayer, DynamicSlidingWindowLayer)  # layers of a cache that hold only keys and values
CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"  # before 5.24


class Steps:
    """Decodes step by step with a key-value cache of its own; with `states`, last hidden states are returned, too."""

    def __init__(
        self, model: PreTrainedModel, prompts: Tokens, states: bool = False, encoded: Tensor | None = None
    ) -> None:
        # Checkpointing is active in training mode only, where it disables caches.
        assert not (model.training and recomputes(model)), "decoding step by step needs evaluation mode"
        self.model, self.prompts, self.states = model, prompts, states
        self.attention = prompts.mask.long()
        self.encoder = _encoder_outputs(model, prompts, encoded) if is_seq2seq(model) else None
        self.cache: Any = None
        # Equal prompts share a pass, but not where that would change rounding for little.
        self.shared = _shared(prompts) if is_wide(model) and self.encoder is None else None

    def __call__(self, drawn: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the logits [B, V] of the next token, and with `states` the last hidden state [B, H] behind them.

        Args:
            drawn: The tokens drawn last, [B]; None at the first step.
        """
        if drawn is None and self.shared is not None:
            prompts, places = self.shared
            once = Steps(self.model, prompts, self.states)
            logits, last = once(None)
            if once.droppable:
                once.keep(places)
                self.cache = once.cache
                return logits[places], None if last is None else last[places]
        inputs = self._causal_inputs(drawn) if self.encoder is None else self._seq2seq_inputs(drawn, self.encoder)
        out = self.model(**inputs, **{CACHE: self.cache}, use_cache=True, output_hidden_states=self.states)
        self.cache = getattr(out, CACHE, None)
        hidden = None
        if self.states:
            hidden = (out.hidden_states if self.encoder is None else out.decoder_hidden_states)[-1][:, -1]
        return out.logits[:, -1], hidden

    def _causal_inputs(self, drawn: Tensor | None) -> dict[str, Any]:
        if drawn is None:
            ids, positions = self.prompts.ids, (self.attention.cumsum(1) - 1).clamp(min=0)
        else:
            # A finished row continues with the others; its logits are not used.
            self.attention = torch.cat([self.attention, torch.ones_like(self.attention[:, :1])], dim=1)
            ids, positions = drawn.unsqueeze(1), self.attention.sum(1, keepdim=True) - 1
        return {"input_ids": ids, "attention_mask": self.attention, "position_ids": positions, "logits_to_keep": 1}

    def _seq2seq_inputs(self, drawn: Tensor | None, encoder: BaseModelOutput) -> dict[str, Any]:
        last = torch.full_like(self.prompts.ids[:, 0], start_id(self.model)) if drawn is None else drawn
        return {
            "encoder_outputs": encoder,
            "attention_mask": self.attention,
            "decoder_input_ids": last.unsqueeze(1),
        }

    @property
    def droppable(self) -> bool:
        """Whether rows can leave the batch: a cache with states of linear attention, say, cannot be indexed."""
        both = isinstance(self.cache, EncoderDecoderCache)
        caches = (self.cache.self_attention_cache, self.cache.cross_attention_cache) if both else (self.cache,)
        return all(type(layer) in INDEXED for cache in caches for layer in getattr(cache, "layers", [None]))

    def fork(self, rows: Tensor) -> "Steps":
        """Return steps that go on from here with these rows, [b] indices that may repeat; these steps stay as they are.

        Keys and values are copied once.
        """
        other = copy(self)
        other.cache = _shallow(self.cache)
        other.keep(rows)
        return other

    def keep(self, rows: Tensor) -> None:
        """Continue with only these rows of the batch, [b] indices."""
        self.cache.batch_select_indices(rows)
        self.attention = self.attention[rows]
        if self.encoder is not None:
            states = self.encoder.last_hidden_state
            assert states is not None
            self.encoder = BaseModelOutput(last_hidden_state=states[rows])


def _shallow(cache: Any) -> Any:
    """Return a cache whose layers can be indexed without changing the other's."""
    other = copy(cache)
    if isinstance(cache, EncoderDecoderCache):
        other.self_attention_cache = _shallow(cache.self_attention_cache)
        other.cross_attention_cache = _shallow(cache.cross_attention_cache)
        other.is_updated = dict(cache.is_updated)
    else:
        other.layers = [copy(layer) for layer in cache.layers]
    return other

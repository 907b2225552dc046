"""Causal and encoder-decoder language models seen alike: prompts in, logits and states of the response out.

B = batch, P = prompt length, T = response time, V = vocabulary, H = hidden size. What counts is always carried as a
mask by position and never read off the ids, since a model's pad token may be its end-of-text token.

V is the number of rows of the language head. A head may be larger than its tokenizer (T5 pads its own to 32,128): the
ids in excess are actions like any other and decode to nothing, as in Hugging Face's `generate`.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from grue.errors import ConfigError
from grue.tasks import Prompt, Task


@dataclass(frozen=True, slots=True)
class Tokens:
    """A batch of sequences: ids [B, L] and mask [B, L], True where a token counts."""

    ids: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> "Tokens":
        """Return some rows, without the columns in which none of them has a token that counts."""
        ids, mask = self.ids[index], self.mask[index]
        used = mask.any(0).nonzero()
        if len(used) == 0:
            return Tokens(ids[:, :0], mask[:, :0])
        columns = slice(int(used[0]), int(used[-1]) + 1)
        return Tokens(ids[:, columns], mask[:, columns])


# --- what a model is -------------------------------------------------------------------------------------------------


def is_seq2seq(model: PreTrainedModel) -> bool:
    """Whether the model has an encoder of its own for the prompt."""
    return bool(model.config.is_encoder_decoder)


def eos_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id that ends a response.

    Raises:
        ConfigError: The tokenizer has none, so that the policy could never stop.
    """
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"{_name(model)}: the tokenizer has no end-of-text token; set `eos_token` in it.")
    return int(tokenizer.eos_token_id)


def start_id(model: PreTrainedModel) -> int:
    """Return the id that an encoder-decoder model's decoder reads first; it is no part of a response.

    Raises:
        ConfigError: The configuration names none.
    """
    start = getattr(model.config, "decoder_start_token_id", None)
    if start is None:
        raise ConfigError(f"{_name(model)}: set `decoder_start_token_id` in its config.json (0 for T5, 2 for BART).")
    return int(start)


def language_head(model: PreTrainedModel) -> nn.Linear:
    """Return the layer that turns states into logits; its weight is [V, H].

    Raises:
        ConfigError: There is none.
    """
    head: nn.Linear | None = model.get_output_embeddings()
    if head is None:
        raise ConfigError(
            f"{_name(model)}: {type(model).__name__} has no language head and so cannot write; load it with "
            "AutoModelForCausalLM or AutoModelForSeq2SeqLM, from a folder that was saved with its head."
        )
    return head


def vocabulary_size(model: PreTrainedModel) -> int:
    """Return V."""
    return language_head(model).weight.shape[0]


def hidden_size(model: PreTrainedModel) -> int:
    """Return H, the width of the states that the language head reads (not always that of the layers: OPT-350M)."""
    return language_head(model).weight.shape[1]


def check_lengths(model: PreTrainedModel, task: Task) -> None:
    """Refuse a task whose prompts and responses do not fit into the model's positions.

    A causal model needs room for both; an encoder-decoder for each by itself. T5 has no limit. OPT and BART keep two
    positions more in their tables than `max_position_embeddings` says; these are theirs alone.

    Raises:
        ConfigError: They do not; says by how much.
    """
    limit = getattr(model.config, "max_position_embeddings", None)
    prompt, response = task.prompt.max_tokens, max(task.rollout.max_new_tokens, task.decoding.max_new_tokens)
    if is_seq2seq(model):
        parts = {
            "prompt takes": (prompt, getattr(model.config, "max_encoder_position_embeddings", limit)),
            "response takes": (response, getattr(model.config, "max_decoder_position_embeddings", limit)),
        }
    else:
        parts = {"prompt and response take": (prompt + response, limit)}
    for part, (needed, room) in parts.items():
        if room is not None and needed > room:
            raise ConfigError(
                f"{task.suite}/{task.name}: {part} {needed} tokens, {_name(model)} has {room} "
                "positions; shorten prompt.max_tokens or max_new_tokens, or choose another backbone."
            )


@torch.no_grad()
def check_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a model that cannot be a policy.

    Some architectures ignore the positions they are given, or read to the right of a token; every log-probability of a
    batch would be wrong. So one padded batch is compared with its rows alone.

    Raises:
        ConfigError: It has no language head, its tokenizer no end token or more tokens than the head, or padding or
            later tokens change its logits.
    """
    eos_id(model, tokenizer)
    if len(tokenizer) > vocabulary_size(model):
        raise ConfigError(
            f"{_name(model)}: its tokenizer knows {len(tokenizer)} tokens and its head {vocabulary_size(model)}; "
            "take the tokenizer it was trained with."
        )
    several, short, other = torch.tensor([[3, 5, 4], [2, 2, 2], [6, 4, 5]], device=model.device) % len(tokenizer)
    mask = torch.tensor([[False, False, True], [True, True, True]], device=model.device)
    mask = mask.flip(1) if is_seq2seq(model) else mask
    prompts = Tokens(torch.where(mask, torch.stack([short, several]), 0), mask)
    everything = torch.ones_like(mask)
    batch, _ = forward(model, prompts, Tokens(torch.stack([several, other]), everything))
    alone, _ = forward(model, prompts.rows(torch.tensor([0])), Tokens(several[None], everything[:1]))
    later = torch.where(torch.tensor([False, False, True], device=model.device), other, several)
    changed, _ = forward(model, prompts, Tokens(torch.stack([later, other]), everything))
    for what, logits in {"padding changes": alone, "a later token changes": changed}.items():
        if not torch.allclose(batch[0].float(), logits[0].float(), atol=1e-2, rtol=1e-2):
            raise ConfigError(
                f"{_name(model)}: {what} its logits, so {type(model).__name__} cannot be trained here; choose a "
                "causal model that takes position_ids (GPT-2, OPT, Llama, …) or an encoder-decoder (T5, BART, …)."
            )


def _name(model: PreTrainedModel) -> str:
    return model.name_or_path or f"the {type(model).__name__}"


# --- text and tokens -------------------------------------------------------------------------------------------------


def encode_prompts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], prompt: Prompt
) -> Tokens:
    """Tokenise prompts, cut to the task's length on its side; padded left for causal models, right for others.

    Needs no pad token: what fills a row counts nowhere. A prompt without any token becomes one start or end token,
    since a causal model must have something to go on from.
    """
    tokenizer.truncation_side = prompt.truncation
    rows = tokenizer(list(texts), truncation=True, max_length=prompt.max_tokens)["input_ids"]
    eos = eos_id(model, tokenizer)
    nothing = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    filler = eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return _padded(model, [row or [nothing] for row in rows], filler, left=not is_seq2seq(model))


def encode_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int
) -> Tokens:
    """Tokenise what a model should write, with the end token where the text fits into `max_tokens`.

    A causal model reads the response right behind the prompt, so the seam gets the space that parts two words. A
    decoder of its own writes the special tokens that its tokenizer puts around a text (BART's <s>).
    """
    eos = eos_id(model, tokenizer)
    encode = _encode_alone if is_seq2seq(model) else _encode_behind
    rows = [[*encode(tokenizer, text.strip(), eos), eos][:max_tokens] for text in texts]
    return _padded(model, rows, eos, left=False)


def _encode_alone(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    ids = list(tokenizer(text)["input_ids"])
    return ids[:-1] if ids and ids[-1] == eos else ids


def _encode_behind(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    """Return the ids of a text behind a word and a space; some tokenizers (Llama 2's) add a space to every start."""
    if not text:
        return []
    before, whole = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (".", f". {text}"))
    if whole[: len(before)] == before:
        return list(whole[len(before) :])
    return list(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])


def _padded(model: PreTrainedModel, rows: Sequence[Sequence[int]], filler: int, left: bool) -> Tokens:
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), filler)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, place] = torch.tensor(row, dtype=ids.dtype)
        mask[i, place] = True
    return Tokens(ids.to(model.device), mask.to(model.device))


def decode_responses(tokenizer: PreTrainedTokenizerBase, responses: Tokens) -> list[str]:
    """Return the text of the tokens that count, without special tokens, unknown ids and outer white space."""
    rows = [ids[mask].tolist() for ids, mask in zip(responses.ids, responses.mask, strict=True)]
    return [str(text).strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]


# --- running a model -------------------------------------------------------------------------------------------------


def encode(model: PreTrainedModel, prompts: Tokens) -> Tensor:
    """Return the encoder's states of right-padded prompts, [B, P, H].

    While the encoder does not learn, they can be computed once and given to the functions below as `encoded`; of rows
    that were picked out, `encoded[rows]` will do, however long their longest prompt.
    """
    # An encoder has no cache, yet transformers warns that checkpointing forbids one.
    settings = {"use_cache": False} if model.training else {}
    out = model.get_encoder()(prompts.ids, attention_mask=prompts.mask.long(), **settings)
    states: Tensor = out.last_hidden_state
    return states


def forward(
    model: PreTrainedModel, prompts: Tokens, responses: Tokens, states: bool = False, encoded: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Run the model over prompts and responses.

    Returns:
        Logits [B, T, V], those at t deciding response token t, and with `states` the last hidden states [B, T, H]
        they were computed from.
    """
    if is_seq2seq(model):
        inputs = _seq2seq_inputs(model, prompts, responses, encoded)
        out = model(**inputs, use_cache=False, output_hidden_states=states)
        return out.logits, out.decoder_hidden_states[-1] if states else None
    length = responses.ids.shape[1]
    inputs = _causal_inputs(prompts, responses)
    # Exactly the positions before each response token: a slice of logits would cost two copies in the backward pass.
    last = inputs["input_ids"].shape[1] - 1
    keep = torch.arange(last - length, last, device=model.device)
    out = model(**inputs, use_cache=False, output_hidden_states=states, logits_to_keep=keep)
    return of_responses(out.logits, length), out.hidden_states[-1][:, -length - 1 : -1] if states else None


def of_responses(values: Tensor, length: int) -> Tensor:
    """Cut [B, L, ...] to the positions before each response token; some models do not heed `logits_to_keep`."""
    return values if values.shape[1] == length else values[:, -length - 1 : -1]


def trunk_states(model: PreTrainedModel, prompts: Tokens, responses: Tokens, encoded: Tensor | None = None) -> Tensor:
    """Return the last hidden states [B, T, H] alone: `forward` without the cost of the vocabulary."""
    if is_seq2seq(model):
        inputs = _seq2seq_inputs(model, prompts, responses, encoded)
        decoded = model.get_decoder()(
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


def next_logits(
    model: PreTrainedModel, prompts: Tokens, encoded: Tensor | None = None
) -> Callable[[Tensor | None], Tensor]:
    """Return a function that decodes step by step with a key-value cache of its own.

    It takes the tokens drawn last, [B], or None at the first step, and returns the logits [B, V] of the next.
    """
    # Checkpointing acts in training mode only, and throws caches away there.
    assert not (model.training and recomputes(model)), "put the model into evaluation mode to decode step by step"
    if is_seq2seq(model):
        return _seq2seq_stepper(model, prompts, encoded)
    return _causal_stepper(model, prompts)


def _causal_stepper(model: PreTrainedModel, prompts: Tokens) -> Callable[[Tensor | None], Tensor]:
    cache = None
    attention = prompts.mask.long()

    def step(drawn: Tensor | None) -> Tensor:
        nonlocal cache, attention
        if drawn is None:
            ids, positions = prompts.ids, (attention.cumsum(1) - 1).clamp(min=0)
        else:
            # A row that has ended is stepped on with the others; what it sees there changes nothing that is kept.
            attention = torch.cat([attention, torch.ones_like(attention[:, :1])], dim=1)
            ids, positions = drawn.unsqueeze(1), attention.sum(1, keepdim=True) - 1
        out = model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = out.past_key_values
        logits: Tensor = out.logits[:, -1]
        return logits

    return step


def _seq2seq_stepper(
    model: PreTrainedModel, prompts: Tokens, encoded: Tensor | None
) -> Callable[[Tensor | None], Tensor]:
    attention = prompts.mask.long()
    outputs = _encoder_outputs(model, prompts, encoded)
    start = torch.full_like(prompts.ids[:, 0], start_id(model))
    cache = None

    def step(drawn: Tensor | None) -> Tensor:
        nonlocal cache
        out = model(
            encoder_outputs=outputs,
            attention_mask=attention,
            decoder_input_ids=(start if drawn is None else drawn).unsqueeze(1),
            past_key_values=cache,
            use_cache=True,
        )
        cache = out.past_key_values
        logits: Tensor = out.logits[:, -1]
        return logits

    return step


# --- the parts that learn or do not ----------------------------------------------------------------------------------


class Critic(nn.Module):
    """A value head, on a trunk of its own that starts from the policy's weights, or on the policy's trunk.

    What the policy does not train (a frozen encoder, all but its adapters), the trunk does not train either.

    Args:
        model: The policy.
        shared: Whether to read the policy's states rather than those of a trunk of its own.
    """

    def __init__(self, model: PreTrainedModel, shared: bool) -> None:
        super().__init__()
        self.trunk = None if shared else copy.deepcopy(model)
        # Made where the policy is, and without a draw from the global generator, since it starts at 0.
        self.head = nn.Linear(hidden_size(model), 1, device="meta").to_empty(device=model.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, prompts: Tokens, responses: Tokens, policy_states: Tensor | None, encoded: Tensor | None = None
    ) -> Tensor:
        """Return V(s_t), [B, T], of the states before each response token."""
        states = policy_states if self.trunk is None else trunk_states(self.trunk, prompts, responses, encoded)
        assert states is not None, "a shared critic needs the policy's states"
        with torch.autocast(states.device.type, enabled=False):  # in bfloat16, a value would have 8 bits
            values: Tensor = self.head(states.float()).squeeze(-1)
        return values


def freeze(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the model that never learns: the reference, or the masking policy."""
    frozen: PreTrainedModel = copy.deepcopy(model).requires_grad_(False).eval()
    return frozen


def freeze_encoder(model: PreTrainedModel) -> None:
    """Stop the encoder from learning, so that `encode` can be computed once.

    Embeddings that the encoder shares with the decoder and the head stop with it.

    Raises:
        ConfigError: The model has no encoder.
    """
    if not is_seq2seq(model):
        raise ConfigError(f"freeze_encoder: {_name(model)} is a causal model and has no encoder; set it to false.")
    model.get_encoder().requires_grad_(False)


def recomputes(model: nn.Module) -> bool:
    """Whether the model's layers compute their activations again in the backward pass, in training mode."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def dropout_rates(module: nn.Module) -> list[str]:
    """Return the attributes that hold a dropout rate above 0: a module's own, or one it hands to a function."""
    return [key for key in dropout_places(module) if getattr(module, key) > 0]


def dropout_places(module: nn.Module) -> list[str]:
    """Return the attributes that hold a dropout rate, be it 0."""
    numbers = [key for key, value in vars(module).items() if isinstance(value, float | int)]
    return [key for key in numbers if "drop" in key or (key == "p" and "Dropout" in type(module).__name__)]


def assert_no_dropout(model: nn.Module) -> None:
    """Fail if dropout could act where nobody asked for it: rollouts and updates see the same policy (paper §5.4)."""
    active = [name for name, module in model.named_modules() if module.training and dropout_rates(module)]
    assert not active, f"dropout is active in {active[:3]}"

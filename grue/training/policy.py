"""Causal and encoder-decoder language models seen alike: prompts in, logits and states of the response out.

B = batch, P = prompt length, T = response time, V = vocabulary, H = hidden size. What counts is always carried as a
mask by position and never read off the ids, since a model's pad token may be its end-of-text token.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

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


def is_seq2seq(model: PreTrainedModel) -> bool:
    """Whether the model has an encoder of its own for the prompt."""
    return bool(model.config.is_encoder_decoder)


def eos_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id that ends a response.

    Raises:
        ConfigError: The tokenizer has none, so that the policy could never stop.
    """
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"{model.name_or_path}: the tokenizer has no end-of-text token; set `eos_token` in it.")
    return int(tokenizer.eos_token_id)


def check_lengths(model: PreTrainedModel, task: Task) -> None:
    """Refuse a task whose prompts and responses do not fit into the model's positions.

    Raises:
        ConfigError: They do not; says by how much.
    """
    limit = getattr(model.config, "max_position_embeddings", None)
    response = max(task.rollout.max_new_tokens, task.decoding.max_new_tokens)
    needed = response if is_seq2seq(model) else task.prompt.max_tokens + response
    if limit is not None and needed > limit:
        raise ConfigError(
            f"{task.suite}/{task.name}: prompt and response take {needed} tokens, {model.name_or_path} has {limit} "
            "positions; shorten prompt.max_tokens or max_new_tokens, or choose another backbone."
        )


def encode_prompts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], prompt: Prompt
) -> Tokens:
    """Tokenise prompts, cut to the task's length on its side; padded left for causal models, right for others."""
    tokenizer.truncation_side = prompt.truncation
    encoded: BatchEncoding = tokenizer(
        list(texts),
        truncation=True,
        max_length=prompt.max_tokens,
        padding=True,
        padding_side="right" if is_seq2seq(model) else "left",
        return_tensors="pt",
    )
    return Tokens(encoded["input_ids"].to(model.device), encoded["attention_mask"].bool().to(model.device))


def encode_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int
) -> Tokens:
    """Tokenise what a model should write, with the end token where the text fits into `max_tokens`.

    A causal model reads the response right behind the prompt, so the seam gets the space that parts two words.
    """
    eos = eos_id(model, tokenizer)
    seam = "" if is_seq2seq(model) else " "
    rows = [
        [*tokenizer(seam + text.strip(), add_special_tokens=False)["input_ids"], eos][:max_tokens] for text in texts
    ]
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [eos] * (width - len(row)) for row in rows])
    mask = torch.arange(width).unsqueeze(0) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    return Tokens(ids.to(model.device), mask.to(model.device))


def decode_responses(tokenizer: PreTrainedTokenizerBase, responses: Tokens) -> list[str]:
    """Return the text of the tokens that count, without special tokens and outer white space."""
    rows = [ids[mask].tolist() for ids, mask in zip(responses.ids, responses.mask, strict=True)]
    return [str(text).strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]


def forward(
    model: PreTrainedModel, prompts: Tokens, responses: Tokens, states: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Run the model over prompts and responses.

    Returns:
        Logits [B, T, V], those at t deciding response token t, and with `states` the last hidden states [B, T, H]
        they were computed from.
    """
    if is_seq2seq(model):
        out = model(**_seq2seq_inputs(model, prompts, responses), use_cache=False, output_hidden_states=states)
        return out.logits, out.decoder_hidden_states[-1] if states else None
    length = responses.ids.shape[1]
    inputs = _causal_inputs(prompts, responses)
    out = model(**inputs, use_cache=False, output_hidden_states=states, logits_to_keep=length + 1)
    return out.logits[:, :-1], out.hidden_states[-1][:, -length - 1 : -1] if states else None


def trunk_states(model: PreTrainedModel, prompts: Tokens, responses: Tokens) -> Tensor:
    """Return the last hidden states [B, T, H] alone: `forward` without the cost of the vocabulary."""
    if is_seq2seq(model):
        inputs = _seq2seq_inputs(model, prompts, responses)
        encoded = model.get_encoder()(inputs["input_ids"], attention_mask=inputs["attention_mask"])
        decoded = model.get_decoder()(
            input_ids=inputs["decoder_input_ids"],
            encoder_hidden_states=encoded.last_hidden_state,
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


def _seq2seq_inputs(model: PreTrainedModel, prompts: Tokens, responses: Tokens) -> dict[str, Tensor]:
    start = torch.full_like(responses.ids[:, :1], model.config.decoder_start_token_id)
    return {
        "input_ids": prompts.ids,
        "attention_mask": prompts.mask.long(),
        "decoder_input_ids": torch.cat([start, responses.ids[:, :-1]], dim=1),
    }


def next_logits(model: PreTrainedModel, prompts: Tokens) -> Callable[[Tensor | None], Tensor]:
    """Return a function that decodes step by step with a key-value cache of its own.

    It takes the tokens drawn last, [B], or None at the first step, and returns the logits [B, V] of the next.
    """
    if is_seq2seq(model):
        return _seq2seq_stepper(model, prompts)
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


def _seq2seq_stepper(model: PreTrainedModel, prompts: Tokens) -> Callable[[Tensor | None], Tensor]:
    attention = prompts.mask.long()
    encoded = model.get_encoder()(prompts.ids, attention_mask=attention)
    start = torch.full_like(prompts.ids[:, 0], model.config.decoder_start_token_id)
    cache = None

    def step(drawn: Tensor | None) -> Tensor:
        nonlocal cache
        out = model(
            encoder_outputs=encoded,
            attention_mask=attention,
            decoder_input_ids=(start if drawn is None else drawn).unsqueeze(1),
            past_key_values=cache,
            use_cache=True,
        )
        cache = out.past_key_values
        logits: Tensor = out.logits[:, -1]
        return logits

    return step


class Critic(nn.Module):
    """A value head, on a trunk of its own that starts from the policy's weights, or on the policy's trunk.

    Args:
        model: The policy.
        shared: Whether to read the policy's states rather than those of a trunk of its own.
    """

    def __init__(self, model: PreTrainedModel, shared: bool) -> None:
        super().__init__()
        self.trunk = None if shared else copy.deepcopy(model).requires_grad_(True)
        self.head = nn.Linear(model.config.hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, prompts: Tokens, responses: Tokens, policy_states: Tensor | None) -> Tensor:
        """Return V(s_t), [B, T], of the states before each response token."""
        states = policy_states if self.trunk is None else trunk_states(self.trunk, prompts, responses)
        assert states is not None, "a shared critic needs the policy's states"
        values: Tensor = self.head(states).squeeze(-1).float()
        return values


def freeze(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the model that never learns: the reference, or the masking policy."""
    frozen: PreTrainedModel = copy.deepcopy(model).requires_grad_(False).eval()
    return frozen


def assert_no_dropout(model: nn.Module) -> None:
    """Fail if dropout could act: rollouts and updates must see the same policy (paper §5.4)."""
    active = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Dropout) and module.training and module.p
    ]
    assert not active, f"dropout is active in {active[:3]}"

"""Models that cannot be trained here are refused before training starts."""

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import ConfigError
from grue.lm.forward import forward
from grue.lm.model import display_name, eos_id, is_seq2seq, vocabulary_size
from grue.lm.tokens import Tokens
from grue.tasks import Task


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
                f"{task.suite}/{task.name}: {part} {needed} tokens, {display_name(model)} has {room} "
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
            f"{display_name(model)}: its tokenizer knows {len(tokenizer)} tokens and its head "
            f"{vocabulary_size(model)}; take the tokenizer it was trained with."
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
                f"{display_name(model)}: {what} its logits, so {type(model).__name__} cannot be trained here; choose a "
                "causal model that takes position_ids (GPT-2, OPT, Llama, …) or an encoder-decoder (T5, BART, …)."
            )

"""Refusing models that cannot be trained here, before training starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import ConfigError, GrueError
from grue.lm.forward import Steps, forward, trunk_states
from grue.lm.model import display_name, eos_id, hidden_size, is_seq2seq, vocabulary_size
from grue.lm.tokens import Tokens
from grue.tasks import Task

POSITIONS = "max_position_embeddings"
TOLERANCE = 1e-2  # absolute and relative: below what errors of position or masking change, above rounding
KNOWN = "a causal model with a key-value cache (GPT-2, OPT, Llama, …) or an encoder-decoder (T5, BART, …)"


def check_lengths(model: PreTrainedModel, task: Task) -> None:
    """Refuse a task whose prompts and responses do not fit into the model's positions; see `check_positions`."""
    check_positions(model.config, display_name(model), task)


def check_positions(config: PretrainedConfig, name: str, task: Task) -> None:
    """Refuse a task whose prompts and responses do not fit into the positions of a model's configuration.

    A causal model needs room for both together, an encoder-decoder for each alone. T5 has no limit. OPT and BART keep
    two more positions in their tables than `max_position_embeddings` says, for their own use.

    Raises:
        ConfigError: They do not fit; says by how much.
    """
    ways = (task.rollout, task.decoding, *((task.search,) if task.search else ()))
    prompt, response = task.prompt.max_tokens, max(way.max_new_tokens for way in ways)
    if config.is_encoder_decoder:
        parts = {
            "prompt takes": (prompt, _positions(config, "encoder")),
            "response takes": (response, _positions(config, "decoder")),
        }
    else:
        parts = {"prompt and response take": (prompt + response, getattr(config, POSITIONS, None))}
    for part, (needed, room) in parts.items():
        if room is not None and needed > room:
            raise ConfigError(
                f"{task.suite}/{task.name}: {part} {needed} tokens, {name} has {room} "
                "positions; shorten prompt.max_tokens or max_new_tokens, or choose another backbone."
            )


def check_conversation(model: PreTrainedModel, tokens: int, response: int, what: str) -> None:
    """Refuse a conversation that does not fit into a causal model's positions: it is never cut.

    Args:
        tokens: Its length.
        response: The longest reply.
        what: Whose it is, for the message.

    Raises:
        ConfigError: It does not fit; says by how much.
    """
    room = getattr(model.config, POSITIONS, None)
    if room is not None and tokens + response > room:
        raise ConfigError(
            f"{what}: the conversation takes {tokens} tokens and the reply up to {response}, {display_name(model)} has "
            f"{room} positions; give a model with more, or a task file whose prompt.chat shows fewer examples."
        )


def _positions(config: PretrainedConfig, side: Literal["encoder", "decoder"]) -> int | None:
    """Return how many positions one side of an encoder-decoder has; None without a limit."""
    own = getattr(config, side, config)  # T5Gemma and EncoderDecoderModel configure each side separately
    room: int | None = getattr(own, f"max_{side}_position_embeddings", getattr(own, POSITIONS, None))  # LED: a side
    return room


@torch.no_grad()
def check_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a model that cannot be a policy.

    Some architectures ignore the positions they are given or attend to later tokens, which makes every log-probability
    of a batch wrong; some lack a key-value cache or a decoder that runs alone. A padded batch is therefore compared
    with one of its rows alone, with other later tokens, with decoding step by step, and with the trunk alone.

    Raises:
        ConfigError: It has no language head; its tokenizer has no end token, or more tokens than the head; the model
            fails in one of these passes; or they disagree.
    """
    eos_id(model, tokenizer)
    if len(tokenizer) > vocabulary_size(model):
        raise ConfigError(
            f"{display_name(model)}: its tokenizer has {len(tokenizer)} tokens and its head "
            f"{vocabulary_size(model)}; use the tokenizer it was trained with."
        )
    several, short, other = torch.tensor([[3, 5, 4], [2, 2, 2], [6, 4, 5]], device=model.device) % len(tokenizer)
    mask = torch.tensor([[False, False, True], [True, True, True]], device=model.device)
    mask = mask.flip(1) if is_seq2seq(model) else mask
    prompts = Tokens(torch.where(mask, torch.stack([short, several]), 0), mask)
    everything = torch.ones_like(mask)
    responses = Tokens(torch.stack([several, other]), everything)
    later = torch.where(torch.tensor([False, False, True], device=model.device), other, several)
    with _trying(model, "a forward pass over a padded batch"):
        logits, states = forward(model, prompts, responses, states=True)
        alone, _ = forward(model, prompts.rows(torch.tensor([0])), Tokens(several[None], everything[:1]))
        changed, _ = forward(model, prompts, Tokens(torch.stack([later, other]), everything))
    _compare(model, "padding changes its logits", alone[0], logits[0])
    _compare(model, "a later token changes its logits", changed[0], logits[0])
    with _trying(model, "decoding step by step with a cache"):
        step = Steps(model, prompts)
        stepped = torch.stack([step(drawn)[0] for drawn in (None, *responses.ids[:, :2].unbind(1))], 1)
    _compare(model, "its cache changes its logits", stepped, logits)
    with _trying(model, "a pass without the language head, as a critic makes it,"):
        trunk = trunk_states(model, prompts, responses)
    assert states is not None, "forward was asked for them"
    _compare(model, "its states change without the language head", trunk, states)
    if trunk.shape[-1] != hidden_size(model):
        raise _refusal(
            model, f"its states are {trunk.shape[-1]} wide, and its language head reads {hidden_size(model)}"
        )


@contextmanager
def _trying(model: PreTrainedModel, what: str) -> Iterator[None]:
    """Report whatever the model raises as a refusal; running out of memory says nothing about the model."""
    try:
        yield
    except (GrueError, MemoryError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        cause = type(error).__name__ + (f": {lines[0].rstrip('.')}" if lines else "")
        raise _refusal(model, f"{what} fails ({cause})") from error


def _compare(model: PreTrainedModel, what: str, found: Tensor, expected: Tensor) -> None:
    found, expected = found.float(), expected.float()
    if found.shape != expected.shape or not torch.allclose(expected, found, atol=TOLERANCE, rtol=TOLERANCE):
        raise _refusal(model, what)


def _refusal(model: PreTrainedModel, what: str) -> ConfigError:
    return ConfigError(
        f"{display_name(model)}: {what}, so {type(model).__name__} cannot be trained here; choose {KNOWN}."
    )

"""Checks before training starts: models that cannot be trained here are refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import ConfigError, GrueError
from grue.lm.device import multiplies_bfloat16
from grue.lm.forward import Steps, forward, trunk_states
from grue.lm.model import display_name, hidden_size, is_seq2seq
from grue.lm.tokens import Tokens
from grue.tasks import Task

POSITIONS = "max_position_embeddings"
TOLERANCE = 1e-2  # absolute and relative: below the effect of errors in positions or masks, above rounding
KNOWN = "a causal model with a key-value cache (GPT-2, OPT, Llama, …) or an encoder-decoder (T5, BART, …)"


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse bfloat16 on a GPU that does not multiply it, with a ConfigError; a CPU is slow, but computes the same."""
    if precision == "bfloat16" and device.type == "cuda" and not multiplies_bfloat16(device):
        raise ConfigError(
            f'precision: {torch.cuda.get_device_name(device)} does not multiply bfloat16; set precision = "float32".'
        )


def check_lengths(model: PreTrainedModel, task: Task) -> None:
    """Refuse a task whose prompts and responses do not fit into the model's positions; see `check_positions`."""
    check_positions(model.config, display_name(model), task)


def check_positions(config: PretrainedConfig, name: str, task: Task) -> None:
    """Raise a ConfigError if a task's prompts and responses do not fit into the positions of a model's configuration.

    A causal model needs room for both together, an encoder-decoder for each alone. T5 has no limit. The tables of
    OPT and BART have two positions more than `max_position_embeddings`, for their own use.
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
                f"{task.suite}/{task.name}: {part} {needed} tokens, but {name} has {room} "
                "positions; shorten prompt.max_tokens or max_new_tokens, or choose another backbone."
            )


def check_conversation(model: PreTrainedModel, tokens: int, response: int, owner: str) -> None:
    """Refuse a conversation, which is never cut, that does not fit into a causal model's positions.

    It has `tokens` tokens, the longest reply `response`; `owner` says whose it is, for the message.
    """
    room = getattr(model.config, POSITIONS, None)
    if room is not None and tokens + response > room:
        raise ConfigError(
            f"{owner}: the conversation takes {tokens} tokens and the reply up to {response}, but "
            f"{display_name(model)} has {room} positions; give a model with more, or a task file whose prompt.chat "
            "has fewer examples."
        )


def _positions(config: PretrainedConfig, side: Literal["encoder", "decoder"]) -> int | None:
    """Return how many positions one side of an encoder-decoder has; None without a limit."""
    own = getattr(config, side, config)  # T5Gemma and EncoderDecoderModel configure each side separately
    room: int | None = getattr(own, f"max_{side}_position_embeddings", getattr(own, POSITIONS, None))  # LED: a side
    return room


@torch.no_grad()
def check_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a model that cannot be a policy.

    Some architectures ignore `position_ids` or attend to later tokens, which makes every log-probability of a batch
    wrong; some lack a key-value cache or a decoder that runs alone. A padded batch is therefore compared with a single
    row, with changed later tokens, with decoding step by step, and with a pass of the trunk.

    Raises:
        ConfigError: It has no language head, fails in one of these passes, or they disagree.
    """
    width = hidden_size(model)
    sequence, short, other_sequence = torch.tensor([[3, 5, 4], [2, 2, 2], [6, 4, 5]], device=model.device) % len(
        tokenizer
    )
    mask = torch.tensor([[False, False, True], [True, True, True]], device=model.device)
    mask = mask.flip(1) if is_seq2seq(model) else mask
    prompts = Tokens(torch.where(mask, torch.stack([short, sequence]), 0), mask)
    everything = torch.ones_like(mask)
    responses = Tokens(torch.stack([sequence, other_sequence]), everything)
    later = torch.where(torch.tensor([False, False, True], device=model.device), other_sequence, sequence)
    with _trying(model, "a forward pass over a padded batch"):
        logits, states = forward(model, prompts, responses, states=True)
        alone, _ = forward(model, prompts.rows(torch.tensor([0])), Tokens(sequence[None], everything[:1]))
        changed, _ = forward(model, prompts, Tokens(torch.stack([later, other_sequence]), everything))
    _compare(model, "padding changes its logits", alone[0], logits[0])
    _compare(model, "a later token changes its logits", changed[0], logits[0])
    with _trying(model, "decoding step by step with a cache"):
        step = Steps(model, prompts)
        stepped = torch.stack([step(drawn)[0] for drawn in (None, *responses.ids[:, :2].unbind(1))], 1)
    _compare(model, "it gives other logits when it decodes step by step with a cache", stepped, logits)
    with _trying(model, "a pass without the language head, which a critic needs,"):
        trunk = trunk_states(model, prompts, responses)
    assert states is not None, "forward was called with states=True"
    _compare(model, "its states change without the language head", trunk, states)
    if trunk.shape[-1] != width:
        raise _refusal(model, f"its states are {trunk.shape[-1]} wide, but its language head reads {width}")


@contextmanager
def _trying(model: PreTrainedModel, action: str) -> Iterator[None]:
    """Report whatever the model raises as a refusal, except running out of memory, which is not the model's fault."""
    try:
        yield
    except (GrueError, MemoryError, torch.cuda.OutOfMemoryError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        cause = type(error).__name__ + (f": {lines[0].rstrip('.')}" if lines else "")
        raise _refusal(model, f"{action} fails ({cause})") from error


def _compare(model: PreTrainedModel, fault: str, actual: Tensor, expected: Tensor) -> None:
    actual, expected = actual.float(), expected.float()
    if actual.shape != expected.shape or not torch.allclose(expected, actual, atol=TOLERANCE, rtol=TOLERANCE):
        raise _refusal(model, fault)


def _refusal(model: PreTrainedModel, fault: str) -> ConfigError:
    return ConfigError(
        f"{display_name(model)}: {fault}, so {type(model).__name__} cannot be trained here; choose {KNOWN}."
    )

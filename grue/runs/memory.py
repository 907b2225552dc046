"""Whether a run fits into memory, judged by what it must hold: weights, gradients and the optimiser's moments.

Logits and activations depend on lengths and batches and are not counted, so a run that is refused here really cannot
be trained.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from transformers import PreTrainedModel

from grue.data.cache import size_text
from grue.errors import Unavailable, of_the_system
from grue.lm.device import available_on
from grue.rl.settings import ActorCriticConfig, Common, RewardedConfig

NUMBER = 4  # bytes: weights, gradients and moments are float32 in any precision
RANK = 16
CURES: tuple[Mapping[str, Any], ...] = (
    {"value_model": "shared"},
    {"lora_rank": RANK},
    {"lora_rank": RANK, "value_model": "shared"},
)
"""Settings that need less memory, the mildest first."""
SAVING: Mapping[str, Any] = {"gradient_checkpointing": "true", "log_prob_chunk": 128}
"""Settings that make an update itself need less."""


def training_bytes(weights: int, trained: int, config: Common) -> dict[str, int]:
    """Return the bytes that a run needs besides its policy's weights, by purpose.

    `trained` are how many of its `weights` are trained, without adapters, which are small.
    """
    moments = 2 if config.optimizer == "adamw" else 1
    learning = 0 if config.lora_rank else trained * (1 + moments)
    counts = {"gradients and moments": learning}
    if isinstance(config, RewardedConfig):
        counts["reference"] = 0 if config.lora_rank else weights
        frozen = config.mask_source == "frozen" and not config.lora_rank
        counts["masking policy"] = weights if config.mask in ("learned_top_p", "learned_top_k") and not frozen else 0
    if isinstance(config, ActorCriticConfig) and config.value_model == "separate":
        counts["critic"] = weights + learning
    return {name: NUMBER * count for name, count in counts.items() if count}


def check_memory(policy: PreTrainedModel, config: Common) -> None:
    """Refuse a run that cannot fit on its policy's device.

    Raises:
        Unavailable: It cannot; the message names settings that would.
    """
    free = available_on(torch.device(str(policy.device)))
    weights = sum(weight.numel() for weight in policy.parameters())
    trained = sum(weight.numel() for weight in policy.parameters() if weight.requires_grad)
    parts = training_bytes(weights, trained, config)
    if free is None or sum(parts.values()) <= free:
        return
    listed = ", ".join(f"{name} {size_text(size)}" for name, size in parts.items())
    raise Unavailable(
        f"Training needs at least {size_text(sum(parts.values()))} beside the policy ({listed}), and {size_text(free)} "
        f"are free on {policy.device}. {_cure(weights, trained, config, free)}"
    )


@contextmanager
def short_of_memory(config: Common, without_effect: Collection[str], where: str) -> Iterator[None]:
    """If a block runs out of memory, name the settings that need less.

    Raises:
        Unavailable: It has; saved states are as they were.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(of_the_system(error), Unavailable):
            raise
        less: dict[str, Any] = {"micro_batch_size": config.micro_batch_size // 2}
        less |= {name: value for name, value in SAVING.items() if not getattr(config, name)}
        chosen = [f"--set {name}={value}" for name, value in less.items() if value and name not in without_effect]
        first = str(error).partition("\n")[0].rstrip(".") or "no memory is left"
        raise Unavailable(
            f"{where} ran out of memory: {first}. Less is needed by {' or '.join(chosen) or 'a smaller model'}, under "
            "another --system name. With more memory, the same command resumes from the last saved state."
        ) from error


def _cure(weights: int, trained: int, config: Common, free: int) -> str:
    names = {field.name for field in fields(config)}
    for cure in CURES:
        change = {name: value for name, value in cure.items() if name in names and getattr(config, name) != value}
        needed = sum(training_bytes(weights, trained, replace(config, **change)).values())
        if change and needed <= free:
            options = " ".join(f"--set {name}={value}" for name, value in change.items())
            return f"It fits with {options} ({size_text(needed)}); precision changes none of this."
    return "No setting makes it fit: take a smaller model, or a machine with more memory."

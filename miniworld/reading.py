"""Pretraining of the models that write: many chapters of text, each drawn, read once and forgotten.

Where the CPU multiplies bfloat16 matrices in hardware the arithmetic is in bfloat16 with float32 weights behind it;
elsewhere that would be eight times as slow, and it is in float32. Batches have few different shapes, because the
kernels of every new shape are compiled.

After each chapter the state goes into a file, so that the same command continues after a kill.
"""

import ctypes
import platform
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import LinearCrossEntropyOptions
from torch.nn.functional import linear_cross_entropy, pad

from grue.errors import ConfigError
from grue.lm.device import multiplies_bfloat16
from miniworld.pretrain import IGNORED, Batch, Log, Pair, TokenRow, parameter_groups

STEP = 16  # widths of batches are multiples of it
WARMUP, DECAY = 0.02, 0.3  # shares of the steps at the beginning and at the end
IN_CHUNKS = LinearCrossEntropyOptions(batch_chunk_size=1024, acc_policy="accurate")
REPORTS = 4  # lines a chapter
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # malloc.h

Chapter = Callable[[int], Sequence[Batch]]
"""The number of a chapter, from 0 → its batches."""


@dataclass(frozen=True, slots=True)
class Course:
    """What a model reads, and how fast it learns.

    Attributes:
        chapter: Draws a chapter.
        chapters: How many there are.
        rate: Peak learning rate.
        boosts: Part of a parameter's name → multiple of the rate it learns at, without weight decay.
        identity: What must be equal for a saved state to be continued.
    """

    chapter: Chapter
    chapters: int
    rate: float
    boosts: Mapping[str, float]
    identity: str


def read(model: Any, course: Course, state: Path, log: Log) -> float:
    """Train on every chapter, continuing a saved state; return the seconds it took, those before a kill included.

    AdamW, linear warm-up, constant rate, linear decay to zero over the last part; gradient norm clipped at 1.

    Args:
        model: A causal or encoder-decoder model in float32, which is changed in place.
        state: The file that holds the state between chapters; removed by whoever saves the model.

    Raises:
        ConfigError: The file holds the state of another course.
    """
    model.set_attn_implementation("eager")  # short rows; the fused kernel's backward pass is slow in bfloat16
    model.train()
    weights = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    named = zip((name for name, _ in model.named_parameters()), weights, strict=True)
    optimizer = torch.optim.AdamW(parameter_groups(named, course.boosts), betas=(0.9, 0.98), fused=True)
    begun, seconds = _restored(state, course.identity, weights, optimizer)
    model.to(torch.bfloat16 if multiplies_bfloat16(model.device) else torch.float32)
    _follow(model, weights)
    for chapter in range(begun, course.chapters):
        started = time.monotonic()
        batches = course.chapter(chapter)
        recent: list[float] = []
        for index, batch in enumerate(batches, start=1):
            done = (chapter + index / len(batches)) / course.chapters
            for group in optimizer.param_groups:
                group["lr"] = course.rate * trapezoid(done) * group["boost"]
            recent.append(_step(model, weights, optimizer, batch))
            if index % max(len(batches) // REPORTS, 1) == 0:
                log(f"chapter {chapter + 1} of {course.chapters}, {index} of {len(batches)}, loss {_mean(recent):.3f}")
                recent.clear()
        seconds += time.monotonic() - started
        _keep(state, course.identity, chapter + 1, seconds, weights, optimizer)
    model.float()
    _follow(model, weights)
    model.train(False)
    return seconds


def _step(model: Any, weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    loss = writing_loss(model, batch)
    loss.backward()
    for weight, parameter in zip(weights, model.parameters(), strict=True):
        weight.grad, parameter.grad = parameter.grad.float(), None
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    _follow(model, weights)
    return loss.item()


@torch.no_grad()
def _follow(model: Any, weights: Sequence[torch.Tensor]) -> None:
    for weight, parameter in zip(weights, model.parameters(), strict=True):
        parameter.copy_(weight)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def trapezoid(done: float) -> float:
    """Return the multiple of the peak rate when a share `done` of the steps is over: up, level, down to 0."""
    return min(done / WARMUP, 1.0, (1.0 - done) / DECAY)


def writing_loss(model: Any, batch: Batch) -> torch.Tensor:
    """Return the mean cross-entropy of the labels, as the model itself does, but never with all logits in memory."""
    labels = batch["labels"]
    if model.config.is_encoder_decoder:
        read = model.encoder(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        states = model.decoder(
            input_ids=model._shift_right(labels),
            encoder_hidden_states=read,
            encoder_attention_mask=batch["attention_mask"],
            use_cache=False,
        ).last_hidden_state
        states = states * model.config.d_model**-0.5 if model.config.scale_decoder_outputs else states
    else:
        states = model.base_model(input_ids=batch["input_ids"], use_cache=False).last_hidden_state[:, :-1]
        labels = labels[:, 1:]
    told = labels != IGNORED
    states, labels = states[told], labels[told]
    missing = -len(labels) % IN_CHUNKS.batch_chunk_size  # type: ignore[operator]  # it is set above
    states, labels = pad(states, (0, 0, 0, missing)), pad(labels, (0, missing), value=IGNORED)
    return linear_cross_entropy(states, model.lm_head.weight, labels, options=IN_CHUNKS)


def keep_memory() -> None:
    """Let glibc keep freed memory: by default every large tensor is mapped anew, which costs a quarter of the time."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        for parameter, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**29)):
            libc.mallopt(parameter, value)


# --- batches ---------------------------------------------------------------------------------------------------------


def causal_batches(rows: Sequence[TokenRow], tokens: int, rng: random.Random) -> list[Batch]:
    """Return batches of rows to continue, about `tokens` tokens each, in a random order."""
    shelves: dict[int, list[TokenRow]] = defaultdict(list)
    for row in rows:
        shelves[_up(len(row))].append(row)
    batches = [
        {
            "input_ids": _stack(group, width, tokens // width, 0),
            "labels": _stack(group, width, tokens // width, IGNORED),
        }
        for width, shelf in sorted(shelves.items())
        for group in _groups(shelf, tokens // width, rng)
    ]
    rng.shuffle(batches)
    return batches


def seq2seq_batches(pairs: Sequence[Pair], tokens: int, rng: random.Random) -> list[Batch]:
    """Return batches of (source, target) rows, about `tokens` tokens each, both sides counted, in a random order."""
    shelves: dict[tuple[int, int], list[Pair]] = defaultdict(list)
    for pair in pairs:
        shelves[_up(len(pair[0])), _up(len(pair[1]))].append(pair)
    batches = []
    for (before, after), shelf in sorted(shelves.items()):
        size = tokens // (before + after)
        for group in _groups(shelf, size, rng):
            sources = [source for source, _ in group]
            mask = _stack([[1] * len(source) for source in sources], before, size, 0)
            mask[:, 0] = 1  # a row without any token to look at has no attention
            labels = _stack([target for _, target in group], after, size, IGNORED)
            batches.append({"input_ids": _stack(sources, before, size, 0), "attention_mask": mask, "labels": labels})
    rng.shuffle(batches)
    return batches


def _up(length: int) -> int:
    return -(-length // STEP) * STEP


def _groups(rows: list[Any], size: int, rng: random.Random) -> Iterator[list[Any]]:
    rng.shuffle(rows)
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _stack(rows: Sequence[TokenRow], width: int, height: int, filler: int) -> torch.Tensor:
    """Return [height, width] rows, padded on the right, with empty ones at the end."""
    padded = [[*row, *[filler] * (width - len(row))] for row in rows]
    return torch.tensor(padded + [[filler] * width] * (height - len(rows)))


# --- the state between chapters --------------------------------------------------------------------------------------


def _restored(
    state: Path, identity: str, weights: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer
) -> tuple[int, float]:
    """Load a saved state, if there is one, and return the chapters that are done and the seconds they took."""
    if not state.exists():
        return 0, 0.0
    found = torch.load(state, weights_only=True)
    if found["identity"] != identity:
        raise ConfigError(f"{state} holds the state of another recipe; remove it to begin again.")
    with torch.no_grad():
        for weight, kept in zip(weights, found["weights"], strict=True):
            weight.copy_(kept)
    optimizer.load_state_dict(found["optimizer"])
    return found["chapters"], found["seconds"]


def _keep(
    state: Path,
    identity: str,
    chapters: int,
    seconds: float,
    weights: Sequence[torch.Tensor],
    optimizer: torch.optim.Optimizer,
) -> None:
    kept = {
        "identity": identity,
        "chapters": chapters,
        "seconds": seconds,
        "weights": [weight.detach() for weight in weights],
        "optimizer": optimizer.state_dict(),
    }
    state.parent.mkdir(parents=True, exist_ok=True)
    beside = state.with_suffix(".part")
    torch.save(kept, beside)
    beside.replace(state)

"""Seeds: every draw has a generator of its own, so that no draw depends on how many came before it."""

from collections.abc import Sequence
from hashlib import sha256

import torch
from torch import Tensor

from grue.records import Example


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed for one purpose of one run, so that no draw depends on how many came before it."""
    return int.from_bytes(sha256(repr((seed, *purpose)).encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a CPU generator with a seed of its own; see `derived_seed`."""
    return torch.Generator().manual_seed(derived_seed(seed, *purpose))


def example_uniforms(seed: int, examples: Sequence[Example], length: int) -> Tensor:
    """Return uniforms [B, length] that depend on nothing but the seed and each example's id."""
    rows = [torch.rand(length, generator=generator(seed, "example", example.id)) for example in examples]
    return torch.stack(rows)

"""Seeds: every purpose has its own generator, so that no draw depends on earlier ones."""

from collections.abc import Sequence
from hashlib import sha256

import torch
from torch import Tensor

from grue.records import Example


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Return the seed of one purpose within a run."""
    return int.from_bytes(sha256(repr((seed, *purpose)).encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a CPU generator for one purpose; see `derived_seed`."""
    return torch.Generator().manual_seed(derived_seed(seed, *purpose))


def sample_seed(seed: int, number: int) -> int:
    """Return the seed of a sample; sample 0, which ordinary decoding draws, has the system's own."""
    return derived_seed(seed, "sample", number) if number else seed


def example_uniforms(seed: int, examples: Sequence[Example], length: int) -> Tensor:
    """Return uniforms [B, length] in [0, 1) that depend only on the seed and each example's id."""
    rows = [torch.rand(length, generator=generator(seed, "example", example.id)) for example in examples]
    return torch.stack(rows)

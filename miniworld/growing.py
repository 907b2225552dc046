"""Growing a model that writes into a wider and deeper one that computes the same.

T. Chen et al., "Net2Net", ICLR 2016, arXiv 1511.05641; for transformers C. Chen et al., "bert2BERT", ACL 2022, arXiv
2110.07143. Every unit is copied, and what reads it divides its weight between the copies, in shares drawn at random, so
that the copies go on to learn different things. A further layer repeats the one before it and adds nothing yet.
"""

import re
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

BLOCK = 32  # units that are copied together: the size of a head
READS = {nn.Linear: 1, Conv1D: 0}
"""Kind of module → dimension of its weight that runs over what it reads."""
LAYER = re.compile(r"\.(?:h|block)\.(\d+)\.")
ADDS = re.compile(r"\.(?:c_proj|o|wo)\.")
"""The modules whose output is added to the states."""
LAST_NORM = re.compile(r"^(?:transformer\.ln_f|decoder\.final_layer_norm)\.")


@torch.no_grad()
def grow(small: Any, large: Any) -> None:
    """Set the weights of a model so that its logits are those of a smaller one.

    Args:
        small: A GPT-2 or T5 with tied embeddings and heads of 32 units.
        large: One of its kind, vocabulary and size of heads; every width is a whole multiple of the smaller one's, and
            it has at least as many layers. It is changed in place; the shares come from torch's default generator.
    """
    known = dict(small.named_parameters())
    depth = small.config.num_hidden_layers, large.config.num_hidden_layers
    for name, parameter in large.named_parameters():
        source, repeats = _source(name, *depth)
        if repeats and ADDS.search(name):
            parameter.zero_()
            continue
        module = large.get_submodule(name.rpartition(".")[0])
        reads = READS.get(type(module)) if parameter.dim() > 1 else None
        parameter.copy_(_widened(known[source], parameter.shape, reads))
        if LAST_NORM.search(name):
            parameter.mul_(_as_before(small.config, large.config))


def _source(name: str, layers: int, wanted: int) -> tuple[str, bool]:
    """Return the smaller model's name of a parameter, and whether its layer repeats the one before it."""
    found = LAYER.search(name)
    if found is None:
        return name, False
    layer = int(found[1])
    source = layer * layers // wanted
    repeats = layer > 0 and (layer - 1) * layers // wanted == source
    return name[: found.start(1)] + str(source) + name[found.end(1) :], repeats


def _widened(weight: torch.Tensor, shape: torch.Size, reads: int | None) -> torch.Tensor:
    """Copy units along every dimension that grows, and divide along the one that reads."""
    for dimension, wanted in enumerate(shape):
        units = weight.shape[dimension]
        block = BLOCK if units % BLOCK == 0 else 1  # a bias of positions has a column for each head
        blocks = weight.unflatten(dimension, (-1, 1, block))
        copies = blocks.repeat_interleave(wanted // units, dimension + 1)
        if dimension == reads:
            shares = torch.rand_like(copies)
            copies = copies * shares / shares.sum(dimension + 1, keepdim=True)
        weight = copies.flatten(dimension, dimension + 2)
    return weight


def _as_before(small: Any, large: Any) -> float:
    """Return what the last states are to be multiplied by, since the logits sum over all copies of a unit."""
    times: float = large.hidden_size / small.hidden_size
    scaled = getattr(large, "scale_decoder_outputs", False)  # T5 divides them by the root of the width
    return times**-0.5 if scaled else 1 / times

"""Weights split over the processes (FSDP2): each keeps its part of weights, gradients and moments.

All modules are one unit: whole while they compute, split in between. States are whole in files, so that a run can go on
with another number of processes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._pytree import tree_map

from grue.training.devices import World

T = TypeVar("T")


class Split(nn.Module):
    """Modules whose weights are split over the processes; `shard` makes it."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, compute: Callable[[], T]) -> T:
        """Return what a computation returns (a tensor, or a dictionary of them), which finds the weights whole.

        Its backward pass leaves the gradients summed over the processes, and the weights split.
        """
        return compute()


def shard(modules: Iterable[nn.Module], world: World) -> Split:
    """Split the weights of some modules over the processes, of which there are several.

    From then on, gradients come from computations that the result of this is called with, equally often on every
    process; sampling and scoring, where processes differ, run inside `gathered`. The optimiser is made after this, and
    copies before: the modules cannot be copied any more.
    """
    mesh = init_device_mesh(world.device.type, (world.size,))
    split = Split(modules)
    settings = fully_shard(split, mesh=mesh, reshard_after_forward=False)  # in place
    settings.set_gradient_divide_factor(1.0)
    settings.set_force_sum_reduction_for_comms(True)  # gloo cannot do otherwise
    return split


@contextmanager
def gathered(split: Split) -> Iterator[None]:
    """Hold split weights whole for passes without gradients; all processes enter together, then each goes alone."""
    assert isinstance(split, FSDPModule), "made by shard"
    split.unshard()
    try:
        yield
    finally:
        split.reshard()


def whole(state: T) -> T:
    """Return a tensor, or nested dictionaries and lists of them, with every split one whole; all processes must ask."""
    full: T = tree_map(lambda value: value.full_tensor() if isinstance(value, DTensor) else value, state)
    return full


def load_whole(target: nn.Module | torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load a state of whole tensors into a module or an optimiser, split or not; all processes must have it."""
    if isinstance(target, nn.Module):
        own = target.state_dict()
        target.load_state_dict({name: _split_like(value, own.get(name)) for name, value in state.items()})
        return
    parameters = [parameter for group in target.param_groups for parameter in group["params"]]
    moments = {
        index: {name: _split_like(value, parameters[index]) for name, value in values.items()}
        for index, values in state["state"].items()
    }
    target.load_state_dict({**state, "state": moments})


def _split_like(value: Any, other: Any) -> Any:
    if not (isinstance(other, DTensor) and isinstance(value, Tensor) and value.shape == other.shape):
        return value
    return distribute_tensor(value.to(other.device), other.device_mesh, other.placements)

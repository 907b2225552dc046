"""Weights sharded over the processes (FSDP2): each process keeps its part of weights, gradients and moments.

All modules form one unit: gathered while they compute, sharded in between. Saved states hold whole tensors, so that a
run can resume with another number of processes. If nothing is sharded, every function here returns its input.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers import PreTrainedModel

from grue.lm.distributed import DistributedContext

T = TypeVar("T")


class ShardedWeights(nn.Module):
    """Modules whose weights are sharded over the processes; made by `shard`."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def forward(self, compute: Callable[[], T]) -> T:
        """Run a computation with the weights gathered, and return its result: a tensor, or a dictionary of tensors.

        Its backward pass sums the gradients over the processes and shards the weights again.
        """
        return compute()


def shard(
    modules: Iterable[nn.Module], optimizer: torch.optim.Optimizer, distributed: DistributedContext
) -> ShardedWeights:
    """Shard the weights of some modules over several processes.

    From then on, computations with gradients must be passed to the returned module, equally often on every process;
    sampling and scoring, where processes differ, run inside `gathered`. Sharded modules cannot be copied; copy them
    before. The optimiser is of these modules, before its first step; afterwards it holds the sharded weights.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    assert not optimizer.state, "moments are sharded by load_whole"
    sharded = ShardedWeights(modules)
    names = {parameter: name for name, parameter in sharded.named_parameters()}
    mesh = init_device_mesh(distributed.device.type, (distributed.size,))
    unit = fully_shard(sharded, mesh=mesh, reshard_after_forward=False)  # in place
    unit.set_gradient_divide_factor(1.0)
    unit.set_force_sum_reduction_for_comms(True)  # gloo supports nothing else
    parts = dict(sharded.named_parameters())
    for group in optimizer.param_groups:
        group["params"] = [parts[names[parameter]] for parameter in group["params"]]
    return sharded


@contextmanager
def gathered(sharded: ShardedWeights | None) -> Iterator[None]:
    """Gather sharded weights for passes without gradients; all processes must enter it, then run independently."""
    if sharded is None:
        yield
        return
    from torch.distributed.fsdp import FSDPModule

    assert isinstance(sharded, FSDPModule), "made by shard"
    sharded.unshard()
    try:
        yield
    finally:
        sharded.reshard()


def whole(state: T, keep: bool = True) -> T:
    """Return a tensor, or nested dictionaries and lists of them, with every sharded tensor gathered on the CPU.

    All processes must call this; one that passes `keep=False` gets empty tensors, which saves its memory.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return state
    from torch.distributed.tensor import DTensor

    def gather(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        full = value.full_tensor()
        return full.cpu() if keep else full.new_empty(0)

    full: T = tree_map(gather, state)
    return full


def load_whole(target: nn.Module | torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load a state of whole tensors into a module or an optimiser, sharded or not; every process needs the state."""
    if not (dist.is_available() and dist.is_initialized()):
        target.load_state_dict(dict(state))
        return
    if isinstance(target, nn.Module):
        own = target.state_dict()
        target.load_state_dict({name: _sharded_like(value, own.get(name)) for name, value in state.items()})
        return
    parameters = [parameter for group in target.param_groups for parameter in group["params"]]
    moments = {
        index: {name: _sharded_like(value, parameters[index]) for name, value in values.items()}
        for index, values in state["state"].items()
    }
    target.load_state_dict({**state, "state": moments})


def _sharded_like(value: Any, like: Any) -> Any:
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not (isinstance(like, DTensor) and isinstance(value, Tensor) and value.shape == like.shape):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)


def model_of(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> PreTrainedModel:
    """Return a copy of a sharded model with whole weights, for `save_pretrained`."""
    with torch.device("meta"):
        made: PreTrainedModel = type(model)(model.config)
    made.load_state_dict(weights, assign=True)
    made.tie_weights()
    return made

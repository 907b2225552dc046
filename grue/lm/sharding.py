"""Weights split over the processes (FSDP2): each keeps its part of weights, gradients and moments.

All modules are one unit: whole while they compute, split in between. States are whole in files, so that a run can go on
with another number of processes. Where nothing is split, everything here gives back what it got.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers import PreTrainedModel

from grue.errors import ConfigError, Unavailable
from grue.lm.distributed import DistributedContext
from grue.lm.settings import ModelSettings

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


def check_sharding(config: ModelSettings, world: DistributedContext) -> None:
    """Refuse a configuration whose weights cannot be split.

    Raises:
        ConfigError: The algorithm, the adapters or the devices do not allow it.
        Unavailable: This torch is too old.
    """
    if not config.sharded:
        return
    if config.lora_rank:
        raise ConfigError(
            "sharded: low-rank adapters have little to split, and the weights below them stay whole; set "
            "sharded = false or lora_rank = 0."
        )
    if world.device.type != world.wire.type:
        raise ConfigError(
            "sharded: every process needs a GPU of its own, and GRUE_DEVICE sends several to one; unset GRUE_DEVICE."
        )
    if world.size > 1 and not _can_shard():
        raise Unavailable(f"sharded: torch {torch.__version__} cannot split weights like this; upgrade torch.")


def _can_shard() -> bool:
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:
        return False
    return hasattr(FSDPModule, "set_force_sum_reduction_for_comms")


def shard(modules: Iterable[nn.Module], optimizer: torch.optim.Optimizer, world: DistributedContext) -> Split:
    """Split the weights of some modules over the processes, of which there are several.

    From then on, gradients come from computations that the result of this is called with, equally often on every
    process; sampling and scoring, where processes differ, run inside `gathered`. Copies are made before: the modules
    cannot be copied any more.

    Args:
        optimizer: Of these modules; it has not taken a step, and goes on with the split weights.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    assert not optimizer.state, "moments are split by load_whole"
    split = Split(modules)
    names = {parameter: name for name, parameter in split.named_parameters()}
    mesh = init_device_mesh(world.device.type, (world.size,))
    settings = fully_shard(split, mesh=mesh, reshard_after_forward=False)  # in place
    settings.set_gradient_divide_factor(1.0)
    settings.set_force_sum_reduction_for_comms(True)  # gloo cannot do otherwise
    parts = dict(split.named_parameters())
    for group in optimizer.param_groups:
        group["params"] = [parts[names[parameter]] for parameter in group["params"]]
    return split


@contextmanager
def gathered(split: Split | None) -> Iterator[None]:
    """Hold split weights whole for passes without gradients; all processes enter together, then each goes alone."""
    if split is None:
        yield
        return
    from torch.distributed.fsdp import FSDPModule

    assert isinstance(split, FSDPModule), "made by shard"
    split.unshard()
    try:
        yield
    finally:
        split.reshard()


def whole(state: T, keep: bool = True) -> T:
    """Return a tensor, or nested dictionaries and lists of them, with every split one whole, on the CPU.

    All processes must ask; one that does not `keep` them gets empty ones, and its memory is spared.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return state
    from torch.distributed.tensor import DTensor

    def one(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        full = value.full_tensor()
        return full.cpu() if keep else full.new_empty(0)

    full: T = tree_map(one, state)
    return full


def load_whole(target: nn.Module | torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load a state of whole tensors into a module or an optimiser, split or not; all processes must have it."""
    if not (dist.is_available() and dist.is_initialized()):
        target.load_state_dict(dict(state))
        return
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
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not (isinstance(other, DTensor) and isinstance(value, Tensor) and value.shape == other.shape):
        return value
    return distribute_tensor(value.to(other.device), other.device_mesh, other.placements)


def model_of(model: PreTrainedModel, weights: Mapping[str, Tensor]) -> PreTrainedModel:
    """Return a model like a split one, of whole weights, which `save_pretrained` writes as any other."""
    with torch.device("meta"):
        made: PreTrainedModel = type(model)(model.config)
    made.load_state_dict(weights, assign=True)
    made.tie_weights()
    return made

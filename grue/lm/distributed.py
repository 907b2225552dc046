"""The processes of a run: their ranks, their devices, and the collectives between them.

Every process samples and scores its share of the rows; `gather` and `gather_rows` then give all rows to all of them,
so that everything after is computed identically everywhere. Gradients are summed, not averaged: each process divides
the losses of its tokens by the token count of all processes. With a single process, every function returns its input at
no cost.

`torchrun --nproc-per-node N -m grue train …` or `accelerate launch --multi_gpu --num_processes N -m grue train …`
starts several; `join_processes` reads the environment that both set. B = rows of all processes, b = rows of one.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from grue.errors import ConfigError, TrainingError
from grue.lm.device import scoring_device

T = TypeVar("T")
Side = Literal["left", "right"]

CPU = torch.device("cpu")
LAUNCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
BUCKET = 2**23  # gradient elements sent at once: 32 MiB of float32


@dataclass(frozen=True, slots=True)
class DistributedContext:
    """The processes that train together, seen by one of them; ranks count from 0.

    Attributes:
        wire: The device from which tensors are sent: the GPU under NCCL, the CPU under gloo.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU
    wire: torch.device = CPU

    @property
    def is_main(self) -> bool:
        """Whether this is the process that prints, logs and saves."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return this process's share of `count` rows: contiguous, equal to within one, possibly empty."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def gather(self, objects: Sequence[T]) -> list[T]:
        """Return the lists of all processes as one, in the order of ranks; the objects must pickle."""
        if self.size == 1:
            return list(objects)
        parts: list[list[T]] = [[] for _ in range(self.size)]
        with _explained(self, "gather objects"):
            dist.all_gather_object(parts, list(objects))
        return [item for part in parts for item in part]

    def gather_rows(self, tensor: Tensor, side: Side = "right") -> Tensor:
        """Return the rows of all processes, in the order of ranks, as `rows_of` on the device of `tensor`, [b, ...]."""
        if self.size == 1:
            return tensor
        # As bytes, which numpy pickles several times as fast as torch does.
        parts = self.gather([tensor.detach().cpu().contiguous().view(torch.uint8).numpy()])
        return rows_of(*(torch.from_numpy(part).view(tensor.dtype) for part in parts), side=side).to(tensor.device)

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of the processes' tensors, which have one shape."""
        return self._reduce(tensor, dist.ReduceOp.SUM)

    def maximum(self, tensor: Tensor) -> Tensor:
        """Return the largest of the processes' tensors, element by element."""
        return self._reduce(tensor, dist.ReduceOp.MAX)

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any process."""
        return bool(self.maximum(torch.tensor(int(flag))))

    def barrier(self) -> None:
        """Wait until all processes have called this."""
        self.any(False)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its sum over the processes, in few large messages.

        A parameter without a gradient on this process counts as zeros; one without a gradient on any process gets
        none, so that the optimiser skips it, as with a single process. All processes must pass the same
        parameters in the same order.
        """
        if self.size == 1:
            return
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        present = self.maximum(torch.tensor([parameter.grad is not None for parameter in trainable], dtype=torch.uint8))
        trained = [parameter for parameter, some in zip(trainable, present.tolist(), strict=True) if some]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for bucket in _buckets([parameter.grad for parameter in trained if parameter.grad is not None]):
            total = self.sum(torch.cat([gradient.flatten() for gradient in bucket]))
            for gradient, part in zip(bucket, total.split([member.numel() for member in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def _reduce(self, tensor: Tensor, operation: Any) -> Tensor:
        if self.size == 1:
            return tensor
        result = tensor.detach().to(self.wire, copy=True)
        with _explained(self, "reduce"):
            dist.all_reduce(result, operation)
        return result.to(tensor.device)


def rows_of(*parts: Tensor, side: Side = "right") -> Tensor:
    """Return the rows of all parts, [B, ...]; parts, [b, ...], may differ only in b and in the second dimension.

    Narrower rows are padded with 0 on `side`.
    """
    if parts[0].ndim == 1:
        return torch.cat(parts)
    widest = max(part.shape[1] for part in parts)

    def wide(part: Tensor) -> Tensor:
        missing = widest - part.shape[1]
        return pad(part, (0, 0) * (part.ndim - 2) + ((missing, 0) if side == "left" else (0, missing)))

    return torch.cat([wide(part) for part in parts])


def join_processes() -> DistributedContext:
    """Join the processes that a launcher started; without one, return the context of a single process.

    The device is GRUE_DEVICE, else this process's own GPU, else the CPU. Several processes that GRUE_DEVICE puts on
    one GPU (`cuda:0`) share it and communicate through the CPU.

    A process waits for the others for GRUE_TIMEOUT minutes, by default 30.

    Raises:
        ConfigError: The launcher's environment is incomplete or asks for something unsupported, or GRUE_DEVICE is
            wrong.
        TrainingError: The other processes did not answer in time.
    """
    launched = _read_launch(os.environ)
    if launched is None:
        return DistributedContext(device=_device(0, 1))
    rank, size, local = launched
    device = _device(local, size)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if size == 1:
        return DistributedContext(device=device)
    own_gpu = device.type == "cuda" and ":" not in os.environ.get("GRUE_DEVICE", "")
    distributed = DistributedContext(rank, size, device, wire=device if own_gpu else CPU)
    if not dist.is_initialized():
        with _explained(distributed, "connect"):
            dist.init_process_group("nccl" if own_gpu else "gloo", timeout=_timeout())
    distributed.barrier()
    return distributed


def leave_processes() -> None:
    """Leave the process group, if any, without waiting for the others."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def _read_launch(environment: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Return rank, number of processes and rank on this machine; None without a launcher.

    MASTER_ADDR alone does not mean a launcher: clusters set it for every job.
    """
    _refuse_unsupported(environment)
    present = [name for name in LAUNCH if environment.get(name)]
    if not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & set(present):
        if "MASTER_ADDR" in present and "ACCELERATE_MIXED_PRECISION" in environment:
            raise ConfigError(
                "accelerate launch started one process where several were requested: it does so with --cpu, and on a "
                "machine with fewer than two GPUs. Use `accelerate launch --multi_gpu --num_processes N -m grue …` or "
                "`torchrun --nproc-per-node N -m grue …`; both run on the CPU if there is no GPU. "
                "If you want one process, unset MASTER_ADDR."
            )
        return None
    missing = [name for name in LAUNCH if name not in present]
    if missing:
        raise ConfigError(
            f"The environment sets {', '.join(present)}, but not {', '.join(missing)}: start the processes with "
            f"accelerate launch or torchrun, or unset {', '.join(present)} to run in a single process."
        )
    try:
        rank, size, local = (int(environment[name]) for name in LAUNCH[:3])
    except ValueError as error:
        raise ConfigError(f"RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers: {error}.") from error
    if not (0 <= rank < size and local >= 0):
        raise ConfigError(f"RANK is {rank}, WORLD_SIZE {size}, LOCAL_RANK {local}: ranks count from 0 up to the size.")
    return rank, size, local


def _refuse_unsupported(environment: Mapping[str, str]) -> None:
    for name, feature in (
        ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed"),
        ("ACCELERATE_USE_FSDP", "--use_fsdp"),
        ("ACCELERATE_USE_MEGATRON_LM", "Megatron-LM"),
    ):
        if environment.get(name, "false").lower() == "true":
            raise ConfigError(
                f"{name} is set, but the run's configuration decides what is sharded over the processes. Start "
                f"accelerate with --multi_gpu and without {feature}, and pass --set sharded=true to grue."
            )
    precision = environment.get("ACCELERATE_MIXED_PRECISION", "no")
    if precision != "no":
        raise ConfigError(
            f"accelerate launch was started with --mixed_precision {precision}, but the run's configuration sets the "
            "precision: start with --mixed_precision no, and pass --set precision=bfloat16 to grue."
        )


def _device(local: int, size: int) -> torch.device:
    """Return the device of the process with number `local` on its machine."""
    name = os.environ.get("GRUE_DEVICE", "")
    if name and name != "cuda":
        return scoring_device()
    if os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true" and not name:
        return CPU
    if torch.cuda.is_available():
        if local >= torch.cuda.device_count():
            raise ConfigError(
                f"Process {local} of this machine has no GPU: there are {torch.cuda.device_count()}. Start as many "
                "processes as GPUs, or set GRUE_DEVICE to cpu, or to one GPU (cuda:0) that all share."
            )
        return torch.device("cuda", local)
    if name:
        return scoring_device()  # raises, and explains why
    return torch.device("mps") if size == 1 and torch.backends.mps.is_available() else CPU


def _timeout() -> timedelta:
    minutes = os.environ.get("GRUE_TIMEOUT", "30")
    try:
        limit = timedelta(minutes=float(minutes))
        if not limit > timedelta(0):
            raise ValueError("not positive")
        return limit
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"GRUE_TIMEOUT is {minutes!r}: give the minutes that a process waits for another, such as 30."
        ) from error


@contextmanager
def _explained(distributed: DistributedContext, action: str) -> Iterator[None]:
    """Explain a failed collective: another process has died or hangs."""
    try:
        yield
    except RuntimeError as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TrainingError(
            f"Process {distributed.rank} of {distributed.size} could not {action} with the others: one of them has "
            "stopped, and its message says why, or it took longer than GRUE_TIMEOUT allows. Rerun the command to "
            f"resume from the last saved state. ({first})"
        ) from error


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Group consecutive gradients of one dtype and device into buckets of about `BUCKET` elements."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        alike = not bucket or (bucket[0].dtype, bucket[0].device) == (gradient.dtype, gradient.device)
        if bucket and (not alike or sum(member.numel() for member in bucket) + gradient.numel() > BUCKET):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket

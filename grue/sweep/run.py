"""A grid in its folder: who may work on it, whether it is finished, and where its runs are carried out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from grue.errors import ConfigError
from grue.evaluation.endpoint import checked
from grue.sweep.grid import SweepGrid
from grue.sweep.jobs import Job, plan_jobs, refuse_other_runs
from grue.sweep.record import Record
from grue.sweep.schedule import Executor
from grue.sweep.work import JobContext

DRIVERS = ("nvidiactl", "nvhost-gpu", "nvgpu", "nvmap", "dxg", "kfd")
"""Files in /dev if torch may find a GPU: NVIDIA's, Jetson's, that of Windows beneath Linux, and AMD's."""


@contextmanager
def claimed(grid: SweepGrid, place: JobContext) -> Iterator[tuple[list[Job], Record]]:
    """Claim a grid's folder for one sweep; yield its jobs, the finished ones too, and its record.

    Raises:
        ConfigError: A folder holds a run of another configuration, another sweep is at work there, or an endpoint's key
            is missing.
    """
    planned = plan_jobs(grid)
    for entry in grid.models:
        if entry.endpoint is not None:
            checked(replace(entry.endpoint, model=entry.model))  # a missing key is refused before anything runs
    with Record(place.runs).sole_owner():
        record = Record(place.runs)  # another sweep may have ended before this one got the lock
        refuse_other_runs(planned, place.runs, place.data_dir, record.finished)
        record.write_grid(grid)
        yield planned, record


def device_count() -> int:
    """Return how many GPUs this machine has; without a driver, torch is not imported."""
    if not any(os.path.exists(f"/dev/{driver}") for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def at_a_time(executor: str, jobs: int | None, threads: int, gpus: float, devices: int) -> int:
    """Return how many runs are carried out at once; for a Ray cluster, as if it were this machine alone.

    Args:
        gpus: Of each run; 0 for a whole one, and with Ray for none.
        devices: Number of this machine's GPUs.

    Raises:
        ConfigError: A local run cannot have so many.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS lacks it
    cpus = max(1, cores // threads)
    if executor == "ray":
        return jobs or (min(cpus, max(1, int(devices / gpus))) if gpus else cpus)
    if gpus > min(1, devices):
        raise ConfigError(
            f"--gpus {gpus:g}: this machine has {devices} GPUs, and a run on it takes one at most. Leave --gpus out, "
            "or give a share of one, such as 0.25."
        )
    room = devices * int(1 / (gpus or 1) + 1e-9)
    return min(jobs or room, room) if devices else jobs or cpus


def executor_for(
    record: Record,
    place: JobContext,
    name: str = "local",
    jobs: int | None = None,
    gpus: float = 0.0,
    address: str | None = None,
) -> Executor:
    """Return where runs are carried out; arguments and errors as in `at_a_time`, `address` is of a Ray cluster."""
    if name == "ray":
        from grue.sweep.on_ray import RayExecutor

        return RayExecutor(record, place, jobs=jobs, cpus=place.threads, gpus=gpus, address=address)
    from grue.sweep.local import LocalExecutor

    devices = device_count()
    return LocalExecutor(record, place, at_a_time(name, jobs, place.threads, gpus, devices), devices)

"""The executor on Ray: a remote call for each job, on any node of a cluster that has room for it.

A worker runs one job and exits, so that jobs do not share memory or threads. Only the job and its outcome pass through
Ray: all nodes share the folder of runs under the same path, where they read warm starts, write runs, and look for the
file that stops them.
"""

import logging
import os
import platform
import socket
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from grue import __version__, files
from grue.errors import ConfigError, DataError, GrueError
from grue.sweep.jobs import Job
from grue.sweep.record import Record
from grue.sweep.schedule import Outcome
from grue.sweep.work import MESSAGE_LENGTH, JobContext, carry_out, redirect_output

CONNECT_SECONDS = 5.0
# Otherwise Ray retries for minutes if another service listens at the address.
WHEN_JOINING = {"RAY_NUM_REDIS_GET_RETRIES": "1", "RAY_py_gcs_connect_timeout_s": "10"}
# Ray's memory for shared objects: by default a third of the machine's, and a sweep's tasks share none.
OBJECT_STORE_BYTES = 100 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExpectation:
    """What a worker checks on its node.

    Attributes:
        grid_path: A file in the folder of runs.
        stop_path: A file that is created to stop the workers.
        working: The folder in which the sweep was started, and to which its other paths are relative.
    """

    version: str
    grid_path: Path
    grid_hash: str
    stop_path: Path
    working: Path


class RayExecutor:
    """Workers on the nodes of a Ray cluster.

    Args:
        jobs: How many run at a time; None for as many as the nodes hold.
        cpus: CPUs of a job.
        gpus: GPUs of a job; with 0.5, two jobs share one; with 0, jobs compute on the CPU.
        address: Address of a running cluster, `host:port` or "auto"; None starts one on this machine, which ends with
            the sweep.

    Raises:
        ConfigError: Ray is not installed, the cluster cannot be joined, or none of its nodes has enough CPUs and GPUs.
    """

    def __init__(
        self,
        record: Record,
        place: JobContext,
        jobs: int | None,
        cpus: int = 1,
        gpus: float = 0.0,
        address: str | None = None,
    ) -> None:
        if gpus > 1 and gpus != int(gpus):
            raise ConfigError(f"--gpus {gpus}: more than one GPU must be a whole number.")
        self.record, self.place, self.jobs, self.cpus, self.gpus = record, place, jobs, cpus, gpus
        self.running: dict[Any, Job] = {}
        self.stopping = False
        self.expected = NodeExpectation(
            version=__version__,
            grid_path=record.grid_path,
            grid_hash=files.sha256_file(record.grid_path),
            # A new name: a node may still see a deleted file.
            stop_path=record.folder / f"stop-{uuid.uuid4().hex[:8]}",
            working=Path.cwd(),
        )
        self.ray = connect(address)
        self.room = room(self.ray.nodes(), cpus, gpus)
        if not self.room and jobs is None:
            self.close()
            needs = f"{cpus} CPU{'s' * (cpus > 1)}" + (f" and {gpus:g} GPU{'s' * (gpus > 1)}" if gpus else "")
            raise ConfigError(
                f"No node of the Ray cluster has {needs} for a run. Start one that has, ask for less with "
                "--threads and --gpus, or state with --jobs how many runs may wait for one."
            )
        environment = {"OMP_NUM_THREADS": str(cpus), "TOKENIZERS_PARALLELISM": "false"}
        if not gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""  # otherwise all runs of a node would use its first GPU
        self.remote = self.ray.remote(
            num_cpus=cpus,
            num_gpus=gpus,
            max_calls=1,
            max_retries=0,  # the sweep retries, and records it
            runtime_env={"env_vars": environment},
        )(work)

    def has_room(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether fewer jobs run than allowed; Ray queues those that do not fit."""
        return not running or len(running) < (self.jobs or self.room)

    def start(self, job: Job) -> None:
        """Submit a job to Ray."""
        self.running[self.remote.remote(job, self.place, self.record.log_path(job), self.expected)] = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs whose workers ended, with their outcomes."""
        references = list(self.running)
        ended, _ = self.ray.wait(references, num_returns=len(references), timeout=seconds)
        self.room = room(self.ray.nodes(), self.cpus, self.gpus)
        return [(job, self._collect(job, reference)) for reference in ended for job in [self.running.pop(reference)]]

    def stop(self) -> None:
        """Ask every worker to save and exit, by a file that it looks for after every update."""
        self.stopping = True
        self.expected.stop_path.touch()

    def close(self) -> None:
        """Kill the workers that still run, and leave the cluster; a cluster of this sweep's own ends."""
        for reference in self.running:
            self.ray.cancel(reference, force=True)
        self.running.clear()
        self.ray.shutdown()
        self.expected.stop_path.unlink(missing_ok=True)

    def _collect(self, job: Job, reference: Any) -> Outcome:
        try:
            outcome: Outcome = self.ray.get(reference)
            return outcome
        except self.ray.exceptions.RayError as error:
            log = self.record.log_path(job)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{error}\n")  # a page, of which the sweep shows one sentence
            if isinstance(error, self.ray.exceptions.RayTaskError):  # for example, grue is missing there, or too old
                message = f"A node of the cluster cannot run this job: {_last_line(error)}"
                return Outcome(state="failed", message=message)
            message = f"{type(error).__name__}: {_text(error).partition('. ')[0]}"
            return Outcome(state="stopped" if self.stopping else "crashed", message=message)


def work(job: Job, place: JobContext, log: Path, expected: NodeExpectation) -> Outcome:
    """Run a job in a worker of Ray, with its output in `log`."""
    try:
        check_node(expected)
        redirect_output(log)
    except GrueError as error:
        return Outcome(state="failed", message=f"Node {platform.node()}: {error}")
    if expected.stop_path.exists():  # stopped while waiting in Ray's queue
        return Outcome(state="stopped")
    if expected.working.is_dir():  # else Ray's own, where `./model` would be another, or an id of the hub
        os.chdir(expected.working)
    return carry_out(job, place, expected.stop_path.exists)


def check_node(expected: NodeExpectation) -> None:
    """Check that this node sees the folder of runs and has the same package version.

    Raises:
        ConfigError: It has another version.
        DataError: It does not see the folder.
    """
    if __version__ != expected.version:
        raise ConfigError(f"has grue {__version__}; the sweep was started with {expected.version}. Install the same.")
    path = expected.grid_path
    if not path.exists() or files.sha256_file(path) != expected.grid_hash:
        raise DataError(
            f"does not see {path} as the machine where the sweep was started does. All nodes must share the folder of "
            "runs under the same path."
        )


def room(nodes: Iterable[Mapping[str, Any]], cpus: int, gpus: float) -> int:
    """Return how many runs the living nodes can hold at a time."""
    total = 0
    for resources in (node["Resources"] for node in nodes if node["Alive"]):
        fits, have = int(resources.get("CPU", 0) / cpus), resources.get("GPU", 0)
        if gpus:  # a fraction of a GPU belongs to one GPU
            fits = min(fits, int(have) * int(1 / gpus + 1e-9) if gpus < 1 else int(have / gpus))
        total += fits
    return total


def connect(address: str | None) -> ModuleType:
    """Join a cluster, or start one on this machine; return the library.

    Raises:
        ConfigError: It is not installed, or the cluster cannot be joined or started.
    """
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is not None:
        _reach(address)
        for name, value in WHEN_JOINING.items():
            os.environ.setdefault(name, value)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # reads these variables
        import ray.exceptions
    except ImportError as error:
        raise ConfigError("--executor ray needs Ray, which is not installed: pip install 'grue[ray]'.") from error
    # The sweep itself reports a worker or node that died; Ray would print a page about it on stdout, with no option.
    ray._private.worker._worker_logs_enabled = False
    try:
        if address is None:
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and the bare Exception itself
        where = "Ray cannot start on this machine" if address is None else f"--address {address}: cannot be joined"
        raise ConfigError(f"{where}: {_text(_root(error))}") from error
    return ray


def _reach(address: str) -> None:
    """Check quickly that something listens at an address; Ray itself would retry for a minute."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and len(port) <= 5) or "://" in address:
        raise ConfigError(
            f"--address {address}: write host:port of the cluster's head, or auto on a node of it; a sweep runs on a "
            "node, not through ray://, since it must see the folder of runs."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--address {address}: no Ray cluster can be reached there ({error}). `ray start --head --port={port}` on "
            "its first node starts one; without --address the sweep starts its own on this machine."
        ) from error


def _root(error: BaseException) -> BaseException:
    """Return the first cause of an error: Ray reports a wrong token, for example, as a failed connection."""
    return error if error.__cause__ is None else _root(error.__cause__)


def _text(error: BaseException) -> str:
    """Return an error's text in one line; if it contains a traceback, its last line."""
    text = str(error).strip() or type(error).__name__
    return _last_line(error) if "Traceback (most recent call last)" in text else " ".join(text.split())[:MESSAGE_LENGTH]


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1][:MESSAGE_LENGTH]

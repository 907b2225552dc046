"""The executor on this machine: a process for each job, forked from one that has imported the libraries.

Importing torch and transformers takes longer than some mini runs; the fork server does it once. A worker exits as soon
as its sweep is gone, so that the same command can resume its run from the last saved state.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

from grue.errors import DataError, UnknownName
from grue.lm.device import available as available
from grue.processes import exit_with_parent
from grue.sweep.grid import ModelEntry
from grue.sweep.jobs import Job
from grue.sweep.record import Record, SweepEvent, alike
from grue.sweep.schedule import Outcome
from grue.sweep.work import JobContext, carry_out, redirect_output
from grue.task_files import load_task

PRELOADED = (
    "torch",
    "transformers.models.gpt2.modeling_gpt2",
    "transformers.models.t5.modeling_t5",
    "grue.evaluation.evaluate",
    "grue.algorithms.ppo",
    "grue.algorithms.supervised",
)

# Bytes of a worker without a model: Python, torch and transformers. Measured: 0.4 to 0.6 GB.
BASE = 700_000_000
# At most so many copies of the weights in reinforcement learning: policy, reference, critic, mask, gradients and two
# moments of policy and critic, and half as much for activations. Measured peaks of mini runs are lower.
COPIES = 16
# The same for evaluation alone: the file's content, the model in float32, and its caches.
COPIES_READ = 4


@dataclass(frozen=True, slots=True)
class Worker:
    """A running process.

    Attributes:
        result: The pipe for its outcome.
        expected: The most bytes that it may need; None if unknown.
    """

    job: Job
    process: BaseProcess
    result: Connection
    device: int | None
    expected: int | None


class LocalExecutor:
    """Processes on this machine.

    Args:
        jobs: How many run at a time; with GPUs, spread over them.
        devices: Number of GPUs.
    """

    def __init__(self, record: Record, place: JobContext, jobs: int, devices: int = 0) -> None:
        self.record, self.place = record, place
        self.jobs = jobs
        self.free_devices = [slot % devices for slot in range(jobs)] if devices else []
        self.workers: dict[str, Worker] = {}
        self.sizes: dict[str, int | None] = {}
        self.stopping = False
        os.environ["OMP_NUM_THREADS"] = str(place.threads or 1)  # read when torch is first imported, in the fork server
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(list(PRELOADED))

    def has_room(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether a worker is free and memory suffices, also for the growth of the running workers."""
        if not running:
            return True
        if len(running) >= self.jobs:
            return False
        free = available()
        if free is None:
            return True
        needed = self._expected(job)
        if needed is None or any(worker.expected is None for worker in self.workers.values()):
            return False  # the first run of an unknown model runs alone and is measured
        growing = sum(
            max(0, (worker.expected or 0) - resident(worker.process.pid or 0)) for worker in self.workers.values()
        )
        return needed + growing <= free

    def start(self, job: Job) -> None:
        """Start a worker."""
        receiver, sender = self.context.Pipe(duplex=False)
        device = self.free_devices.pop(0) if self.free_devices else None
        log = self.record.log_path(job)
        process = self.context.Process(target=work, args=(sender, job, self.place, log, device), name=job.id)
        with _without_main():
            process.start()
        sender.close()
        self.workers[job.id] = Worker(job, process, receiver, device, self._expected(job))

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs whose workers ended, with their outcomes."""
        wait([worker.process.sentinel for worker in self.workers.values()], timeout=seconds)
        ended = [worker for worker in self.workers.values() if not worker.process.is_alive()]
        return [(worker.job, self._collect(worker)) for worker in ended]

    def stop(self) -> None:
        """Ask every worker to save and exit."""
        self.stopping = True
        for worker in self.workers.values():
            worker.process.terminate()

    def close(self) -> None:
        """Kill the workers that still run."""
        for worker in self.workers.values():
            worker.process.kill()
            worker.process.join()
        self.workers.clear()

    def _collect(self, worker: Worker) -> Outcome:
        del self.workers[worker.job.id]
        if worker.device is not None:
            self.free_devices.append(worker.device)
        worker.process.join()
        with worker.result:
            try:
                outcome: Outcome = worker.result.recv()
                return outcome
            except (EOFError, OSError):  # no outcome, or only part of one
                message = how_it_died(worker.process.exitcode)
                return Outcome(state="stopped" if self.stopping else "crashed", message=message)

    def _expected(self, job: Job) -> int | None:
        if job.id not in self.sizes:  # called repeatedly for waiting jobs
            if isinstance(entry := job.entry, ModelEntry):
                size = weights_size(entry.model) if entry.endpoint is None else 0
            else:
                size = weights_size(entry.backbone or load_task(job.source, job.suite).backbone.model)
            self.sizes[job.id] = size
        return expected(job, self.sizes[job.id], self.record.ended())


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes that start within from importing the user's script: no run needs it, and it would sweep again."""
    script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def how_it_died(exitcode: int | None) -> str:
    """Return the message about a worker that ended without an outcome."""
    if exitcode is None or exitcode >= 0:
        return f"the worker ended with exit code {exitcode} and without a message"
    name = signal.Signals(-exitcode).name
    why = ", as the kernel does when memory runs out" if -exitcode == signal.SIGKILL else ""
    return f"the worker was killed by {name}{why}"


def work(result: Connection, job: Job, place: JobContext, log: Path, device: int | None) -> None:
    """Run a job in its own process, with its output in `log`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the sweep handles it
    try:
        redirect_output(log)
    except DataError as error:
        result.send(Outcome(state="failed", message=str(error)))
        return
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible(os.environ, device)
    exit_with_parent()
    outcome = carry_out(job, place)
    with contextlib.suppress(BrokenPipeError):  # the sweep is gone; the run's files remain
        result.send(outcome)


def visible(environment: Mapping[str, str], device: int) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES that selects the `device`-th of the visible GPUs."""
    names = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return names[device] if names else str(device)


# --- memory: a sweep that starts too many runs at once loses them all -------------------------------------------------


def resident(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the resident bytes of a process; 0 if it has ended."""
    try:
        status = (proc / str(pid) / "status").read_text()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(sizes[0]) * 1024 if sizes else 0


def expected(job: Job, weights: int | None, past: Iterable[SweepEvent]) -> int | None:
    """Return the most bytes that a job needs: the peak of the same run with other seeds, or else by the model's size.

    `weights` are the bytes of the model, 0 if it answers elsewhere.

    Returns:
        None if neither is known.
    """
    peaks = [event.peak_memory for event in alike(job, past) if event.peak_memory]
    if peaks:
        return max(peaks)
    copies = COPIES if job.trains else COPIES_READ
    return None if weights is None else BASE + copies * weights


def weights_size(model: str) -> int | None:
    """Return the bytes of a model's weights; None if it is not on this machine."""
    from grue.lm.folder import locate_model

    try:
        folder = Path(locate_model(model))
    except (DataError, UnknownName):
        return None  # the run's worker reports what is wrong
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")] if folder.is_dir() else []
    return sum(sizes) or None

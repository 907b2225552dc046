"""The loop of a sweep: starting, collecting and retrying jobs, independent of where they run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from grue.sweep.jobs import Job
from grue.sweep.record import Record, State

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job's worker ended.

    Attributes:
        state: "failed": with a reason, and a retry would fail, too; "crashed": it was killed, or hit a bug; "stopped":
            on request, with its progress saved.
        seconds: Stage → seconds.
        peak_memory: Bytes.
    """

    state: Literal["finished", "failed", "crashed", "stopped"]
    message: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int | None = None


class Executor(Protocol):
    """Where jobs run."""

    def has_room(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether a job can start beside the running ones."""

    def start(self, job: Job) -> None:
        """Start a job."""

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that ended; wait for at most `seconds`."""

    def stop(self) -> None:
        """Ask every running job to save its progress and end."""

    def close(self) -> None:
        """Release all resources."""


class SweepObserver(Protocol):
    """An observer of a sweep."""

    def changed(self, job: Job, state: State, message: str | None) -> None:
        """A job changed its state."""

    def tick(self, states: Mapping[str, State]) -> None:
        """Some time has passed."""


@dataclass
class Sweep:
    """A running sweep: the state of every job, in order.

    Attributes:
        retries: How often a crashed job is restarted.
        tries: Job → how often this command started it.
    """

    jobs: Sequence[Job]
    record: Record
    executor: Executor
    observer: SweepObserver
    retries: int = 1
    states: dict[str, State] = field(default_factory=dict)
    tries: dict[str, int] = field(default_factory=dict)
    running: dict[str, Job] = field(default_factory=dict)

    def run(self, stop: Callable[[], bool] = lambda: False) -> dict[str, State]:
        """Run every unfinished job; return the state of each.

        A failed job blocks only those that start from it. Finished jobs are not touched.
        """
        for job in self.jobs:
            self.states[job.id] = "finished" if self.record.finished(job) else "waiting"
        stopping = False
        try:
            while True:
                if stop() and not stopping:
                    stopping = True
                    self.executor.stop()
                if not stopping:
                    self._start_ready()
                if not self.running:
                    return self.states
                for job, outcome in self.executor.wait(POLL_SECONDS):
                    self._end(job, outcome)
                self.observer.tick(self.states)
        finally:
            self.executor.close()

    def _start_ready(self) -> None:
        for job in self.jobs:
            if self.states[job.id] != "waiting":
                continue
            before = None if job.after is None else self.states[job.after]
            if before in ("failed", "blocked"):
                self._set(job, "blocked", message=f"{job.after}, its warm start, failed")
            elif before in (None, "finished") and self.executor.has_room(job, list(self.running.values())):
                self.tries[job.id] = self.tries.get(job.id, 0) + 1
                self._set(job, "running", attempt=self.record.attempts(job) + 1)
                self.running[job.id] = job
                self.executor.start(job)

    def _end(self, job: Job, outcome: Outcome) -> None:
        del self.running[job.id]
        fields = {
            "attempt": self.record.attempts(job),
            "seconds": dict(outcome.seconds),
            "peak_memory": outcome.peak_memory,
            "message": outcome.message,
        }
        if outcome.state == "crashed" and self.tries[job.id] <= self.retries:
            self._set(job, "failed", **fields | {"message": f"{outcome.message}; it is started again"})
            self.states[job.id] = "waiting"
        else:
            self._set(job, "failed" if outcome.state == "crashed" else outcome.state, **fields)

    def _set(self, job: Job, state: State, **fields: object) -> None:
        self.states[job.id] = state
        event = self.record.add(job, state, **fields)
        self.observer.changed(job, state, event.message)

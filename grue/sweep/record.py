"""The folder of a sweep, `<runs>/sweep/`: its grid and the outcome of every job.

`sweep.toml` is the last grid, readable by `grue sweep --config`; `events.jsonl` has a line for each start and each
end; `logs/` has the output of the workers. A run's own files decide whether it is finished: without this folder, a
sweep would check every run again, but train none twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from grue import claims, files
from grue.errors import ConfigError, DataError
from grue.evaluation.folder import RESULT, fault_of, weights_of
from grue.shapes import from_dict
from grue.sweep.grid import SweepGrid, read_grid, write_grid
from grue.sweep.jobs import Job, kind_of, plan_jobs

State = Literal["waiting", "running", "finished", "failed", "blocked", "stopped"]
FOLDER = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEvent:
    """A change of a job's state.

    Attributes:
        identity: The job's identity; an event with another identity is about another run.
        time: UTC, ISO 8601.
        attempt: Counted from 1.
        seconds: Stage → seconds of a job that ended: "train" and "evaluate".
        peak_memory: Bytes of the worker of a job that ended.
        message: Why it failed.
    """

    job: str
    identity: str
    state: State
    time: str
    attempt: int = 1
    seconds: Mapping[str, float] | None = None
    peak_memory: int | None = None
    message: str | None = None


class Record:
    """The sweep of a folder of runs, on disk."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.folder = runs, runs / FOLDER
        self.events_path, self.grid_path = self.folder / "events.jsonl", self.folder / "sweep.toml"
        self.events: dict[str, list[SweepEvent]] = {}
        for event in _read_events(self.events_path):
            self.events.setdefault(event.job, []).append(event)

    def log_path(self, job: Job) -> Path:
        """The output of the job's workers."""
        return self.folder / "logs" / f"{job.id}.log"

    def write_grid(self, grid: SweepGrid) -> None:
        """Save the grid for `grue sweep status` and `grue submit pack`."""
        write_grid(self.grid_path, grid)

    def jobs(self) -> list[Job]:
        """Return the jobs of the last grid; a DataError if no sweep has run in this folder."""
        if not self.grid_path.exists():
            raise DataError(f"{self.runs}: no sweep has run here ({self.grid_path} is missing).")
        return plan_jobs(read_grid(self.grid_path))

    def add(self, job: Job, state: State, **fields: Any) -> SweepEvent:
        """Record an event; a DataError if it cannot be written, for example because the disk is full."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        event = SweepEvent(job=job.id, identity=job.identity, state=state, time=now, **fields)
        stated = {key: value for key, value in files.plain(event).items() if value is not None}
        files.append_jsonl(self.events_path, [stated])
        self.events.setdefault(event.job, []).append(event)
        return event

    def last(self, job: Job) -> SweepEvent | None:
        """Return the last event of the job with this identity."""
        events = [event for event in self.events.get(job.id, ()) if event.identity == job.identity]
        return events[-1] if events else None

    def beside(self, jobs: Sequence[Job]) -> dict[str, SweepEvent]:
        """Return job id → last event, for jobs of earlier grids that have a system of `jobs` but are not among them."""
        ids, systems = {job.id for job in jobs}, {(job.suite, job.system) for job in jobs}
        names = [name for name in self.events if (name.partition("/")[0], Path(name).parent.name) in systems]
        return {name: self.events[name][-1] for name in names if name not in ids}

    def attempts(self, job: Job) -> int:
        """Return how often the job with this identity was started."""
        events = self.events.get(job.id, ())
        return sum(event.state == "running" and event.identity == job.identity for event in events)

    def finished(self, job: Job) -> bool:
        """Whether the job is finished and its files are unchanged."""
        last = self.last(job)
        return last is not None and last.state == "finished" and self.fault(job) is None

    def fault(self, job: Job) -> str | None:
        """Return why the files of a finished job no longer count; None if they do.

        The weights themselves are not read, which would take long: their hashes are compared when they are loaded.
        """
        from grue.lm.checkpoint import MANIFEST, CheckpointManifest

        folder = self.runs / job.id
        try:
            manifest = None
            if job.trains:
                manifest = files.load_json(folder / "checkpoint" / MANIFEST, CheckpointManifest)
            if not job.evaluate:
                return None
            fault = fault_of(folder)
            if fault is not None:
                return f"{folder / fault[0]}: {fault[1]}."
            if manifest is not None and weights_of(folder) not in ("", manifest.weights):
                return f"{folder / RESULT}: of other weights than those of the checkpoint now."
            ended = [event.identity for event in self.events.get(job.id, ()) if event.state == "finished"]
            if job.identity in ended and ended[-1] != job.identity:
                return f"{folder / RESULT}: was written since by another grid, task file or code of a metric."
        except DataError as error:
            return str(error)
        return None

    def ended(self) -> Sequence[SweepEvent]:
        """Return every event with seconds."""
        return [event for events in self.events.values() for event in events if event.seconds is not None]

    def held(self) -> bool:
        """Whether a sweep is running in the folder; a DataError if the file system does not support locks."""
        return claims.is_held(self.folder)

    @contextmanager
    def sole_owner(self) -> Iterator[None]:
        """Lock the folder against a second sweep; the lock is released on exit.

        Raises:
            ConfigError: Another sweep holds it.
            DataError: The folder cannot be written.
        """
        refusal = (
            f"{self.runs}: another sweep is running here. `grue sweep status {self.runs}` shows it; wait for it, or "
            "choose another folder."
        )
        with claims.sole_owner(self.folder, refusal):
            if self.events_path.exists():
                files.drop_torn_line(self.events_path)  # otherwise the next event would be appended to the torn line
            yield


def alike(job: Job, events: Iterable[SweepEvent]) -> list[SweepEvent]:
    """Return the events of runs that differ from a job only in the seed."""
    same = (event for event in events if kind_of(event.job) == kind_of(job.id))
    return [event for event in same if event.identity == job.with_seed(int(event.job.rpartition("-")[2])).identity]


def _read_events(path: Path) -> Iterator[SweepEvent]:
    """Yield the events of a file, without an incomplete last line."""
    if not path.exists():
        return
    try:
        for number, line in files.read_growing_jsonl(path)[0]:
            yield from_dict(SweepEvent, line, f"{path}, line {number}")
    except (ConfigError, DataError) as error:
        raise DataError(
            f"{path}: is damaged. Remove it: a sweep recognises finished runs by their own files, and does not run "
            f"them again. {' '.join(str(error).split())}"
        ) from error

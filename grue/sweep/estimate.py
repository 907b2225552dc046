"""How long a sweep may take, from earlier runs in the folder or from measurements of the mini suite."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import median

from grue import files
from grue.sweep.jobs import Job
from grue.sweep.record import SweepEvent


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """Seconds of a sweep.

    Attributes:
        work: All known jobs, one after the other.
        wall: With the sweep's workers in parallel.
        unknown: Number of jobs without an estimate, in neither figure.
    """

    work: float
    wall: float
    unknown: int


def estimate(
    jobs: Sequence[Job], workers: int, past: Iterable[SweepEvent], gone: Mapping[str, float] | None = None
) -> TimeEstimate:
    """Return how long jobs may take on a number of workers.

    Args:
        jobs: The remaining jobs, running ones first.
        past: Events of jobs that ended.
        gone: Id of a running job → seconds since it started.
    """
    took: dict[str, list[float]] = {}
    for event in past:
        if event.state == "finished" and event.seconds:
            took.setdefault(_kind(event.job), []).append(sum(event.seconds.values()))
    known = [seconds_of(job, took) for job in jobs]
    begun = gone or {}
    seconds = [max(0.0, one - begun.get(job.id, 0.0)) for job, one in zip(jobs, known, strict=True) if one is not None]
    # Jobs start in order on the first free worker; with many jobs, warm starts hardly matter.
    ends = [0.0] * max(1, min(workers, len(seconds)))
    for one in seconds:
        ends[ends.index(min(ends))] += one
    return TimeEstimate(sum(seconds), max(ends), known.count(None))


def seconds_of(job: Job, took: Mapping[str, Sequence[float]]) -> float | None:
    """Return how long a job may take: the median of its kind, else the measured time; None if neither is known."""
    like = took.get(_kind(job.id))
    if like:
        return median(like)
    measured = _measured().get(job.suite, {}).get(job.task, {})
    updates = job.set.get("updates")
    if job.algorithm not in measured:
        return None
    seconds = measured[job.algorithm]
    return seconds if updates is None else seconds * float(updates) / measured["updates"]


def _kind(job_id: str) -> str:
    """Return a job's id without its seed."""
    return job_id.rpartition("/")[0]


@cache
def _measured() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return suite → task → algorithm → seconds of one run on one core, evaluation included."""
    with resources.as_file(resources.files("grue.sweep") / "seconds.toml") as path:
        return files.read_toml(path)

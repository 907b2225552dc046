"""Estimate how long a sweep takes, from earlier runs in the folder or from measurements of the mini suite."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import median

from grue import files
from grue.sweep.grid import ModelEntry
from grue.sweep.jobs import Job, kind_of
from grue.sweep.record import SweepEvent, alike

OF_WORK = (
    *("rollouts", "epochs", "critic_epochs", "train_share", "validation_examples", "validate_every", "precision"),
    *("samples_per_prompt", "redraws", "calibration_samples", "perturbations", "mask", "value_model", "data", "select"),
)
"""Settings besides `updates` that change the amount of work, and not in proportion."""


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The estimated seconds of a sweep.

    Attributes:
        work: All jobs with an estimate, one after the other.
        wall: With the sweep's workers in parallel.
        unknown: Number of jobs without an estimate, which neither figure includes.
    """

    work: float
    wall: float
    unknown: int


def estimate(
    jobs: Sequence[Job], workers: int, past: Iterable[SweepEvent], elapsed: Mapping[str, float] | None = None
) -> TimeEstimate:
    """Estimate how long remaining jobs take on a number of workers, running ones first.

    `elapsed` is id of a running job → seconds since it started.
    """
    ended: dict[str, list[SweepEvent]] = {}
    for event in past:
        if event.state == "finished" and event.seconds:
            ended.setdefault(kind_of(event.job), []).append(event)
    estimates = [seconds_of(job, ended.get(kind_of(job.id), ())) for job in jobs]
    begun = elapsed or {}
    seconds = [
        max(0.0, duration - begun.get(job.id, 0.0))
        for job, duration in zip(jobs, estimates, strict=True)
        if duration is not None
    ]
    # Jobs start in order on the first free worker; with many jobs, warm starts hardly matter.
    ends = [0.0] * max(1, min(workers, len(seconds)))
    for duration in seconds:
        ends[ends.index(min(ends))] += duration
    return TimeEstimate(sum(seconds), max(ends), estimates.count(None))


def seconds_of(job: Job, past: Iterable[SweepEvent]) -> float | None:
    """Estimate a job's seconds: the median of the same run with other seeds, or else those of the task's recipe.

    None if neither is known: the cost of another backbone, reward, preset or amount of work is not guessed.
    """
    like = [sum(event.seconds.values()) for event in alike(job, past) if event.seconds]
    if like:
        return median(like)
    measured = _measured().get(job.suite, {}).get(job.task, {})
    entry = job.entry
    if isinstance(entry, ModelEntry) or entry.algorithm not in measured:
        return None
    if entry.best_of or entry.backbone or entry.reward or entry.preset or not entry.set.keys().isdisjoint(OF_WORK):
        return None
    updates = entry.set.get("updates")
    seconds = measured[entry.algorithm]
    return seconds if updates is None else seconds * float(updates) / measured["updates"]


@cache
def _measured() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return suite → task → algorithm → seconds of one run on one core, evaluation included."""
    with resources.as_file(resources.files("grue.sweep") / "seconds.toml") as path:
        return files.read_toml(path)

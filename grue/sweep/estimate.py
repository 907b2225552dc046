"""Estimate how long a sweep takes, from earlier runs in the folder or from measurements of the mini suite."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from statistics import median

from grue import files
from grue.algorithms import BUILT_IN, SUPERVISED
from grue.records import BASELINES, with_backbone
from grue.sweep.fair import TWICE, ZERO_SHOT
from grue.sweep.grid import ModelEntry
from grue.sweep.jobs import Job, kind_of
from grue.sweep.record import SweepEvent, alike

OF_WORK = (
    *("rollouts", "epochs", "critic_epochs", "train_share", "validation_examples", "validate_every", "precision"),
    *("samples_per_prompt", "redraws", "calibration_samples", "perturbations", "mask", "value_model", "data", "select"),
)
"""Settings besides `updates` that change the amount of work, and not in proportion."""
METHODS = tuple(name for name in BUILT_IN if name != SUPERVISED)


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


@dataclass(frozen=True, slots=True)
class Duration:
    """The estimated seconds of a job.

    Attributes:
        after: In words, the other run that they are judged by; empty if such a run has been measured.
    """

    seconds: float
    after: str = ""


def estimate(
    jobs: Sequence[Job], workers: int, past: Iterable[SweepEvent], elapsed: Mapping[str, float] | None = None
) -> TimeEstimate:
    """Estimate how long remaining jobs take on a number of workers, running ones first.

    `elapsed` is id of a running job → seconds since it started.
    """
    estimates = durations_of(jobs, past)
    begun = elapsed or {}
    seconds = [
        max(0.0, duration.seconds - begun.get(job.id, 0.0))
        for job, duration in zip(jobs, estimates, strict=True)
        if duration is not None
    ]
    # Jobs start in order on the first free worker; with many jobs, warm starts hardly matter.
    ends = [0.0] * max(1, min(workers, len(seconds)))
    for duration in seconds:
        ends[ends.index(min(ends))] += duration
    return TimeEstimate(sum(seconds), max(ends), estimates.count(None))


def durations_of(jobs: Iterable[Job], past: Iterable[SweepEvent]) -> list[Duration | None]:
    """Estimate each job: the median of the same run with other seeds, or what the task's recipe takes, or a relative's.

    None if none is known: the cost of another backbone, reward, preset or amount of work is not guessed.
    """
    ended: dict[str, list[SweepEvent]] = {}
    for event in past:
        if event.state == "finished" and event.seconds:
            ended.setdefault(kind_of(event.job), []).append(event)
    return [_duration(job, ended) for job in jobs]


def unknown_because(job: Job) -> str:
    """Return what keeps a job from being estimated by what was measured, after "the time of runs"."""
    entry = job.entry
    if isinstance(entry, ModelEntry) or entry.backbone:
        return "with another model than the task's, by whose size it differs"
    if job.task not in _measured().get(job.suite, {}):
        return "on a task that ships without measurements"
    return "of an algorithm, a reward or an amount of work that was not measured"


def _duration(job: Job, ended: Mapping[str, Sequence[SweepEvent]]) -> Duration | None:
    entry, past = job.entry, ended.get(kind_of(job.id), ())
    like = [sum(event.seconds.values()) for event in alike(job, past) if event.seconds]
    if like:
        return Duration(median(like))
    if isinstance(entry, ModelEntry):
        return None
    if entry.algorithm == SUPERVISED and job.system.startswith(TWICE):
        plain = replace(job, system=with_backbone(SUPERVISED, entry.backbone), entry=replace(entry, set={}))
        once = _duration(plain, ended)
        return None if once is None else Duration(2 * once.seconds, f"twice {plain.system}")
    measured = _measured().get(job.suite, {}).get(job.task)
    if entry.best_of:
        of_start = ended.get(kind_of(job.after or ""), ())
        answered = [event.seconds["evaluate"] for event in of_start if event.seconds and "evaluate" in event.seconds]
        answered = answered or ([measured[ZERO_SHOT]] if measured and not entry.backbone else [])
        return Duration(entry.best_of * median(answered), f"{entry.best_of} evaluations") if answered else None
    if measured is None or entry.backbone or entry.reward or entry.preset or not entry.set.keys().isdisjoint(OF_WORK):
        return None
    start, _, algorithm = entry.algorithm.rpartition("+")
    name = entry.algorithm
    if algorithm not in (*METHODS, SUPERVISED, *BASELINES):  # one's own: like the slowest with the same start
        kin = [known for known in measured if known.rpartition("+")[0] == start and known.rpartition("+")[2] in METHODS]
        name = max(kin, key=measured.__getitem__, default=name)
    if name not in measured:
        return None
    updates = entry.set.get("updates")
    seconds = measured[name] if updates is None else measured[name] * float(updates) / measured["updates"]
    return Duration(seconds, "" if name == entry.algorithm else f"as {name}, the slowest")


@cache
def _measured() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return suite → task → algorithm → seconds of one run on one core, evaluation included."""
    with resources.as_file(resources.files("grue.sweep") / "seconds.toml") as path:
        return files.read_toml(path)

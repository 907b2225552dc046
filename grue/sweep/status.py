"""The status of a sweep: every job with its state and the latest figures of its log."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue import files
from grue.sweep.jobs import Job
from grue.sweep.record import Record, State

# Bytes at the end of a log, enough for the line of an update and of a validation.
TAIL = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job's status.

    Attributes:
        update: Finished updates; None before the first.
        updates: How many there will be.
        reward: Reward of the last update; None for supervised training.
        kl: KL from the initial policy, nats per sequence.
        seconds_left: Remaining seconds of training at the pace so far; None if unknown.
        preference: Preference of an evaluated run, 0–100.
        message: Why it failed.
    """

    job: Job
    state: State
    attempt: int = 1
    update: int | None = None
    updates: int | None = None
    reward: float | None = None
    kl: float | None = None
    seconds_left: float | None = None
    preference: float | None = None
    message: str | None = None


def rows_of(record: Record, jobs: Iterable[Job], states: Mapping[str, State] | None = None) -> list[JobRow]:
    """Return a row for every job.

    Args:
        states: The states in the running sweep; otherwise those of the last events.
    """
    return [_row(record, job, (states or {}).get(job.id) or state_of(record, job)) for job in jobs]


def state_of(record: Record, job: Job) -> State:
    """Return a job's recorded state; a running job without a running sweep counts as stopped."""
    if record.finished(job):
        return "finished"
    last = record.last(job)
    if last is None or last.state == "finished":
        return "waiting"  # never started, or its files are gone
    return "stopped" if last.state == "running" and not record.held() else last.state


def counts(rows: Iterable[JobRow]) -> dict[State, int]:
    """Return the number of jobs in each state."""
    return dict(Counter(row.state for row in rows))


def _row(record: Record, job: Job, state: State) -> JobRow:
    last = record.last(job)
    log = _tail(record.runs / job.id / "train.jsonl") if state in ("running", "stopped", "failed") else []
    updates = [line for line in log if "seconds" in line]
    newest = updates[-1] if updates else {}
    done, total = newest.get("update"), newest.get("of")
    left = None
    if state == "running" and done is not None and total is not None and done < total:
        left = (total - done) * sum(line["seconds"] for line in updates) / len(updates)
    return JobRow(
        job=job,
        state=state,
        attempt=max(1, record.attempts(job)),
        update=done,
        updates=total,
        reward=newest.get("objective/reward"),
        kl=newest.get("objective/kl_sequence"),
        seconds_left=left,
        preference=_preference(record.runs / job.id / "result.json") if state == "finished" else None,
        message=last.message if last is not None and state in ("failed", "blocked") else None,
    )


def _tail(path: Path) -> list[dict[str, Any]]:
    """Return the last complete lines of a log."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL))
        lines = file.read().split(b"\n")
    whole = lines[1 if size > TAIL else 0 : -1]
    return [json.loads(line) for line in whole if line]


def _preference(path: Path) -> float | None:
    return files.read_json(path).get("preference") if path.exists() else None


def systems(jobs: Sequence[Job]) -> dict[tuple[str, str], list[Job]]:
    """Return the evaluated jobs of every (suite, system)."""
    found: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if job.evaluate:
            found.setdefault((job.suite, job.system), []).append(job)
    return found

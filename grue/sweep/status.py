"""What is shown of a sweep: every job with its state, and what its run's log says of it so far."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue import files
from grue.sweep.jobs import Job
from grue.sweep.record import Record, State

# Bytes at a log's end that surely hold an update's line and a validation's.
TAIL = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as it is shown.

    Attributes:
        update: Updates, or epochs, that are done; None before the first.
        reward: Of the last update; supervised training has none.
        kl: Nats a sequence to the initial policy.
        seconds_left: Of its training, at the pace so far; None where nothing says.
        preference: 0 to 100, of an evaluated run.
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
        states: As the sweep at work knows them; without it, what the last events say.
    """
    return [_row(record, job, (states or {}).get(job.id) or state_of(record, job)) for job in jobs]


def state_of(record: Record, job: Job) -> State:
    """Return a job's state by what was written down; what no sweep holds any more was stopped."""
    if record.finished(job):
        return "finished"
    last = record.last(job)
    if last is None or last.state == "finished":
        return "waiting"  # never begun, or what it made is gone
    return "stopped" if last.state == "running" and not record.held() else last.state


def counts(rows: Iterable[JobRow]) -> dict[State, int]:
    """Return how many jobs are in which state."""
    return dict(Counter(row.state for row in rows))


def _row(record: Record, job: Job, state: State) -> JobRow:
    last = record.last(job)
    log = _tail(record.runs / job.id / "train.jsonl") if state in ("running", "stopped", "failed") else []
    updates = [line for line in log if "seconds" in line]
    total = _updates(job)
    newest = updates[-1] if updates else {}
    done = newest.get("update")
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


def _updates(job: Job) -> int | None:
    """Return how many updates, or epochs, a job's training has."""
    if job.is_baseline:
        return None
    from grue.runs.recipes import make_config
    from grue.task_files import load_task

    config = make_config(load_task(job.source, job.suite), job.algorithm, job.set, job.preset)
    return getattr(config, "updates", None) or getattr(config, "epochs", None)


def _tail(path: Path) -> list[dict[str, Any]]:
    """Return the last whole lines of a log; one that is just being written is left out."""
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

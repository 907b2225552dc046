"""The status of a sweep: every job with its state and the latest figures of its log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grue import files
from grue.errors import DataError
from grue.evaluation.folder import RESULT
from grue.records import Result
from grue.runs.log import NAME as LOG
from grue.runs.log import is_update, read_log
from grue.sweep.jobs import Job
from grue.sweep.record import Record, State


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job's status.

    Attributes:
        update: Finished updates; None before the first.
        updates: How many updates there will be.
        reward: Reward of the last update; None for supervised training.
        kl: KL from the initial policy, nats per sequence.
        seconds_left: Remaining seconds of training at the pace so far; None if unknown.
        message: Why it failed, or what is wrong with its files.
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

    `states` are those in the running sweep, else those of the last events count.
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


def _row(record: Record, job: Job, state: State) -> JobRow:
    last, folder, messages = record.last(job), record.runs / job.id, []
    if last is not None and last.message and state in ("failed", "blocked"):
        messages.append(last.message)
    if last is not None and last.state == "finished" and state == "waiting" and (fault := record.fault(job)):
        messages.append(f"it was finished, but {fault} The same `grue sweep` sees to it.")
    updates: list[dict[str, Any]] = []
    preference = None
    try:
        if state in ("running", "stopped", "failed") and (folder / LOG).exists():
            updates = [line for _, line in read_log(folder / LOG)[0] if is_update(line)]
        elif state == "finished" and job.evaluate:
            preference = files.load_json(folder / RESULT, Result).preference
    except DataError as error:
        messages.append(str(error))
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
        preference=preference,
        message=" ".join(messages) or None,
    )


def systems(jobs: Sequence[Job]) -> dict[tuple[str, str], list[Job]]:
    """Return the evaluated jobs of every (suite, system)."""
    by_system: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        if job.evaluate:
            by_system.setdefault((job.suite, job.system), []).append(job)
    return by_system

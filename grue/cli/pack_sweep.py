"""`grue submit pack --sweep`: every system of a sweep as its own submission."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from grue.errors import ConfigError, DataError, UnknownName, instead
from grue.records import BASELINES, LOOKUPS, SEEDLESS
from grue.submissions.folder import Submission
from grue.submissions.packing.collect import PackedRun, failed_beside, failed_run, read_run
from grue.submissions.packing.pack import describe
from grue.sweep.jobs import Job
from grue.sweep.record import Record
from grue.sweep.status import state_of, systems
from grue.task_files import SUITES, load_task

# Options that several systems cannot share.
OF_ONE = ("name", "algorithm", "backbone", "budget", "regression")
SHOWN = 10  # runs in a message


def pack_sweep(runs: Path, system: str | None, details: Mapping[str, Any]) -> list[tuple[list[PackedRun], Submission]]:
    """Return the runs and the submission.toml of every evaluated system of a sweep, or of the one of a name.

    A system on two suites is two. Suites without a board are left out, with a message on stderr. A DataError lists runs
    that are unfinished, or failed in an earlier sweep and are not in this one.

    Args:
        details: Of the submissions; what is of one system is refused for several.
    """
    record = Record(runs.absolute())
    evaluated = [(suite, name, jobs) for (suite, name), jobs in systems(record.jobs()).items()]
    names = list(dict.fromkeys(name for _, name, _ in evaluated))
    if system is not None and system not in names:
        raise UnknownName(f"{runs}: the sweep has no system {system!r}.{instead(system, names)}")
    chosen = [entry for entry in evaluated if system in (None, entry[1])]
    for suite in dict.fromkeys(suite for suite, _, _ in chosen if suite not in SUITES):
        click.echo(f"Left out: {suite}, which has no board.", err=True)
    packed = [(name, jobs) for suite, name, jobs in chosen if suite in SUITES]
    if not packed:
        raise DataError(f"{runs}: the sweep evaluated no run for a board, so that there is nothing to pack.")
    _refuse_lacking(record, [job for _, jobs in packed for job in jobs])
    shared = [key for key in OF_ONE if details.get(key)]
    if shared and len(packed) > 1:
        raise ConfigError(f"--{shared[0]} applies to one system, and the sweep has {len(packed)}; add --system NAME.")
    return [_described(name, _runs(record, jobs), details) for name, jobs in packed]


def _refuse_lacking(record: Record, jobs: Sequence[Job]) -> None:
    """Refuse unfinished runs, and failed ones that only an earlier grid in the folder had; tell of its other runs."""
    states = {job.id: state_of(record, job) for job in jobs}
    beside = record.beside(jobs)
    unfinished = [f"{state:9}{job}" for job, state in states.items() if state in ("waiting", "running", "stopped")]
    failed = [name for name, last in beside.items() if last.state in ("failed", "blocked")]
    for lacking, told in (
        (
            unfinished,
            f"{len(unfinished)} of {len(jobs)} runs are unfinished; the same `grue sweep` resumes them, and "
            "--system NAME packs one system alone:",
        ),
        (
            failed,
            "the last grid leaves out what failed in an earlier one, and every run that was started counts; repeat "
            "`grue sweep` with a grid that has it, or pack RUN... with --failed TASK:SEED:",
        ),
    ):
        if lacking:
            raise DataError("\n  ".join([f"{record.runs}: {told}", *_shortened(lacking)]))
    for line in _shortened([f"{name} ({last.state})" for name, last in beside.items()]):
        click.echo(f"Not packed, since the last grid lacks it: {line}", err=True)


def _shortened(lines: Sequence[str]) -> list[str]:
    return [*lines[:SHOWN], *([f"… and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])]


def _runs(record: Record, jobs: Sequence[Job]) -> list[PackedRun]:
    runs = [read_run(record.runs / job.id) for job in jobs if record.finished(job)]
    results = [run.result for run in runs]
    for job in (job for job in jobs if not record.finished(job)):
        task, last = load_task(job.source, job.suite), record.last(job)
        backbone = getattr(job.entry, "backbone", None) or task.backbone.model
        system = {"name": job.system, "algorithm": job.algorithm, "backbone": backbone}
        runs.append(failed_beside(results, task, job.seed) if results else failed_run(task, job.seed, system))
        click.echo(f"Declared failed: {job.id}: {last.message if last else ''}", err=True)
    return runs


def _described(name: str, runs: list[PackedRun], details: Mapping[str, Any]) -> tuple[list[PackedRun], Submission]:
    if all(run.predictions is None for run in runs):
        raise ConfigError(f"{name}: every run failed: there is no result to submit.")
    stated = {"budget": "no training"} if name in BASELINES else {}
    stated |= {"backbone": "none"} if name in (*SEEDLESS, *LOOKUPS) else {}
    submission = describe(runs, stated | {key: value for key, value in details.items() if value})
    return runs, replace(submission, deterministic=submission.deterministic or name in SEEDLESS)

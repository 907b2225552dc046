"""`grue submit pack --sweep`: every system of a sweep as its own submission."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grue.errors import ConfigError, DataError, UnknownName, instead
from grue.records import BASELINES, LOOKUPS, SEEDLESS

if TYPE_CHECKING:
    from grue.submissions.folder import Submission
    from grue.submissions.packing.collect import PackedRun
    from grue.sweep.jobs import Job
    from grue.sweep.record import Record

# Options that several systems cannot share.
OF_ONE = ("name", "algorithm", "budget", "regression")
SHOWN = 10  # runs in a message


def runs_of_sweep(runs: Path, system: str | None, versions: Mapping[str, Any]) -> "list[tuple[str, list[PackedRun]]]":
    """Return the evaluated systems of a sweep, or those of one name, with their runs; failed runs are declared failed.

    A system on two suites is two. Suites without a board are left out, with a message on stderr.

    Args:
        versions: The versions that the result of a failed run records.

    Raises:
        DataError: There was no sweep, or some of its runs are unfinished, or an earlier sweep had failed runs that
            this one lacks; the message lists them.
        UnknownName: The sweep has no such system.
        SubmissionError, DataError: A result cannot be read.
    """
    from grue.sweep.record import Record
    from grue.sweep.status import systems
    from grue.task_files import SUITES

    record = Record(runs.absolute())
    all_systems = [(suite, name, jobs) for (suite, name), jobs in systems(record.jobs()).items()]
    names = list(dict.fromkeys(name for _, name, _ in all_systems))
    if system is not None and system not in names:
        raise UnknownName(f"{runs}: the sweep has no system {system!r}.{instead(system, names)}")
    chosen = [entry for entry in all_systems if system in (None, entry[1])]
    for suite in dict.fromkeys(suite for suite, _, _ in chosen if suite not in SUITES):
        click.echo(f"Left out: {suite}, which has no board.", err=True)
    packed = [(name, jobs) for suite, name, jobs in chosen if suite in SUITES]
    if not packed:
        raise DataError(f"{runs}: the sweep evaluated no run for a board, so that there is nothing to pack.")
    _refuse_unfinished(record, [job for _, jobs in packed for job in jobs])
    _tell_of_earlier_grids(record, [job for _, jobs in packed for job in jobs])
    return [(name, _runs(record, jobs, versions)) for name, jobs in packed]


def _tell_of_earlier_grids(record: "Record", jobs: "Sequence[Job]") -> None:
    """Print which runs of these systems only earlier grids in the folder had.

    Raises:
        DataError: Some of them failed, and would be left out.
    """
    beside = record.beside(jobs)
    failed = [name for name, last in beside.items() if last.state in ("failed", "blocked")]
    if failed:
        raise DataError(
            "\n  ".join(
                [
                    f"{record.runs}: the last grid leaves out what failed in an earlier one, and every run that was "
                    "started counts; repeat `grue sweep` with a grid that has it, or pack RUN... with "
                    "--failed TASK:SEED:",
                    *_shortened(failed),
                ]
            )
        )
    for line in _shortened([f"{name} ({last.state})" for name, last in beside.items()]):
        click.echo(f"Not packed, since the last grid lacks it: {line}", err=True)


def _shortened(lines: Sequence[str]) -> list[str]:
    return [*lines[:SHOWN], *([f"… and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])]


def _refuse_unfinished(record: "Record", jobs: "Sequence[Job]") -> None:
    from grue.sweep.status import state_of

    states = {job.id: state_of(record, job) for job in jobs}
    unfinished = [f"{state:9}{job}" for job, state in states.items() if state in ("waiting", "running", "stopped")]
    if unfinished:
        raise DataError(
            "\n  ".join(
                [
                    f"{record.runs}: {len(unfinished)} of {len(jobs)} runs are unfinished; the same `grue sweep` "
                    "resumes them, and --system NAME packs one system alone:",
                    *_shortened(unfinished),
                ]
            )
        )


def _runs(record: "Record", jobs: "Sequence[Job]", versions: Mapping[str, Any]) -> "list[PackedRun]":
    """Read the runs of one system."""
    from grue.submissions.packing.collect import failed_beside, failed_run, read_run
    from grue.task_files import load_task

    runs = [read_run(record.runs / job.id) for job in jobs if record.finished(job)]
    results = [run.result for run in runs]
    for job in (job for job in jobs if not record.finished(job)):
        task, last = load_task(job.source, job.suite), record.last(job)
        backbone = getattr(job.entry, "backbone", None) or task.backbone.model
        system = {"name": job.system, "algorithm": job.algorithm, "backbone": backbone}
        runs.append(
            failed_beside(results, task, job.seed, versions)
            if results
            else failed_run(task, job.seed, system, versions)
        )
        click.echo(f"Declared failed: {job.id}: {last.message if last else ''}", err=True)
    return runs


def describe_each(systems: "Sequence[tuple[str, list[PackedRun]]]", details: Mapping[str, Any]) -> "list[Submission]":
    """Return the content of each system's submission.toml.

    Raises:
        ConfigError: An option applies to one system and there are several, or something is missing.
    """
    from grue.submissions.packing.pack import describe

    shared = [key for key in OF_ONE if details.get(key)]
    if shared and len(systems) > 1:
        raise ConfigError(f"--{shared[0]} applies to one system, and the sweep has {len(systems)}; add --system NAME.")
    described = []
    for name, runs in systems:
        if all(run.predictions is None for run in runs):
            raise ConfigError(f"{name}: every run failed: there is no result to submit.")
        untrained = {"budget": "no training"} if name in BASELINES else {}
        without_model = {"backbone": "none"} if name in (*SEEDLESS, *LOOKUPS) else {}
        submission = describe(
            runs, {**untrained, **without_model, **{key: value for key, value in details.items() if value}}
        )
        described.append(replace(submission, deterministic=submission.deterministic or name in SEEDLESS))
    return described

"""Checking submissions: every problem is reported, not only the first.

Nothing in a submission is executed, followed or written. A broken file hides no problem of another file, and a broken
submission none of another submission.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from grue.files import sha256_text
from grue.processes import exit_with_parent
from grue.submissions.checks.rescoring import Findings, SubmittedRun, TaskRuns, check_task
from grue.submissions.checks.structure import Contents, read_system
from grue.submissions.folder import place_of, systems
from grue.submissions.problems import Problem, warning
from grue.task_files import SUITES, task_names

ONE_PROCESS = 20  # results up to which one process is faster than starting several


def check(
    folder: Path | Sequence[Path],
    others: Path | None = None,
    processes: int | None = None,
    sample: str | None = None,
) -> list[Problem]:
    """Return every problem of the submissions in `folder`, sorted by path and id.

    A submission is also compared with the systems beside it, whose predictions it must not share.

    Args:
        folder: `submissions/`, a suite's folder in it, or a system's. Several are checked together.
        others: A further folder `submissions/` of systems to compare with, such as the base branch's.
        processes: How many score in parallel. None: one for each processor, or a single one for few results.
        sample: Compute the scores of one seed of each system and task again, drawn by this text, and take those of the
            others as stated; all else is checked. None: the scores of all.

    Raises:
        DataError: There is no such folder.
    """
    folders = [folder] if isinstance(folder, Path) else list(folder)
    read = [read_system(system) for system in dict.fromkeys(system for path in folders for system in systems(path))]
    problems = [problem for contents in read for problem in contents.problems]
    beside = [read_system(system) for system in _systems_beside(read, others)]
    findings = _check_tasks(read, beside, processes, sample)
    problems += [problem for found in findings for problem in found.problems]
    missing = dict.fromkeys(line for found in findings for line in found.missing)
    problems += [warning(39, folders[0], line) for line in missing]
    return sorted(set(problems), key=lambda problem: (problem.path, problem.id, problem.message))


def _systems_beside(read: Sequence[Contents], others: Path | None) -> list[Path]:
    """Return the folders of the systems beside those read, then of those in `others`, each name once."""
    suites = {contents.system.parent for contents in read if contents.suite and not contents.system.parent.is_symlink()}
    beside = [path for suite in sorted(suites) for path in sorted(suite.glob("[!.]*")) if path.is_dir()]
    known = {place_of(contents.system).parts[-2:] for contents in read}
    by_name: dict[tuple[str, ...], Path] = {}
    for path in (*(systems(others) if others is not None else ()), *beside):
        name = place_of(path).parts[-2:]
        if name not in known:
            by_name.setdefault(name, path)
    return list(by_name.values())


def _check_tasks(
    read: Sequence[Contents], beside: Sequence[Contents], processes: int | None, sample: str | None
) -> list[Findings]:
    jobs = [
        (suite, task, tuple(_task_runs(read, beside, suite, task, sample)))
        for suite in SUITES
        for task in task_names(suite)
        if any(contents.suite == suite and task in contents.runs for contents in read)
    ]
    results = sum(len(runs.runs) for _, _, of_systems in jobs for runs in of_systems if runs.is_checked)
    wanted = min(processes or (1 if results <= ONE_PROCESS else os.cpu_count() or 1), len(jobs))
    if wanted <= 1:
        return [check_task(*job) for job in jobs]
    return _in_processes(jobs, wanted)


def _in_processes(jobs: Sequence[tuple[str, str, tuple[TaskRuns, ...]]], processes: int) -> list[Findings]:
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin_work) as pool:
        return list(pool.map(check_task, *zip(*jobs, strict=True)))


def _task_runs(
    read: Sequence[Contents], beside: Sequence[Contents], suite: str, task: str, sample: str | None
) -> Iterator[TaskRuns]:
    for group, is_checked in ((read, True), (beside, False)):
        for contents in group:
            if contents.suite == suite and task in contents.runs:
                runs = contents.runs[task]
                if sample is not None:
                    drawn = _drawn(runs, f"{sample} {suite} {task} {contents.system.name}")
                    runs = tuple(replace(run, rescored=run is drawn) for run in runs)
                yield TaskRuns(contents.system, task in contents.references, is_checked, runs)


def _drawn(runs: Sequence[SubmittedRun], sample: str) -> SubmittedRun | None:
    """Return one of the runs that have predictions, drawn by a text; None if none has."""
    answered = [run for run in runs if run.predictions is not None]
    return answered[int(sha256_text(sample), 16) % len(answered)] if answered else None


def _begin_work() -> None:
    exit_with_parent()  # the workers of a pool that was killed would wait for ever
    # One thread for each process: torch with several threads in several processes slows them all down.
    os.environ["OMP_NUM_THREADS"] = "1"

"""What a submission must pass, all of it told and not only the first: `check`.

Nothing of a submission is executed, followed or written. One broken file hides no other's problem, and one broken
submission no other's.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from grue.errors import Unavailable
from grue.submissions.folder import place_of, systems
from grue.submissions.problems import Problem, warning
from grue.submissions.rescoring import Findings, TaskRuns, check_task
from grue.submissions.structure import Contents, read_system
from grue.submissions.wording import check_name
from grue.task_files import SUITES, task_names

ONE_PROCESS = 20  # results that one process scores sooner than several are started


def check(folder: Path, others: Path | None = None, processes: int | None = None) -> list[Problem]:
    """Return every problem of the submissions in `folder`, sorted by path and id.

    A submission is also held against the systems beside it, whose names and predictions it must not have.

    Args:
        folder: `submissions/`, a suite's folder in it, or a system's.
        others: A further folder `submissions/` of systems to hold it against, such as the merge base's.
        processes: How many score at a time; None for one a processor, or one in all if there is little to score.

    Raises:
        DataError: There is no such folder.
        Unavailable: No problem keeps the submissions off the board, but this machine lacks what is needed to score all
            of them. Where there is an error, what is lacking is told as a warning beside it.
    """
    read = [read_system(system) for system in systems(folder)]
    problems = [problem for one in read for problem in one.problems]
    beside = [read_system(system) for system in _systems_beside(read, others)]
    for one in read:
        names = {other.system.name: other.system for other in (*read, *beside) if other.suite == one.suite}
        problems += check_name(one.system, names)
    findings = _check_tasks(read, beside, processes)
    problems += [problem for found in findings for problem in found.problems]
    missing = list(dict.fromkeys(line for found in findings for line in found.missing))
    if missing and not any(problem.severity == "error" for problem in problems):
        raise Unavailable("\n".join(["Not everything could be checked on this machine:", *missing]))
    problems += [warning(39, folder, line) for line in missing]
    return sorted(problems, key=lambda problem: (problem.path, problem.id, problem.message))


def _systems_beside(read: Sequence[Contents], others: Path | None) -> list[Path]:
    """Return the folders of the systems beside those read, then of those in `others`, each name once."""
    suites = {one.system.parent for one in read if one.suite and not one.system.parent.is_symlink()}
    beside = [path for suite in sorted(suites) for path in sorted(suite.glob("[!.]*")) if path.is_dir()]
    known = {place_of(one.system).parts[-2:] for one in read}
    found: dict[tuple[str, ...], Path] = {}
    for path in (*beside, *(systems(others) if others is not None else ())):
        name = place_of(path).parts[-2:]
        if name not in known:
            found.setdefault(name, path)
    return list(found.values())


def _check_tasks(read: Sequence[Contents], beside: Sequence[Contents], processes: int | None) -> list[Findings]:
    jobs = [
        (suite, task, tuple(_task_runs(read, beside, suite, task)))
        for suite in SUITES
        for task in task_names(suite)
        if any(one.suite == suite and task in one.runs for one in read)
    ]
    results = sum(len(runs.runs) for _, _, systems_of in jobs for runs in systems_of if runs.is_checked)
    wanted = processes or (1 if results <= ONE_PROCESS else os.cpu_count() or 1)
    if min(wanted, len(jobs)) <= 1:
        return [check_task(*job) for job in jobs]
    # Each in a process of its own with one thread: torch in several processes with several threads slows them all down.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(wanted, len(jobs)), context, _use_one_thread) as pool:
        return [future.result() for future in [pool.submit(check_task, *job) for job in jobs]]


def _task_runs(read: Sequence[Contents], beside: Sequence[Contents], suite: str, task: str) -> Iterator[TaskRuns]:
    for group, is_checked in ((read, True), (beside, False)):
        for one in group:
            if one.suite == suite and task in one.runs:
                yield TaskRuns(one.system, one.is_reference, is_checked, one.runs[task])


def _use_one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"

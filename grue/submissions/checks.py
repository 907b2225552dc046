"""Checking submissions: every problem is reported, not only the first.

Nothing in a submission is executed, followed or written. A broken file hides no problem of another file, and a broken
submission none of another submission.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from grue.errors import Unavailable
from grue.submissions.by_reference import by_reference_files
from grue.submissions.folder import BY_REFERENCE, place_of, systems
from grue.submissions.problems import Problem, warning
from grue.submissions.referred_checks import Fetching, check_not_by_reference, check_referred_systems
from grue.submissions.rescoring import Findings, TaskRuns, check_task
from grue.submissions.structure import Contents, read_system
from grue.submissions.wording import check_name
from grue.task_files import SUITES, task_names

ONE_PROCESS = 20  # results up to which one process is faster than starting several


def check(
    folder: Path, others: Path | None = None, processes: int | None = None, fetching: Fetching | None = None
) -> list[Problem]:
    """Return every problem of the submissions in `folder`, sorted by path and id.

    A submission is also compared with the systems beside it, whose names and predictions it must not share.

    Args:
        folder: `submissions/`, a suite's folder in it, or a system's: its folder, or its file if it is by reference.
        others: A further folder `submissions/` of systems to compare with, such as the merge base's.
        processes: How many score in parallel. None: one for each processor, or a single one for few results.
        fetching: How to download the outputs of systems by reference and score them again; None not to.

    Raises:
        ConfigError: The data that `fetching` names is for one task, and there are several.
        DataError: There is no such folder.
        Unavailable: There is no error, but this machine lacks what scoring all of them needs. If there is an error,
            what is missing is a warning beside it.
    """
    read = [read_system(system) for system in systems(folder)]
    problems = [problem for one in read for problem in one.problems]
    beside = [read_system(system) for system in _systems_beside(read, others)]
    for one in read:
        names = {other.system.name: other.system for other in (*read, *beside) if other.suite == one.suite}
        names |= {path.name.removesuffix(BY_REFERENCE): path for path in by_reference_files(one.system.parent)}
        problems += [*check_name(one.system, names), *check_not_by_reference(one.system)]
    findings = [*_check_tasks(read, beside, processes), *check_referred_systems(folder, fetching)]
    problems += [problem for found in findings for problem in found.problems]
    missing = list(dict.fromkeys(line for found in findings for line in found.missing))
    if missing and not any(problem.severity == "error" for problem in problems):
        raise Unavailable("\n".join(["This machine could not check everything:", *missing]))
    problems += [warning(39, folder, line) for line in missing]
    return sorted(set(problems), key=lambda problem: (problem.path, problem.id, problem.message))


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
    # One thread for each process: torch with several threads in several processes slows them all down.
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

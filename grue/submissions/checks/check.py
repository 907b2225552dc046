"""Checking submissions: every problem is reported, not only the first.

Nothing in a submission is executed, followed or written. A broken file hides no problem of another file, and a broken
submission none of another submission.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path

from grue.errors import Unavailable
from grue.files import sha256_text
from grue.processes import exit_with_parent
from grue.submissions.by_reference.checks import Fetching, check_not_by_reference, check_referred_systems
from grue.submissions.by_reference.system import by_reference_files
from grue.submissions.checks.rescoring import Findings, SubmittedRun, TaskRuns, check_task
from grue.submissions.checks.reviewed import Reviews, accepted, read_reviewed
from grue.submissions.checks.structure import Contents, read_system
from grue.submissions.checks.wording import check_name
from grue.submissions.folder import BY_REFERENCE, place_of, systems
from grue.submissions.problems import Problem, error, warning
from grue.task_files import SUITES, task_names

ONE_PROCESS = 20  # results up to which one process is faster than starting several


def check(
    folder: Path | Sequence[Path],
    others: Path | None = None,
    processes: int | None = None,
    reviews: Reviews | None = None,
    seconds: float | None = None,
    fetching: Fetching | None = None,
    known: Sequence[Problem] = (),
    sample: str | None = None,
) -> list[Problem]:
    """Return every problem of the submissions in `folder`, sorted by path and id.

    A submission is also compared with the systems beside it, whose names and predictions it must not share. What is
    usual on a task is read off those that are not checked, if there are any: nobody vouches for himself.

    Args:
        folder: `submissions/`, a suite's folder in it, or a system's: its folder, or its file if it is by reference.
            Several are checked together.
        others: A further folder `submissions/` of systems to compare with, such as the merge base's.
        processes: How many score in parallel. None: one for each processor, or a single one for few results.
        reviews: What maintainers have accepted. None: what `reviewed.toml` beside the suites says.
        seconds: How long scoring may take; what is not done then is an error. None: without limit.
        fetching: How to download the outputs of systems by reference and score them again; None not to.
        known: Problems that were found before; if one is more than a warning, what this machine lacks is a warning.
        sample: Compute the scores of one seed of each system and task again, drawn by this text, and take those of the
            others as stated; all else is checked. None: the scores of all.

    Raises:
        ConfigError: The data that `fetching` names is for one task, and there are several, or `reviewed.toml` cannot be
            read.
        DataError: There is no such folder.
        Unavailable: There are only warnings, but this machine lacks what scoring all of them needs. Beside an error or
            something to review, what is missing is a warning.
    """
    folders = [folder] if isinstance(folder, Path) else list(folder)
    read = [read_system(system) for system in dict.fromkeys(system for path in folders for system in systems(path))]
    problems = [problem for one in read for problem in one.problems]
    beside = [read_system(system) for system in _systems_beside(read, others)]
    for one in read:
        names = {other.system.name: other.system for other in (*read, *beside) if other.suite == one.suite}
        names |= {path.name.removesuffix(BY_REFERENCE): path for path in by_reference_files(one.system.parent)}
        problems += [*check_name(one.system, names, one.is_reference), *check_not_by_reference(one.system)]
    findings = _check_tasks(read, beside, processes, seconds, sample)
    findings += [found for path in folders for found in check_referred_systems(path, fetching)]
    problems += [problem for found in findings for problem in found.problems]
    problems = [_reviewed(problem, read, reviews) for problem in problems]
    missing = list(dict.fromkeys(line for found in findings for line in found.missing))
    if missing and all(problem.severity == "warning" for problem in (*problems, *known)):
        raise Unavailable("\n".join(["This machine could not check everything:", *missing]))
    problems += [warning(39, folders[0], line) for line in missing]
    return sorted(set(problems), key=lambda problem: (problem.path, problem.id, problem.message))


def _reviewed(problem: Problem, read: Sequence[Contents], reviews: Reviews | None) -> Problem:
    """Return a problem as a maintainer's review leaves it."""
    for one in read:
        if problem.severity == "review" and Path(problem.path).is_relative_to(one.system):
            known = read_reviewed(place_of(one.system).parent.parent) if reviews is None else reviews
            return accepted(problem, one.system, known)
    return problem


def _systems_beside(read: Sequence[Contents], others: Path | None) -> list[Path]:
    """Return the folders of the systems beside those read, then of those in `others`, each name once."""
    suites = {one.system.parent for one in read if one.suite and not one.system.parent.is_symlink()}
    beside = [path for suite in sorted(suites) for path in sorted(suite.glob("[!.]*")) if path.is_dir()]
    known = {place_of(one.system).parts[-2:] for one in read}
    found: dict[tuple[str, ...], Path] = {}
    for path in (*(systems(others) if others is not None else ()), *beside):
        name = place_of(path).parts[-2:]
        if name not in known:
            found.setdefault(name, path)
    return list(found.values())


def _check_tasks(
    read: Sequence[Contents],
    beside: Sequence[Contents],
    processes: int | None,
    seconds: float | None,
    sample: str | None,
) -> list[Findings]:
    jobs = [
        (suite, task, tuple(_task_runs(read, beside, suite, task, sample)))
        for suite in SUITES
        for task in task_names(suite)
        if any(one.suite == suite and task in one.runs for one in read)
    ]
    results = sum(len(runs.runs) for _, _, systems_of in jobs for runs in systems_of if runs.is_checked)
    wanted = min(processes or (1 if results <= ONE_PROCESS else os.cpu_count() or 1), len(jobs))
    if wanted <= 1 and seconds is None:
        return [check_task(*job) for job in jobs]
    return _in_processes(jobs, max(wanted, 1), seconds)


def _in_processes(
    jobs: Sequence[tuple[str, str, tuple[TaskRuns, ...]]], processes: int, seconds: float | None
) -> list[Findings]:
    """Check tasks side by side; those that are not done after `seconds` are an error."""
    # One thread for each process: torch with several threads in several processes slows them all down.
    context = get_context("spawn")
    others = set(active_children())  # of whoever called us; they go on
    with ProcessPoolExecutor(processes, context, _begin_work) as pool:
        tasks = {pool.submit(check_task, *job): job for job in jobs}
        done, late = wait(tasks, seconds)
        if late:  # leaving the pool would wait for them
            for process in set(active_children()) - others:
                process.terminate()
        return [task.result() if task in done else _too_late(*tasks[task], seconds or 0) for task in tasks]


def _too_late(suite: str, name: str, systems: Sequence[TaskRuns], seconds: float) -> Findings:
    checked = [runs.system / name for runs in systems if runs.is_checked]
    return Findings(tuple(error(54, path, f"was not checked within {seconds:g} seconds.") for path in checked))


def _task_runs(
    read: Sequence[Contents], beside: Sequence[Contents], suite: str, task: str, sample: str | None
) -> Iterator[TaskRuns]:
    for group, is_checked in ((read, True), (beside, False)):
        for one in group:
            if one.suite == suite and task in one.runs:
                runs = one.runs[task]
                if sample is not None:
                    drawn = _drawn(runs, f"{sample} {suite} {task} {one.system.name}")
                    runs = tuple(replace(run, rescored=run is drawn) for run in runs)
                yield TaskRuns(one.system, task in one.references, is_checked, runs)


def _drawn(runs: Sequence[SubmittedRun], sample: str) -> SubmittedRun | None:
    """Return one of the runs that have predictions, drawn by a text; None if none has."""
    answered = [run for run in runs if run.predictions is not None]
    return answered[int(sha256_text(sample), 16) % len(answered)] if answered else None


def _begin_work() -> None:
    exit_with_parent()  # the workers of a pool that was killed would wait for ever
    os.environ["OMP_NUM_THREADS"] = "1"

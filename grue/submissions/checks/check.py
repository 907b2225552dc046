"""Checking submissions: every problem is reported, not only the first.

Nothing in a submission is executed, followed or written. A broken file hides no problem of another file, and a broken
submission none of another submission.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from grue.processes import exit_with_parent
from grue.submissions.checks.rescoring import check_task
from grue.submissions.checks.structure import Contents, read_system
from grue.submissions.folder import place_of, systems
from grue.submissions.problems import Problem, problem
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
    """
    folders = [folder] if isinstance(folder, Path) else list(folder)
    read = [read_system(system) for system in dict.fromkeys(system for path in folders for system in systems(path))]
    beside = [read_system(system) for system in _systems_beside(read, others)]
    jobs = []
    for suite, task in [(each, name) for each in SUITES for name in task_names(each)]:
        checked, compared = ([c for c in some if c.suite == suite and task in c.runs] for some in (read, beside))
        if checked:
            jobs.append((suite, task, checked, compared, sample, folders[0]))
    results = sum(len(contents.runs[task]) for contents in read for task in contents.runs)
    wanted = min(processes or (1 if results <= ONE_PROCESS else os.cpu_count() or 1), len(jobs))
    rescored = [check_task(*job) for job in jobs] if wanted <= 1 else _in_processes(jobs, wanted)
    problems = chain(*(contents.problems for contents in read), _twins(read, beside), *rescored)
    return sorted(set(problems), key=lambda found: (found.path, found.id, found.message))


def _systems_beside(read: Sequence[Contents], others: Path | None) -> list[Path]:
    """Return the folders of the systems in `others`, then of those beside the ones read, each name once."""
    folders = {contents.system.parent for contents in read if contents.suite in SUITES}
    suites = [folder for folder in folders if not folder.is_symlink()]
    beside = [path for suite in sorted(suites) for path in sorted(suite.glob("[!.]*")) if path.is_dir()]
    by_name: dict[tuple[str, ...], Path] = {}
    for path in (*(systems(others) if others is not None else ()), *beside):
        by_name.setdefault(place_of(path).parts[-2:], path)
    known = {place_of(contents.system).parts[-2:] for contents in read}
    return [path for name, path in by_name.items() if name not in known]


def _twins(read: Sequence[Contents], beside: Sequence[Contents]) -> Iterator[Problem]:
    """Yield the systems that some file systems take for another one of their suite."""
    for contents in read:
        name, suite = contents.system.name, contents.suite
        names = {other.system.name for other in (*read, *beside) if other.suite == suite}
        for twin in sorted(other for other in names - {name} if other.lower() == name.lower()):
            told = f"differs from {twin!r} only in upper and lower case; choose another name."
            yield problem(1, contents.system, told)


def _in_processes(jobs: Sequence[tuple[Any, ...]], processes: int) -> list[list[Problem]]:
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin_work) as pool:
        return list(pool.map(check_task, *zip(*jobs, strict=True)))


def _begin_work() -> None:
    exit_with_parent()  # the workers of a pool that was killed would wait for ever
    # One thread for each process: torch with several threads in several processes slows them all down.
    os.environ["OMP_NUM_THREADS"] = "1"

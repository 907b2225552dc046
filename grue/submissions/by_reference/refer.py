"""Making the file of a system by reference: a local copy of its published outputs, scored."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import grue
from grue import files
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.scoring import references_hash
from grue.submissions.by_reference.outputs import lines_of, score_copy
from grue.submissions.by_reference.system import (
    ComputedFigure,
    FigureData,
    PublishedFile,
    Referred,
    ReferredTask,
    contradictions,
    outdated,
    read_referred,
)
from grue.submissions.folder import BY_REFERENCE
from grue.tasks import Task

DESCRIPTION = ("authors", "year", "link", "licence", "algorithm", "backbone")


def refer(
    task: Task,
    copy: Path,
    file: PublishedFile,
    *,
    data_dir: Path | None = None,
    offline: bool = False,
    source: str = "",
    revision: str = "",
    note: str = "",
) -> tuple[ReferredTask, tuple[str, ...]]:
    """Score a copy of a published file on the task's evaluation split.

    Args:
        data_dir: A folder with the data in its original layout; `source` and `revision` then say where it is from.

    Returns:
        The figures as a file by reference states them, and why metrics could not be computed.

    Raises:
        ConfigError: `data_dir` without `source` and `revision`, or the reverse.
        DataError: The copy or the data cannot be read, or the data is not the task's.
        SubmissionError: The copy is not the published file, or its texts do not fit the examples.
    """
    if bool(data_dir) != bool(source and revision):
        raise ConfigError(
            "--data-dir says nothing of where the data is from: give it together with --data-source and "
            "--data-revision; without it, the task's own source is named."
        )
    found = _sha256(copy)
    if found != file.sha256:
        raise SubmissionError(
            f"{copy}: its sha256 is {found}, not {file.sha256}: it is not the file that is published at {file.url}. "
            "Download that file, and score it unchanged."
        )
    split = task.data.evaluation
    lines = lines_of(task, split, file, data_dir, offline)
    try:
        scored = score_copy(task, split, copy, file, lines)
    except (DataError, SubmissionError) as refusal:
        raise type(refusal)(f"{copy}: {refusal}") from refusal
    loaded = lines.loaded
    referred = ReferredTask(
        version=task.version,
        hash=task.hash,
        split=split,
        grue=grue.__version__,
        outputs=file,
        data=FigureData(
            source=source or loaded.source,
            revision=revision or loaded.revision,
            examples=len(loaded.examples),
            ids_sha256=loaded.ids_sha256,
            references_sha256=references_hash(loaded.examples),
        ),
        figures={score.metric: ComputedFigure(score.value, score.n, score.signature) for score in scored.scores},
        not_computed=tuple(reason.partition(": ")[0] for reason in scored.errors),
        note=note,
    )
    for problem in outdated(referred, task):
        raise DataError(f"{task.suite}/{task.name}: not the data of the board: {problem}")
    return referred, scored.errors


def _sha256(copy: Path) -> str:
    if not copy.is_file():
        raise DataError(f"{copy}: no such file; give a local copy of the published outputs.")
    return files.sha256_file(copy)


def add_to(folder: Path, name: str, given: Mapping[str, Any], task: Task, of_task: ReferredTask, force: bool) -> Path:
    """Write a system by reference with one more task; returns the path of its file.

    Args:
        folder: `submissions/`.
        given: Fields of `Referred`; what is empty is taken from the file, if there is one.
        force: Replace the figures of a task that the file has.

    Raises:
        ConfigError: Something needed is missing, differs from the file, or cannot be; or the file has the task.
        DataError: The file cannot be read or written.
    """
    path = folder / task.suite / f"{name}{BY_REFERENCE}"
    said = {key: value for key, value in given.items() if value}
    if path.exists():
        known = read_referred(path)
        if task.name in known.tasks and not force:
            raise ConfigError(f"{path}: has figures of {task.name}; give --force to replace them.")
        referred = replace(known, **said, tasks={**known.tasks, task.name: of_task})
    else:
        if missing := [f"--{key}" for key in DESCRIPTION if key not in said]:
            raise ConfigError(f"{path}: is new, and needs {', '.join(missing)}.")
        referred = Referred(name=name, **said, tasks={task.name: of_task})
    for problem in contradictions(path, referred, task.suite):
        raise ConfigError(f"{path} would be wrong: {problem}")
    files.write_toml(path, referred)
    return path

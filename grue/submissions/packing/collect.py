"""Collecting what a submission is packed from: evaluated runs, or predictions made elsewhere, which are scored here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.predictions import read_predictions
from grue.evaluation.prompting import chat_of
from grue.evaluation.scoring import score_predictions
from grue.lm.checkpoint import seeds_in
from grue.provenance import code_version, package_versions
from grue.records import LARGEST_SEED, SCHEMA_VERSION, UNFINISHED, Prediction, Result, is_seed
from grue.submissions.configuration import Configuration
from grue.submissions.folder import read_result
from grue.submissions.packing.recorded import configuration_of_run
from grue.task_files import load_task, task_names
from grue.tasks import Task

OF_A_SYSTEM = ("name", "algorithm", "backbone", "endpoint")
"""What results say of a system, whatever became of a run."""
OF_TEXTS = ("scores", "preference", "naturalness", "hashes", "counts", "errors")
"""What results say of predictions that were scored."""


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A result on its way into a submission.

    Attributes:
        predictions: None for a failed run.
        origin: Its folder, file or option, for messages.
        configuration: What it was trained with; None if it was not trained, or that cannot be submitted.
        withheld: Why it cannot; empty if there is nothing to withhold.
    """

    result: Result
    predictions: tuple[Prediction, ...] | None
    origin: str
    configuration: Configuration | None = None
    withheld: str = ""


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the run folders that `paths` name: folders `seed-<n>`, or folders of a system that hold such runs."""
    folders: dict[Path, None] = {}
    for path in paths:
        is_run = (path / "result.json").is_file() or (path.name.startswith("seed-") and path.is_dir())
        runs = [path] if is_run else seeds_in(path)
        if not runs:
            raise DataError(f"{path}: is neither a run nor a system's folder of runs, such as runs/mini/commongen/ppo.")
        folders |= dict.fromkeys(runs)
    return list(folders)


def runs_of(system: str, runs: Path, suite: str) -> list[Path]:
    """Return the run folders of a system on every task; there is one at least, or a DataError."""
    folders = [run for folder in sorted(runs.glob(f"{suite}/*/{system}")) for run in seeds_in(folder)]
    if not folders:
        raise DataError(f"{runs / suite}: has no run of a system {system!r}; `grue leaderboard` lists the systems.")
    return folders


def read_run(folder: Path) -> PackedRun:
    """Read an evaluated run."""
    if not (folder / "result.json").is_file():
        task, seed = folder.parent.parent.name, folder.name.removeprefix("seed-")
        raise DataError(
            f"{folder}: has no result.json. Evaluate the run; if it failed, declare it: --failed {task}:{seed}."
        )
    result = read_result(folder / "result.json")
    if result.system.get(UNFINISHED):
        raise DataError(f"{folder}: was evaluated while its run was not finished; finish it, and evaluate again.")
    predictions = None if result.status == "failed" else tuple(read_predictions(folder / "predictions.jsonl"))
    return PackedRun(result, predictions, str(folder), *configuration_of_run(folder, result))


def find_predictions(folder: Path, suite: str) -> list[tuple[Task, int, Path]]:
    """Return task, seed and file of every `<task>/seed-<n>.jsonl` in a folder of predictions made elsewhere."""
    names, predictions = task_names(suite), []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        task, seed = path.parent.name, path.stem.removeprefix("seed-")
        if path != folder / task / f"seed-{seed}.jsonl" or task not in names or not is_seed(seed):
            raise DataError(
                f"{path}: expected {folder}/<task>/seed-<n>.jsonl, with a task of {', '.join(names)}, and n from 0 to "
                f"{LARGEST_SEED} without leading zeros."
            )
        predictions.append((load_task(task, suite), int(seed), path))
    if not predictions:
        raise DataError(f"{folder}: holds no predictions; expected files <task>/seed-<n>.jsonl.")
    return predictions


def score_run(task: Task, seed: int, path: Path, system: Mapping[str, Any], offline: bool = False) -> PackedRun:
    """Score predictions made elsewhere, one for each example of the task's evaluation split.

    Args:
        system: The system of the result: name, algorithm, backbone.
    """
    predictions = read_predictions(path)
    loaded = load_examples(task, task.data.evaluation, None, offline)
    try:
        scored = score_predictions(task, task.data.evaluation, loaded.examples, predictions)
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error
    of_texts = {key: getattr(scored, key) for key in OF_TEXTS}
    empty = failed_run(task, seed, system).result
    result = replace(empty, status="complete", data=loaded.provenance(), **of_texts)
    return PackedRun(result, tuple(predictions), str(path))


def failed_run(
    task: Task, seed: int, system: Mapping[str, Any], generation: Mapping[str, Any] | None = None
) -> PackedRun:
    """Return the result of a failed run, which has no scores and counts as 0."""
    nothing: dict[str, Any] = {key: {} for key in ("data", "determinism", "hashes", "counts", "timing")}
    result = Result(
        schema=SCHEMA_VERSION,
        status="failed",
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        task_hash=task.hash,
        split=task.data.evaluation,
        seed=seed,
        system=dict(system),
        generation=generation or {},
        scores=(),
        preference=None,
        naturalness=None,
        limited=False,
        grue=code_version(),
        packages=package_versions(),
        **nothing,
    )
    return PackedRun(result, None, f"--failed {task.name}:{seed}")


def failed_beside(results: Sequence[Result], task: Task, seed: int) -> PackedRun:
    """Return the result of a failed run of the system that `results`, at least one, are of, asked as they were.

    One of the same task says how; else the task's own backbone and chat prompt stand for those of the other's task.
    """
    sibling = next((result for result in results if result.task == task.name), results[0])
    system = {key: sibling.system[key] for key in OF_A_SYSTEM if key in sibling.system}
    generation = {key: sibling.generation[key] for key in ("prompting",) if key in sibling.generation}
    if sibling.task != task.name:
        if system.get("backbone") == load_task(sibling.task, sibling.suite).backbone.model:
            system["backbone"] = task.backbone.model
        if (prompting := chat_of(sibling)) is not None and (chat := task.prompt.chat) is not None:
            generation = {"prompting": {"kind": prompting["kind"], "version": chat.version, "hash": task.chat_hash}}
    return failed_run(task, seed, system, generation)


def parse_failed(text: str, suite: str) -> tuple[Task, int]:
    """Read TASK:SEED; a ConfigError or UnknownName says what is wrong with another text."""
    name, colon, seed = text.rpartition(":")
    if not colon or not is_seed(seed):
        raise ConfigError(
            f"--failed {text}: write TASK:SEED, such as --failed commongen:3, with a seed from 0 to {LARGEST_SEED}."
        )
    return load_task(name, suite), int(seed)

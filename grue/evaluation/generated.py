"""A file of predictions at a path of the user's choice, and `FILE.claim.json` beside it, which says what made it."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from grue import claims, files
from grue.data.load import local_data_id
from grue.errors import ConfigError
from grue.evaluation.folder import PREDICTIONS
from grue.evaluation.predict import predict, predict_file
from grue.evaluation.systems import System
from grue.records import Example
from grue.tasks import Task

CONTENT = "responses"


def check_output(path: Path) -> None:
    """Refuse a path that cannot be written as JSON lines."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; name a file in it with --output, such as {path / PREDICTIONS}.")
    if path.suffix == ".gz":
        raise ConfigError(f"{path}: is written as plain JSON lines; choose a name without .gz.")


def write_generated(
    task: Task,
    system: System,
    examples: Sequence[Example],
    path: Path,
    *,
    split: str,
    file: str | None = None,
    data_dir: Path | None = None,
    batch_size: int = 64,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Answer examples of a split into a file, resuming an interrupted call; a finished file is only read.

    `file` and `data_dir` are as for `claim_of`.

    Raises:
        ConfigError: The file holds something else, or another process writes it.
        DataError: Something cannot be read or written, or the file was changed.
    """
    check_output(path)
    answer = partial(predict, system.loaded, task, settings=task.decoding, seed=system.seed)
    claim = {
        **claim_of(task, system, examples, split, file, data_dir),
        "generation": files.plain(task.decoding),
        "data_sha256": local_data_id(task, data_dir, split),
    }

    def write(folder: Path) -> None:
        predictions = folder / PREDICTIONS
        predict_file(examples, predictions, batch_size, answer, progress)
        # The claim first: without a file of predictions, it blocks nothing.
        files.write_json(claim_path(path), {**claim, "sha256": files.sha256_file(predictions)})
        files.write_text(path, files.read_text(predictions))

    claims.carry_out(path, claim, CONTENT, PREDICTIONS, lambda: _check_finished(path, claim), write)


def claim_of(
    task: Task, system: System, examples: Sequence[Example], split: str, file: str | None, data_dir: Path | None
) -> dict[str, Any]:
    """Return the record of which system answers which prompts.

    Args:
        file: sha256 of the file of rows that `split` names; None if it is a split of the task.
        data_dir: Folder that the rows were read from, instead of the task's sources.
    """
    return {
        "suite": task.suite,
        "task": task.name,
        "task_hash": task.hash,
        "split": split,
        "file": file,
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
        "checkpoint": system.weights,
        "system": system.name,
        "seed": system.seed,
        "prompts": len(examples),
    }


def claim_path(path: Path) -> Path:
    """Return the file that says which system a file of predictions is from."""
    return path.with_name(f"{path.name}.{claims.CLAIM}")


def _check_finished(path: Path, claim: dict[str, Any]) -> None:
    beside = claim_path(path)
    if not beside.exists():
        raise ConfigError(f"{path}: is there already, and no {beside.name} says whose answers it holds. {claims.CURE}")
    saved = claims.read_claim(beside, f"Write elsewhere with --output, or remove {path}.")
    if files.sha256_file(path) != saved.get("sha256"):
        raise ConfigError(f"{path}: its content is not what {beside.name} describes. {claims.CURE}")
    claims.refuse_other(path, CONTENT, saved, claim, claims.CURE)

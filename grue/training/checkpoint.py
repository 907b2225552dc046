"""What a run keeps on disk: checkpoints that transformers alone can load, and states to go on from.

A checkpoint is a folder in Hugging Face format plus `grue.json`, which lists the sha256 of every file. A state is one
file. Both are filled under a temporary name and renamed, so that nothing half-written ever bears the real name.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.errors import DataError
from grue.models import quiet
from grue.tasks import Task

MANIFEST = "grue.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What GRUE knows of a checkpoint.

    Attributes:
        algorithm: The algorithm that made it, such as "supervised+nlpo".
        update: Updates or epochs behind it.
        validation: Validation figures of the moment it was kept.
        training: Tokens, episodes and seconds of training behind it, the warm start's included.
        files: File name → sha256.
    """

    suite: str
    task: str
    task_hash: str
    system: str
    algorithm: str
    backbone: str
    seed: int
    update: int
    config_sha256: str
    validation: Mapping[str, float]
    training: Mapping[str, float]
    files: Mapping[str, str]
    schema: int = 1


def save_checkpoint(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, manifest: Mapping[str, Any]
) -> None:
    """Write a checkpoint folder, replacing the one that is there only when the new one is whole.

    Args:
        manifest: The fields of `Manifest` but `files`.

    Raises:
        DataError: It cannot be written; the old one is untouched.
    """
    temporary = folder.absolute().parent / f".{folder.absolute().name}.new"
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed while it wrote
        temporary.mkdir(parents=True)
        with quiet():
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
        for path in temporary.glob("*.safetensors"):
            shutil.copymode(temporary / "config.json", path)  # safetensors keeps its files from all but their owner
        sums = {path.name: files.sha256_file(path) for path in sorted(temporary.iterdir())}
        files.write_json(temporary / MANIFEST, {**manifest, "schema": 1, "files": sums})
        _replace_folder(temporary, folder)
    except (OSError, RuntimeError) as error:
        # safetensors reports a full disk as a RuntimeError of its own.
        raise DataError(f"{folder}: the checkpoint cannot be written: {error}. The one before is untouched.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, folder: Path) -> None:
    previous = _set_aside(folder)
    shutil.rmtree(previous, ignore_errors=True)
    if folder.exists():
        os.replace(folder, previous)
    os.replace(new, folder)
    shutil.rmtree(previous, ignore_errors=True)


def _set_aside(folder: Path) -> Path:
    absolute = folder.absolute()
    return absolute.parent / f".{absolute.name}.previous"


def restore_interrupted(folder: Path) -> None:
    """Put back the checkpoint that a crash between the two renames of a replacement left aside."""
    previous = _set_aside(folder)
    if previous.exists() and not folder.exists():
        os.replace(previous, folder)


def find_checkpoint(folder: Path) -> Path:
    """Return the checkpoint folder that is meant by it or by the folder of its run."""
    inner = folder / "checkpoint"
    restore_interrupted(inner)
    return inner if inner.is_dir() and not (folder / MANIFEST).exists() else folder


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder is a checkpoint of ours, or a run's folder with one in it, whole or not."""
    return (find_checkpoint(folder) / MANIFEST).exists()


def read_manifest(folder: Path) -> Manifest:
    """Read and verify a checkpoint of ours.

    Raises:
        DataError: It is no checkpoint, or a file of it is missing or damaged.
    """
    restore_interrupted(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such checkpoint folder; `grue train` makes one.")
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"{folder}: no checkpoint of grue: it has no {MANIFEST}. Give the `checkpoint` folder of a run; "
            "a model trained elsewhere goes in with --model."
        )
    manifest = files.from_dict(Manifest, files.read_json(path), str(path))
    for name, expected in manifest.files.items():
        if not (folder / name).is_file():
            raise DataError(f"{folder}: damaged: {name} is missing. Train again, or copy the whole folder.")
        if files.sha256_file(folder / name) != expected:
            raise DataError(
                f"{folder}: damaged: {name} is not the file that was saved. Train again, or copy the whole folder."
            )
    return manifest


def check_task(manifest: Manifest, folder: Path, task: Task) -> None:
    """Refuse a checkpoint of another task, or of a family of models that the task cannot use.

    Raises:
        DataError: It belongs to another task.
    """
    if (manifest.suite, manifest.task) != (task.suite, task.name):
        raise DataError(
            f"{folder}: trained on {manifest.suite}/{manifest.task}, not on {task.suite}/{task.name}; "
            f"use --suite {manifest.suite} --task {manifest.task}, or another checkpoint."
        )


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write everything that an interrupted run needs to go on, atomically.

    Raises:
        DataError: It cannot be written; the state before is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as handle:
            torch.save(dict(state), handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path}: cannot be written: {error}. The state before is untouched.") from error
    finally:
        temporary.unlink(missing_ok=True)


def load_state(path: Path) -> dict[str, Any]:
    """Read a state.

    Raises:
        DataError: It is damaged.
    """
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, UnpicklingError) as error:
        raise DataError(f"{path}: damaged ({error}); remove the run's folder to start again.") from error
    return state

"""Checkpoints: folders that transformers alone can load, and that GRUE knows again.

A checkpoint is a folder in Hugging Face format with a model card and `grue.json`, which lists the sha256 of every file
that decides what the model says. It is filled under a temporary name, brought to the disk and renamed, so that nothing
half-written ever bears the real name.
"""

import dataclasses
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.errors import DataError
from grue.lm.load import quiet
from grue.runs.states import flush_to_disk, reason
from grue.tasks import Backbone, Generation, Task

MANIFEST, README = "grue.json", "README.md"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What GRUE knows of a checkpoint.

    Attributes:
        algorithm: The algorithm that made it, such as "supervised+nlpo".
        update: Updates or epochs behind it.
        validation: Validation figures of the moment it was kept.
        training: Tokens, episodes and seconds of training behind it, the warm start's included.
        files: File name → sha256.
        kept: Why it was kept: it is the best on validation, or the last of its run.
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
    files: Mapping[str, str] = field(default_factory=dict)
    kept: Literal["best", "final"] = "best"
    schema: int = SCHEMA_VERSION


def save_checkpoint(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    manifest: Manifest,
    decoding: Generation,
    readme: str,
) -> None:
    """Write a checkpoint folder, replacing the one that is there only when the new one is whole and on the disk.

    Args:
        model: A model of transformers, adapters merged into it.
        manifest: What is known of it; `files` is filled in here.
        decoding: What `model.generate` does with it by default: the decoding of the benchmark.
        readme: The model card. It is left out of `files`, because it may be edited.

    Raises:
        DataError: It cannot be written; the old one is untouched.
    """
    restore_interrupted(folder)
    temporary = folder.absolute().parent / f".{folder.absolute().name}.new"
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed while it wrote
        temporary.mkdir(parents=True)
        _write_model(temporary, model, tokenizer, decoding)
        sums = {path.name: files.sha256_file(path) for path in sorted(temporary.iterdir())}
        files.write_json(temporary / MANIFEST, dataclasses.replace(manifest, files=sums))
        files.write_text(temporary / README, readme)
        for path in temporary.iterdir():
            flush_to_disk(path)
        flush_to_disk(temporary)
        _replace_folder(temporary, folder)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{folder}: the checkpoint cannot be written: {reason(error)}. The one before is untouched."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_model(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, decoding: Generation
) -> None:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # else tokenizer.json would keep how the last batch was cut and padded
        backend.no_truncation()
        backend.no_padding()
    usual = model.generation_config
    try:
        model.generation_config = generation_config(model, tokenizer, decoding)
        with quiet():
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    finally:
        model.generation_config = usual
    for path in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", path)  # safetensors keeps its files from all but their owner


def generation_config(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, decoding: Generation
) -> GenerationConfig:
    """Return the settings with which `model.generate` decodes as a task says.

    What is not said would come from defaults of transformers, such as sampling from the 50 likeliest tokens alone.
    """
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    settings: dict[str, Any] = {"max_new_tokens": decoding.max_new_tokens, "do_sample": decoding.do_sample}
    if decoding.min_new_tokens:
        settings["min_new_tokens"] = decoding.min_new_tokens
    if decoding.do_sample:
        settings |= {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}
    else:
        settings["num_beams"] = decoding.num_beams
    if decoding.num_beams > 1 and not decoding.do_sample:
        settings["length_penalty"] = decoding.length_penalty
    return GenerationConfig(
        **settings,
        eos_token_id=eos,
        pad_token_id=eos if pad is None else pad,
        bos_token_id=getattr(model.config, "bos_token_id", None),
        decoder_start_token_id=getattr(model.config, "decoder_start_token_id", None),
    )


def _replace_folder(new: Path, folder: Path) -> None:
    previous = _set_aside(folder)
    shutil.rmtree(previous, ignore_errors=True)
    for attempt in ("first", "last"):
        if folder.exists():
            os.replace(folder, previous)
        try:
            os.replace(new, folder)
            break
        except OSError:
            # Someone who read at this very moment may have put the old one back: then once more.
            if attempt == "last" or not folder.exists():
                restore_interrupted(folder)
                raise
    flush_to_disk(folder.absolute().parent)
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
    manifest = files.load_json(path, Manifest)
    if manifest.schema != SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {manifest.schema}; upgrade grue."
        )
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
        DataError: It belongs to another task, or its model is of the other family.
    """
    if (manifest.suite, manifest.task) != (task.suite, task.name):
        raise DataError(
            f"{folder}: trained on {manifest.suite}/{manifest.task}, not on {task.suite}/{task.name}; "
            f"use --suite {manifest.suite} --task {manifest.task}, or another checkpoint."
        )
    config = files.read_json(folder / "config.json")
    family = "seq2seq" if config.get("is_encoder_decoder", False) else "causal"
    if family != task.backbone.family:
        raise DataError(
            f"{folder}: its model is {family}, and {task.suite}/{task.name} is for {task.backbone.family} models; "
            "use another checkpoint."
        )


def check_start(manifest: Manifest, folder: Path, start: Backbone) -> None:
    """Refuse to go on from a checkpoint of another model than the one that the run says it starts from.

    Raises:
        DataError: It grew from another model, whose vocabulary need not be the same.
    """
    if manifest.backbone != start.model:
        raise DataError(
            f"{folder}: trained from {manifest.backbone}, and this run starts from {start.model}; "
            f"add --backbone {manifest.backbone}, or use another checkpoint."
        )


def check_best(folder: Path) -> None:
    """Make sure that the best checkpoint, of which a saved state speaks, is there and whole.

    It may be newer than the state: then the updates that lead to it are made again, and it is replaced by its like.

    Raises:
        DataError: It is not.
    """
    try:
        read_manifest(folder)
    except DataError as error:
        raise DataError(
            f"The run cannot go on without its best checkpoint. Put it back, or remove {folder.parent} to start the "
            f"run again. ({error})"
        ) from error

"""Checkpoints: folders that transformers can load on its own and that GRUE can verify.

A checkpoint is a folder in Hugging Face format with a model card and `grue.json`, which lists the sha256 of every file
that determines the model's output. It is written under a temporary name, flushed to disk and renamed, so that the real
name never refers to a half-written folder.
"""

import dataclasses
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grue import files
from grue.errors import DataError
from grue.files import reason, sha256_json
from grue.lm.folder import CONFIG, check_listed, contents, read_object
from grue.records import LAST
from grue.task_files import OWN
from grue.tasks import Backbone, Generation, Task

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

MANIFEST, README = "grue.json", "README.md"
ANSWERS = "evaluation"
"""The folder of the answers in a checkpoint's repository on the hub."""
INERT = re.compile(rf"\.gitattributes|\.eval_results/[\w.-]+\.yaml|{ANSWERS}/[\w.-]+\.jsonl?|\.cache/huggingface/.+")
"""Files that `grue tools push` and the hub add to a checkpoint; loading a model does not read them."""
RUN_ID = "run_id"
"""A file beside a checkpoint that exists until its run has finished; see `grue.runs.folder`."""
FINAL = "final"
"""The folder of a run's last checkpoint, beside its best."""
SCHEMA_VERSION = 1

Kept = Literal["best", "last", "final"]


@dataclass(frozen=True, slots=True)
class CheckpointManifest:
    """The origin and the files of a checkpoint; the content of `grue.json`.

    Attributes:
        algorithm: The algorithm that made it, such as "supervised+nlpo".
        update: Updates of training completed.
        validation: Validation figures at the time of saving.
        training: The cost of training so far, by name in `grue.records.COSTS`, including that of the warm start;
            unknown ones are missing.
        files: File name → sha256.
        start: `weights` of the checkpoint that training started from; empty if it started from another model.
        kept: Why it was saved: as the run's checkpoint, the "best" on validation or the "last" validated, or as the
            "final" one beside the best.
        machine: The kind of machine that saved it.
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
    start: str = ""
    kept: Kept = "best"
    machine: str = ""
    schema: int = SCHEMA_VERSION

    @property
    def weights(self) -> str:
        """The sha256 of the files' sha256s, which identifies the weights."""
        return sha256_json(self.files)


def save_checkpoint(
    folder: Path,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    manifest: CheckpointManifest,
    decoding: Generation,
    readme: str,
) -> None:
    """Write a checkpoint folder; an existing one is replaced only once the new one is complete and on disk.

    Args:
        model: A model of transformers, with its adapters merged.
        manifest: Its `files` are filled in here.
        decoding: The default of `model.generate`: the decoding of the benchmark.
        readme: The model card. It is not listed in `files`, because it may be edited.

    Raises:
        DataError: It cannot be written; the previous one is untouched.
    """
    from safetensors import SafetensorError

    try:
        with files.replacing_folder(folder) as new:
            _write_model(new, model, tokenizer, decoding)
            sums = {name: files.sha256_file(new / name) for name in sorted(contents(new))}
            files.write_json(new / MANIFEST, dataclasses.replace(manifest, files=sums))
            files.write_text(new / README, readme)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{folder}: the checkpoint cannot be written: {reason(error)}. The previous one is untouched."
        ) from error


def _write_model(
    folder: Path, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", decoding: Generation
) -> None:
    from grue.lm.plain_text import save_tokenizer
    from grue.lm.quiet import quiet

    if (
        "local_files_only" in tokenizer.init_kwargs
    ):  # else a checkpoint's bytes would depend on whether it was made offline
        tokenizer.init_kwargs["local_files_only"] = False
    original = model.generation_config
    try:
        model.generation_config = generation_config(model, tokenizer, decoding)
        with quiet():
            model.save_pretrained(folder)
            save_tokenizer(tokenizer, folder)
    finally:
        model.generation_config = original
    for path in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", path)  # safetensors makes files readable only by their owner


def generation_config(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", decoding: Generation
) -> "GenerationConfig":
    """Return the settings with which `model.generate` decodes as a task prescribes.

    Settings left out would come from transformers' defaults, such as top-k sampling with k = 50. The model's own
    constraints stay.
    """
    from transformers import GenerationConfig

    from grue.lm.constraints import end_ids, kept_settings
    from grue.lm.model import eos_id, is_seq2seq, start_id

    eos, pad = eos_id(model, tokenizer), tokenizer.pad_token_id
    ends = end_ids(model, eos)
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
        **kept_settings(model),
        eos_token_id=ends if len(ends) > 1 else eos,
        pad_token_id=eos if pad is None else pad,
        bos_token_id=getattr(model.config, "bos_token_id", None),
        decoder_start_token_id=start_id(model) if is_seq2seq(model) else None,
    )


def find_checkpoint(folder: Path) -> Path:
    """Return the checkpoint folder, given the folder itself or that of its run."""
    inner = folder / "checkpoint"
    files.restore_folder(inner)
    return inner if inner.is_dir() and not (folder / MANIFEST).exists() else folder


def results_folder(folder: Path, manifest: CheckpointManifest) -> Path:
    """Return the folder of a checkpoint's results: its run's, unless it is the last one beside the best.

    That one is another system: the results of SYSTEM/seed-1/final are in SYSTEM+last/seed-1.
    """
    run = folder.parent
    home = run.absolute()
    if manifest.kept != "final" or home.parts[-2:] != (manifest.system, f"seed-{manifest.seed}"):
        return run
    run = run if len(run.parts) > 1 else home
    return run.parent.with_name(f"{manifest.system}{LAST}") / run.name


def run_of(results: Path) -> Path:
    """Return the folder of the run that results in SYSTEM/seed-1 belong to; see `results_folder`."""
    system = results.parent.name
    if (results / "config.toml").is_file() or not system.endswith(LAST):
        return results
    return results.parent.with_name(system.removesuffix(LAST)) / results.name


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a checkpoint of GRUE or a run's folder that contains one, intact or not."""
    return (find_checkpoint(folder) / MANIFEST).exists()


def seeds_in(folder: Path) -> list[Path]:
    """Return the runs `seed-N` in a folder, in the order of their seeds."""
    runs = [path for path in folder.glob("seed-*") if path.is_dir() and path.name.removeprefix("seed-").isdecimal()]
    return sorted(runs, key=lambda path: int(path.name.removeprefix("seed-")))


def read_manifest(folder: Path) -> CheckpointManifest:
    """Read a checkpoint's manifest and verify its files.

    Raises:
        DataError: The folder is not a checkpoint of GRUE, a file is missing or damaged, or one is not in the manifest:
            transformers would read an adapter or a shard beside verified weights.
    """
    files.restore_folder(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such checkpoint folder; `grue train` writes one.")
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"{folder}: not a checkpoint of grue: it has no {MANIFEST}. Give the `checkpoint` folder of a run; "
            "to evaluate a model trained elsewhere, add --task NAME; to train one, name it with --backbone."
        )
    manifest = files.load_json(path, CheckpointManifest)
    if manifest.schema != SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema: this version of grue reads {SCHEMA_VERSION}, found {manifest.schema}; upgrade grue."
        )
    check_listed(folder, manifest.files, MANIFEST, lambda name: name in (MANIFEST, README) or INERT.fullmatch(name))
    return manifest


def last_of_run(folder: Path, manifest: CheckpointManifest) -> CheckpointManifest | None:
    """Return the manifest of the last checkpoint of the run of the one at `folder`; None if there is none."""
    if manifest.kept != "best":
        return None if is_unfinished(folder) else manifest
    beside = folder.parent / FINAL
    if not (beside / MANIFEST).is_file():
        return None
    last = read_manifest(beside)
    return last if last.config_sha256 == manifest.config_sha256 else None


def is_unfinished(folder: Path) -> bool:
    """Whether a checkpoint's run is unfinished, so that training may still replace it."""
    return (folder.resolve().parent / RUN_ID).exists()


def check_task(manifest: CheckpointManifest, folder: Path, task: Task) -> None:
    """Raise a DataError if a checkpoint is of another task."""
    if (manifest.suite, manifest.task) != (task.suite, task.name):
        flags = f"--suite {manifest.suite} --task {manifest.task}"
        raise DataError(
            f"{folder}: trained on {manifest.suite}/{manifest.task}, not on {task.suite}/{task.name}; use "
            f"{'the file of that task, --task FILE.toml' if manifest.suite == OWN else flags}, or another checkpoint."
        )


def check_start(manifest: CheckpointManifest, folder: Path, start: Backbone, weights: str = "") -> None:
    """Raise a DataError if a checkpoint was trained from another model than the run's backbone.

    `weights` is the hash of the backbone's, by which it is known where it has another path now.
    """
    if manifest.backbone != start.model and not (weights and weights == _backbone_weights(manifest, folder)):
        raise DataError(
            f"{folder}: trained from {manifest.backbone}, but this run starts from {start.model}; "
            f"add --backbone {manifest.backbone}, or use another checkpoint."
        )
    family = "seq2seq" if read_object(folder / CONFIG).get("is_encoder_decoder", False) else "causal"
    if family != start.family:
        raise DataError(
            f"{folder}: its model is {family}, but {start.model} is {start.family}; use another checkpoint."
        )


def _backbone_weights(manifest: CheckpointManifest, folder: Path) -> str:
    """Return the hash of the model that a checkpoint was trained from, by its run's record; "" without one."""
    path = folder.resolve().parent / "config.toml"
    record = files.read_toml(path) if path.is_file() else {}
    return str(record.get("backbone_weights", "")) if record.get("backbone") == manifest.backbone else ""


def check_kept(folder: Path) -> None:
    """Raise a DataError if a run's checkpoint is missing or damaged, without which it can neither resume nor be used.

    It may be newer than the state that a run resumes from: then the updates in between are repeated, and it is replaced
    by an identical one.
    """
    try:
        read_manifest(folder)
    except DataError as error:
        cure = f"Restore the run's checkpoint, or remove {folder.parent} to start it again."
        raise DataError(f"{error} {cure}") from error

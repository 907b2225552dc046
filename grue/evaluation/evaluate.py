"""Evaluation: a system's predictions for a split, their scores, and the record of how both came about."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.data.load import Loaded, file_id, is_file, load_examples
from grue.errors import ConfigError, GrueError, Unavailable, UnknownName, did_you_mean
from grue.evaluation.best_of import BestOf, make_judge, predict_best_of, sampling, shown
from grue.evaluation.folder import PREDICTIONS, SCORES, claim, discard, seal
from grue.evaluation.predict import Answer, predict_file, write_predictions
from grue.evaluation.scoring import Scored, score_predictions, write_per_example
from grue.lm import checkpoint
from grue.lm.checks import check_lengths
from grue.lm.device import scoring_device
from grue.lm.load import Family, LoadedModel, load_language_model, weights_id
from grue.lookups.find import find_lookup
from grue.metrics.tokens import sentences
from grue.provenance import code_version, package_versions
from grue.records import BASELINES, LOOKUPS, SCHEMA_VERSION, Example, Prediction, Result
from grue.tasks import Task

LEAD_SENTENCES = 3
READING = ("null", *LOOKUPS)  # baselines that read the training split

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class System:
    """What is evaluated.

    Attributes:
        record: What the result says of it.
        seed: The seed that it was trained with, and that its sampling draws from.
        weights: sha256 of the weights, so that predictions of other weights are never taken for its own.
        best_of: How it picks one of several samples; None where it decodes as the task says.
    """

    name: str
    record: Mapping[str, Any]
    seed: int
    weights: str
    model: PreTrainedModel | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    best_of: BestOf | None = None


def checkpoint_system(task: Task, folder: Path) -> System:
    """Return the system of a checkpoint of ours.

    Raises:
        DataError: It is no checkpoint, is damaged, or belongs to another task.
    """
    manifest = checkpoint.read_manifest(folder)
    checkpoint.check_task(manifest, folder, task)
    model, tokenizer = _load(task.backbone.family, str(folder))
    record = {
        "name": manifest.system,
        "algorithm": manifest.algorithm,
        "backbone": manifest.backbone,
        "parameters": sum(p.numel() for p in model.parameters()),
        "training": dict(manifest.training),
        "update": manifest.update,
        "validation": dict(manifest.validation),
        "config_sha256": manifest.config_sha256,
    }
    if manifest.start:
        record["start"] = manifest.start
    if last := checkpoint.last_of_run(folder, manifest):
        record["last"] = {"update": last.update, "validation": dict(last.validation)}
    if (reward := _reward_of(folder, manifest)) is not None:
        record["reward"] = reward
    return System(manifest.system, record, manifest.seed, manifest.weights, model, tokenizer)


def _reward_of(folder: Path, manifest: checkpoint.CheckpointManifest) -> str | None:
    """Return the reward that a checkpoint in its run's folder was trained on, "" if on none; None if that is unknown.

    Raises:
        DataError: The run's configuration cannot be read.
    """
    path = folder.resolve().parent / "config.toml"
    if manifest.algorithm == "supervised":
        return ""
    if not path.is_file():
        return None
    config = files.read_toml(path)
    same = all(config.get(key) == getattr(manifest, key) for key in ("suite", "task", "algorithm", "seed"))
    return config["reward"] if same and isinstance(config.get("reward"), str) else None


def model_system(task: Task, name: str, seed: int) -> System:
    """Return the system of a Hugging Face model trained elsewhere: a folder, or a hub id."""
    model, tokenizer = _load(task.backbone.family, name)
    title = (Path(name).resolve() if Path(name).is_dir() else Path(name)).name  # "." and ".." name no folder of results
    record = {
        "name": title,
        "algorithm": "external",
        "backbone": name,
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    return System(title, record, seed, weights_id(name), model, tokenizer)


def baseline_system(task: Task, baseline: str, seed: int) -> System:
    """Return one of `BASELINES` as a system.

    Raises:
        UnknownName: There is no such baseline.
        ConfigError: It is a lookup that the task does not have.
        DataError: The backbone of zero-shot is not available.
    """
    if baseline not in BASELINES:
        known = ", ".join(BASELINES)
        raise UnknownName(f"There is no baseline {baseline!r}.{did_you_mean(baseline, BASELINES)} Known: {known}.")
    if baseline in LOOKUPS:
        find_lookup(task, baseline)
    if baseline != "zero-shot":
        return System(baseline, {"name": baseline, "algorithm": baseline}, seed, baseline)
    backbone = task.backbone
    model, tokenizer = _load(backbone.family, backbone.model, backbone.revision)
    parameters = sum(p.numel() for p in model.parameters())
    record = {"name": baseline, "algorithm": baseline, "backbone": backbone.model, "parameters": parameters}
    return System(baseline, record, seed, weights_id(backbone.model, backbone.revision), model, tokenizer)


def _load(family: Family, name: str, revision: str = "") -> LoadedModel:
    """Load a model to where models answer: on the GPU, if there is one."""
    model, tokenizer = load_language_model(family, name, revision)
    model.to(scoring_device())  # type: ignore[arg-type]  # a decorated method that the checker cannot read
    return model, tokenizer


def with_best_of(system: System, best_of: BestOf) -> System:
    """Return the system that draws several samples and picks one: another system, with a name of its own.

    Raises:
        ConfigError: It has no model to draw from.
    """
    if system.model is None:
        raise ConfigError(f"The baseline {system.name!r} has no model to draw samples from; leave --best-of out.")
    name = f"{system.name}+{best_of.name}"
    return replace(system, name=name, record={**system.record, "name": name}, best_of=best_of)


def evaluate(
    task: Task,
    system: System,
    folder: Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    batch_size: int = 64,
    data_dir: Path | None = None,
    offline: bool = False,
    progress: Progress = lambda done, total: None,
    warn: Callable[[str], None] = warnings.warn,
) -> Result:
    """Write `predictions.jsonl`, `scores.jsonl` and `result.json` into `folder`, and return the result.

    An interrupted evaluation resumes after the predictions that are there; a finished one is only read.

    Args:
        split: A split of the task, or a file of rows (.jsonl, .jsonl.gz) in the data set's columns.
        warn: Called where a finished evaluation is scored again, because its files are not what was written.

    Raises:
        ConfigError: The folder holds an evaluation of another system or with other settings.
        DataError: Data is not available, something cannot be written, or the predictions of a finished evaluation were
            changed.
        Unavailable: No metric of the task can be computed on this machine.
    """
    split = split or task.data.evaluation
    identity = {
        "task_hash": task.hash,
        "split": split,
        "file": file_id(task, split),
        "weights": system.weights,
        "seed": system.seed,
        "limit": limit,
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
        "best_of": None if system.best_of is None else files.plain(system.best_of),
        "frontier": system.record.get("frontier"),
    }
    finished = claim(folder, identity, warn)
    if finished is not None:
        return finished
    try:
        loaded = load_examples(task, split, data_dir, offline)
        examples = loaded.examples[:limit]
        train = load_examples(task, "train", data_dir, offline) if system.name in READING else None
        answer = _answerer(task, system, examples)
    except GrueError:
        if not (folder / PREDICTIONS).exists():
            discard(folder)  # what never began must not stand in the way of another evaluation
        raise
    started = time.monotonic()
    path = folder / PREDICTIONS
    if system.model is None:
        if train is not None:
            system = replace(system, record={**system.record, "read": _read(train)})
        predictions = _answer_without_model(task, system, examples, () if train is None else train.examples)
        write_predictions(path, predictions)
    else:
        check_lengths(system.model, task)
        assert system.tokenizer is not None
        total = len(examples)
        predictions = predict_file(
            system.model,
            system.tokenizer,
            task,
            examples,
            system.seed,
            path,
            batch_size,
            lambda done: progress(done, total),
            answer,
        )
    generated = time.monotonic()
    scored = score_predictions(task, split, examples, predictions)
    _refuse_unscored(task, scored, path)
    timing = {"generation_seconds": generated - started, "scoring_seconds": time.monotonic() - generated}
    if is_file(task, split):
        split, limited = Path(split).name, True
    else:
        limited = limit is not None
    result = make_result(task, split, scored, loaded, system, timing, limited=limited, batch_size=batch_size)
    write_per_example(folder / SCORES, scored)
    seal(folder, identity, result)
    return result


def _refuse_unscored(task: Task, scored: Scored, path: Path) -> None:
    """Refuse scores of which none is of a metric of the task.

    Raises:
        Unavailable: This machine can compute none of them.
    """
    names = {spec.name for spec in task.metrics}
    if scored.errors and not any(score.metric in names for score in scored.scores):
        raise Unavailable(
            "\n  ".join(
                [
                    f"{path}: no metric of {task.suite}/{task.name} can be computed on this machine, and there is no "
                    "result. The answers are kept: once a metric can be computed, the same command scores them.",
                    *scored.errors,
                ]
            )
        )


def _answerer(task: Task, system: System, examples: Sequence[Example]) -> Answer | None:
    """Return what answers a batch in place of the task's decoding, if anything does."""
    if system.best_of is None:
        return None
    assert system.model is not None and system.tokenizer is not None
    judge = make_judge(system.best_of, task, system.model, examples)
    picking = partial(predict_best_of, system.model, system.tokenizer, task)
    return partial(picking, seed=system.seed, n=system.best_of.n, judge=judge)


def _generation(task: Task, system: System) -> dict[str, Any]:
    """Return what a result says of its decoding."""
    if system.best_of is None:
        settings: dict[str, Any] = files.plain(task.decoding)
        return settings
    best_of = {key: value for key, value in files.plain(system.best_of).items() if key != "name"}
    return {**files.plain(sampling(task)), "decoding": system.best_of.name, "best_of": best_of}


def _answer_without_model(
    task: Task, system: System, examples: Sequence[Example], train: Sequence[Example]
) -> list[Prediction]:
    if system.name == "copy":
        texts = [example.prompt for example in examples]
    elif system.name == "lead":
        texts = [lead(example) for example in examples]
    elif system.name == "oracle":
        texts = [example.references[0] if example.references else "" for example in examples]
    elif system.name in LOOKUPS:
        texts = find_lookup(task, system.name)(task, train, [shown(example) for example in examples], system.seed)
    else:
        texts = [next(example.references[0] for example in train if example.references)] * len(examples)
    return [Prediction(example.id, text) for example, text in zip(examples, texts, strict=True)]


def _read(train: Loaded) -> dict[str, Any]:
    """Return what a result says of the training split that was looked things up in."""
    return {"split": "train", "examples": len(train.examples), "ids_sha256": train.ids_sha256}


def lead(example: Example) -> str:
    """Return the first three sentences of an example's document, a line each; of its prompt where it has none."""
    return "\n".join(sentences(str(example.meta.get("document", example.prompt)))[:LEAD_SENTENCES])


def make_result(
    task: Task,
    split: str,
    scored: Scored,
    loaded: Loaded,
    system: System,
    timing: Mapping[str, float],
    *,
    limited: bool,
    batch_size: int,
) -> Result:
    """Put together everything that `result.json` says."""
    parameter = next(system.model.parameters(), None) if system.model is not None else None
    return Result(
        schema=SCHEMA_VERSION,
        status="complete",
        grue=code_version(),
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        task_hash=task.hash,
        split=split,
        seed=system.seed,
        system={**system.record, "weights": system.weights},
        data=loaded.provenance(),
        generation=_generation(task, system),
        determinism={
            "batch_size": batch_size,
            "dtype": "none" if parameter is None else str(parameter.dtype).removeprefix("torch."),
            "device": "none" if parameter is None else str(parameter.device),
            "threads": torch.get_num_threads(),
        },
        scores=scored.scores,
        preference=scored.preference,
        naturalness=scored.naturalness,
        hashes=scored.hashes,
        counts=scored.counts,
        timing=timing,
        packages=package_versions(),
        limited=limited,
        errors=scored.errors,
    )

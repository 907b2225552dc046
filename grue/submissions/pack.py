"""Packing: results and their predictions into the folder of a submission, all of it or nothing.

Runs of ours enter with the `result.json` and `predictions.jsonl` that `grue evaluate` wrote; predictions made elsewhere
are scored here. Equal input gives equal bytes.
"""

import gzip
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

from grue import files
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.scoring import read_predictions, score_predictions
from grue.records import SCHEMA_VERSION, Prediction, Result
from grue.shapes import from_dict
from grue.submissions.folder import MANIFEST, SUBMISSION, SYSTEM_NAME, Submission, predictions_of, read_result
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A result on its way into a submission.

    Attributes:
        predictions: None for a failed run.
        origin: Where it comes from, for messages.
    """

    result: Result
    predictions: tuple[Prediction, ...] | None
    origin: str


# --- collecting ------------------------------------------------------------------------------------------------------


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return the run folders that `paths` name: runs `seed-<n>`, or folders of a system that hold such runs.

    Raises:
        DataError: A path is no folder, or holds no run.
    """
    found: dict[Path, None] = {}
    for path in paths:
        runs = [path] if (path / "result.json").is_file() or path.name.startswith("seed-") else path.glob("seed-*")
        folders = sorted(run for run in runs if run.is_dir())
        if not folders:
            raise DataError(f"{path}: no run and no system's folder of runs, such as runs/mini/commongen/ppo/seed-1.")
        found |= dict.fromkeys(folders)
    return list(found)


def runs_of(system: str, runs: Path, suite: str) -> list[Path]:
    """Return the run folders of a system on every task.

    Raises:
        DataError: There is none.
    """
    found = sorted(path for path in runs.glob(f"{suite}/*/*/seed-*") if path.parent.name == system and path.is_dir())
    if not found:
        raise DataError(f"{runs / suite}: no run of a system {system!r}; `grue leaderboard` lists what is there.")
    return found


def read_run(folder: Path) -> PackedRun:
    """Read an evaluated run.

    Raises:
        DataError: A file is missing or cannot be read.
        SubmissionError: A line of its predictions is none.
    """
    if not (folder / "result.json").is_file():
        task, seed = folder.parent.parent.name, folder.name.removeprefix("seed-")
        raise DataError(
            f"{folder}: has no result.json. Evaluate the run; if it failed, say so: --failed {task}:{seed}."
        )
    result = read_result(folder / "result.json")
    predictions = None if result.status == "failed" else tuple(read_predictions(folder / "predictions.jsonl"))
    return PackedRun(result, predictions, str(folder))


def find_predictions(folder: Path, suite: str) -> list[tuple[Task, int, Path]]:
    """Return task, seed and file of every `<task>/seed-<n>.jsonl` in a folder of predictions made elsewhere.

    Raises:
        DataError: There is no such file, or another file beside them.
    """
    names = task_names(suite)
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        task, seed = path.parent.name, path.stem.removeprefix("seed-")
        if path.parent.parent != folder or task not in names or path.name != f"seed-{seed}.jsonl" or not is_seed(seed):
            raise DataError(f"{path}: expected {folder}/<task>/seed-<n>.jsonl, with a task of {', '.join(names)}.")
        found.append((load_task(task, suite), int(seed), path))
    if not found:
        raise DataError(f"{folder}: holds no predictions; they lie in it as <task>/seed-<n>.jsonl.")
    return found


def score_run(
    task: Task, seed: int, path: Path, system: Mapping[str, Any], made: Mapping[str, Any], offline: bool = False
) -> PackedRun:
    """Score predictions made elsewhere, one for each example of the task's evaluation split.

    Args:
        system: What the result says of the system: name, algorithm, backbone.
        made: The result's `grue` and `packages`: what scored it.

    Raises:
        DataError: The file or the examples cannot be had.
        SubmissionError: The predictions are not for exactly the split's examples; names the file.
    """
    predictions = read_predictions(path)
    split = task.data.evaluation
    loaded = load_examples(task, split, None, offline)
    try:
        scored = score_predictions(task, split, loaded.examples, predictions)
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error
    result = replace(
        _empty_result(task, seed, system, made),
        status="complete",
        data=loaded.provenance(),
        scores=scored.scores,
        preference=scored.preference,
        naturalness=scored.naturalness,
        hashes=scored.hashes,
        counts=scored.counts,
        errors=scored.errors,
    )
    return PackedRun(result, tuple(predictions), str(path))


def failed_run(task: Task, seed: int, system: Mapping[str, Any], made: Mapping[str, Any]) -> PackedRun:
    """Return the result of a run that failed: it has no scores and counts as the floor."""
    return PackedRun(_empty_result(task, seed, system, made), None, f"--failed {task.name}:{seed}")


def _empty_result(task: Task, seed: int, system: Mapping[str, Any], made: Mapping[str, Any]) -> Result:
    return Result(
        schema=SCHEMA_VERSION,
        status="failed",
        grue=made["grue"],
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        task_hash=task.hash,
        split=task.data.evaluation,
        seed=seed,
        system=dict(system),
        data={},
        generation={},
        determinism={},
        scores=(),
        preference=None,
        naturalness=None,
        hashes={},
        counts={},
        timing={},
        packages=made["packages"],
        limited=False,
    )


def parse_failed(text: str, suite: str) -> tuple[Task, int]:
    """Read TASK:SEED.

    Raises:
        ConfigError: It is not of that form.
        UnknownName: The suite has no such task.
    """
    name, colon, seed = text.rpartition(":")
    if not colon or not is_seed(seed):
        raise ConfigError(f"--failed {text}: write TASK:SEED, such as --failed commongen:3.")
    return load_task(name, suite), int(seed)


def is_seed(text: str) -> bool:
    """Whether a text is a seed as file names spell it: digits without leading zeros."""
    return text.isascii() and text.isdigit() and str(int(text)) == text


# --- what could never pass -------------------------------------------------------------------------------------------


def refusals(runs: Sequence[PackedRun], deterministic: bool = False) -> list[str]:
    """Return why runs cannot be one submission, a line for each reason; empty if they can."""
    found = [f"{run.origin}: {reason}" for run in runs for reason in _faults(run.result)]
    names = sorted({run.result.system["name"] for run in runs})
    if len(names) > 1:
        found.append(f"These are runs of {len(names)} systems, {', '.join(names)}; pack each by itself.")
    suites = sorted({run.result.suite for run in runs})
    if len(suites) > 1:
        found.append(f"These are runs of {len(suites)} suites, {', '.join(suites)}; pack each by itself.")
    return found + list(_twins(runs, deterministic)) + list(_gaps(runs))


def _faults(result: Result) -> Iterator[str]:
    if result.suite not in SUITES or result.task not in task_names(result.suite):
        yield f"{result.suite}/{result.task} is no task of a board; those of {' and '.join(SUITES)} are."
        return
    task = load_task(result.task, result.suite)
    if result.limited:
        yield "was scored on a part of the split; evaluate it again without --limit."
    if result.task_hash != task.hash:
        yield f"was made for another version of {task.name}; evaluate it again."
    if result.split != task.data.evaluation:
        yield f"was evaluated on the split {result.split!r}, not on {task.data.evaluation!r}; evaluate it again."


def _twins(runs: Sequence[PackedRun], deterministic: bool) -> Iterator[str]:
    places: dict[tuple[str, int], str] = {}
    outputs: dict[tuple[str, str], str] = {}
    for run in runs:
        task, seed = run.result.task, run.result.seed
        other = places.setdefault((task, seed), run.origin)
        if other != run.origin:
            yield f"{run.origin} and {other} are both {task} with seed {seed}; leave one out."
        if run.predictions is None:
            continue
        texts = sorted((prediction.id, prediction.text) for prediction in run.predictions)
        same = outputs.setdefault((task, files.sha256_json(texts)), run.origin)
        if same != run.origin and not deterministic:
            yield (
                f"{run.origin} and {same} have the same predictions. Each run enters once; if the output depends on "
                "no seed, pack one seed with --deterministic."
            )
    seeds = {run.result.seed for run in runs}
    if deterministic and len(seeds) > 1:
        yield f"--deterministic: one seed stands for all; these are {', '.join(map(str, sorted(seeds)))}. Pack one."


def _gaps(runs: Sequence[PackedRun]) -> Iterator[str]:
    """Yield the seeds that some tasks have and others lack: what failed is told, and never left out."""
    seeds = {run.result.seed for run in runs}
    by_task: dict[str, set[int]] = {}
    for run in runs:
        by_task.setdefault(run.result.task, set()).add(run.result.seed)
    for task in sorted(by_task):
        for seed in sorted(seeds - by_task[task]):
            yield f"{task} has no seed {seed}, which other tasks have: add the run, or --failed {task}:{seed}."


# --- describing ------------------------------------------------------------------------------------------------------


def describe(runs: Sequence[PackedRun], given: Mapping[str, Any]) -> Submission:
    """Return what submission.toml is to say: what is given, and what the results say of their system.

    Raises:
        ConfigError: Something that is required is neither given nor known; names the options.
    """
    known = _known(runs)
    known |= {key: value for key, value in given.items() if value}
    needed = [f.name for f in fields(Submission) if f.default is MISSING]
    missing = [f"--{name.replace('_', '-')}" for name in needed if not known.get(name)]
    if missing:
        raise ConfigError(f"The results do not say everything; add {', '.join(missing)}.")
    return from_dict(Submission, known, "submission.toml")


def _known(runs: Sequence[PackedRun]) -> dict[str, Any]:
    systems = [run.result.system for run in runs]
    training = [system["training"] for system in systems if isinstance(system.get("training"), Mapping)]
    trained = len(training) == sum(run.predictions is not None for run in runs)
    return {
        "name": str(systems[0]["name"]),
        "algorithm": _listed(systems, "algorithm"),
        "backbone": _listed(systems, "backbone"),
        "seeds": sorted({run.result.seed for run in runs}),
        "budget": _budget(training, {run.result.task for run in runs}) if training and trained else "",
    }


def _listed(systems: Iterable[Mapping[str, Any]], key: str) -> str:
    return ", ".join(sorted({str(system[key]) for system in systems if system.get(key)}))


def _budget(training: Sequence[Mapping[str, Any]], tasks: Iterable[str]) -> str:
    tokens = sum(float(one.get("tokens", 0)) for one in training) / len(training)
    hours = sum(float(one.get("seconds", 0)) for one in training) / 3600
    kinds = len(set(tasks))
    return (
        f"{tokens / 1e6:.2f} M tokens a run, {hours:.1f} hours for all {len(training)} runs "
        f"({kinds} task{'s' if kinds > 1 else ''})"
    )


# --- writing ---------------------------------------------------------------------------------------------------------


def pack(
    runs: Sequence[PackedRun],
    submission: Submission,
    output: Path,
    force: bool = False,
    told: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write the submission of `runs` into `<output>/<suite>/<name>` and return that folder.

    The folder is filled beside its place and renamed: a reader finds the whole submission or none.

    Args:
        output: The folder `submissions/`.
        force: Replace a submission of that name.
        told: Hears of each file that was written.

    Raises:
        SubmissionError: The runs cannot be one submission; says every reason.
        ConfigError: The name is none, or a submission of that name is there and not to be replaced.
        DataError: The folder cannot be written.
    """
    reasons = refusals(runs, submission.deterministic)
    if reasons:
        raise SubmissionError("\n  ".join(["These runs cannot be one submission:", *reasons]))
    if not SYSTEM_NAME.fullmatch(submission.name):
        raise ConfigError(f"--name {submission.name}: use letters, digits, '_', '-', '+' and '.'.")
    folder = output / runs[0].result.suite / submission.name
    if folder.exists() and not force:
        raise ConfigError(f"{folder}: is there already; replace it with --force, or choose another --name.")
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        _fill(temporary, runs, submission, told)
        _put_in_place(temporary, folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _fill(folder: Path, runs: Sequence[PackedRun], submission: Submission, told: Callable[[str], None]) -> None:
    described = {key: value for key, value in files.plain(submission).items() if value}
    files.write_toml(folder / SUBMISSION, described)
    for run in sorted(runs, key=lambda run: (run.result.task, run.result.seed)):
        path = folder / run.result.task / f"seed-{run.result.seed}.result.json"
        named = replace(run.result, system={**run.result.system, "name": submission.name})
        files.write_json(path, named)
        if run.predictions is not None:
            predictions_of(path).write_bytes(zipped(run.predictions))
        told(f"{run.result.task}, seed {run.result.seed}")
    (folder / MANIFEST).write_text(manifest(folder), encoding="utf-8", newline="\n")


def zipped(predictions: Iterable[Prediction]) -> bytes:
    """Return predictions as gzipped JSON lines; the same bytes at any time and under any name."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as handle:
        for prediction in predictions:
            record = {key: value for key, value in files.plain(prediction).items() if key != "truncated" or value}
            handle.write(f"{files.canonical_json(record)}\n".encode())
    return buffer.getvalue()


def manifest(folder: Path) -> str:
    """Return the lines of MANIFEST.sha256, which `sha256sum --check` reads: every file but itself, sorted."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names if name != MANIFEST
    )


def _put_in_place(temporary: Path, folder: Path) -> None:
    for leaving in folder.parent.glob(f".{folder.name}.{'[0-9a-f]' * 16}"):  # of a packing that was killed
        if leaving != temporary:
            shutil.rmtree(leaving, ignore_errors=True)
    if folder.exists():
        old = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
        os.rename(folder, old)
        os.rename(temporary, folder)
        shutil.rmtree(old)
    else:
        os.rename(temporary, folder)

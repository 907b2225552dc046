"""Packing: writes the folder of a submission, all of it or nothing. Equal input gives equal bytes."""

import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.predictions import prediction_record
from grue.records import EXTERNAL, SYSTEM_NAME, Prediction
from grue.shapes import from_dict
from grue.submissions.configuration import Configuration
from grue.submissions.folder import CONFIG, MANIFEST, SUBMISSION, Submission, predictions_of, stated
from grue.submissions.packing.collect import PackedRun
from grue.task_files import SUITES, load_task, task_names


def describe(runs: Sequence[PackedRun], options: Mapping[str, Any]) -> Submission:
    """Return the content of `submission.toml`: the given options over what the results record.

    Results of models that were made elsewhere, one for each seed, say where these are, not what they were trained from.
    """
    results = [run.result for run in runs]
    elsewhere = {result.system.get("backbone") for result in results if result.system.get("algorithm") == EXTERNAL}
    recorded = {
        "name": str(results[0].system["name"]),
        "algorithm": stated(results, "algorithm"),
        "backbone": stated(results, "backbone") if len(elsewhere) < 2 else "",
        "seeds": sorted({result.seed for result in results}),
        "budget": _budget(runs),
    }
    known = recorded | {key: value for key, value in options.items() if value}
    needed = [f.name for f in fields(Submission) if f.default is MISSING]
    missing = [f"--{name.replace('_', '-')}" for name in needed if not known.get(name)]
    if missing:
        raise ConfigError(f"The results do not record everything; add {', '.join(missing)}.")
    return from_dict(Submission, known, "submission.toml")


def _budget(runs: Sequence[PackedRun]) -> str:
    """Return what training took, in words; empty unless all results record it."""
    systems = [run.result.system for run in runs if run.predictions is not None]
    costs = [cost for system in systems if isinstance(cost := system.get("training"), Mapping)]
    if not costs or len(costs) < len(systems):
        return ""
    tokens = sum(float(cost.get("tokens", 0)) for cost in costs) / len(costs)
    hours = sum(float(cost.get("seconds", 0)) for cost in costs) / 3600
    tasks = len({run.result.task for run in runs})
    of = f"all {len(costs)} runs ({tasks} task{'s' if tasks > 1 else ''})"
    return f"{tokens / 1e6:.2f} M tokens a run, {hours:.1f} hours for {of}"


def refusals(runs: Sequence[PackedRun], deterministic: bool = False) -> Iterator[str]:
    """Yield why runs cannot be one submission; the check tells all else once they are packed."""
    for run in runs:
        result = run.result
        if result.suite not in SUITES or result.task not in task_names(result.suite):
            boards = f"the boards are those of {' and '.join(SUITES)}"
            yield f"{run.origin}: {result.suite}/{result.task} is not a task of a board; {boards}."
            continue
        task = load_task(result.task, result.suite)
        if result.limited or (result.task_hash, result.split) != (task.hash, task.data.evaluation):
            of = f"all of the split {task.data.evaluation!r} of the current version of {task.name}"
            yield f"{run.origin}: is not of {of}; evaluate it again, with --force."
    names, suites = {run.result.system["name"] for run in runs}, {run.result.suite for run in runs}
    for noun, values in (("systems", names), ("suites", suites)):
        if len(values) > 1:
            yield f"These are runs of {len(values)} {noun}, {', '.join(sorted(values))}; pack each by itself."
    origins: dict[tuple[str, int], str] = {}
    for run in runs:
        task_seed = run.result.task, run.result.seed
        if (origin := origins.setdefault(task_seed, run.origin)) != run.origin:
            yield "{} and {} are both {} with seed {}; leave one out.".format(run.origin, origin, *task_seed)
    seeds = sorted({seed for _, seed in origins})
    if deterministic and len(seeds) > 1:
        yield f"--deterministic: takes one seed; these are {', '.join(map(str, seeds))}. Pack one."
    for name in sorted({name for name, _ in origins}):  # a failed run is declared, never left out
        for seed in seeds:
            if (name, seed) not in origins:
                yield f"{name} has no seed {seed}, which other tasks have: add the run, or --failed {name}:{seed}."


def configurations(runs: Iterable[PackedRun]) -> dict[str, Configuration | None]:
    """Return task → what all of its seeds were trained with; None if that is not one and the same, or not known."""
    by_task: dict[str, list[Configuration | None]] = {}
    for run in runs:
        if run.predictions is not None:
            by_task.setdefault(run.result.task, []).append(run.configuration)
    return {
        task: first if all(other == first for other in others) else None for task, (first, *others) in by_task.items()
    }


def pack(runs: Sequence[PackedRun], submission: Submission, output: Path, force: bool = False) -> Path:
    """Write the submission of `runs` into `<output>/<suite>/<name>`, all of it or nothing, and return that folder."""
    if reasons := list(refusals(runs, submission.deterministic)):
        raise SubmissionError("\n  ".join(["These runs cannot be one submission:", *reasons]))
    if not SYSTEM_NAME.fullmatch(submission.name):
        raise ConfigError(f"--name {submission.name}: use letters, digits, '_', '-', '+' and '.'.")
    folder = output / runs[0].result.suite / submission.name
    try:
        files.restore_folder(folder)
        if folder.exists() and not force:
            raise ConfigError(f"{folder}: exists; replace it with --force, or choose another --name.")
        with files.replacing_folder(folder) as new:
            _fill(new, runs, submission)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}.") from error
    return folder


def _fill(folder: Path, runs: Sequence[PackedRun], submission: Submission) -> None:
    files.write_toml(folder / SUBMISSION, {key: value for key, value in files.plain(submission).items() if value})
    for run in runs:
        path, system = folder / run.result.task / f"seed-{run.result.seed}.result.json", dict(run.result.system)
        told = {"backbone": submission.backbone} if system.get("algorithm") == EXTERNAL else {}
        files.write_json(path, replace(run.result, system={**system, "name": submission.name, **told}))
        if run.predictions is not None:
            predictions_of(path).write_bytes(zipped(run.predictions))
    for task, configuration in configurations(runs).items():
        if configuration is not None:
            files.write_json(folder / task / CONFIG, configuration)
    (folder / MANIFEST).write_text(manifest(folder), encoding="utf-8", newline="\n")


def zipped(predictions: Iterable[Prediction]) -> bytes:
    """Return predictions as gzipped JSON lines; the bytes depend on nothing else, not on the time or a file's name."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as handle:
        for prediction in predictions:
            handle.write(f"{files.canonical_json(prediction_record(prediction))}\n".encode())
    return buffer.getvalue()


def manifest(folder: Path) -> str:
    """Return the lines of MANIFEST.sha256, which `sha256sum --check` reads: every file but itself, sorted."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return "".join(f"{files.sha256_file(folder / name)}  {name}\n" for name in names if name != MANIFEST)

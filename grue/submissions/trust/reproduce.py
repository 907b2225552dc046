"""Reproducing: the predictions of a row, drawn again from the checkpoint that its authors hand in."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grue import files
from grue.data.cache import cache_folder
from grue.data.download import download
from grue.data.unpack import unpack
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.best_of import choose_best_of
from grue.evaluation.evaluate import evaluate
from grue.evaluation.folder import PREDICTIONS
from grue.evaluation.predictions import read_predictions
from grue.evaluation.prompting import is_by_endpoint, prompting_of
from grue.evaluation.systems import System, baseline_system, checkpoint_system, external_system, with_best_of
from grue.lm import checkpoint
from grue.lm.load import fetch_model
from grue.records import BASELINES, CONSENSUS, LIKELIHOOD
from grue.submissions.configuration import HUB_ID, foreign_terms
from grue.submissions.folder import place_of
from grue.submissions.trust.agreement import MadeAgain, equal_share, judge_reproduced
from grue.submissions.trust.rows import Scores, Target, scores_of, weights_of

MOST_AT_ONCE = 1024  # prompts in a batch
LARGEST_ARCHIVE = 20 * 1000**3  # bytes of a packed checkpoint
MOST_SAMPLES = 256  # of a row that picks the best of several
STATED = ("algorithm", "backbone", "update", "start", "config_sha256")
"""What a row and its checkpoint both say of the training."""


@dataclass(frozen=True, slots=True)
class Model:
    """Where the model behind a run is.

    Attributes:
        place: Its folder, or the id of a model on the hub that is no checkpoint of grue; None for what grue itself
            answers without training.
    """

    target: Target
    place: Path | str | None


def find_models(found: Sequence[Target], given: str | None) -> list[Model]:
    """Return the model of each run, its weights compared with those that the row records.

    Args:
        given: A checkpoint or a run's folder; a folder of runs, RUNS/SUITE/TASK/SYSTEM/seed-N; or, with {task} and
            {seed} for those of each run, a path, a hub id, or the address of an archive. None for a row of grue's own
            baselines.

    Raises:
        ConfigError: Nothing is given, and the row is none of those.
        DataError: There is no model, or a checkpoint is damaged.
        SubmissionError: A checkpoint is another than the row's; names all of them, with both hashes.
    """
    if given is None:
        _refuse_trained(found)
        return [Model(target, None) for target in found]
    models = [Model(target, place) for target, place in _places(found, given)]
    faults = [fault for model in models for fault in _faults(model)]
    if faults:
        raise SubmissionError("\n  ".join(["These are not the row's checkpoints:", *faults]))
    return models


def _refuse_trained(found: Sequence[Target]) -> None:
    trained = [str(one) for one in found if one.result.system.get("algorithm") not in BASELINES]
    if trained:
        raise ConfigError(f"{trained[0]}: was answered by a model of its authors; say where it is, with --checkpoint.")


def _places(found: Sequence[Target], given: str) -> list[tuple[Target, Path | str]]:
    if "{task}" in given or "{seed}" in given:
        named = [given.replace("{task}", one.task.name).replace("{seed}", str(one.seed)) for one in found]
        return [(one, _place(name)) for one, name in zip(found, named, strict=True)]
    root = Path(given)
    if any((root / one.task.suite).is_dir() for one in found):
        runs = [root / one.task.suite / one.task.name / place_of(one.system).name / f"seed-{one.seed}" for one in found]
        return [(one, _place(str(_checkpoint_in(run)))) for one, run in zip(found, runs, strict=True)]
    place = _place(given)
    if isinstance(place, Path) and checkpoint.is_checkpoint(place):
        manifest = checkpoint.read_manifest(place)
        mine = [one for one in found if (one.task.name, one.seed) == (manifest.task, manifest.seed)]
        if not mine:
            said = f"{manifest.suite}/{manifest.task} seed {manifest.seed}"
            raise SubmissionError(f"{place}: is the checkpoint of {said}, which is none of: {_listed(found)}.")
        return [(mine[0], place)]
    if len(found) > 1:
        raise SubmissionError(
            f"{given}: is one model, and these are {len(found)} runs; choose one with --task and --seed, or write "
            "{task} and {seed} in the path."
        )
    return [(found[0], place)]


def _checkpoint_in(results: Path) -> Path:
    """Return the run that results in a folder are of, or its last checkpoint where they are of that."""
    run = checkpoint.run_of(results)
    return run if run == results else run / checkpoint.FINAL


def _listed(found: Sequence[Target]) -> str:
    return ", ".join(map(str, found[:5])) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def _place(name: str) -> Path | str:
    """Return the folder of a checkpoint or model; one of the hub is downloaded.

    Raises:
        DataError: There is no such folder, or it holds no weights in a format that cannot hold code.
    """
    if Path(name).is_dir():
        folder = checkpoint.find_checkpoint(Path(name))
    elif name.startswith("https://"):
        return checkpoint.find_checkpoint(_fetch_archive(name))
    elif HUB_ID.fullmatch(name):
        folder = fetch_model(name)
    else:
        raise DataError(f"{name}: there is no such checkpoint; give the folder of a run or checkpoint, or a hub id.")
    if not any(folder.glob("*.safetensors")):
        raise DataError(f"{folder}: holds no weights in the format safetensors, the only one that is loaded here.")
    return folder if checkpoint.is_checkpoint(folder) or Path(name).is_dir() else name


def _fetch_archive(url: str) -> Path:
    """Download and unpack the archive of a checkpoint into the cache, and return its folder.

    It is downloaded every time: an address may have another file than yesterday.
    """
    folder = cache_folder() / "checkpoints" / files.sha256_text(url)
    shutil.rmtree(folder, ignore_errors=True)
    archive = folder / url.rpartition("/")[2]
    download(url, archive, most=LARGEST_ARCHIVE)
    unpack(archive, folder / "unpacked")
    inner = [path for path in (folder / "unpacked").iterdir() if path.is_dir()]
    has_one_folder = len(inner) == 1 and not list((folder / "unpacked").glob("*.safetensors"))
    return inner[0] if has_one_folder else folder / "unpacked"


def _faults(model: Model) -> list[str]:
    target, place = model.target, model.place
    if not isinstance(place, Path) or not checkpoint.is_checkpoint(place):
        return []  # it is compared when it is loaded
    manifest = checkpoint.read_manifest(place)
    faults = []
    said = (manifest.suite, manifest.task, manifest.seed)
    if said != (target.task.suite, target.task.name, target.seed):
        faults.append(f"{place}: is of {said[0]}/{said[1]} seed {said[2]}, not of {target}.")
    if weights_of(target) != manifest.weights:
        faults.append(_other_weights(target, str(place), manifest.weights))
    if faults:
        return faults  # it is another model altogether
    row = target.result.system
    return [
        f"{place}: says {key} {getattr(manifest, key)!r}; {target} says {row[key]!r}."
        for key in STATED
        if key in row and row[key] != getattr(manifest, key)
    ]


def _other_weights(target: Target, place: str, weights: str) -> str:
    recorded = weights_of(target)
    return f"{place}: has the weights {weights!r}; {target} was answered with {recorded or 'unknown ones'!r}."


def reproduce(model: Model, progress: Callable[[int, int], None]) -> MadeAgain:
    """Draw a run's predictions again, and compare them with the row's.

    Raises:
        SubmissionError: The model has other weights, or the row picks its answers by code of its own.
        DataError: The model or the data cannot be read.
    """
    target, system = model.target, load(model)
    with TemporaryDirectory() as place:
        share, now = answer_again(target, system, Path(place), progress)
    return MadeAgain(target, judge_reproduced(share), share, now, system.weights)


def load(model: Model) -> System:
    """Return the system that answers as the row's did; raises as `reproduce` does."""
    target = model.target
    if is_by_endpoint(target.result):
        raise SubmissionError(f"{target}: was answered by an endpoint; there are no weights to draw its texts from.")
    system = _as_the_row_answers(target, _load(model))
    if weights_of(target) and system.weights != weights_of(target):
        raise SubmissionError(_other_weights(target, str(model.place), system.weights))
    return system


def answer_again(
    target: Target, system: System, folder: Path, progress: Callable[[int, int], None]
) -> tuple[float, Scores]:
    """Draw predictions into `folder`, in the row's batches; return the share that is the row's, and their scores.

    Raises:
        DataError: Data, or predictions, cannot be read.
        SubmissionError: The row's predictions do not fit the examples.
    """
    before = target.read()
    size = batch_size(target)
    result = evaluate(target.task, system, folder, batch_size=size, search=False, progress=progress)
    now = {one.id: one for one in read_predictions(folder / PREDICTIONS)}
    return equal_share(before, [now[one.id] for one in before]), scores_of(result)


def batch_size(target: Target) -> int:
    """Return how many prompts the row answered at once, within reason."""
    stated = target.result.determinism.get("batch_size")
    return stated if type(stated) is int and 0 < stated <= MOST_AT_ONCE else 64


def _load(model: Model) -> System:
    task, place = model.target.task, model.place
    if place is None:
        return baseline_system(task, model.target.result.system["algorithm"], model.target.seed)
    if isinstance(place, Path) and checkpoint.is_checkpoint(place):
        return checkpoint_system(task, place)
    chat = prompting_of(model.target.result) != "plain"
    return external_system(task, str(place), model.target.seed, chat=chat)


def _as_the_row_answers(target: Target, system: System) -> System:
    """Return the system that picks the best of several samples, if the row does.

    Raises:
        SubmissionError: It picks by something that is not grue's, or of too many.
    """
    said: Any = target.result.generation.get("best_of")
    if said is None:
        return system
    n, pick_by = (said.get("n"), said.get("pick_by")) if isinstance(said, Mapping) else (None, None)
    known = isinstance(pick_by, str) and (pick_by in (LIKELIHOOD, CONSENSUS) or not foreign_terms(pick_by))
    if type(n) is not int or not 2 <= n <= MOST_SAMPLES or not known:
        raise SubmissionError(f"{target}: picks the best of {n!r} by {pick_by!r}, which is not done again here.")
    return with_best_of(system, choose_best_of(target.task, n, pick_by), target.task)

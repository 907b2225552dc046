"""The models behind a row: where they are, and what they answer now."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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
from grue.records import BASELINES, CONSENSUS, LIKELIHOOD, Result
from grue.submissions.configuration import HUB_ID, foreign_terms
from grue.submissions.folder import place_of
from grue.submissions.trust.runs import Target

MOST_AT_ONCE = 1024  # prompts in a batch
LARGEST_ARCHIVE = 20 * 1000**3  # bytes of a packed checkpoint
MOST_SAMPLES = 256  # of a row that picks the best of several

Place = Path | str | None
"""Where a model is: its folder, or the id of one on the hub that is no checkpoint of grue; None for a baseline."""


def find_models(runs: Sequence[Target], location: str | None) -> list[Place]:
    """Return where the model of each run is.

    Args:
        location: A checkpoint or a run's folder, for a single run; a folder of runs, RUNS/SUITE/TASK/SYSTEM/seed-N; or,
            with {task} and {seed} for those of each run, a path, a hub id, or the address of an archive. None for a
            row of grue's own baselines.

    Raises:
        ConfigError: Nothing is given, and the row is none of those; or one model is given for several runs.
        DataError: There is no model, or a checkpoint is damaged.
    """
    if location is None:
        for run in runs:
            if run.result.system.get("algorithm") not in BASELINES:
                raise ConfigError(f"{run}: was answered by a model of its authors; say where it is, with --checkpoint.")
        return [None for _ in runs]
    root = Path(location)
    if any((root / run.task.suite).is_dir() for run in runs):
        return [_place(str(_checkpoint_in(root, run))) for run in runs]
    if len(runs) > 1 and "{task}" not in location and "{seed}" not in location:
        raise ConfigError(
            f"--checkpoint {location}: is one model, and these are {len(runs)} runs; write {{task}} and {{seed}} in "
            "the path, or choose one run with --task and --seed."
        )
    return [_place(location.replace("{task}", run.task.name).replace("{seed}", str(run.seed))) for run in runs]


def _checkpoint_in(root: Path, target: Target) -> Path:
    """Return the folder of a run among others, or its last checkpoint where the row is of that."""
    folder = root / target.task.suite / target.task.name / place_of(target.system).name / f"seed-{target.seed}"
    run = checkpoint.run_of(folder)
    return run if run == folder else run / checkpoint.FINAL


def _place(name: str) -> Path | str:
    """Return the folder of a checkpoint or model, with weights in the format that holds no code."""
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
    """Download a packed checkpoint into the cache, every time, since it may have changed; return its folder."""
    folder = cache_folder() / "checkpoints" / files.sha256_text(url)
    shutil.rmtree(folder, ignore_errors=True)
    archive = folder / url.rpartition("/")[2]
    download(url, archive, most=LARGEST_ARCHIVE)
    unpacked = folder / "unpacked"
    unpack(archive, unpacked)
    inner = [path for path in unpacked.iterdir() if path.is_dir()]
    return inner[0] if len(inner) == 1 and not list(unpacked.glob("*.safetensors")) else unpacked


def load(target: Target, place: Place) -> System:
    """Return the system that answers as the row's did.

    Raises:
        SubmissionError: The model has other weights than the row names, or the row picks its answers by foreign code.
        DataError: The model cannot be read.
    """
    if is_by_endpoint(target.result):
        raise SubmissionError(f"{target}: was answered by an endpoint; there are no weights to draw its texts from.")
    system = _as_the_row_answers(target, _load(target, place))
    if target.weights and system.weights != target.weights:
        raise SubmissionError(
            f"{place}: has the weights {system.weights!r}; {target} was answered with {target.weights!r}."
        )
    return system


def _load(target: Target, place: Place) -> System:
    if place is None:
        return baseline_system(target.task, target.result.system["algorithm"], target.seed)
    if isinstance(place, Path) and checkpoint.is_checkpoint(place):
        return checkpoint_system(target.task, place)
    return external_system(target.task, str(place), target.seed, chat=prompting_of(target.result) != "plain")


def _as_the_row_answers(target: Target, system: System) -> System:
    """Return the system that picks the best of several samples, if the row does, and by means of grue's own."""
    best_of: Any = target.result.generation.get("best_of")
    if best_of is None:
        return system
    n, pick_by = (best_of.get("n"), best_of.get("pick_by")) if isinstance(best_of, Mapping) else (None, None)
    known = isinstance(pick_by, str) and (pick_by in (LIKELIHOOD, CONSENSUS) or not foreign_terms(pick_by))
    if type(n) is not int or not 2 <= n <= MOST_SAMPLES or not known:
        raise SubmissionError(f"{target}: picks the best of {n!r} by {pick_by!r}, which is not done again here.")
    return with_best_of(system, choose_best_of(target.task, n, pick_by), target.task)


def answer_again(
    target: Target, system: System, folder: Path, progress: Callable[[int, int], None]
) -> tuple[float, Result]:
    """Draw predictions into `folder`, in the row's batches; return the share that is the row's, 0–1, and the result."""
    before = target.read()
    result = evaluate(target.task, system, folder, batch_size=batch_size(target), search=False, progress=progress)
    now = {prediction.id: prediction for prediction in read_predictions(folder / PREDICTIONS)}
    return sum(prediction == now[prediction.id] for prediction in before) / len(before), result


def batch_size(target: Target) -> int:
    """Return how many prompts the row answered at once, within reason."""
    size = target.result.determinism.get("batch_size")
    return size if type(size) is int and 0 < size <= MOST_AT_ONCE else 64

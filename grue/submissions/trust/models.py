"""The runs of a row, read as carefully as the check reads them, and the models behind them: what they answer now."""

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grue import files
from grue.data.archives import unpack
from grue.data.cache import cache_folder
from grue.data.download import download
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.best_of import choose_best_of
from grue.evaluation.evaluate import evaluate
from grue.evaluation.folder import PREDICTIONS
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.prompting import is_by_endpoint, prompting_of
from grue.evaluation.systems import System, baseline_system, checkpoint_system, external_system, with_best_of
from grue.lm import checkpoint
from grue.lm.load import fetch_model
from grue.records import BASELINES, CONSENSUS, LIKELIHOOD, Prediction, Result
from grue.submissions.checks.structure import read_system
from grue.submissions.configuration import HUB_ID, foreign_terms
from grue.submissions.folder import CONFIG, place_of
from grue.task_files import load_task
from grue.tasks import Task

MOST_THREADS = 64
MOST_AT_ONCE = 1024  # prompts in a batch
LARGEST_ARCHIVE = 20 * 1000**3  # bytes of a packed checkpoint
MOST_SAMPLES = 256  # of a row that picks the best of several

Place = Path | str | None
"""Where a model is: its folder, or the id of one on the hub that is no checkpoint of grue; None for a baseline."""


@dataclass(frozen=True, slots=True)
class Target:
    """One complete run of a row.

    Attributes:
        others: The results of the row's other seeds on the task.
        predictions: Path of its predictions.
    """

    system: Path
    task: Task
    result: Result
    others: tuple[Result, ...]
    predictions: Path

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.result.seed

    @property
    def configuration(self) -> Path:
        """Path of what it was trained with; there may be none."""
        return self.predictions.with_name(CONFIG)

    @property
    def weights(self) -> str:
        """What identifies the weights behind its predictions; empty if the row does not say."""
        return self.result.system.get("weights") or ""

    def __str__(self) -> str:
        return f"{self.task.name} seed {self.seed}"

    def read(self) -> list[Prediction]:
        """Return the row's predictions in the order of the examples, which must be exactly those."""
        examples = load_examples(self.task, self.task.data.evaluation).examples
        return match(examples, read_predictions(self.predictions, DataError))


def threads_of(runs: Iterable[Target]) -> int | None:
    """Return with how many threads a row was made, since sums depend on it; None if it does not say."""
    stated = [run.result.determinism.get("threads") for run in runs]
    return next((threads for threads in stated if type(threads) is int and 0 < threads <= MOST_THREADS), None)


def targets(system: Path, tasks: Collection[str] = (), seeds: Collection[int] = ()) -> list[Target]:
    """Return the complete runs of a row, or those of some tasks and seeds."""
    if not system.is_dir():
        raise DataError(f"{system}: there is no such folder; give a system's, such as submissions/mini/my-ppo.")
    contents = read_system(system)
    errors = [f"{problem.path}: {problem.message}" for problem in contents.problems if problem.severity == "error"]
    if errors:
        raise SubmissionError(f"{errors[0]} Correct what `grue submit check {system}` reports.")
    complete = []
    for name, runs in contents.runs.items():
        read = [(run.result, run.predictions) for run in runs if run.result and run.predictions]
        for result, predictions in read:
            others = tuple(other for other, _ in read if other is not result)
            complete.append(Target(system, load_task(name, contents.suite), result, others, predictions))
    of_tasks, of_seeds = {run.task.name for run in complete}, {run.seed for run in complete}
    for noun, wanted, known in (("task", tasks, of_tasks), ("seed", seeds, of_seeds)):
        for unknown in (name for name in wanted if name not in known):
            listed = ", ".join(map(str, sorted(known, key=str))) or "none"
            raise ConfigError(f"{system}: has no complete run of {noun} {unknown}. It has: {listed}.")
    chosen = [r for r in complete if (not tasks or r.task.name in tasks) and (not seeds or r.seed in seeds)]
    if not chosen:
        raise ConfigError(f"{system}: has no complete run with that task and seed.")
    return chosen


# --- where their models are ------------------------------------------------------------------------------------------


def find_models(runs: Sequence[Target], location: str | None) -> list[Place]:
    """Return where the model of each run is.

    Args:
        location: A checkpoint or a run's folder, for a single run; a folder of runs, RUNS/SUITE/TASK/SYSTEM/seed-N; or,
            with {task} and {seed} for those of each run, a path, a hub id, or the address of an archive. None for a
            row of grue's own baselines.
    """
    if location is None:
        for run in runs:
            if run.result.system.get("algorithm") not in BASELINES:
                raise ConfigError(
                    f"{run}: was answered by a model of its authors; say where it is, with --checkpoint or as "
                    "`checkpoints` in submission.toml."
                )
        return [None for _ in runs]
    root = Path(location)
    if any((root / run.task.suite).is_dir() for run in runs):
        named = [(run.task.suite, run.task.name, place_of(run.system).name, f"seed-{run.seed}") for run in runs]
        folders = [(folder, checkpoint.run_of(folder)) for folder in (root.joinpath(*parts) for parts in named)]
        for absent in (folder for _, folder in folders if not folder.is_dir()):
            named_so = root / runs[0].task.suite / "{task}/NAME/seed-{seed}"
            raise DataError(f"{absent}: there is no such run; if its system has another NAME there, give '{named_so}'.")
        # a row of last policies is of the last checkpoints of other runs
        return [_place(str(run if run == folder else run / checkpoint.FINAL)) for folder, run in folders]
    if len(runs) > 1 and "{task}" not in location and "{seed}" not in location:
        raise ConfigError(
            f"--checkpoint {location}: is one model, and these are {len(runs)} runs; write {{task}} and {{seed}} in "
            "the path, or choose one run with --task and --seed."
        )
    return [_place(location.replace("{task}", run.task.name).replace("{seed}", str(run.seed))) for run in runs]


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
        SubmissionError: The model has other weights than the row names, or another size, or the row picks its answers
            by foreign code.
        DataError: The model cannot be read.
    """
    if is_by_endpoint(target.result):
        raise SubmissionError(f"{target}: was answered by an endpoint; there are no weights to draw its texts from.")
    if place is None:
        system = baseline_system(target.task, target.result.system["algorithm"], target.seed)
    elif isinstance(place, Path) and checkpoint.is_checkpoint(place):
        system = checkpoint_system(target.task, place)
    else:
        system = external_system(target.task, str(place), target.seed, chat=prompting_of(target.result) != "plain")
    system = _as_the_row_answers(target, system)
    if target.weights and system.weights != target.weights:
        by_address = "@" in system.weights and "@" not in target.weights
        cure = " Of a model that is no checkpoint of grue, give the folder or an archive of it." if by_address else ""
        raise SubmissionError(
            f"{place}: has the weights {system.weights!r}; {target} was answered with {target.weights!r}.{cure}"
        )
    stated = target.result.system.get("parameters")
    if stated is not None and stated != (counted := system.record.get("parameters")):
        raise SubmissionError(f"{target}: states {stated:,} parameters; its model has {counted or 0:,}.")
    return system


def _as_the_row_answers(target: Target, system: System) -> System:
    """Return the system that picks the best of several samples, if the row does, and by means of grue's own."""
    best_of, guided = (target.result.generation.get(key) for key in ("best_of", "guided"))
    if guided is not None:
        raise SubmissionError(f"{target}: its decoding is guided, which is not done again here.")
    if best_of is None:
        return system
    n, pick_by = (best_of.get("n"), best_of.get("pick_by")) if isinstance(best_of, Mapping) else (None, None)
    known = isinstance(pick_by, str) and (pick_by in (LIKELIHOOD, CONSENSUS) or not foreign_terms(pick_by))
    if type(n) is not int or not 2 <= n <= MOST_SAMPLES or not known:
        raise SubmissionError(f"{target}: picks the best of {n!r} by {pick_by!r}, which is not done again here.")
    chosen = choose_best_of(target.task, n, pick_by)
    if chosen.oracle and not best_of.get("oracle"):
        raise SubmissionError(f"{target}: picks by {pick_by!r}, which reads references, and does not state `oracle`.")
    return with_best_of(system, chosen, target.task)


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

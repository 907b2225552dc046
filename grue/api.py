"""The Python API: what the commands do, in a line each. `import grue` offers it: `grue.train`, `grue.score` and so on.

What is heavy is imported when it is needed: a script that only scores never loads torch.
"""

import atexit
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import BASELINES, Axis, Example, Prediction, Result, check_seed, check_system_name
from grue.task_files import load_task, task_names
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.evaluation.evaluate import System
    from grue.evaluation.rewards import RewardFunction
    from grue.evaluation.scoring import Scored
    from grue.leaderboard.compare import Comparison
    from grue.runs.diagnose import Diagnosis
    from grue.runs.observers import Observer
    from grue.runs.request import RunRequest

AnyTask = Task | str | Path
"""A task, its name in a suite, or the path of its file."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run.

    Attributes:
        folder: Where it lies, with config.toml and train.jsonl.
        checkpoint: The best model on validation, in Hugging Face format.
    """

    task: Task
    folder: Path
    checkpoint: Path


@dataclass(frozen=True, slots=True)
class Subject:
    """What is evaluated, on which task, and the folder of its results; `subject` makes it."""

    task: Task
    system: "System"
    folder: Path


def train(
    task: "AnyTask | RunRequest",
    algorithm: str = "ppo",
    *,
    reward: "str | RewardFunction | None" = None,
    seed: int = 1,
    suite: str = "mini",
    runs: str | Path = "runs",
    system: str | None = None,
    preset: str | None = None,
    backbone: str | Path | None = None,
    init: Trained | str | Path | None = None,
    warm_start: bool = False,
    data_dir: str | Path | None = None,
    offline: bool = False,
    trackers: Sequence[str] = ("none",),
    observer: "Observer | None" = None,
    stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> Trained:
    """Train a model on a task, as `grue train` does; the same call resumes an interrupted run.

    Args:
        task: The task; or a whole `RunRequest`, beside which only `trackers`, `observer` and `stop` may be given.
        algorithm: "ppo", say, or with a warm start "supervised+ppo", which is two runs.
        reward: A metric, a weighted sum, "module:function", or a function of (examples, texts) that returns one number
            a text. A function enters the run's record by its name and the sha256 of its source: see
            `grue.evaluation.rewards.give_name`. None for the task's.
        runs: Folder that all runs lie in; this one is SUITE/TASK/SYSTEM/seed-N in it.
        system: Name of the system. [default: the algorithm]
        preset: "paper", "rl4lms" or "stable", for NLPO.
        backbone: Model to start from instead of the task's: a folder, a hub id or `mini:<name>`.
        init: A trained run, its folder or a checkpoint to start from instead of the backbone.
        warm_start: With supervised+X: start from the published supervised model that the task file names.
        data_dir: Folder with the data set in its original layout, instead of the task's sources.
        trackers: "tensorboard", "wandb", "trackio"; an empty list is TensorBoard where it is installed.
        observer: Its methods are called at every update, validation and warning.
        stop: Asked after every update; True saves the state and raises `Interrupted`.
        settings: Values of the algorithm's settings, as --set takes them: updates=30.

    Raises:
        ConfigError, UnknownName: Something that was asked for cannot be, or the folder holds another run.
        DataError: Data, the model or a checkpoint is not available.
        TrainingError: The run cannot continue: the reward gave no number, say.
    """
    from grue.lm.distributed import join_processes, leave_processes
    from grue.runs import plan
    from grue.runs import train as training
    from grue.runs.observers import Observers
    from grue.runs.trackers import open_trackers

    request = _request(
        task,
        suite,
        "trackers, observer and stop",
        algorithm=algorithm,
        seed=seed,
        runs=Path(runs),
        settings=settings,
        preset=preset,
        reward=reward,
        system=system,
        init=init,
        backbone=backbone,
        warm_start=warm_start,
        data_dir=_path(data_dir),
        offline=offline,
    )
    stages = plan.stages_of(request)
    distributed = join_processes()
    atexit.unregister(leave_processes)  # once is enough, and the processes stay together until then
    atexit.register(leave_processes)
    watching = [observer] if observer is not None else []
    with open_trackers(trackers if distributed.is_main else ["none"], _warner(watching)) as opened:
        # A tracker that asks for a login does so before a live view is drawn.
        for stage in stages:
            checkpoint = training.train(stage, Observers([*opened, *watching]), stop, distributed)
    return Trained(stages[-1].task, stages[-1].folder, checkpoint)


def diagnose(
    task: "AnyTask | RunRequest",
    algorithm: str = "ppo",
    *,
    reward: "str | RewardFunction | None" = None,
    seed: int = 1,
    suite: str = "mini",
    runs: str | Path = "runs",
    preset: str | None = None,
    backbone: str | Path | None = None,
    init: Trained | str | Path | None = None,
    warm_start: bool = False,
    data_dir: str | Path | None = None,
    offline: bool = False,
    batches: int = 16,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **settings: Any,
) -> "Diagnosis":
    """Say before a run whether there is a signal to learn from, as `grue diagnose` does; nothing is written.

    Args:
        task: The task; or a whole `RunRequest`, beside which only `batches` and `progress` may be given.
        algorithm: One that takes rollouts; with a warm start, "supervised+ppo", the supervised run must be there.
        batches: Independent batches of rollouts whose gradients are compared, each of an update's size; 4 at least.
        progress: Called with (done, total) updates.

    Other arguments and errors as for `train`. `grue.runs.remarks` says what the figures mean.
    """
    from grue.lm.distributed import join_processes
    from grue.runs import plan
    from grue.runs.diagnose import diagnose

    request = _request(
        task,
        suite,
        "batches and progress",
        algorithm=algorithm,
        seed=seed,
        runs=Path(runs),
        settings=settings,
        preset=preset,
        reward=reward,
        init=init,
        backbone=backbone,
        warm_start=warm_start,
        data_dir=_path(data_dir),
        offline=offline,
    )
    return diagnose(plan.stages_of(request)[-1], batches, progress, join_processes())


def _request(
    task: "AnyTask | RunRequest",
    suite: str,
    beside: str,
    *,
    reward: "str | RewardFunction | None",
    init: Trained | str | Path | None,
    backbone: str | Path | None,
    **values: Any,
) -> "RunRequest":
    """Return the request that arguments make; one that is given whole is returned as it is.

    Args:
        beside: The arguments that may stand beside a whole request, for the message.

    Raises:
        ConfigError: Something of a run is asked for beside a whole request.
    """
    from grue.evaluation.rewards import give_name
    from grue.runs.request import RunRequest

    request = RunRequest(
        task=task.task if isinstance(task, RunRequest) else as_task(task, suite),
        reward=give_name(reward) if callable(reward) else reward,
        init=init.folder if isinstance(init, Trained) else _path(init),
        backbone=None if backbone is None else str(backbone),
        **values,
    )
    if not isinstance(task, RunRequest):
        return request
    if request != RunRequest(task=task.task) or suite != "mini":
        raise ConfigError(
            f"A RunRequest is a whole request: beside it go only {beside}; put the other arguments into it."
        )
    return task


def evaluate(
    what: Trained | Subject | str | Path,
    task: AnyTask | None = None,
    *,
    seed: int = 1,
    suite: str = "mini",
    split: str | None = None,
    limit: int | None = None,
    batch_size: int = 64,
    best_of: int | None = None,
    pick_by: str | None = None,
    frontier: str | Path | None = None,
    output: str | Path | None = None,
    force: bool = False,
    runs: str | Path = "runs",
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    warn: Callable[[str], None] = warnings.warn,
) -> Result:
    """Write a system's predictions for a split and score them, as `grue evaluate` does.

    Args:
        what: What `train` or `subject` returned, a run's folder, a checkpoint of ours, a baseline ("zero-shot", "null",
            "copy", "lead", "oracle", or a lookup such as "nearest"), or any model by its folder or hub id.
        task: The task. [default: the checkpoint's]
        seed: Seed of a sampler; a checkpoint has its own.
        split: The split, or the path of a file of rows in the data set's columns, whose result is never ranked.
            [default: the task's evaluation split]
        limit: Evaluate only so many examples; such a result is never ranked.
        best_of: Draw so many samples a prompt and keep the best.
        pick_by: "likelihood", "consensus" (what the other samples agree with most) or a reward. [default: the task's
            reward, or likelihood where that would be an oracle]
        frontier: What `grue frontier -o` wrote of the run's start: the result says which share of it the run gained.
        output: Folder for predictions.jsonl, scores.jsonl and result.json. [default: the run's]
        force: Replace an evaluation that is there.
        progress: Called with (done, total) examples.
        warn: Called where a finished evaluation is scored again, because its files are not what was written.

    Raises:
        ConfigError: The task is not named, a seed cannot be, or the folder holds another evaluation.
        DataError: Data or the model is not available, or the predictions of a finished evaluation were changed.
        Unavailable: No metric of the task can be computed on this machine.
    """
    from grue.evaluation import evaluate as evaluation
    from grue.evaluation.folder import discard

    if not isinstance(what, Subject):
        what = subject(what, task, seed=seed, suite=suite, best_of=best_of, pick_by=pick_by, runs=runs)
    folder, system = _path(output) or what.folder, what.system
    if frontier is not None:
        from grue.evaluation.frontier import with_frontier

        system = with_frontier(system, Path(frontier), what.folder)
    if force:
        discard(folder)
    return evaluation.evaluate(
        what.task,
        system,
        folder,
        split=split,
        limit=limit,
        batch_size=batch_size,
        data_dir=_path(data_dir),
        offline=offline,
        progress=progress,
        warn=warn,
    )


def subject(
    what: Trained | str | Path,
    task: AnyTask | None = None,
    *,
    kind: Literal["checkpoint", "model", "baseline"] | None = None,
    seed: int = 1,
    suite: str = "mini",
    best_of: int | None = None,
    pick_by: str | None = None,
    runs: str | Path = "runs",
) -> Subject:
    """Load what `evaluate` evaluates, and say where its results go.

    Args:
        kind: What `what` is. [default: a checkpoint where it is one, a baseline where it is the name of one, else a
            model trained elsewhere]

    Other arguments and errors as for `evaluate`.
    """
    from grue.evaluation import evaluate as evaluation
    from grue.lm.checkpoint import find_checkpoint, is_checkpoint, read_manifest

    name = str(what)
    check_seed(seed)
    if kind is None and (isinstance(what, Trained) or is_checkpoint(Path(what))):
        kind = "checkpoint"
    if kind == "checkpoint":
        checkpoint = what.checkpoint if isinstance(what, Trained) else find_checkpoint(Path(what))
        manifest = read_manifest(checkpoint)
        known = what.task if isinstance(what, Trained) else None
        of_task = as_task(task or known or manifest.task, suite if task else manifest.suite)
        system, folder = evaluation.checkpoint_system(of_task, checkpoint), checkpoint.parent
    elif task is None:
        raise ConfigError(f"{name} is no checkpoint of grue: name the task that it is evaluated on, with --task.")
    else:
        of_task = as_task(task, suite)
        is_baseline = kind == "baseline" or (kind is None and name in BASELINES)
        make = evaluation.baseline_system if is_baseline else evaluation.model_system
        system = make(of_task, name, seed)
        folder = Path(runs) / of_task.suite / of_task.name / system.name / f"seed-{seed}"
    if best_of is None:
        return Subject(of_task, system, folder)
    return _picking(Subject(of_task, system, folder), best_of, pick_by, Path(runs))


def _picking(plain: Subject, n: int, pick_by: str | None, runs: Path) -> Subject:
    """Return the system that picks the best of n; its folder lies beside the plain system's, if that is a run's."""
    from grue.evaluation.best_of import choose_best_of
    from grue.evaluation.evaluate import with_best_of

    if Path(plain.system.name).name != plain.system.name:  # a checkpoint's own file gives it, and it becomes a folder
        check_system_name(plain.system.name)
    task, system = plain.task, with_best_of(plain.system, choose_best_of(plain.task, n, pick_by))
    place = Path(task.suite) / task.name / plain.system.name / f"seed-{system.seed}"
    home = plain.folder.absolute()
    root = home.parents[3] if home.parts[-4:] == place.parts else runs
    return Subject(task, system, root / task.suite / task.name / system.name / f"seed-{system.seed}")


def score(
    predictions: str | Path | Mapping[str, str] | Sequence[str | Prediction],
    task: AnyTask | None = None,
    *,
    suite: str = "mini",
    split: str | None = None,
    own_examples: str | Path | Sequence[Example] | None = None,
    references: Sequence[str | Path] = (),
    metrics: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> "Scored":
    """Score any system's predictions, as `grue score` does: against a task, your own examples, or plain references.

    Args:
        predictions: A file of {"id": …, "text": …} lines (with `references`: plain text, one per line), id → text, or
            one text for each example in their order.
        task: The task; or give `own_examples` or `references`.
        split: The split of the task, or the path of a file of rows. [default: its evaluation split]
        own_examples: Examples, or a file of {"id": …, "references": […], …} lines.
        references: Files of plain text, one reference per line.
        metrics: Names of metrics; needed without a task. [default: the task's, and the diversity set]
        options: Metric → options that override those of the task file.
        progress: Called with (done, total) metrics.

    Raises:
        ConfigError: Not exactly one of task, own examples and references is given, or there is no metric.
        SubmissionError: An example has no prediction or two, or a prediction no example.
        DataError: Data is not available.
    """
    from grue.evaluation.predictions import read_examples, read_plain_examples, read_plain_predictions, read_predictions
    from grue.evaluation.scoring import chosen_metrics, score_examples, score_predictions

    if sum([task is not None, own_examples is not None, bool(references)]) != 1:
        raise ConfigError("Say what to score against: one of --task NAME, --examples FILE or --references FILE.")
    if task is None and (split is not None or data_dir is not None):
        raise ConfigError("--split and --data-dir choose examples of a task; they need --task.")
    if task is None and metrics is None:
        raise ConfigError(
            "Without --task there are no default metrics: name them with --metrics, such as meteor,rougeL."
        )
    of_task = None if task is None else as_task(task, suite)
    specs = chosen_metrics(of_task, metrics, options)  # a wrong name is reported before anything is read
    read = read_plain_predictions if references else read_predictions
    read_first = read(Path(predictions)) if isinstance(predictions, str | Path) else None
    found: Sequence[Example]
    if of_task is not None:
        split = split or of_task.data.evaluation
        found = examples(of_task, split, data_dir=data_dir, offline=offline)
    elif isinstance(own_examples, str | Path):
        found = read_examples(Path(own_examples))
    else:
        found = own_examples if own_examples is not None else read_plain_examples([Path(path) for path in references])
    answers = read_first if read_first is not None else _answers(predictions, found)
    if of_task is None or split is None:
        return score_examples(specs, found, answers, progress=progress)
    # Without a choice of metrics, what this machine cannot compute is left out and reported.
    skip = metrics is None
    return score_predictions(of_task, split, found, answers, specs, skip_unavailable=skip, progress=progress)


def _answers(given: Any, found: Sequence[Example]) -> list[Prediction]:
    """Return predictions that are given by id, or in the order of the examples."""
    if isinstance(given, Mapping):
        return [Prediction(identity, text) for identity, text in given.items()]
    if len(given) != len(found):
        raise SubmissionError(f"{len(given)} predictions for {len(found)} examples.")
    pairs = zip(given, found, strict=True)
    return [Prediction(example.id, one) if isinstance(one, str) else one for one, example in pairs]


def compare(
    a: str | Path,
    b: str | Path,
    *,
    suite: str = "mini",
    tasks: Sequence[str] | None = None,
    axis: Axis = "preference",
    runs: str | Path = "runs",
    submissions: str | Path = "submissions",
    draws: int = 10_000,
    seed: int = 0,
    show: int = 0,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> "Comparison":
    """Say which of two systems is better on the tasks that both have, and how sure that is, as `grue compare` does.

    Args:
        a: Name of a system on the board, "submissions:NAME", "runs:NAME", or a folder with its results.
        b: The other system.
        tasks: Names of tasks, each of which both must have. [default: those of the suite that both have]
        axis: The score to compare: "preference" or "naturalness".
        draws: Draws of the randomisation test.
        seed: Seed of those draws.
        show: How many examples to return of each task, those first on which the systems differ most.
        progress: Called with (done, total) files of predictions.

    Raises:
        UnknownName, ConfigError: No system or task has the name, or two systems have.
        DataError: A result is missing, of a part of the split only, or of another version of the task.
        SubmissionError: An example has no prediction or two, or a submission lacks a seed that it declares.
    """
    import numpy as np

    from grue.leaderboard.compare import compare_systems
    from grue.leaderboard.systems import find_system

    wanted = [load_task(name, suite) for name in dict.fromkeys(tasks or task_names(suite))]
    found = [
        find_system(f"{given}/" if isinstance(given, Path) else given, suite, Path(submissions), Path(runs))
        for given in (a, b)
    ]
    lacking = [
        f"{system.name} has no result on {task.name}"
        for task in wanted
        for system in found
        if task.name not in system.entries
    ]
    if tasks and lacking:
        raise DataError(f"{'; '.join(lacking)}. Evaluate what is missing with `grue evaluate`, or leave the task out.")
    return compare_systems(
        found[0],
        found[1],
        wanted,
        np.random.default_rng(seed),
        axis=axis,
        draws=draws,
        show=show,
        offline=offline,
        progress=progress,
    )


def examples(
    task: AnyTask,
    split: str | None = None,
    *,
    suite: str = "mini",
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> Sequence[Example]:
    """Return the examples of a split: id, prompt, references, meta.

    Args:
        split: The split, or the path of a file of rows. [default: the task's evaluation split]

    Raises:
        DataError: There is no such split, or its data is not available.
    """
    from grue.data.load import load_examples

    of_task = as_task(task, suite)
    return load_examples(of_task, split or of_task.data.evaluation, _path(data_dir), offline).examples


def as_task(task: AnyTask, suite: str = "mini") -> Task:
    """Return a task by its name in a suite or the path of its file; a task is returned as it is."""
    return task if isinstance(task, Task) else load_task(str(task), suite)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _warner(observers: "Sequence[Observer]") -> Callable[[int, str], None]:
    """Return what reports a tracker's warning: to the observers, or as a Python warning where there is none."""

    def warn(done: int, message: str) -> None:
        for observer in observers:
            observer.warned(done, message)
        if not observers:
            warnings.warn(message, stacklevel=2)

    return warn

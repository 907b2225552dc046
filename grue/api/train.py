"""Train, and say before whether there is a signal to learn from."""

import atexit
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grue.api.examples import AnyTask, as_task, optional_path, refuse_model
from grue.errors import ConfigError, escaped
from grue.records import check_number
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.evaluation.rewards import RewardFunction
    from grue.rl.trainer import Algorithm
    from grue.runs.diagnose import Diagnosis
    from grue.runs.observers import Observer
    from grue.runs.request import RunRequest


_ROWS = "rows are a .jsonl file that a task file names, and the task file is the first argument"
INSTEAD = {
    "model": "backbone= takes a hub id, mini:NAME, or the folder that save_pretrained of model and tokenizer wrote",
    "tokenizer": "a run takes that of its backbone: save_pretrained both into one folder, and pass it as backbone=",
    **{"dataset": _ROWS, "train_dataset": _ROWS, "eval_dataset": _ROWS},
    **dict.fromkeys(("reward_fn", "reward_funcs", "reward_function"), "reward= takes a name, a sum or a function"),
}
"""What other libraries' trainers are handed → what is handed over here."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run.

    Attributes:
        folder: Where it lies, with config.toml and train.jsonl.
        checkpoint: The best model on validation, in Hugging Face format.
    """

    task: Task = field(repr=False)
    folder: Path
    checkpoint: Path


def train(
    task: "AnyTask | RunRequest",
    algorithm: "str | Algorithm[Any]" = "ppo",
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
        algorithm: "ppo", say, or with a warm start "supervised+ppo", which is two runs; "module:NAME", or an object of
            your own, a `grue.rl.trainer.Algorithm`. An object enters the run's record as "module:NAME", or where its
            module has no file by the sha256 of its source: see `grue.runs.algorithms.give_name`.
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
        stop: Asked before each stage and after every update; True saves the state and raises `Interrupted`.
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

    if isinstance(trackers, str):
        raise ConfigError(f"trackers={trackers!r}: give a list of names, such as [{trackers!r}].")
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
        data_dir=optional_path(data_dir),
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
            if distributed.any(stop()):
                raise training.Interrupted(f"{stage.folder}: stopped before it began; the same command goes on.")
            checkpoint = training.train(stage, Observers([*opened, *watching]), stop, distributed)
    return Trained(stages[-1].task, stages[-1].folder, checkpoint)


def diagnose(
    task: "AnyTask | RunRequest",
    algorithm: "str | Algorithm[Any]" = "ppo",
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
        data_dir=optional_path(data_dir),
        offline=offline,
    )
    last = plan.stages_of(request)[-1]
    from grue.runs.diagnose import diagnose

    return diagnose(last, check_number("batches", batches), progress, join_processes())


def _request(
    task: "AnyTask | RunRequest",
    suite: str,
    beside: str,
    *,
    algorithm: "str | Algorithm[Any]",
    reward: "str | RewardFunction | None",
    settings: Mapping[str, Any],
    init: Trained | str | Path | None,
    backbone: str | Path | None,
    **values: Any,
) -> "RunRequest":
    """Return the request that arguments make; one that is given whole is returned as it is.

    Args:
        beside: The arguments that may stand beside a whole request, for the message.

    Raises:
        ConfigError: Something of a run is asked for beside a whole request, or the reward is none.
    """
    from grue.evaluation.rewards import give_name
    from grue.runs.request import RunRequest

    refuse_model("backbone", backbone)
    refuse_model("init", None if isinstance(init, Trained) else init)
    if not isinstance(algorithm, str):
        algorithm, values["system"] = _named(algorithm, values.get("system"))
    if ":" not in algorithm:  # one's own may have a setting of such a name
        for name in INSTEAD.keys() & settings.keys():
            raise ConfigError(f"{name}=: {INSTEAD[name]} (docs/how-to/your-own.md).")
    if not (reward is None or isinstance(reward, str) or callable(reward)):
        raise ConfigError(f"reward={reward!r}: give a name, a weighted sum or a function of (examples, texts).")
    request = RunRequest(
        task=task.task if isinstance(task, RunRequest) else as_task(task, suite),
        algorithm=algorithm,
        reward=give_name(reward) if callable(reward) else reward,
        settings=settings,
        init=init.folder if isinstance(init, Trained) else optional_path(init),
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


def _named(algorithm: object, system: str | None) -> tuple[str, str | None]:
    """Return the name of an algorithm that is passed as an object, and of its system.

    Raises:
        ConfigError: It is none.
    """
    from grue.rl.trainer import Algorithm
    from grue.runs.algorithms import give_name

    if not isinstance(algorithm, Algorithm):
        held = [name for name, one in getattr(algorithm, "__dict__", {}).items() if isinstance(one, Algorithm)]
        made = "give a name, or Algorithm(settings=…, update=…) of grue.rl.trainer"
        cure = f"pass {' or '.join(held)} of it" if held else made
        raise ConfigError(f"algorithm={escaped(algorithm, 80)}: is no algorithm; {cure} (docs/how-to/your-own.md).")
    name = give_name(algorithm)
    usual = algorithm.settings.__name__.removesuffix("Config").lower() if name.startswith("__main__:") else None
    return name, system or usual


def _warner(observers: "Sequence[Observer]") -> Callable[[int, str], None]:
    """Return what reports a tracker's warning: to the observers, or as a Python warning where there is none."""

    def warn(done: int, message: str) -> None:
        for observer in observers:
            observer.warned(done, message)
        if not observers:
            warnings.warn(message, stacklevel=2)

    return warn

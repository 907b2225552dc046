"""Train, and diagnose beforehand whether there is a signal to learn from."""

import atexit
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from grue.api.examples import AnyTask, as_task, refuse_model, refuse_text
from grue.errors import ConfigError, escaped
from grue.evaluation.rewards import give_name
from grue.records import check_number
from grue.runs import plan
from grue.runs.algorithms import give_name as name_algorithm
from grue.runs.observers import Observer, Observers
from grue.runs.request import ARGUMENTS, RunRequest, seeds_given
from grue.runs.trackers import open_trackers
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.rl.trainer import Algorithm
    from grue.runs.diagnose import Diagnosis


_ROWS = "rows are a .jsonl file that a task file names, and the task file is the first argument"
INSTEAD = {
    "model": "backbone= takes a hub id, mini:NAME, or the folder that save_pretrained of model and tokenizer wrote",
    "tokenizer": "a run takes that of its backbone: save_pretrained both into one folder, and pass it as backbone=",
    **{"dataset": _ROWS, "train_dataset": _ROWS, "eval_dataset": _ROWS},
    **dict.fromkeys(("reward_fn", "reward_funcs", "reward_function"), "reward= takes a name, a sum or a function"),
}
"""An argument of other libraries' trainers → its replacement here."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run.

    Attributes:
        folder: The run's folder, with config.toml and train.jsonl.
        checkpoint: The best model on validation, in Hugging Face format.
    """

    task: Task = field(repr=False)
    folder: Path
    checkpoint: Path


@overload
def train(
    task: AnyTask | RunRequest, algorithm: "str | Algorithm[Any]" = "ppo", *, seeds: None = None, **arguments: Any
) -> Trained: ...
@overload
def train(
    task: AnyTask, algorithm: "str | Algorithm[Any]" = "ppo", *, seeds: str | Sequence[int], **arguments: Any
) -> list[Trained]: ...
def train(
    task: AnyTask | RunRequest,
    algorithm: "str | Algorithm[Any]" = "ppo",
    *,
    seeds: str | Sequence[int] | None = None,
    suite: str = "mini",
    trackers: Sequence[str] = ("none",),
    observer: Observer | None = None,
    stop: Callable[[], bool] = lambda: False,
    **arguments: Any,
) -> Trained | list[Trained]:
    """Train a model on a task, as `grue train` does; the same call resumes an interrupted run.

    Args:
        task: The task; or a whole `RunRequest`, beside which only `trackers`, `observer` and `stop` may be given.
        algorithm: "ppo", say, or with a warm start "supervised+ppo", which is two runs; "module:NAME", or an object of
            your own, a `grue.rl.trainer.Algorithm`. An object enters the run's record as "module:NAME", or where its
            module has no file by the sha256 of its source: see `grue.runs.algorithms.give_name`.
        seeds: "1-5", or numbers: a run for each, one after the other, which are returned as a list.
        trackers: "tensorboard", "wandb", "trackio"; an empty list is TensorBoard where it is installed.
        observer: Its methods are called at every update, validation and warning.
        stop: Called before each stage and after every update; True saves the state and raises `Interrupted`.
        arguments: Fields of `grue.runs.request.RunRequest` (seed, reward, runs, system, preset, backbone, init,
            warm_start, data_dir, offline), and values of the algorithm's settings, as --set takes them: updates=30.
            `reward` may also be a function of (examples, texts) that returns one number a text, which enters the run's
            record by its name and the sha256 of its source; `init` what `train` returned.

    Raises:
        ConfigError, UnknownName: An argument is invalid, or the folder holds another run.
        DataError: Data, the model or a checkpoint is not available.
        TrainingError: The run cannot continue: the reward gave no number, say.
    """
    from grue.lm.distributed import join_processes, leave_processes
    from grue.runs import train as training

    refuse_text(trackers=trackers)
    beside = "trackers, observer and stop"
    asked = [arguments] if seeds is None else [{**arguments, "seed": n} for n in several_seeds(seeds, arguments)]
    # A wrong one is refused before any starts.
    runs = [plan.stages_of(_request(task, algorithm, suite, each, beside)) for each in asked]
    distributed = join_processes()
    atexit.unregister(leave_processes)  # once is enough, and the processes stay together until then
    atexit.register(leave_processes)
    watching = [observer] if observer is not None else []

    def warn(done: int, message: str) -> None:
        for each in watching:
            each.warned(done, message)
        if not watching:
            warnings.warn(message, stacklevel=2)

    with open_trackers(trackers if distributed.is_main else ["none"], warn) as opened:
        # A tracker that asks for a login does so before a progress bar is drawn.
        trained = []
        for stages in runs:
            for stage in stages:
                if distributed.any(stop()):
                    raise training.Interrupted(f"{stage.folder}: stopped before it began; the same command goes on.")
                checkpoint = training.train(stage, Observers([*opened, *watching]), stop, distributed)
            trained.append(Trained(stages[-1].task, stages[-1].folder, checkpoint))
    return trained[0] if seeds is None else trained


def several_seeds(seeds: str | Sequence[int], arguments: Mapping[str, Any]) -> list[int]:
    """Return the seeds of `seeds=`; a ConfigError if one is invalid, there is none, or `arguments` has `seed` too."""
    if "seed" in arguments:
        raise ConfigError("seed= and seeds= say the same; give one of them.")
    if isinstance(seeds, int):
        raise ConfigError(f"seeds={seeds}: give a list or a range, such as [{seeds}] or '1-{max(seeds, 2)}'.")
    if not (drawn := seeds_given(seeds)):
        raise ConfigError("seeds is empty; give some, such as '1-5' or [1, 2, 3].")
    return drawn


def diagnose(
    task: AnyTask | RunRequest,
    algorithm: "str | Algorithm[Any]" = "ppo",
    *,
    suite: str = "mini",
    batches: int = 16,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **arguments: Any,
) -> "Diagnosis":
    """Say before a run whether there is a signal to learn from, as `grue tools diagnose` does; nothing is written.

    Args:
        task: The task; or a whole `RunRequest`, beside which only `batches` and `progress` may be given.
        algorithm: One that takes rollouts; with a warm start, "supervised+ppo", the supervised run must be there.
        batches: Independent batches of rollouts whose gradients are compared, each of an update's size; 4 at least.
        progress: Called with (done, total) updates.

    Other arguments and errors as for `train`. `grue.runs.remarks` says what the figures mean.
    """
    from grue.lm.distributed import join_processes

    last = plan.stages_of(_request(task, algorithm, suite, arguments, "batches and progress"))[-1]
    from grue.runs.diagnose import diagnose

    return diagnose(last, check_number("batches", batches), progress, join_processes())


def _request(
    task: AnyTask | RunRequest,
    algorithm: "str | Algorithm[Any]",
    suite: str,
    arguments: Mapping[str, Any],
    beside: str,
) -> RunRequest:
    """Return the request that arguments make; a whole request is returned as it is.

    Arguments that are not fields of a request are settings of the algorithm; `beside` names those that are allowed
    beside a whole request. Others, or a wrong type, are a ConfigError.
    """
    if isinstance(task, RunRequest):
        if arguments or algorithm != "ppo" or suite != "mini":
            raise ConfigError(
                f"A RunRequest is a whole request: beside it go only {beside}; put the other arguments into it."
            )
        return task
    options = {name: value for name, value in arguments.items() if name in ARGUMENTS}
    settings = {name: value for name, value in arguments.items() if name not in ARGUMENTS}
    if isinstance(start := options.get("init"), Trained):
        options["init"] = start.folder
    for name in ("backbone", "init"):
        refuse_model(name, options.get(name))
    kinds = {"runs": Path, "init": Path, "data_dir": Path, "backbone": str}
    options |= {name: kind(options[name]) for name, kind in kinds.items() if options.get(name) is not None}
    if not isinstance(algorithm, str):
        algorithm, options["system"] = _named(algorithm, options.get("system"))
    if ":" not in algorithm:  # one's own may have a setting of such a name
        for name in INSTEAD.keys() & settings.keys():
            raise ConfigError(f"{name}=: {INSTEAD[name]} (docs/how-to/your-own.md).")
    if callable(reward := options.get("reward")):
        options["reward"] = give_name(reward)
    elif not (reward is None or isinstance(reward, str)):
        raise ConfigError(f"reward={reward!r}: give a name, a weighted sum or a function of (examples, texts).")
    return RunRequest(task=as_task(task, suite), algorithm=algorithm, settings=settings, **options)


def _named(algorithm: object, system: str | None) -> tuple[str, str | None]:
    """Return the name of an algorithm that is passed as an object, and of its system."""
    from grue.rl.trainer import Algorithm

    if not isinstance(algorithm, Algorithm):
        names = [name for name, value in getattr(algorithm, "__dict__", {}).items() if isinstance(value, Algorithm)]
        cure = "give a name, or Algorithm(settings=…, update=…) of grue.rl.trainer"
        if names:
            cure = f"pass {' or '.join(names)} of it"
        raise ConfigError(f"algorithm={escaped(algorithm, 80)}: is no algorithm; {cure} (docs/how-to/your-own.md).")
    name = name_algorithm(algorithm)
    default = algorithm.settings.__name__.removesuffix("Config").lower() if name.startswith("__main__:") else None
    return name, system or default

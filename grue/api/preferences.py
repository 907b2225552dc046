"""Preference pairs, and reward models that learn from them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grue.api.examples import AnyTask, as_task, examples
from grue.data.pairs import PARTS, SHARES, PairsHeader
from grue.data.scored import read_header
from grue.errors import ConfigError, escaped
from grue.lm.reward_folder import RewardManifest, read_reward_manifest
from grue.preferences.make import Choice, Ties, from_predictions, from_samples, from_study
from grue.preferences.settings import reward_settings
from grue.task_files import OWN, is_named, task_names
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.preferences.judge import Chosen, Evaluation

Shares = Mapping[str, float] | Sequence[float]
"""Shares of the prompts: by part, or for train, validation and test in this order."""


def pairs_from_samples(
    samples: str | Path,
    output: str | Path,
    task: AnyTask | None = None,
    *,
    suite: str = "mini",
    split: str | Path | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    pairs: int | None = None,
    noise: str = "none",
    ties: Ties = "drop",
    seed: int = 1,
    shares: Shares | None = None,
) -> PairsHeader:
    """Write preference pairs of scored samples, judged by their rewards, as `grue tools pairs from-samples` does.

    Args:
        samples: File by `grue generate --samples N --score`.
        task: The task. [default: the file's]
        split: The split that was answered, or the path of a file of rows. [default: the file's]
        pairs: How many. [default: all]
        noise: How the annotator errs: "none", "flip:P" or "bradley-terry:T".
        ties: Whether pairs without a better text are left out ("drop") or recorded as ties ("keep").
        seed: Of the choice of pairs, the annotator and the parts.
        shares: Shares of train, validation and test in this order, or by these names. [default: 0.6, 0.2, 0.2]

    Raises:
        ConfigError: An argument is invalid, or the output holds something else.
        DataError: The file cannot be read, or no pair can be made of it.
    """
    choice = _choice(pairs, noise, ties, seed, shares)
    of_task, where = task_and_split(Path(samples), task, suite, split)
    answered = examples(of_task, where, data_dir=data_dir, offline=offline)
    return from_samples(Path(samples), of_task, answered, choice, Path(output), split=where)


def pairs_from_predictions(
    a: str | Path,
    b: str | Path,
    output: str | Path,
    task: AnyTask,
    *,
    suite: str = "mini",
    split: str | Path | None = None,
    reward: str | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    pairs: int | None = None,
    noise: str = "none",
    ties: Ties = "drop",
    seed: int = 1,
    shares: Shares | None = None,
) -> PairsHeader:
    """Write preference pairs of two predictions files, judged by a reward, as `grue tools pairs from-predictions` does.

    Args:
        split: The split that was answered. [default: what policies learn from: rl if the task has it, else train]
        reward: As for training. [default: the task's]

    Other arguments and errors as for `pairs_from_samples`, and SubmissionError if predictions do not fit the split.
    """
    choice = _choice(pairs, noise, ties, seed, shares)
    of_task = as_task(task, suite)
    learned = of_task.data.reward_split
    split = str(split or learned)
    answered, train = (examples(of_task, name, data_dir=data_dir, offline=offline) for name in (split, learned))
    return from_predictions(
        Path(a), Path(b), of_task, answered, train, choice, Path(output), split=split, reward=reward
    )


def pairs_from_study(
    answers: str | Path,
    output: str | Path,
    task: AnyTask,
    *,
    suite: str = "mini",
    split: str | Path | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    pairs: int | None = None,
    ties: Ties = "drop",
    seed: int = 1,
    shares: Shares | None = None,
) -> PairsHeader:
    """Write preference pairs of people's answers in a study, as `grue tools pairs from-study` does.

    Args:
        answers: File by `grue tools study analyse DIR --answers FILE`.
        split: The split of the study. [default: the task's evaluation split]

    Other arguments and errors as for `pairs_from_samples`.
    """
    choice = _choice(pairs, "none", ties, seed, shares)
    of_task = as_task(task, suite)
    split = str(split or of_task.data.evaluation)
    shown = examples(of_task, split, data_dir=data_dir, offline=offline)
    return from_study(Path(answers), of_task, shown, choice, Path(output), split=split)


def _choice(pairs: int | None, noise: str, ties: Ties, seed: int, shares: Shares | None) -> Choice:
    """Return the choice of pairs and how they are judged, checked."""
    if shares is None:
        shares = SHARES
    elif not isinstance(shares, Mapping):
        if len(shares) != len(PARTS):
            raise ConfigError(f"shares {tuple(shares)}: give three numbers, of {', '.join(PARTS)}.")
        shares = dict(zip(PARTS, shares, strict=True))
    choice = Choice(pairs, noise, ties, seed, shares)
    choice.check()
    return choice


def train_reward(
    pairs: str | Path,
    output: str | Path,
    task: AnyTask | None = None,
    *,
    backbone: str | Path | None = None,
    suite: str = "mini",
    split: str | Path | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int, str], None] = lambda done, total, figures: None,
    stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> RewardManifest:
    """Train a reward model on pairs, as `grue tools reward train` does; the same call resumes an interrupted training.

    Args:
        task: The task. [default: the file's]
        backbone: A folder, a hub id or `mini:<name>`. [default: the task's]
        split: The split of the prompts; a header that names another is refused. [default: the header's, or
            rl if the task has it, else train]
        progress: Called with (done, total) steps, and the figures of a validation.
        stop: Called after every step; True saves the state and raises `Interrupted`.
        settings: See `grue.preferences.settings.RewardModelConfig`.

    Raises:
        ConfigError: An argument is invalid, or the folder holds something else.
        DataError: The pairs or the backbone cannot be read, or a part is empty.
        TrainingError: The loss is not a number, say.
    """
    from grue.preferences.train import train_reward_model

    of_task, split = task_and_split(Path(pairs), task, suite, split)
    config = reward_settings(settings)
    answered = examples(of_task, split, data_dir=data_dir, offline=offline)
    own = of_task.backbone
    return train_reward_model(
        Path(pairs),
        of_task,
        answered,
        Path(output),
        config,
        backbone=str(backbone or own.model),
        revision="" if backbone else own.revision,
        split=split,
        progress=progress,
        stop=stop,
    )


def evaluate_reward(
    folder: str | Path,
    pairs: str | Path,
    task: AnyTask | None = None,
    *,
    part: "Chosen | None" = None,
    suite: str = "mini",
    split: str | Path | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> "Evaluation":
    """Evaluate a reward model on pairs, as `grue tools reward evaluate` does.

    Args:
        part: "train", "validation", "test" or "all". [default: test if the file has parts, else all]

    Other arguments and errors as for `train_reward`.
    """
    from grue.preferences.judge import evaluate_reward_model

    manifest = read_reward_manifest(Path(folder))
    of_task, split = task_and_split(Path(pairs), task, suite, split, (manifest.suite, manifest.task))
    answered = examples(of_task, split, data_dir=data_dir, offline=offline)
    return evaluate_reward_model(Path(folder), Path(pairs), of_task, answered, part, split=split)


def task_and_split(
    path: Path,
    task: AnyTask | None,
    suite: str,
    split: str | Path | None = None,
    fallback: tuple[str, str] | None = None,
) -> tuple[Task, str]:
    """Return the task of a file of scored responses or pairs, and the split whose prompts it answers.

    Args:
        split: The caller's choice, if any.
        fallback: Suite and task if neither the caller nor the file names one.

    Raises:
        ConfigError: Nothing names the task, or the file's header names another split.
        DataError: The file is missing or damaged.
    """
    header = read_header(path)
    stated = [] if header is None else [(header.suite, header.task)]
    stated += [] if fallback is None else [fallback]
    if task is None:
        named = ((of_suite, name) for of_suite, name in stated if is_named(of_suite) and name in task_names(of_suite))
        suite, task = next(named, (suite, None))
    if task is None:
        own = next((f"{OWN}/{escaped(name)}" for of_suite, name in stated if of_suite == OWN), None)
        if own is not None:
            raise ConfigError(
                f"{path}: is of {own}, which is known by its file: write --task FILE.toml, or "
                'task="FILE.toml" in Python.'
            )
        raise ConfigError(
            f"{path}: has no header that names a task of ours; name its task with --task NAME, or "
            'task="NAME" in Python.'
        )
    of_task = as_task(task, suite)
    answered = None if header is None else header.split
    if answered and split and Path(answered).name != Path(split).name:
        raise ConfigError(
            f"{path}: its header says that it answers prompts of the split {escaped(repr(answered))}, not of "
            f"{str(split)!r}; leave --split out, or choose another file."
        )
    return of_task, str(split or answered or of_task.data.reward_split)

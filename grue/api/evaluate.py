"""Load a system, let it answer, and score its answers."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from grue.api.examples import AnyTask, as_task, optional_path, refuse_model
from grue.api.train import Trained, several_seeds
from grue.data.load import file_id, is_file, load_examples
from grue.data.scored_lines import ScoredHeader
from grue.errors import ConfigError
from grue.evaluation.endpoint import Endpoint
from grue.evaluation.rewards import RewardFunction, give_name
from grue.lm.checkpoint import find_checkpoint, is_checkpoint, read_manifest, results_folder, seeds_in
from grue.records import BASELINES, Result, check_number, check_seed, check_system_name
from grue.tasks import Task, split_of

if TYPE_CHECKING:
    from grue.evaluation.systems import System


@dataclass(frozen=True, slots=True)
class Subject:
    """A system to evaluate, its task, and the folder of its results; `run` is that of a checkpoint's run."""

    task: Task
    system: "System"
    folder: Path
    run: Path | None = None


@overload
def evaluate(
    what: Trained | Subject | str | Path, task: AnyTask | None = None, *, seeds: None = None, **how: Any
) -> Result: ...
@overload
def evaluate(
    what: str | Path, task: AnyTask | None = None, *, seeds: str | Sequence[int], **how: Any
) -> list[Result]: ...
@overload
def evaluate(what: Sequence[Trained], task: AnyTask | None = None, **how: Any) -> list[Result]: ...
def evaluate(
    what: Trained | Subject | str | Path | Sequence[Trained],
    task: AnyTask | None = None,
    *,
    seeds: str | Sequence[int] | None = None,
    split: str | Path | None = None,
    limit: int | None = None,
    batch_size: int = 64,
    frontier: str | Path | None = None,
    output: str | Path | None = None,
    force: bool = False,
    search: bool = True,
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    warn: Callable[[str], None] = warnings.warn,
    **about: Any,
) -> Result | list[Result]:
    """Write a system's predictions for a split and score them, as `grue evaluate` does.

    Args:
        what: The result of `train` or `subject`, a run's folder, a checkpoint of GRUE, a baseline ("baseline:null", or
            its name alone), "http://HOST/v1#MODEL", or any model by its folder or hub id. A list of what `train`
            returned is evaluated one by one, for a list of results.
        task: The task. [default: the checkpoint's]
        seeds: "1-5", or numbers, of a baseline or a model: a result for each, as a list. [default: seed=1, one result]
        split: The split, or the path of a file of rows in the data set's columns, whose result is never ranked.
            [default: the task's evaluation split]
        limit: Evaluate only so many examples; such a result is never ranked.
        frontier: File by `grue tools frontier -o` of the run's start: the result says which share of it the run gained.
        output: Folder for predictions.jsonl, scores.jsonl and result.json. [default: the run's]
        force: Replace an existing evaluation, once everything that this one needs is loaded.
        search: Whether a model also answers by the task's `[search]`, if it has one.
        progress: Called with (done, total) examples.
        warn: Called if a finished evaluation is scored again because its files were changed.
        about: Arguments of `grue.api.evaluate.subject`: seed, suite, best_of, pick_by, decode, chat, endpoint, system,
            runs.

    Raises:
        ConfigError: The task is not named, a seed is invalid, the folder holds another evaluation, or an argument is
            given besides a `Subject`.
        DataError: Data or the model is not available, or the predictions of a finished evaluation were changed.
        Unavailable: No metric of the task can be computed on this machine, or an endpoint fails repeatedly.
    """
    limit = None if limit is None else check_number("limit", limit)
    batch_size = check_number("batch_size", batch_size)

    asked: list[tuple[Any, dict[str, Any]]] = [(what, about)]
    if seeds is not None:
        if not isinstance(what, str | Path) or is_checkpoint(Path(what)):
            raise ConfigError("A checkpoint is evaluated with the seed that it was trained with; leave out seeds.")
        asked = [(what, {**about, "seed": seed}) for seed in several_seeds(seeds, about)]
    elif isinstance(what, list | tuple):
        asked = [(one, about) for one in what]
    if output is not None and len(asked) > 1:
        raise ConfigError(f"output={str(output)!r}: takes one evaluation, but {len(asked)} are asked for.")
    results = []
    for each, about_it in asked:
        if not isinstance(each, Subject):
            each = subject(each, task, **about_it)
        elif task is not None or about:
            names = ["task", *about] if task is not None else about
            raise ConfigError(
                f"A Subject is a whole system on a task: {', '.join(names)} would say another; give that to "
                "`grue.api.evaluate.subject`, which makes one."
            )
        if split is not None and file_id(each.task, str(split)) is None:
            split_of(each.task, str(split))  # before it is compared with that of a finished evaluation
        from grue.evaluation import evaluate as evaluation  # imports torch, so only after the names are checked

        folder, evaluated = optional_path(output) or each.folder, each.system
        if frontier is not None:
            from grue.evaluation.frontier import with_frontier

            evaluated = with_frontier(evaluated, Path(frontier), each.run or each.folder)
        result = evaluation.evaluate(
            each.task,
            evaluated,
            folder,
            split=None if split is None else str(split),
            limit=limit,
            batch_size=batch_size,
            data_dir=optional_path(data_dir),
            offline=offline,
            force=force,
            search=search,
            progress=progress,
            warn=warn,
        )
        results.append(result)
    return results if seeds is not None or isinstance(what, list | tuple) else results[0]


def subject(
    what: Trained | str | Path,
    task: AnyTask | None = None,
    *,
    seed: int = 1,
    suite: str = "mini",
    best_of: int | None = None,
    pick_by: str | None = None,
    decode: str | None = None,
    chat: bool | None = None,
    endpoint: Endpoint | None = None,
    system: str | None = None,
    runs: str | Path = "runs",
) -> Subject:
    """Load a system for `evaluate` and return it with the folder of its results; `what`, `task` and errors as there.

    Args:
        seed: Seed of a sampler; a checkpoint has its own.
        best_of: Draw so many samples a prompt and keep the best.
        pick_by: "likelihood", "consensus" (the sample that the others agree with most) or a reward. [default: the
            task's reward, or likelihood if that would be an oracle]
        decode: Guide its decoding: "NAME" or "NAME:KEY=VALUE,…", of `grue/evaluation/decoders`.
        chat: Use the task's chat prompt, in the model's own template; this is another system, NAME+chat. [default:
            only for a model that answers over HTTP]
        endpoint: How a model is asked over HTTP, and where, if `what` is only its name at the server.
        system: Name of the system of a model. [default: the model's, with how it is prompted]
        runs: Folder of all runs.
    """
    seed = check_seed(seed)
    best_of = None if best_of is None else check_number("best_of", best_of)
    if pick_by is not None and best_of is None:
        raise ConfigError("pick_by says how the best of several samples is picked; say how many with best_of.")
    if decode is not None and best_of is not None:
        raise ConfigError("Guided decoding gives one answer; leave best_of (--best-of) or decode (--decode) out.")
    of_task, checkpoint = locate(what, task, suite)
    name = str(what).removeprefix(BASELINE)
    is_baseline = checkpoint is None and (name != str(what) or name in BASELINES)
    if (chat or endpoint is not None or system is not None) and (checkpoint is not None or is_baseline):
        raise ConfigError(f"{name}: a chat prompt, an endpoint and a name are for models that were made elsewhere.")
    from grue.evaluation import systems

    if checkpoint is not None:
        evaluated, run = systems.checkpoint_system(of_task, checkpoint), checkpoint.parent
        prepared = Subject(of_task, evaluated, results_folder(checkpoint, read_manifest(checkpoint)), run)
    else:
        if is_baseline:
            evaluated = systems.baseline_system(of_task, name, seed)
        else:
            name, endpoint = behind(name, endpoint, chat)
            local_chat = bool(chat) and endpoint is None
            evaluated = systems.external_system(of_task, name, seed, chat=local_chat, endpoint=endpoint, name=system)
        place = Path(runs) / of_task.suite / of_task.name / evaluated.name / f"seed-{seed}"
        prepared = Subject(of_task, evaluated, place)
    if best_of is not None:
        from grue.evaluation.best_of import choose_best_of

        picking = systems.with_best_of(evaluated, choose_best_of(of_task, best_of, pick_by), of_task)
        return _beside(prepared, picking, Path(runs))
    if decode is not None:
        from grue.evaluation.decoding import choose_guided

        guided = systems.with_guide(evaluated, choose_guided(of_task, decode), of_task)
        return _beside(prepared, guided, Path(runs))
    return prepared


BASELINE = "baseline:"
"""Prefix that marks a baseline's name, since a model or a folder may have the same name."""


def locate(what: Trained | str | Path, task: AnyTask | None, suite: str = "mini") -> tuple[Task, Path | None]:
    """Return the task to evaluate on, and the checkpoint if `what` is one of GRUE; no model is loaded.

    Raises:
        ConfigError: Neither the arguments nor a checkpoint name the task, or a checkpoint names another version of it.
        DataError: The checkpoint is damaged.
    """
    refuse_model("what", None if isinstance(what, Trained) else what)
    if isinstance(what, Trained):
        return as_task(task or what.task, suite), what.checkpoint
    folder = Path(what)
    if is_checkpoint(folder):
        manifest = read_manifest(checkpoint := find_checkpoint(folder))
        of_task = as_task(task or manifest.task, suite if task else manifest.suite)
        if task is None and of_task.hash != manifest.task_hash:
            raise ConfigError(
                f"{what}: was trained on another version of {of_task.suite}/{of_task.name} than the one here, or on a "
                f"changed copy. Name the task: the file that it was trained on, or {of_task.name} as it is here."
            )
        return of_task, checkpoint
    if task is None and (seeds := seeds_in(folder)):
        raise ConfigError(f"{what}: holds runs, one a seed; give one of them, such as {seeds[0]}.")
    if task is None:
        raise ConfigError(
            f"{what}: not a checkpoint of grue, as `grue train` writes. For a model or a baseline, name the task to "
            'evaluate on: --task NAME, or task="NAME" in Python.'
        )
    return as_task(task, suite), None


def behind(name: str, endpoint: Endpoint | None, chat: bool | None) -> tuple[str, Endpoint | None]:
    """Return a model's name without its address, and how it is asked at that address; it must name a model."""
    if name.startswith(ADDRESS):
        from grue.evaluation.endpoint import Endpoint

        url, _, name = name.partition("#")
        if not name:
            raise ConfigError(f"{url}: name the model that is asked there: {url}#MODEL.")
        endpoint = replace(endpoint or Endpoint(url), url=url)
    if endpoint is not None and chat is not None:
        endpoint = replace(endpoint, completions=not chat)
    return name, endpoint


ADDRESS = ("http://", "https://")


def _beside(plain: Subject, system: "System", runs: Path) -> Subject:
    """Return a system that decodes otherwise; its folder is beside the plain system's if that is a run's."""
    if Path(system.name).name != system.name:  # it is read from a checkpoint and names a folder
        check_system_name(system.name)
    place = Path(plain.task.suite) / plain.task.name / plain.system.name / f"seed-{system.seed}"
    home = plain.folder.absolute()
    root = home.parents[3] if home.parts[-4:] == place.parts else runs
    return Subject(plain.task, system, root / place.parent.with_name(system.name) / place.name)


def generate(
    what: Trained | str | Path,
    output: str | Path,
    task: AnyTask | None = None,
    *,
    samples: int | None = None,
    reward: str | RewardFunction | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    suite: str = "mini",
    split: str | Path | None = None,
    limit: int | None = None,
    batch_size: int = 64,
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ScoredHeader | None:
    """Write a system's predictions for a split, or scored samples for training, as `grue generate` does.

    Args:
        what: The result of `train`, a run's folder, a checkpoint of GRUE, or with `task` any model or "zero-shot".
        output: File to write. An interrupted call is resumed; a finished file is only read.
        samples: Draw so many responses to each prompt, and score them.
        reward: The reward of samples, as for training. [default: the task's]
        temperature: Sampling temperature of samples. [default: that of the task's rollouts]
        seed: Seed of the sampling. [default: the checkpoint's, or 1]
        split: The split, or the path of a file of rows. [default: the evaluation split, with `samples` rl or train]

    Returns:
        The file's header; None for predictions.

    Raises:
        ConfigError: An argument is invalid, or the file holds something else.
        DataError: Data or the model is not available.
        TrainingError: The reward gave no number.
    """
    from grue.evaluation.generated import check_output, write_generated
    from grue.evaluation.samples import write_samples
    from grue.evaluation.systems import require_plain

    samples, limit = (
        None if value is None else check_number(name, value) for name, value in (("samples", samples), ("limit", limit))
    )
    batch_size, seed = check_number("batch_size", batch_size), None if seed is None else check_seed(seed)
    if samples is None and (reward is not None or temperature is not None):
        raise ConfigError("A reward and a temperature are of samples; say how many are drawn to each prompt.")
    check_output(Path(output))
    prepared = subject(what, task, seed=1 if seed is None else seed, suite=suite)
    of_task, system = prepared.task, prepared.system if seed is None else replace(prepared.system, seed=seed)
    require_plain(system)
    if system.model is None or system.tokenizer is None:
        raise ConfigError(f"{system.name} has no model; `grue evaluate --baseline {system.name}` writes its answers.")
    split = str(split or (of_task.data.evaluation if samples is None else of_task.data.reward_split))
    answered = load_examples(of_task, split, optional_path(data_dir), offline).examples[:limit]
    shown, file = Path(split).name if is_file(of_task, split) else split, file_id(of_task, split)
    written = (of_task, system, answered, Path(output))
    how: dict[str, Any] = {"split": shown, "file": file, "data_dir": optional_path(data_dir), "batch_size": batch_size}
    if samples is None:
        write_generated(*written, progress=lambda done: progress(done, len(answered)), **how)
        return None
    return write_samples(
        *written,
        samples=samples,
        train=load_examples(of_task, of_task.data.reward_split, optional_path(data_dir), offline).examples,
        reward=give_name(reward) if callable(reward) else reward,
        temperature=temperature,
        progress=progress,
        **how,
    )

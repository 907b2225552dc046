"""Score the predictions of any system, and compare two systems."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import commonpath
from pathlib import Path
from typing import Any

from grue.api.examples import AnyTask, as_task, examples, refuse_model, refuse_text
from grue.api.train import Trained
from grue.errors import ConfigError, DataError, SubmissionError, escaped
from grue.evaluation import predictions as reading
from grue.evaluation.scoring import Scored, chosen_metrics, score_examples, score_predictions
from grue.leaderboard.compare import Comparison, compare_systems
from grue.leaderboard.systems import find_systems
from grue.records import Axis, Example, Prediction, check_number, check_seed
from grue.shapes import from_dict
from grue.task_files import task_names


def score(
    predictions: str | Path | Mapping[str, str] | Iterable[str | Prediction | Mapping[str, Any]],
    task: AnyTask | None = None,
    *,
    suite: str = "mini",
    split: str | Path | None = None,
    limit: int | None = None,
    own_examples: str | Path | Sequence[Example] | None = None,
    references: Sequence[str | Path] = (),
    metrics: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Scored:
    """Score any system's predictions, as `grue score` does: against a task, your own examples, or plain references.

    Args:
        predictions: A file of {"id": …, "text": …} lines (with `references`: plain text, one per line; with
            `own_examples` also without ids, if these have none either), id → text, or one for each example: texts in
            their order, or `Prediction`s or {"id": …, "text": …} in any.
        task: The task; or give `own_examples` or `references`.
        split: The split of the task, or the path of a file of rows. [default: its evaluation split]
        limit: Score only the first so many examples, as `generate` and `evaluate` take them.
        own_examples: Examples, or a file of {"id": …, "references": […], …} lines; ids may be left out of all.
        references: Files of plain text, one reference per line.
        metrics: Names of metrics; needed without a task. [default: the task's, and the diversity set]
        options: Metric → options that override those of the task file.
        progress: Called with (done, total) metrics.

    Raises:
        ConfigError: Not exactly one of task, own examples and references is given, or there is no metric.
        SubmissionError: An example has no prediction or two, a prediction has no example, or is not a text.
        DataError: Data is not available, an example of your own is invalid (references that are one text, say), or a
            file of plain text is JSON.
    """
    if sum([task is not None, own_examples is not None, bool(references)]) != 1:
        raise ConfigError(
            "Say what to score against: one of --task NAME, --examples FILE or --references FILE (in Python task, "
            "own_examples or references)."
        )
    if task is None and (split is not None or data_dir is not None):
        raise ConfigError("--split and --data-dir choose examples of a task; they need --task, or task in Python.")
    if task is None and metrics is None:
        raise ConfigError(
            "Without a task there are no default metrics: name them with --metrics, such as meteor,rougeL, or "
            'metrics=["meteor", "rougeL"] in Python.'
        )
    refuse_text(metrics=metrics, references=references)
    metrics = None if metrics is None else list(metrics)
    for name in metrics or ():
        if not isinstance(name, str):
            raise ConfigError(
                f"metrics: {name!r} is no name; a function of (examples, texts) in a file of yours is named "
                "'module:function'."
            )
    if metrics is not None and not metrics:
        raise ConfigError("metrics is empty: name at least one, or give None for the task's.")
    limit = None if limit is None else check_number("limit", limit)
    of_task = None if task is None else as_task(task, suite)
    specs = chosen_metrics(of_task, metrics, options)  # reports a wrong name before anything is read
    read = reading.read_predictions if of_task is not None else reading.read_predictions_in_order
    read = reading.read_plain_predictions if references else read
    read_first = read(Path(predictions)) if isinstance(predictions, str | Path) else None
    loaded: Sequence[Example]
    if of_task is not None:
        split = str(split or of_task.data.evaluation)
        loaded = examples(of_task, split, data_dir=data_dir, offline=offline)
    elif isinstance(own_examples, str | Path):
        loaded = reading.read_examples(Path(own_examples))
    elif own_examples is not None:
        loaded = reading.checked_examples(own_examples, "own_examples")
    else:
        loaded = reading.read_plain_examples([Path(path) for path in references])
    loaded = loaded[:limit]
    answers = read_first if read_first is not None else _answers(predictions, loaded)
    if references and len(answers) != len(loaded):
        counted = f"{predictions}: {len(answers)} lines" if read_first is not None else f"{len(answers)} predictions"
        raise SubmissionError(
            f"{counted}, but {references[0]} has {len(loaded)}; write one prediction for each reference."
        )
    if own_examples is not None and read_first and not {one.id for one in read_first} & {one.id for one in loaded}:
        raise SubmissionError(
            f"{predictions}: no id of its {len(read_first):,} predictions is that of an example, such as "
            f"{loaded[0].id!r}; lines without ids, as of plain text, have their numbers as ids. Write one "
            '{"id": …, "text": …} per line, or leave the ids out of the examples, too.'
        )
    if of_task is None or split is None:
        return score_examples(specs, loaded, answers, progress=progress)
    # By default, metrics that this machine cannot compute are left out and reported.
    skip = metrics is None
    return score_predictions(of_task, str(split), loaded, answers, specs, skip_unavailable=skip, progress=progress)


def _answers(predictions: Any, loaded: Sequence[Example]) -> list[Prediction]:
    """Return predictions given by id, or in the order of the examples."""
    if isinstance(predictions, Mapping):
        return [Prediction(identity, _text(text, identity)) for identity, text in predictions.items()]
    if not isinstance(predictions, Iterable) or hasattr(predictions, "columns"):  # a frame iterates over their names
        raise SubmissionError(
            f"predictions: found {type(predictions).__name__}; give a file's path, a list or a column of texts in the "
            'examples\' order, or id → text: frame["text"], or dict(zip(frame["id"], frame["text"])).'
        )
    predictions = list(predictions)
    if len(predictions) != len(loaded) and not all(isinstance(item, Prediction) for item in predictions):
        raise SubmissionError(f"{len(predictions)} predictions for {len(loaded)} examples.")
    answers = []
    for place, item in enumerate(predictions):
        if isinstance(item, Mapping):
            answer = from_dict(Prediction, item, f"predictions[{place}]", SubmissionError)
        elif isinstance(item, str | Prediction):
            answer = item if isinstance(item, Prediction) else Prediction(loaded[place].id, item)
        else:
            raise SubmissionError(
                f'predictions[{place}]: expected a text, a grue.Prediction or {{"id": …, "text": …}}, found {item!r}.'
            )
        for item in answer.draws:
            _text(item.text, place)
        answers.append(answer)
    return answers


def _text(text: Any, key: object) -> str:
    """Return a text; a SubmissionError if it is none, or a file cannot hold it."""
    if not isinstance(text, str):
        raise SubmissionError(f"predictions[{key!r}]: expected a text, found {text!r}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SubmissionError(
            f"predictions[{key!r}]: the character {error.start} is half of a surrogate pair, which no file can hold. "
            "Replace it."
        ) from error
    return text


def compare(
    a: Trained | Sequence[Trained] | str | Path,
    b: Trained | Sequence[Trained] | str | Path,
    *,
    suite: str = "mini",
    tasks: Sequence[AnyTask] | None = None,
    axis: Axis = "preference",
    runs: str | Path = "runs",
    submissions: str | Path = "submissions",
    draws: int = 10_000,
    seed: int = 0,
    show: int = 0,
    offline: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Say which of two systems is better on the tasks that both have, and how certain that is, as `grue compare` does.

    Args:
        a: Name of a system on the board, the algorithm that made it, "submissions:NAME" or "runs:NAME" if both
            have it, a folder with its results, or the result of `train`; for a list of runs, the folder that has
            them all.
        b: The other system.
        tasks: Tasks, their names or files, that both must have. [default: those of the suite, or those that `train`
            was given, that both have]
        axis: The score to compare: "preference" or "naturalness".
        draws: Draws of the randomisation test.
        seed: Seed of those draws.
        show: How many examples to return for each task, those on which the systems differ most.
        progress: Called with (done, total) files of predictions.

    Raises:
        UnknownName, ConfigError: No system or task has the name, or two systems have; or a number is invalid.
        DataError: A result is missing, of only a part of the split, or of another version of the task.
        SubmissionError: An example has no prediction or two, or a submission lacks a seed that it declares.
    """
    import numpy as np

    refuse_text(tasks=tasks)
    draws, seed, show = check_number("draws", draws), check_seed(seed), check_number("show", show, 0)
    given: list[Any] = [run for system in (a, b) for run in (system if isinstance(system, list | tuple) else [system])]
    trained_on = [run.task for run in given if isinstance(run, Trained)]
    asked = [as_task(task, suite) for task in tasks or trained_on or task_names(suite)]
    of_tasks = [*{(task.suite, task.name): task for task in asked}.values()]
    sources = [_source(name, system) for name, system in (("a", a), ("b", b))]
    suites = sorted({task.suite for task in of_tasks})
    if len(suites) > 1:
        raise ConfigError(f"The tasks are of several suites, {', '.join(suites)}: compare on those of one.")
    systems = find_systems(
        [source if isinstance(source, str) else f"{source}/" for source in sources],
        suites[0],
        Path(submissions),
        Path(runs),
        [task.name for task in of_tasks],
    )
    lacking = [
        f"{system.name} has no result on {task.name}"
        for task in of_tasks
        for system in systems
        if task.name not in system.entries
    ]
    if tasks and lacking:
        raise DataError(f"{'; '.join(lacking)}. Evaluate what is missing with `grue evaluate`, or leave the task out.")
    return compare_systems(
        systems[0],
        systems[1],
        of_tasks,
        np.random.default_rng(seed),
        axis=axis,
        draws=draws,
        show=show,
        offline=offline,
        progress=progress,
    )


def _source(name: str, system: Any) -> str | Path:
    """Return the name or the folder of a system that is given to `compare`."""
    if isinstance(system, list | tuple):
        if not system or not all(isinstance(run, Trained) for run in system):
            raise ConfigError(
                f"{name}={escaped(system, 80)}: a list holds the runs that grue.train(…, seeds=…) returned."
            )
        return Path(commonpath([run.folder for run in system]))
    source: str | Path = system.folder if isinstance(system, Trained) else system
    refuse_model(name, source)
    return source

"""Evaluation: a system's predictions for a split, their scores, and the record of how both were made."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from grue import files
from grue.data.load import Loaded, file_id, is_file, load_examples, local_data_id
from grue.errors import DataError, GrueError, Unavailable
from grue.evaluation.best_of import make_judge, predict_best_of, sampling, without_references
from grue.evaluation.by_endpoint import (
    SAMPLED,
    KeptReply,
    answer_all,
    mostly_empty,
    predictions_of,
    priced,
    settings_for,
    summary,
)
from grue.evaluation.chat import chatting, unbounded
from grue.evaluation.client import Client
from grue.evaluation.decoding import make_guides
from grue.evaluation.folder import ANSWERS, ASKED, CODE, PREDICTIONS, SCORES, SEARCHED, claim, discard, seal, withdraw
from grue.evaluation.guided import Place, guiding, predict_guided
from grue.evaluation.predict import Answer, Spent, predict, predict_file
from grue.evaluation.predictions import write_predictions
from grue.evaluation.prompting import CHAT, SHOTS, Asking, Question, asked_hash, by_chat
from grue.evaluation.scoring import (
    Scored,
    check_examples,
    prepared_once,
    score_predictions,
    unavailable,
    write_per_example,
)
from grue.evaluation.systems import System
from grue.lm.chat import cut_text
from grue.lm.checks import check_lengths
from grue.lm.load import load_tokenizer
from grue.lookups.find import find_lookup
from grue.metrics.registry import own_code
from grue.metrics.tokens import sentences
from grue.provenance import code_version, machine, package_versions
from grue.records import LOOKUPS, SCHEMA_VERSION, UNFINISHED, Example, Prediction, Result, Searched
from grue.tasks import Task

LEAD_SENTENCES = 3
READING = ("null", *LOOKUPS)  # baselines that read the training split

Progress = Callable[[int, int], None]
Cut = Callable[[str], str]
"""Prompt → the part of it that the task shows to a system."""


def evaluate(
    task: Task,
    system: System,
    folder: Path,
    *,
    split: str | None = None,
    limit: int | None = None,
    batch_size: int = 64,
    data_dir: Path | None = None,
    offline: bool = False,
    force: bool = False,
    search: bool = True,
    progress: Progress = lambda done, total: None,
    warn: Callable[[str], None] = warnings.warn,
) -> Result:
    """Write `predictions.jsonl`, `scores.jsonl` and `result.json` into `folder`, and return the result.

    An interrupted evaluation resumes after its predictions so far; a finished one is only read. The replies of
    an endpoint are saved in `answers.jsonl`, the answers of a task's `[search]` in `searched.jsonl`.

    Args:
        split: A split of the task, or a file of rows (.jsonl, .jsonl.gz) in the data set's columns.
        force: Replace an existing evaluation, once everything that this one needs is loaded.
        search: Whether a model also answers by the task's `[search]`; a finished evaluation without such answers is
            completed.
        warn: Called if a finished evaluation is scored again because its files were changed.

    Raises:
        ConfigError: The folder holds an evaluation of another system or with other settings.
        DataError: Data is not available, a file cannot be written, the predictions of a finished evaluation were
            changed, or a baseline looks answers up in a training split that has none.
        Unavailable: No metric of the task can be computed on this machine, or an endpoint fails repeatedly.
    """
    split = split or task.data.evaluation
    if system.record.get(UNFINISHED):
        warn(f"The run of {system.name}, seed {system.seed}, is not finished: this result stands on no board.")
    cut = _cut(task, system)
    uncut = [_uncut_note(task)] if cut is _uncut else []
    identity = _identity(task, system, split, limit, data_dir) | ({"uncut": True} if uncut else {})
    make_ready = partial(_make_ready, task, system, split, limit, data_dir, offline, cut, warn)
    ready: _Ready | None = None
    first: list[KeptReply] = []
    if force:
        ready = make_ready()
        if ready.client is not None and ready.questions:
            name, question = next(iter(ready.questions.items()))  # to make sure that the server answers
            first = [KeptReply(name, ready.client.ask(question))]
        discard(folder)
    finished = claim(folder, identity, warn)
    if finished is None:
        for note in uncut:
            warn(f"{note} The result is never ranked.")
    plain = system.model is not None and system.best_of is None and system.guided is None and not system.chat
    searches = search and task.search is not None and plain
    if finished is not None and (finished.searched is not None or not searches):
        return _at_prices(finished, system, folder, identity)
    try:
        ready = ready or make_ready()
        started = time.monotonic()
        system, predictions = _answer(task, ready, first, folder, batch_size, progress, warn)
    except GrueError:
        if not any((folder / name).exists() for name in (PREDICTIONS, ANSWERS)):
            withdraw(folder)  # an evaluation that produced nothing must not block a new one
        raise
    generated = time.monotonic()
    score = partial(score_predictions, task, split, ready.examples, prepare=prepared_once(task.folder))
    if finished is not None:
        finished = replace(finished, searched=_search(task, ready, folder, batch_size, progress, score))
        seal(folder, identity, finished)
        return finished
    try:
        scored = score(predictions)
    except DataError as error:
        cure = f"The answers are kept: `grue score {folder / PREDICTIONS}` scores them, by --metrics of your choice."
        raise type(error)(f"{error} {cure}") from error
    _refuse_unscored(task, scored, folder / PREDICTIONS)
    scored = replace(scored, notes=(*uncut, *scored.notes))
    timing = {"generation_seconds": generated - started, "scoring_seconds": time.monotonic() - generated}
    timing |= {f"{key}_per_answer": value for key, value in ready.spent.per_answer().items()}
    searched = None
    if searches:
        began = time.monotonic()
        searched = _search(task, ready, folder, batch_size, progress, score)
        timing["search_seconds"] = time.monotonic() - began
    own = is_file(task, split)
    limited = own or limit is not None or bool(uncut)
    split = Path(split).name if own else split
    result = make_result(
        task, split, scored, ready.loaded, system, timing, limited=limited, batch_size=batch_size, searched=searched
    )
    write_per_example(folder / SCORES, scored)
    seal(folder, identity, result)
    return result


def _search(
    task: Task, ready: "_Ready", folder: Path, batch_size: int, progress: Progress, score: Callable[..., Scored]
) -> Searched:
    """Write and score a model's answers by the task's `[search]`, resuming an interrupted evaluation."""
    prompted, answer = ready.prompted, ready.search
    assert answer is not None
    predictions = predict_file(
        prompted, folder / SEARCHED, batch_size, answer, lambda done: progress(done, len(prompted))
    )
    scored = score(predictions)
    return Searched(
        generation=files.plain(task.search),
        scores={score.metric: score.value for score in scored.scores},
        preference=scored.preference,
        naturalness=scored.naturalness,
        counts=scored.counts,
        predictions=scored.hashes["predictions"],
    )


def _identity(task: Task, system: System, split: str, limit: int | None, data_dir: Path | None) -> dict[str, Any]:
    """Return an evaluation's identity: a folder that holds one with another identity is not resumed."""
    identity = {
        "task_hash": task.hash,
        "split": split,
        "file": file_id(task, split),
        "weights": system.weights,
        "seed": system.seed,
        "limit": limit,
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
        "best_of": None if system.best_of is None else files.plain(system.best_of),
        "frontier": system.record.get("frontier"),
        "chat": task.chat_hash if system.chat or system.shots else None,
        "endpoint": None if (at := system.endpoint) is None else f"{at.url}/{at.path} {at.model}",
    }
    if system.chat and system.endpoint is not None:
        identity[ASKED] = asked_hash(task)
    read = [split, *(["train"] if _reads_training(task, system) else [])]
    if local := local_data_id(task, data_dir, *read):
        identity["data_sha256"] = local
    if system.guided is not None:
        identity["guided"] = files.plain(system.guided)
    if code := own_code([spec.name for spec in task.metrics], task.folder):
        identity[CODE] = code
    if system.record.get(UNFINISHED):
        identity[UNFINISHED] = True
    if (system.best_of or system.guided) and "reward_models" in system.record:
        identity["reward_models"] = system.record["reward_models"]
    return identity


def _at_prices(finished: Result, system: System, folder: Path, identity: Mapping[str, Any]) -> Result:
    """Return a finished evaluation, written again if the prices of its endpoint changed."""
    if system.endpoint is None or system.endpoint.prices is None:
        return finished
    record = priced(finished.system["endpoint"], system.endpoint.prices)
    if record != finished.system["endpoint"]:
        finished = replace(finished, system={**finished.system, "endpoint": record})
        seal(folder, identity, finished)
    return finished


@dataclass(frozen=True, slots=True)
class _Ready:
    """What an evaluation needs to begin: data, and a system that is ready to answer.

    Attributes:
        prompted: The examples as a model reads them, after the shots if it is shown some.
        answer, search: How a model answers a batch of them: by its decoding, and by the task's `[search]`.
        spent: What answers cost so far that are picked from samples or guided.
    """

    system: System
    loaded: Loaded
    examples: Sequence[Example]
    train: Loaded | None
    asking: Asking | None
    prompted: Sequence[Example]
    answer: Answer | None
    search: Answer | None
    client: Client | None
    questions: Mapping[str, Question]
    spent: Spent


def _make_ready(
    task: Task,
    system: System,
    split: str,
    limit: int | None,
    data_dir: Path | None,
    offline: bool,
    cut: Cut | None,
    warn: Callable[[str], None],
) -> _Ready:
    loaded = load_examples(task, split, data_dir, offline)
    examples = loaded.examples[:limit]
    train = load_examples(task, "train", data_dir, offline) if _reads_training(task, system) else None
    read = () if train is None else train.examples
    if _looks_up(system) and not any(example.references for example in read):
        raise DataError(
            f"No training example of {task.suite}/{task.name} has a reference, and {system.name} answers with those; "
            "fix the data, or use another baseline, such as copy."
        )
    asking = None if cut is None else Asking(cut)
    if cut is not None and (system.chat or system.shots):
        asking = by_chat(task, loaded.examples, read, cut, SHOTS if system.shots else CHAT)
    check_examples(task, examples)
    _refuse_unscorable(task, warn)
    prompting = None if asking is None else asking.record()
    prompted: Sequence[Example] = examples
    answer: Answer | None = None
    search: Answer | None = None
    client: Client | None = None
    questions: dict[str, Question] = {}
    spent = Spent()
    if system.model is not None and system.chat:
        assert asking is not None and prompting is not None
        chat = chatting(system.name, *system.loaded, task, asking, system.seed)
        answer, prompting["prompt_tokens"] = chat.answer, chat.count_tokens(examples)
    elif system.model is not None:
        cut_task = task
        if asking is not None:
            cut_task, prompted = _after_shots(task, asking, examples)
        check_lengths(system.model, cut_task)
        by = partial(predict, system.loaded, cut_task, seed=system.seed)
        answer = partial(by, settings=task.decoding)
        search = None if task.search is None else partial(by, settings=task.search)
        if system.best_of is not None:
            judge = make_judge(system.best_of, task, system.model, examples, spent)
            n = system.best_of.n
            answer = partial(predict_best_of, system.loaded, task, seed=system.seed, n=n, judge=judge, spent=spent)
        elif system.guided is not None:
            place = Place(system.loaded, task, examples, guiding(task), system.seed, spent)
            answer = partial(predict_guided, place, make_guides(system.guided, place))
    elif system.endpoint is not None:
        assert asking is not None
        client = Client(system.endpoint, settings_for(task, system.seed, system.chat), warn)
        questions = {example.id: asking.question(example.prompt) for example in examples}
    if prompting is not None:
        system = replace(system, prompting=prompting)
    return _Ready(system, loaded, examples, train, asking, prompted, answer, search, client, questions, spent)


def _refuse_unscorable(task: Task, warn: Callable[[str], None]) -> None:
    """Refuse a task if this machine can compute none of its metrics, and warn of those that will be missing."""
    errors = unavailable(task)
    if errors and len(errors) == len(task.metrics):
        head = (
            f"No metric of {task.suite}/{task.name} can be computed on this machine, so nothing is generated. Once one "
            "can be, run the same command; `grue generate` writes answers without scores."
        )
        raise Unavailable("\n  ".join([head, *errors]))
    for error in errors:
        warn(f"Will not be scored by {error}")


def _refuse_unscored(task: Task, scored: Scored, path: Path) -> None:
    """Refuse scores without any metric of the task."""
    names = {spec.name for spec in task.metrics}
    if scored.errors and not any(score.metric in names for score in scored.scores):
        head = (
            f"{path}: no metric of {task.suite}/{task.name} can be computed on this machine, and there is no "
            "result. The answers are kept: once a metric can be computed, the same command scores them."
        )
        raise Unavailable("\n  ".join([head, *scored.errors]))


def _reads_training(task: Task, system: System) -> bool:
    """Whether the training split is read, to look up answers or to show examples."""
    shows = (system.chat or system.shots) and task.prompt.chat is not None and task.prompt.chat.shots > 0
    return shows or _looks_up(system)


def _looks_up(system: System) -> bool:
    """Whether a system answers with references of the training split."""
    return system.model is None and system.endpoint is None and system.name in READING


def _cut(task: Task, system: System) -> Cut | None:
    """Return the function that cuts a prompt for a system that reads text; None if its own tokenizer cuts."""
    return text_cut(task) if system.chat or system.shots or system.endpoint is not None else None


def text_cut(task: Task) -> Cut:
    """Return the function that cuts a prompt in text, by the tokenizer of the task's backbone.

    If that is not available on this machine, nothing is cut (`_uncut`).
    """
    try:
        tokenizer = load_tokenizer(task.backbone.model, task.backbone.revision)
    except Unavailable:
        return _uncut
    return partial(cut_text, tokenizer, prompt=task.prompt)


def _uncut_note(task: Task) -> str:
    return (
        f"Prompts are not cut to {task.prompt.max_tokens} tokens: the tokenizer of {task.backbone.model}, which cuts "
        "them for everybody, is not on this machine."
    )


def _uncut(text: str) -> str:
    return text


def _after_shots(task: Task, asking: Asking, examples: Sequence[Example]) -> tuple[Task, list[Example]]:
    """Return the examples with the shots before their prompts, and the task with room for the longest prompt."""
    prompted = [replace(example, prompt=asking.after_shots(example.prompt)) for example in examples]
    tokenizer = load_tokenizer(task.backbone.model, task.backbone.revision)
    longest = max(map(len, tokenizer([example.prompt for example in prompted], verbose=False)["input_ids"]))
    return replace(task, prompt=replace(task.prompt, max_tokens=longest)), prompted


def _generation(task: Task, system: System) -> dict[str, Any]:
    """Return a result's record of its decoding, and of its prompting unless that is plain."""
    prompting = {} if system.prompting is None else {"prompting": system.prompting}
    if system.endpoint is not None:
        settings = settings_for(task, system.seed, system.chat)
        return {"decoding": SAMPLED, **{key: settings[key] for key in settings if key != "seed"}, **prompting}
    if system.guided is not None:
        guided = {key: value for key, value in files.plain(system.guided).items() if key != "name"}
        return {**files.plain(guiding(task)), "decoding": system.guided.name, "guided": guided}
    if system.best_of is None:
        decoding = task.decoding if system.model is not None else replace(task.decoding, samples=1)
        return {**files.plain(unbounded(decoding) if system.chat else decoding), **prompting}
    best_of = {key: value for key, value in files.plain(system.best_of).items() if key != "name"}
    return {**files.plain(sampling(task)), "decoding": system.best_of.name, "best_of": best_of}


def _answer(
    task: Task,
    ready: _Ready,
    first: Sequence[KeptReply],
    folder: Path,
    batch_size: int,
    progress: Progress,
    warn: Callable[[str], None],
) -> tuple[System, Sequence[Prediction]]:
    """Write a system's predictions, resuming an interrupted evaluation; `first` are replies that it has already.

    Return the system, with how it answered in its record, and its predictions.
    """
    system, path, examples = ready.system, folder / PREDICTIONS, ready.examples

    def report(done: int) -> None:
        progress(done, len(examples))

    if ready.answer is not None:
        return system, predict_file(ready.prompted, path, batch_size, ready.answer, report)
    if ready.client is not None:
        assert system.endpoint is not None and ready.asking is not None
        if first:
            files.append_jsonl(folder / ANSWERS, first)
        replies = answer_all(ready.client, ready.questions, folder / ANSWERS, report)
        described = {"endpoint": summary(system.endpoint, replies)}
        predictions = predictions_of(replies, ready.asking, examples, ready.client.settings.get("stop", ()))
        if problem := mostly_empty(predictions, replies):
            warn(f"{folder / ANSWERS}: {problem}")
    else:
        described, train = {}, ready.train
        predictions = answer_without_model(task, system, examples, train.examples if train else ())
        if train is not None:
            read = {"split": "train", "examples": len(train.examples), "ids_sha256": train.ids_sha256}
            described = {"read": read}
    write_predictions(path, predictions)
    return replace(system, record={**system.record, **described}), predictions


def answer_without_model(
    task: Task, system: System, examples: Sequence[Example], train: Sequence[Example]
) -> list[Prediction]:
    """Return a baseline's answers; those of `READING` need references in `train`."""
    if system.name == "copy":
        texts = [example.prompt for example in examples]
    elif system.name == "lead":
        texts = [lead(example) for example in examples]
    elif system.name == "oracle":
        texts = [example.references[0] if example.references else "" for example in examples]
    elif system.name in LOOKUPS:
        texts = find_lookup(task, system.name)(
            task, train, [without_references(example) for example in examples], system.seed
        )
    else:
        texts = [next(example.references[0] for example in train if example.references)] * len(examples)
    return [Prediction(example.id, text) for example, text in zip(examples, texts, strict=True)]


def lead(example: Example) -> str:
    """Return the first three sentences of an example's document, or else of its prompt, a line each."""
    return "\n".join(sentences(str(example.meta.get("document", example.prompt)))[:LEAD_SENTENCES])


def make_result(
    task: Task,
    split: str,
    scored: Scored,
    loaded: Loaded,
    system: System,
    timing: Mapping[str, float],
    *,
    limited: bool,
    batch_size: int,
    searched: Searched | None = None,
) -> Result:
    """Return the content of `result.json`."""
    of_scored = ("scores", "preference", "naturalness", "hashes", "counts", "errors", "notes")
    return Result(
        schema=SCHEMA_VERSION,
        status="complete",
        grue=code_version(),
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        task_hash=task.hash,
        split=split,
        seed=system.seed,
        system={**system.record, "weights": system.weights},
        data=loaded.provenance(),
        generation=_generation(task, system),
        determinism=_determinism(task, system, batch_size),
        timing=timing,
        packages=package_versions(),
        limited=limited,
        searched=searched,
        **{name: getattr(scored, name) for name in of_scored},
    )


def _determinism(task: Task, system: System, batch_size: int) -> dict[str, Any]:
    """Return what the answers may depend on besides the model; an endpoint promises nothing."""
    if system.endpoint is not None:
        settings = settings_for(task, system.seed, system.chat)
        sent = {key: settings[key] for key in settings if key != "max_tokens"}
        return {"decoding": SAMPLED, **sent, "promised": False, "concurrency": system.endpoint.concurrency}
    parameter = None if system.model is None else next(system.model.parameters(), None)
    device = "none" if parameter is None else str(parameter.device)
    return {
        "batch_size": batch_size,
        "dtype": "none" if parameter is None else str(parameter.dtype).removeprefix("torch."),
        "device": device,
        "threads": torch.get_num_threads(),
        "machine": machine(device, torch.get_num_threads()),
    }

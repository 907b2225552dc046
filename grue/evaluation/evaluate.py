"""Evaluation: a system's predictions for a split, their scores, and the record of how both were made."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

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
    stops_of,
    summary,
    thoughts_taken,
)
from grue.evaluation.chat import chatting, unbounded
from grue.evaluation.client import Client
from grue.evaluation.decoding import make_guides
from grue.evaluation.folder import (
    ANSWERS,
    ASKED,
    CODE,
    PREDICTIONS,
    SCORES,
    SEARCHED,
    claim,
    discard,
    seal,
    sole_writer,
    withdraw,
)
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
        ConfigError: The folder holds an evaluation of another system or with other settings, or another process
            evaluates there.
        DataError: Data is not available, a file cannot be written, the predictions of a finished evaluation were
            changed, or a baseline looks answers up in a training split that has none.
        Unavailable: No metric of the task can be computed on this machine, or an endpoint fails repeatedly.
    """
    if system.record.get(UNFINISHED):
        warn(f"The run of {system.name}, seed {system.seed}, is not finished: this result stands on no board.")
    work = _Work(
        task, system, folder, split or task.data.evaluation, limit, batch_size, data_dir, offline, progress, warn
    )
    with sole_writer(folder, force):
        return _evaluate(work, force, search)


def _evaluate(work: "_Work", force: bool, search: bool) -> Result:
    """Do or read an evaluation, alone in its folder."""
    task, system, folder, warn, identity = work.task, work.system, work.folder, work.warn, work.identity()
    if force:
        work.load()
        work.try_endpoint()
        discard(folder)
    finished = claim(folder, identity, warn)
    for note in work.notes if finished is None else ():
        warn(f"{note} The result is never ranked.")
    plain = system.model is not None and system.best_of is None and system.guided is None and not system.chat
    searches = search and task.search is not None and plain
    if finished is not None and (finished.searched is not None or not searches):
        return _at_prices(finished, system, folder, identity)
    try:
        if not force:
            work.load()
        started = time.monotonic()
        predictions = work.answer_all()
    except GrueError:
        if not any((folder / name).exists() for name in (PREDICTIONS, ANSWERS)):
            withdraw(folder)  # an evaluation that produced nothing must not block a new one
        raise
    generated = time.monotonic()
    score = partial(score_predictions, task, work.split, work.examples, prepare=prepared_once(task.folder))
    if finished is None:
        scored = _scored(work, score, predictions)
        timing = {"generation_seconds": generated - started, "scoring_seconds": time.monotonic() - generated}
        timing |= {f"{key}_per_answer": value for key, value in work.spent.per_answer().items()}
        searched = None
        if searches:
            began = time.monotonic()
            searched = work.search(score)
            timing["search_seconds"] = time.monotonic() - began
        finished = make_result(work, scored, timing, searched)
        write_per_example(folder / SCORES, scored)
    else:
        finished = replace(finished, searched=work.search(score))
    seal(folder, identity, finished)
    return finished


def _scored(work: "_Work", score: Callable[..., Scored], predictions: Sequence[Prediction]) -> Scored:
    """Score the answers; they are kept if this fails or gives no metric of the task."""
    task, path = work.task, work.folder / PREDICTIONS
    try:
        scored = score(predictions)
    except DataError as error:
        cure = f"The answers are kept: `grue score {path}` scores them, by --metrics of your choice."
        raise type(error)(f"{error} {cure}") from error
    if scored.errors and not {spec.name for spec in task.metrics} & {score.metric for score in scored.scores}:
        head = (
            f"{path}: no metric of {task.suite}/{task.name} can be computed on this machine, and there is no "
            "result. The answers are kept: once a metric can be computed, the same command scores them."
        )
        raise Unavailable("\n  ".join([head, *scored.errors]))
    return replace(scored, notes=(*work.notes, *scored.notes))


def _at_prices(finished: Result, system: System, folder: Path, identity: Mapping[str, Any]) -> Result:
    """Return a finished evaluation, written again if the prices of its endpoint changed."""
    if system.endpoint is None or system.endpoint.prices is None:
        return finished
    record = priced(finished.system["endpoint"], system.endpoint.prices)
    if record != finished.system["endpoint"]:
        finished = replace(finished, system={**finished.system, "endpoint": record})
        seal(folder, identity, finished)
    return finished


@dataclass(slots=True)
class _Work:
    """An evaluation: its arguments, and what `load` makes of them.

    Attributes:
        system: With how it is prompted, once that is loaded, and how it answered, once it has.
        notes: Caveats: that prompts are not cut, if they should be.
        prompted: The examples as a model reads them, after the shots if it is shown some.
        by_model, by_search: How a model answers a batch of them: by its decoding, and by the task's `[search]`.
        spent: What answers cost so far that are picked from samples or guided.
        first: Replies that are not written yet.
    """

    task: Task
    system: System
    folder: Path
    split: str
    limit: int | None
    batch_size: int
    data_dir: Path | None
    offline: bool
    progress: Progress
    warn: Callable[[str], None]
    notes: list[str] = field(init=False, default_factory=list)
    loaded: Loaded = field(init=False)
    examples: Sequence[Example] = field(init=False)
    train: Loaded | None = None
    asking: Asking | None = None
    prompted: Sequence[Example] = ()
    by_model: Answer | None = None
    by_search: Answer | None = None
    client: Client | None = None
    questions: Mapping[str, Question] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    first: list[KeptReply] = field(default_factory=list)

    def __post_init__(self) -> None:
        """A system that reads text gets the part of a prompt that the task shows; its own tokenizer does not cut."""
        system = self.system
        if system.chat or system.shots or system.endpoint is not None:
            self.asking = Asking(text_cut(self.task))
            self.notes = notes_on_cut(self.task, self.asking.cut)

    @property
    def looks_up(self) -> bool:
        """Whether the system answers with references of the training split."""
        return self.system.model is None and self.system.endpoint is None and self.system.name in READING

    @property
    def reads_training(self) -> bool:
        """Whether the training split is read, to look up answers or to show examples."""
        chat = self.task.prompt.chat
        return self.looks_up or ((self.system.chat or self.system.shots) and chat is not None and chat.shots > 0)

    def identity(self) -> dict[str, Any]:
        """Return an evaluation's identity: a folder that holds one with another identity is not resumed."""
        task, system, split, data_dir = self.task, self.system, self.split, self.data_dir
        identity = {
            "task_hash": task.hash,
            "split": split,
            "file": file_id(task, split),
            "weights": system.weights,
            "seed": system.seed,
            "limit": self.limit,
            "data_dir": None if data_dir is None else str(data_dir.resolve()),
            "best_of": None if system.best_of is None else files.plain(system.best_of),
            "frontier": system.record.get("frontier"),
            "chat": task.chat_hash if system.chat or system.shots else None,
            "endpoint": None if (at := system.endpoint) is None else f"{at.url}/{at.path} {at.model}",
        }
        read = [split, *(["train"] if self.reads_training else [])]
        further = {
            ASKED: asked_hash(task) if system.chat and system.endpoint is not None else None,
            "data_sha256": local_data_id(task, data_dir, *read),
            "guided": None if system.guided is None else files.plain(system.guided),
            CODE: own_code([spec.name for spec in task.metrics], task.folder),
            UNFINISHED: bool(system.record.get(UNFINISHED)),
            "reward_models": system.record.get("reward_models") if system.best_of or system.guided else None,
            "uncut": bool(self.notes),
        }
        return identity | {key: value for key, value in further.items() if value}

    def load(self) -> None:
        """Load the data, and make the system ready to answer."""
        task, system = self.task, self.system
        self.loaded = load_examples(task, self.split, self.data_dir, self.offline)
        self.examples = self.prompted = self.loaded.examples[: self.limit]
        self.train = load_examples(task, "train", self.data_dir, self.offline) if self.reads_training else None
        read = () if self.train is None else self.train.examples
        if self.looks_up and not any(example.references for example in read):
            raise DataError(
                f"No training example of {task.suite}/{task.name} has a reference, and {system.name} answers with "
                "those; fix the data, or use another baseline, such as copy."
            )
        if self.asking is not None and (system.chat or system.shots):
            kind: Literal["shots", "chat"] = SHOTS if system.shots else CHAT
            self.asking = by_chat(task, self.loaded.examples, read, self.asking.cut, kind)
        check_examples(task, self.examples)
        _refuse_unscorable(task, self.warn)
        prompting = None if self.asking is None else self.asking.record()
        if system.model is not None and system.chat:
            assert self.asking is not None and prompting is not None
            chat = chatting(system.name, *system.loaded, task, self.asking, system.seed)
            self.by_model, prompting["prompt_tokens"] = chat.answer, chat.count_tokens(self.examples)
        elif system.model is not None:
            self._make_model_ready()
        elif system.endpoint is not None:
            assert self.asking is not None
            self.client = Client(system.endpoint, settings_for(task, system.seed, system.chat), self.warn)
            self.questions = {example.id: self.asking.question(example.prompt) for example in self.examples}
        if prompting is not None:
            self.system = replace(system, prompting=prompting)

    def _make_model_ready(self) -> None:
        """Set how a model answers that is not asked by a chat prompt."""
        task, system, spent = self.task, self.system, self.spent
        assert system.model is not None
        if self.asking is not None:
            task, self.prompted = _after_shots(task, self.asking, self.examples)
        check_lengths(system.model, task)
        by = partial(predict, system.loaded, task, seed=system.seed)
        self.by_model = partial(by, settings=task.decoding)
        self.by_search = None if task.search is None else partial(by, settings=task.search)
        if system.best_of is not None:
            judge, n = make_judge(system.best_of, task, system.model, self.examples, spent), system.best_of.n
            best = partial(predict_best_of, system.loaded, task, seed=system.seed, n=n, judge=judge, spent=spent)
            self.by_model = best
        elif system.guided is not None:
            place = Place(system.loaded, task, self.examples, guiding(task), system.seed, spent)
            self.by_model = partial(predict_guided, place, make_guides(system.guided, place))

    def try_endpoint(self) -> None:
        """Ask the first question, to make sure that the server answers."""
        if self.client is not None and self.questions:
            name, question = next(iter(self.questions.items()))
            self.first = [KeptReply(name, self.client.ask(question))]

    def answer_all(self) -> Sequence[Prediction]:
        """Write the system's predictions, resuming an interrupted evaluation, and return them."""
        path, replies_path, examples = self.folder / PREDICTIONS, self.folder / ANSWERS, self.examples
        if self.by_model is not None:
            return predict_file(self.prompted, path, self.batch_size, self.by_model, self._report)
        described: dict[str, Any] = {}
        if self.client is not None:
            assert self.asking is not None
            if self.first:
                files.append_jsonl(replies_path, self.first)
            replies = answer_all(self.client, self.questions, replies_path, self._report)
            described = {"endpoint": summary(self.client.endpoint, replies)}
            predictions = predictions_of(replies, self.asking, examples, stops_of(self.task, self.system.chat))
            for problem in filter(None, (mostly_empty(predictions, replies), thoughts_taken(predictions, replies))):
                self.warn(f"{replies_path}: {problem}")
        else:
            train = self.train
            predictions = answer_without_model(self.task, self.system, examples, train.examples if train else ())
            if train is not None:
                read = {"split": "train", "examples": len(train.examples), "ids_sha256": train.ids_sha256}
                described = {"read": read}
        write_predictions(path, predictions)
        self.system = replace(self.system, record={**self.system.record, **described})
        return predictions

    def search(self, score: Callable[..., Scored]) -> Searched:
        """Write and score a model's answers by the task's `[search]`, resuming an interrupted evaluation."""
        assert self.by_search is not None
        path = self.folder / SEARCHED
        scored = score(predict_file(self.prompted, path, self.batch_size, self.by_search, self._report))
        return Searched(
            generation=files.plain(self.task.search),
            scores={score.metric: score.value for score in scored.scores},
            preference=scored.preference,
            naturalness=scored.naturalness,
            counts=scored.counts,
            predictions=scored.hashes["predictions"],
        )

    def _report(self, done: int) -> None:
        self.progress(done, len(self.examples))


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


def text_cut(task: Task) -> Cut:
    """Return what cuts a prompt in text, by the tokenizer of the task's backbone; `_uncut` if that is not here."""
    try:
        tokenizer = load_tokenizer(task.backbone.model, task.backbone.revision)
    except Unavailable:
        return _uncut
    return partial(cut_text, tokenizer, prompt=task.prompt)


def notes_on_cut(task: Task, cut: Cut) -> list[str]:
    """Return a note if `text_cut` gave what cuts nothing."""
    if cut is not _uncut:
        return []
    return [
        f"Prompts are not cut to {task.prompt.max_tokens} tokens: the tokenizer of {task.backbone.model}, which cuts "
        "them for everybody, is not on this machine."
    ]


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


def make_result(work: _Work, scored: Scored, timing: Mapping[str, float], searched: Searched | None = None) -> Result:
    """Return the content of `result.json`."""
    task, system, own = work.task, work.system, is_file(work.task, work.split)
    of_scored = ("scores", "preference", "naturalness", "hashes", "counts", "errors", "notes")
    return Result(
        schema=SCHEMA_VERSION,
        status="complete",
        grue=code_version(),
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        task_hash=task.hash,
        split=Path(work.split).name if own else work.split,
        seed=system.seed,
        system={**system.record, "weights": system.weights},
        data=work.loaded.provenance(),
        generation=_generation(task, system),
        determinism=_determinism(task, system, work.batch_size),
        timing=timing,
        packages=package_versions(),
        limited=own or work.limit is not None or bool(work.notes),
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

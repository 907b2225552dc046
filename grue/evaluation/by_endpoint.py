"""A split answered by an endpoint: every reply is saved as it arrives, and no question is asked twice.

`answers.jsonl` holds the unchanged replies in the order of arrival, a line each, with the server's metadata. The
predictions follow from it, in the order of the examples.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from grue import files
from grue.errors import DataError, GrueError
from grue.evaluation.client import Client, GivenUp, Reply
from grue.evaluation.endpoint import Endpoint
from grue.evaluation.predict import refuse_strangers
from grue.evaluation.prompting import Asking, Question, answer_in
from grue.records import Example, Prediction
from grue.shapes import from_dict
from grue.tasks import Task, before_stop

SAMPLED = "sampled by an endpoint"
"""A result's decoding: settings were sent, but whether the server followed them is unknown."""
CUT = "length"
"""The finish reason of a reply that reached its length limit."""
MOST_SHOWN = 20  # distinct values of one key in a server's replies


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A line of `answers.jsonl`: the reply to the example `id`."""

    id: str
    reply: Reply


def settings_for(task: Task, seed: int, chat: bool) -> dict[str, Any]:
    """Return the settings of every request: the task's length limit, and those that ask for reproducible answers."""
    settings = {"max_tokens": task.decoding.max_new_tokens, "temperature": 0, "seed": seed}
    return settings | ({"stop": list(stop)} if (stop := stops_of(task, chat)) else {})


def stops_of(task: Task, chat: bool) -> Sequence[str]:
    """Return the stop strings of a task's answers; a reply to its chat prompt has none."""
    return () if chat else task.decoding.stop


def answer_all(
    client: Client,
    questions: Mapping[str, Question],
    path: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Reply]:
    """Return example id → reply, asking only the questions that `path` does not answer.

    Raises:
        DataError: The server refuses, or the file holds answers to other examples. Received replies are kept.
        Unavailable: The server fails repeatedly. Received replies are kept.
    """
    done = read_replies(path)
    refuse_strangers(path, done, questions.keys())
    progress(len(done))

    def keep(name: str, reply: Reply) -> None:
        files.append_jsonl(path, [KeptReply(name, reply)])
        done[name] = reply

    lacking = {name: question for name, question in questions.items() if name not in done}
    try:
        _ask_each(client, lacking, keep, lambda: progress(len(done)))
    except GrueError as error:
        message = f"{error} {len(done):,} of {len(questions):,} answers are kept; the same command asks for the others."
        raise type(error)(message) from error
    return done


def read_replies(path: Path) -> dict[str, Reply]:
    """Return example id → reply of the replies received so far; a torn last line is dropped."""
    if not path.exists():
        return {}
    files.drop_torn_line(path)
    try:
        lines = [from_dict(KeptReply, record, f"{path}, line {n}") for n, record in files.read_jsonl(path)]
    except GrueError as error:
        raise DataError(f"{error} Restore the file, or begin anew with --force.") from error
    return {line.id: line.reply for line in lines}


def _ask_each(
    client: Client,
    questions: Mapping[str, Question],
    keep: Callable[[str, Reply], None],
    progress: Callable[[], None],
) -> None:
    """Ask all questions, several at once, and keep the replies as they arrive.

    After a fault, requests in flight are waited for, then the fault is raised. An interrupt does not wait: the
    threads are daemons, and their later replies are dropped.
    """
    waiting, lock, interrupted = iter(questions.items()), Lock(), Event()
    faults: list[BaseException] = []

    def work() -> None:
        while not client.stop.is_set():
            with lock:
                item = next(waiting, None)
            if item is None:
                return
            name, question = item
            try:
                reply = client.ask(question)
                with lock:
                    if not interrupted.is_set():
                        keep(name, reply)
                        progress()
            except GivenUp:
                return
            except BaseException as error:  # raised below, in the thread that waits
                client.stop.set()
                faults.append(type(error)(f"{name}: {error}") if isinstance(error, GrueError) else error)

    threads = [Thread(target=work, daemon=True) for _ in range(min(client.endpoint.concurrency, len(questions)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        interrupted.set()
        client.stop.set()
        raise
    if faults:
        raise faults[0]


def predictions_of(
    replies: Mapping[str, Reply], asking: Asking, examples: Sequence[Example], stop: Sequence[str]
) -> list[Prediction]:
    """Return the predictions in replies, in the order of the examples.

    Args:
        stop: As `stops_of` returns them. A server may refuse or ignore them, or leave them in a text.
    """
    predictions = []
    for example in examples:
        reply = replies[example.id]
        ended = before_stop(reply.text, stop)
        text = answer_in(asking.chat, reply.text if ended is None else ended)
        predictions.append(Prediction(example.id, text, ended is None and reply.finish == CUT))
    return predictions


def mostly_empty(predictions: Sequence[Prediction], replies: Mapping[str, Reply]) -> str:
    """Return a warning if more than half of the predictions are empty, or else ""."""
    empty = [prediction.id for prediction in predictions if not prediction.text]
    if 2 * len(empty) <= len(predictions):
        return ""
    reasons = ", ".join(f"{why or 'none'} {count}" for why, count in _counted(replies[n].finish for n in empty).items())
    return (
        f"{len(empty):,} of {len(predictions):,} answers are empty (finish reasons: {reasons}). A model that thinks "
        "first may have had no tokens left: turn its thinking off at the server. Or the chat prompt cuts out nothing: "
        "see its marker, pattern and lines."
    )


def thoughts_taken(predictions: Sequence[Prediction], replies: Mapping[str, Reply]) -> str:
    """Return a warning if what was taken for answers is what a model thought before it answered, or else ""."""
    count = 0
    for prediction in predictions:
        said, first = replies[prediction.id].text, prediction.text.partition("\n")[0]
        thoughts, ended, answer = said.rpartition("</think>") if "</think>" in said else (said, "<think>" in said, "")
        count += bool(ended and first) and first in thoughts and first not in answer
    if not count:
        return ""
    return (
        f"{count:,} of {len(predictions):,} answers are what the model thought first (<think>): turn its thinking off "
        'at the server, or give the task file\'s chat prompt marker = "</think>" and more max_new_tokens.'
    )


def summary(endpoint: Endpoint, replies: Mapping[str, Reply]) -> dict[str, Any]:
    """Return a result's record of an endpoint: its address, its models and their cost."""
    answers = list(replies.values())
    tokens = {
        "prompt": sum(reply.prompt_tokens or 0 for reply in answers),
        "completion": sum(reply.completion_tokens or 0 for reply in answers),
    }
    uncounted = sum(None in (reply.prompt_tokens, reply.completion_tokens) for reply in answers)
    record = {
        "url": endpoint.url,
        "urls": _counted(reply.url for reply in answers),
        "path": endpoint.path,
        "model": endpoint.model,
        "models": _counted(reply.model for reply in answers),
        "system_fingerprints": _counted(reply.fingerprint for reply in answers),
        "finish_reasons": _counted(reply.finish for reply in answers),
        "requests": sum(reply.requests for reply in answers),
        "retries": sum(reply.requests - 1 for reply in answers),
        "tokens": tokens,
        "answers_without_usage": uncounted,
        "sent": list({files.canonical_json(reply.sent): reply.sent for reply in answers}.values()),
    }
    return record if endpoint.prices is None else priced(record, endpoint.prices)


def priced(record: Mapping[str, Any], prices: tuple[float, float]) -> dict[str, Any]:
    """Return a record of an endpoint, with its cost by the prices of a million tokens of prompts and answers."""
    into, out = prices
    spent = (record["tokens"]["prompt"] * into + record["tokens"]["completion"] * out) / 1e6
    cost = None if record["answers_without_usage"] else spent  # a partial cost would be taken for the total
    return {**record, "prices_per_million": {"prompt": into, "completion": out}, "cost": cost}


def _counted(values: Iterator[str]) -> dict[str, int]:
    """Return value → count, the most frequent first; "" stands for no value."""
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in counts[MOST_SHOWN:])
    return dict(counts[:MOST_SHOWN]) | ({"others": rest} if rest else {})

"""A split answered by an endpoint: every reply is kept as it comes, and what was answered is never asked again.

`answers.jsonl` holds the replies as they are, a line each in the order in which they came, with what the server said of
them. The predictions follow from it, in the order of the examples.
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
from grue.evaluation.prompting import Asking, Question
from grue.records import Example, Prediction
from grue.shapes import from_dict
from grue.tasks import Task, before_stop

SAMPLED = "sampled by an endpoint"
"""What a result says of its decoding: settings were sent, and nothing is known of what was done with them."""
CUT = "length"
"""Why a reply ended that reached its length limit."""
MOST_SHOWN = 20  # values that a server gave of one key


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A line of `answers.jsonl`: the reply to the example `id`."""

    id: str
    reply: Reply


def settings_for(task: Task, seed: int, chat: bool) -> dict[str, Any]:
    """Return what is sent with every question: the task's length limit, and what asks for the same answer each time.

    Args:
        chat: Whether it is asked by the chat prompt: then nothing but the model ends a reply.
    """
    asked = {"max_tokens": task.decoding.max_new_tokens, "temperature": 0, "seed": seed}
    return asked | ({"stop": list(task.decoding.stop)} if task.decoding.stop and not chat else {})


def answer_all(
    client: Client,
    questions: Mapping[str, Question],
    path: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Reply]:
    """Return example id → reply, asking only what `path` does not hold.

    Args:
        questions: Example id → what is asked, in the order of asking.
        path: The file of replies, `answers.jsonl`.

    Raises:
        DataError: The server refuses, or the file holds answers to other examples. Replies that came are kept.
        Unavailable: The server fails again and again. Likewise.
    """
    done = kept(path)
    if strangers := done.keys() - questions.keys():
        raise DataError(
            f"{path}: holds answers to other examples ({sorted(strangers)[0]}, …); remove it or write elsewhere."
        )
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


def first_reply(client: Client, questions: Mapping[str, Question]) -> KeptReply:
    """Return the reply to the first question, which shows that there is a server that answers.

    Raises:
        DataError: The server refuses.
        Unavailable: It fails again and again.
    """
    name, question = next(iter(questions.items()))
    return KeptReply(name, client.ask(question))


def kept(path: Path) -> dict[str, Reply]:
    """Return example id → reply of those that came before; a last line that a kill cut is dropped.

    Raises:
        DataError: The file cannot be read.
    """
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
    """Ask all questions, several at once, and keep the replies as they come.

    After a fault, those on their way are waited for, then the fault is raised. Whoever interrupts does not wait: the
    threads are daemons, and what they still bring is not kept.
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
            except BaseException as error:  # raised below, where it is waited for
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
    """Return the predictions that replies make, in the order of the examples.

    Args:
        stop: The stop strings that were sent. A server may not know them, or leave them in a text.
    """
    predictions = []
    for example in examples:
        reply = replies[example.id]
        ended = before_stop(reply.text, stop)
        text = asking.answer_in(reply.text if ended is None else ended)
        predictions.append(Prediction(example.id, text, ended is None and reply.finish == CUT))
    return predictions


def mostly_empty(predictions: Sequence[Prediction], replies: Mapping[str, Reply]) -> str:
    """Return a warning if more than half of the predictions are empty; else nothing."""
    empty = [prediction.id for prediction in predictions if not prediction.text]
    if 2 * len(empty) <= len(predictions):
        return ""
    reasons = ", ".join(f"{why or 'none'} {count}" for why, count in _counted(replies[n].finish for n in empty).items())
    return (
        f"{len(empty):,} of {len(predictions):,} answers are empty (finish reasons: {reasons}). A model that thinks "
        "first may have had no tokens left: turn its thinking off at the server. Or the chat prompt cuts out nothing: "
        "see its marker, pattern and lines."
    )


def summary(endpoint: Endpoint, replies: Mapping[str, Reply]) -> dict[str, Any]:
    """Return what a result says of an endpoint: where, what it said of itself, and what it took."""
    every = list(replies.values())
    tokens = {
        "prompt": sum(reply.prompt_tokens or 0 for reply in every),
        "completion": sum(reply.completion_tokens or 0 for reply in every),
    }
    uncounted = sum(None in (reply.prompt_tokens, reply.completion_tokens) for reply in every)
    record = {
        "url": endpoint.url,
        "urls": _counted(reply.url for reply in every),
        "path": endpoint.path,
        "model": endpoint.model,
        "models": _counted(reply.model for reply in every),
        "system_fingerprints": _counted(reply.fingerprint for reply in every),
        "finish_reasons": _counted(reply.finish for reply in every),
        "requests": sum(reply.requests for reply in every),
        "retries": sum(reply.requests - 1 for reply in every),
        "tokens": tokens,
        "answers_without_usage": uncounted,
        "sent": _distinct(reply.sent for reply in every),
    }
    return record if endpoint.prices is None else priced(record, endpoint.prices)


def priced(record: Mapping[str, Any], prices: tuple[float, float]) -> dict[str, Any]:
    """Return what a result says of an endpoint, with what it cost.

    Args:
        record: By `summary`, without prices or with others.
        prices: Of a million tokens of prompts and of answers.
    """
    into, out = prices
    spent = (record["tokens"]["prompt"] * into + record["tokens"]["completion"] * out) / 1e6
    cost = None if record["answers_without_usage"] else spent  # a part of it would be taken for all
    return {**record, "prices_per_million": {"prompt": into, "completion": out}, "cost": cost}


def _counted(values: Iterator[str]) -> dict[str, int]:
    """Return value → how often a server said it, the most frequent first; "" where it said nothing."""
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    others = sum(count for _, count in counts[MOST_SHOWN:])
    return dict(counts[:MOST_SHOWN]) | ({"others": others} if others else {})


def _distinct(values: Iterator[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list({files.canonical_json(value): value for value in values}.values())

"""How a system is prompted: by the plain prompt that training uses, with or without examples, or by a chat prompt.

The conversation of a chat prompt is the same for all systems: it depends only on the task and its data. An
example's prompt is cut as the task says, by the tokenizer of the task's own backbone, whatever the system's is.
"""

import hashlib
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from grue import files
from grue.errors import ConfigError, DataError
from grue.records import Example, Result, legible
from grue.tasks import Chat, Shot, Task, without_defaults

CHAT: Final = "chat"
SHOTS: Final = "shots"
BETWEEN_SHOTS = "\n\n"
OWN_ROWS = "examples"
"""The data format of a user's own files."""
Prompting = Literal["plain", "chat", "shots"]
ENDPOINT = "endpoint"
"""The algorithm of systems that answer over HTTP: how they were trained is not stated."""

Message = Mapping[str, str]
"""A turn of a conversation: `role` (system, user or assistant) and `content`."""


Question = str | Sequence[Message]
"""A prompt, or a conversation that ends with it."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How a system is prompted in text: by a task's chat prompt, after its examples, or plainly.

    Attributes:
        cut: Prompt → the part of it that the task shows to a system.
        kind: CHAT, or SHOTS for the plain prompt after the examples of the chat prompt.
        chat: The chat prompt; None for the plain one.
        shown: The examples that it shows, those of the task file first; their prompts are cut like all others.
        ids: The ids of those drawn from the training split.
        prompts: The prompts of all examples that it shows, whole.
        numbered: Whether ids are the user's, who may have numbered the rows of each file: a prompt alone identifies.
    """

    cut: Callable[[str], str]
    chat: Chat | None = None
    kind: Literal["chat", "shots"] = CHAT
    hash: str = ""
    shown: tuple[Shot, ...] = ()
    ids: tuple[str, ...] = ()
    prompts: frozenset[str] = frozenset()
    numbered: bool = False

    def shows(self, example: Example) -> bool:
        """Whether the answer to an example's prompt is shown."""
        return (example.id in self.ids and not self.numbered) or example.prompt.strip() in self.prompts

    def question(self, prompt: str) -> Question:
        """Return the prompt, after the examples if they are shown, or the conversation that a chat model answers."""
        if self.chat is None:
            return self.cut(prompt)
        return self.after_shots(prompt) if self.kind == SHOTS else self.conversation(prompt)

    def conversation(self, prompt: str) -> list[Message]:
        """Return the conversation of the chat prompt, which ends with a prompt."""
        assert self.chat is not None
        turns = [{"role": "system", "content": self.chat.system}] if self.chat.system else []
        for shot in self.shown:
            turns.append({"role": "user", "content": filled(self.chat.user, shot.prompt)})
            turns.append({"role": "assistant", "content": shot.answer})
        return [*turns, {"role": "user", "content": filled(self.chat.user, self.cut(prompt))}]

    def after_shots(self, prompt: str) -> str:
        """Return a prompt after the examples, each with its answer on one line behind a space."""
        shown = [f"{shot.prompt.strip()} {' '.join(shot.answer.split())}" for shot in self.shown]
        return BETWEEN_SHOTS.join([*shown, self.cut(prompt).strip()])

    def record(self) -> dict[str, Any] | None:
        """Return a result's record of its prompting; None for plain prompts."""
        if self.chat is None:
            return None
        return {"kind": self.kind, "version": self.chat.version, "hash": self.hash, "shots": list(self.ids)}


def by_chat(
    task: Task,
    evaluated: Sequence[Example],
    train: Sequence[Example],
    cut: Callable[[str], str],
    kind: Literal["chat", "shots"] = CHAT,
) -> Asking:
    """Return how a task prompts by its chat prompt, or only with its examples: the first by the hash of seed and id.

    Args:
        evaluated: The examples to be answered, none of which may be shown.
        train: The training split; not read without shots.
    """
    chat = chat_prompt(task)
    fit = [example for example in train if example.references and example.references[0].strip()]
    drawn = sorted(fit, key=lambda each: hashlib.sha256(f"{chat.seed}\n{each.id}".encode()).digest())[: chat.shots]
    if len(drawn) < chat.shots:
        raise DataError(
            f"{task.suite}/{task.name}: prompt.chat.shots asks for {chat.shots} examples, and the training split has "
            f"{len(drawn)} with a reference."
        )
    shown = (*chat.examples, *(Shot(example.prompt, example.references[0]) for example in drawn))
    ids = tuple(example.id for example in drawn)
    prompts = frozenset(shot.prompt.strip() for shot in shown)
    cut_shown = tuple(Shot(cut(shot.prompt), shot.answer) for shot in shown)
    numbered = task.data.format == OWN_ROWS
    asking = Asking(cut, chat, kind, task.chat_hash, cut_shown, ids, prompts, numbered)
    for example in evaluated:
        if asking.shows(example):
            raise ConfigError(
                f"{task.suite}/{task.name}: the chat prompt shows {example.id} with its answer, and that example is "
                "to be answered. Evaluate on another split, or choose other examples (prompt.chat.seed, .examples)."
            )
    return asking


def chat_prompt(task: Task) -> Chat:
    """Return a task's chat prompt."""
    if task.prompt.chat is None:
        raise ConfigError(
            f"{task.suite}/{task.name}: its task file has no [prompt.chat], which says how a chat model is asked; "
            "write one, or ask with the plain prompt: --completions, or no --chat."
        )
    return task.prompt.chat


def require_shots(task: Task) -> None:
    """Check that a task shows examples before its prompts."""
    chat = task.prompt.chat
    if chat is None or not (chat.shots or chat.examples):
        raise ConfigError(
            f"{task.suite}/{task.name}: its task file shows no examples, and few-shot is asked with those: write "
            "shots, how many of the training split, into [prompt.chat]; or take zero-shot."
        )


def asked_hash(task: Task) -> str:
    """Return the sha256 of a task's chat prompt as it is asked, without how answers are cut out of replies."""
    return files.sha256_json(without_defaults(replace(chat_prompt(task), version=0, marker="", pattern="", lines=0)))


def filled(template: str, prompt: str) -> str:
    """Return a task file's template with a prompt filled in; braces in the prompt have no meaning."""
    parts = string.Formatter().parse(template)
    return "".join(text + (prompt if place is not None else "") for text, place, _, _ in parts)


def answer_in(chat: Chat | None, reply: str) -> str:
    """Return the answer in a reply, cut out as the chat prompt says; by default the whole reply.

    Surrounding white space and invisible characters are removed, as in every answer.
    """
    text = legible(reply)
    if chat is None:
        return text.strip()
    if chat.marker:
        text = text.rpartition(chat.marker)[2]
    elif chat.pattern and (match := re.search(chat.pattern, text)):
        text = (match[1] if match.re.groups else match[0]) or ""
    if chat.lines:
        text = "\n".join([line for line in text.split("\n") if line.strip()][: chat.lines])
    return text.strip()


def content_text(content: Any) -> str:
    """Return the text of a message's content, a text or a list of parts; "" if it only calls a tool."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))


def chat_of(result: Result) -> Mapping[str, Any] | None:
    """Return a result's record of its chat prompt; None for plain prompts. The result may be malformed."""
    prompting = result.generation.get("prompting")
    if prompting is None:
        return None
    return prompting if isinstance(prompting, Mapping) else {"kind": prompting}


def prompting_of(result: Result) -> Prompting:
    """Return how a result's system was prompted."""
    prompting = chat_of(result)
    return "plain" if prompting is None else SHOTS if prompting.get("kind") == SHOTS else CHAT


def is_by_endpoint(result: Result) -> bool:
    """Whether a model behind an address answered, whose weights are unknown."""
    return result.system.get("algorithm") == ENDPOINT or "endpoint" in result.system

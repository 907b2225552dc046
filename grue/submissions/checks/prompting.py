"""What submitted results say of how their systems were asked."""

from collections.abc import Iterable

from grue.errors import escaped
from grue.evaluation.prompting import CHAT, SHOTS, chat_of, is_by_endpoint, prompting_of
from grue.records import Result
from grue.tasks import Task


def of_another_prompt(result: Result, task: Task) -> str | None:
    """Return why the prompt does not belong to the task, or None."""
    said = chat_of(result)
    if said is None:
        return None
    if said.get("kind") not in (CHAT, SHOTS):
        kinds = f"{CHAT!r} and {SHOTS!r}"
        return f"prompting: {said.get('kind')!r}; there are plain prompts, of which nothing is said, {kinds}."
    chat = task.prompt.chat
    if chat is None:
        return "prompting: was asked by a chat prompt, and the task has none."
    known = (chat.version, task.chat_hash)
    if type(said.get("version")) is not int or (said.get("version"), said.get("hash")) != known:  # True is 1
        stated = f"version {said.get('version')!r} ({escaped(str(said.get('hash'))[:12])})"
        return f"prompting: was asked by {stated} of the chat prompt; it is now version {known[0]} ({known[1][:12]})."
    return None


def mixed(results: Iterable[Result]) -> str | None:
    """Return what the promptings of one system's results are if they are several; None if they are one."""
    found = sorted({_in_words(result) for result in results})
    return " and ".join(found) if len(found) > 1 else None


def _in_words(result: Result) -> str:
    return f"{prompting_of(result)} prompts{' by an endpoint' if is_by_endpoint(result) else ''}"

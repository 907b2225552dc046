"""What submitted results say of how their systems were asked, and of the endpoints that answered."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from grue.errors import escaped
from grue.evaluation.prompting import CHAT, ENDPOINT, SHOTS, chat_of, is_by_endpoint, prompting_of
from grue.records import Result
from grue.tasks import Task

MADE_HERE = ("training", "last", "start", "validation", "config_sha256", "update", "parameters")
"""What is known of weights that are here, and of no others."""


def of_another_prompt(result: Result, task: Task) -> str | None:
    """Return why a result's prompting is none of its task; None if it is one."""
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


def faults_of_endpoint(result: Result) -> Iterator[str]:
    """Yield what a result does not say of the endpoint that answered, or says of it and cannot be."""
    if not is_by_endpoint(result) or result.status == "failed":
        return
    system = result.system
    said = system.get("endpoint")
    if system.get("algorithm") != ENDPOINT:
        yield f"algorithm: {system.get('algorithm')!r}, beside an endpoint that answered; nothing else is known of it."
    if stated := [key for key in MADE_HERE if system.get(key)] + (["weights"] if system.get("weights") else []):
        yield f"{', '.join(stated)}: stated of a model behind an endpoint, which nobody has seen."
    if not isinstance(said, Mapping):
        yield "endpoint: is missing: which server answered, for which model, and with how many requests."
        return
    if not isinstance(said.get("model"), str) or not str(said.get("model")).strip():
        yield "endpoint: names no model."
    if not _is_plain_address(said.get("url")):
        yield "endpoint: its url is not a plain address: http:// or https://, without a password, query or fragment."
    answered = result.counts.get("expected", 0)
    requests = said.get("requests")
    if type(requests) is not int or requests < answered:
        yield f"endpoint: states {requests!r} requests for {answered} answers."


def _is_plain_address(url: Any) -> bool:
    if not isinstance(url, str) or not url.isprintable() or any(sign in url for sign in "@?# "):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)

"""JSON that others wrote: as ours, but NaN among their metrics and repeated keys are no error."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grue.data.archives import File, lines, parsed, text
from grue.errors import DataError

USER = "user"


def read(path: Path) -> Any:
    """Return what a JSON file says.

    Raises:
        DataError: It cannot be read, is too large, or is none.
    """
    return parsed(text(File(path)), str(path))


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of a JSON-lines file, blank lines left out.

    Raises:
        DataError: It cannot be read, a line is too long or not JSON; names it.
    """
    for number, line in enumerate(lines(File(path)), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, parsed(line, where)


def checked_text(value: Any, where: str, what: str) -> str:
    """Return a text that can be written as UTF-8.

    Raises:
        DataError: It is no text, or has half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise DataError(f"{where}: {what} is no text.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {what} has half of a surrogate pair, which UTF-8 cannot encode.") from error
    return value


def shown_prompt(given: Any) -> str:
    """Return what a model was shown: the text, or of a chat the user's last message; empty if it cannot be told."""
    if isinstance(given, str):
        chat = _chat_in(given)
        return given if chat is None else shown_prompt(chat)
    if not isinstance(given, list) or not given:
        return ""
    if all(isinstance(turn, dict) for turn in given):
        asked = [content_of(turn) for turn in given if turn.get("role") == USER]
        return asked[-1] if asked else ""
    return shown_prompt(given[0]) if len(given) == 1 else ""


def content_of(message: dict[str, Any]) -> str:
    """Return the text of a chat's message; parts that are no text, such as a chain of thought, are left out."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _chat_in(source: str) -> list[Any] | None:
    """Return the messages of a chat that was written as JSON; None if the text is no such thing."""
    if not source.startswith("[{"):
        return None
    try:
        turns = json.loads(source)
    except (ValueError, RecursionError):
        return None
    roles = isinstance(turns, list) and all(isinstance(turn, dict) and "role" in turn for turn in turns)
    return turns if roles else None

"""JSON that others wrote: as ours, but a NaN among their metrics is no error, and is read as null."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grue.data.limits import LARGEST_TEXT
from grue.errors import DataError, escaped
from grue.files import lines_of

USER = "user"


def parse(content: bytes, where: object) -> Any:
    """Return what JSON says.

    Raises:
        DataError: It is none, or not UTF-8.
    """
    try:
        return json.loads(content.decode("utf-8-sig"), parse_constant=lambda name: None)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON: {escaped(error)}.") from error


def read(path: Path) -> Any:
    """Return what a JSON file says.

    Raises:
        DataError: It cannot be read, is too large, or is none.
    """
    try:
        _check_size(path)
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from error
    return parse(content, path)


def _check_size(path: Path) -> None:
    if path.stat().st_size > LARGEST_TEXT:
        raise DataError(f"{path}: refused: more than the {LARGEST_TEXT:,} bytes that a log may have.")


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of a JSON-lines file, blank lines left out.

    Raises:
        DataError: It cannot be read, is too large, or a line is not JSON; names it.
    """
    try:
        _check_size(path)
        with path.open("rb") as handle:
            for number, line in enumerate(lines_of(handle, path), start=1):
                if line.strip():
                    yield f"{path}, line {number}", parse(line, f"{path}, line {number}")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}.") from error


def checked_text(text: Any, where: str, what: str) -> str:
    """Return a text that can be written as UTF-8.

    Raises:
        DataError: It is no text, or has half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise DataError(f"{where}: {what} is no text.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {what} has half of a surrogate pair, which UTF-8 cannot encode.") from error
    return text


def shown_prompt(given: Any) -> str:
    """Return what a model was shown: the text, or of a chat the user's last message; empty if it cannot be told."""
    if isinstance(given, str):
        chat = _chat_in(given)
        return given if chat is None else shown_prompt(chat)
    if not isinstance(given, list) or not given:
        return ""
    if all(isinstance(turn, dict) for turn in given):
        said = [content_of(turn) for turn in given if turn.get("role") == USER]
        return said[-1] if said else ""
    return shown_prompt(given[0]) if len(given) == 1 else ""


def content_of(message: dict[str, Any]) -> str:
    """Return the text of a chat's message; parts that are no text, such as a chain of thought, are left out."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _chat_in(text: str) -> list[Any] | None:
    """Return the messages of a chat that was written as JSON; None if the text is no such thing."""
    if not text.startswith("[{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    roles = isinstance(found, list) and all(isinstance(turn, dict) and "role" in turn for turn in found)
    return found if roles else None

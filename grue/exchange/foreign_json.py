"""Read JSON of other tools, in which NaN and repeated keys are not errors."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from grue.data.archives import File, parsed, text
from grue.errors import DataError


def read(path: Path) -> Any:
    """Return the content of a JSON file; a DataError if it cannot be read, is too large, or is not JSON."""
    return parsed(text(File(path)), str(path))


def checked_text(value: Any, where: str, name: str) -> str:
    """Return a text that UTF-8 can encode; a DataError if it is none, or has half of a surrogate pair."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {name} is no text.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {name} has half of a surrogate pair, which UTF-8 cannot encode.") from error
    return value


def shown_prompt(source: Any) -> str:
    """Return a model's prompt: the text, or in a chat the user's last message; empty if it is unknown."""
    if isinstance(source, str):
        turns = None
        if source.startswith("[{"):  # a chat that was written as JSON
            with suppress(ValueError, RecursionError):
                turns = json.loads(source)
        chat = isinstance(turns, list) and all(isinstance(turn, dict) and "role" in turn for turn in turns)
        return shown_prompt(turns) if chat else source
    if not isinstance(source, list) or not source:
        return ""
    if all(isinstance(turn, dict) for turn in source):
        messages = [content_of(turn) for turn in source if turn.get("role") == "user"]
        return messages[-1] if messages else ""
    return shown_prompt(source[0]) if len(source) == 1 else ""


def content_of(message: dict[str, Any]) -> str:
    """Return the text of a chat's message, without other parts, such as a chain of thought."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
